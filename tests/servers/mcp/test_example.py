"""The embodiment of the how-to page, as it stands there."""

from __future__ import annotations

import re
import sys
from functools import partial

import pytest

from tests.support import pages
from tests.support.clients import asking
from tests.support.world import home, live

PAGE = pages.ROOT / "docs" / "how-to" / "write-an-embodiment.md"


def program() -> str:
    """Return the program of the page; it starts this very `familiar`."""
    code = re.search(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    started = f'command={sys.executable!r}, args=["-m", "familiar_cli", "mcp"'
    assert code
    assert 'command="familiar", args=["mcp"' in code[1]
    assert "async with Client(SERVER) as client" in code[1]
    return code[1].replace('command="familiar", args=["mcp"', started)


@pytest.fixture
def synced(tmp_path, monkeypatch, capsys):
    """Runs the program, with a server of its own or with one in this process."""
    monkeypatch.setenv("PYTHONPATH", str(pages.ROOT))
    monkeypatch.setattr(sys, "argv", ["embodiment.py", str(tmp_path / "copy")])
    started = compile(program(), "embodiment.py", "exec")
    inside = compile(program().replace("Client(SERVER)", "connect()"), "embodiment.py", "exec")

    def run(*, in_a_process: bool = False) -> str:
        connect = partial(asking, allow_write=True, embodiments=True)
        exec(started if in_a_process else inside, {"connect": connect})
        return capsys.readouterr().out

    return run


def test_the_embodiment_of_the_page_syncs_edits_and_deletions(tmp_path, synced) -> None:
    memory = live() / "memory"
    (memory / "self").mkdir()
    (memory / "self" / "soul.md").write_text("# Soul\n\n- Calm.\n", "utf-8")
    copy = tmp_path / "copy"

    assert synced() == "files: 1\n"
    (copy / "daily").mkdir()
    (copy / "daily" / "2026-01-31_phone.md").write_text("- Saw a heron.\n", "utf-8")
    assert synced(in_a_process=True) == "applied daily/2026-01-31_phone.md \nfiles: 2\n"
    here = (copy / "daily" / "2026-01-31_phone.md").read_text("utf-8")
    assert here == "- Saw a heron. [via:phone]\n"
    assert (memory / "daily" / "2026-01-31_phone.md").read_text("utf-8") == here

    (memory / "self" / "soul.md").write_text("# Soul\n\n- Bold.\n", "utf-8")
    (copy / "daily" / "2026-01-31_phone.md").unlink()
    assert synced() == "applied daily/2026-01-31_phone.md \nfiles: 1\n"
    assert "Bold" in (copy / "self" / "soul.md").read_text("utf-8")
    assert not (home() / "ada" / "memory" / "daily").exists()
    assert synced() == "files: 1\n"
