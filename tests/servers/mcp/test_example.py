"""The embodiment of the how-to page, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.support import pages
from tests.support.world import home, live

PAGE = pages.ROOT / "docs" / "how-to" / "write-an-embodiment.md"


def program() -> str:
    """Return the program of the page; it starts this very `familiar`."""
    code = re.search(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    started = f'command={sys.executable!r}, args=["-m", "familiar_cli", "mcp"'
    assert code
    assert 'command="familiar", args=["mcp"' in code[1]
    return code[1].replace('command="familiar", args=["mcp"', started)


def synced(directory) -> str:
    env = {**os.environ, "PYTHONPATH": str(pages.ROOT), "PYTHONIOENCODING": "utf-8"}
    argv = [sys.executable, "embodiment.py", "copy"]
    done = subprocess.run(
        argv, cwd=directory, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_embodiment_of_the_page_syncs_edits_and_deletions(tmp_path) -> None:
    (tmp_path / "embodiment.py").write_text(program(), "utf-8")
    memory = live() / "memory"
    (memory / "self").mkdir()
    (memory / "self" / "soul.md").write_text("# Soul\n\n- Calm.\n", "utf-8")
    copy = tmp_path / "copy"

    assert synced(tmp_path) == "files: 1\n"
    (copy / "daily").mkdir()
    (copy / "daily" / "2026-01-31_phone.md").write_text("- Saw a heron.\n", "utf-8")
    assert synced(tmp_path) == "applied daily/2026-01-31_phone.md \nfiles: 2\n"
    here = (copy / "daily" / "2026-01-31_phone.md").read_text("utf-8")
    assert here == "- Saw a heron. [via:phone]\n"
    assert (memory / "daily" / "2026-01-31_phone.md").read_text("utf-8") == here

    (memory / "self" / "soul.md").write_text("# Soul\n\n- Bold.\n", "utf-8")
    (copy / "daily" / "2026-01-31_phone.md").unlink()
    assert synced(tmp_path) == "applied daily/2026-01-31_phone.md \nfiles: 1\n"
    assert "Bold" in (copy / "self" / "soul.md").read_text("utf-8")
    assert not (home() / "ada" / "memory" / "daily").exists()
    assert synced(tmp_path) == "files: 1\n"
