"""A home with familiars in it, made the way the program makes it, and a way to run commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from familiar_cli.base.config.home import read_instance
from familiar_cli.cli.app import app
from tests.support.processes import run_process


def home() -> Path:
    """Return the home of the test that runs."""
    return Path(os.environ["FAMILIAR_HOME"])


def live(name: str = "ada", **files: str) -> Path:
    """Make a familiar whose memory holds `files` (name without `.md` -> text); return its root."""
    memory = home() / name / "memory"
    memory.mkdir(parents=True)
    for stem, text in files.items():
        path = memory / f"{stem}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return memory.parent


def own(root: Path) -> str:
    """Return which instance of a familiar lives here."""
    found = read_instance(root / "instance.id")
    assert found
    return found.id


def without_block(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the messages of a prompt but the one that tells the time."""
    return [m for m in messages if not m["content"].startswith("--- System ---")]


def run(*argv: str, stdin: str | bytes | None = None):
    """Run a command in this process."""
    return CliRunner().invoke(app, list(argv), input=stdin)


def data(*argv: str, code: int = 0):
    """Run a command with `--json` and return what it found."""
    result = run(*argv, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)["data"]


def spawn(*argv: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own, as a shell would."""
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": str(root), **env}
    return run_process([sys.executable, "-m", "familiar_cli", *argv], input=stdin, env=env)
