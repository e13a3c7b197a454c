"""The page on hostile input gives the limits that the program has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_limits_on_the_page_are_the_programs() -> None:
    check = [sys.executable, "-m", "cogapp", "--check", "docs/explanation/hostile-input.md"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(check, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr + "\nRun `cog -r` on the page."
