"""What the page tells to write works against a real server."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from familiar_cli.servers.mcp.catalogue import TOOLS
from familiar_cli.servers.mcp.clients import CLIENTS
from tests.support.pages import ROOT
from tests.support.world import home, live

PAGE = (ROOT / "docs" / "how-to" / "mcp.md").read_text(encoding="utf-8")


@pytest.mark.posix
def test_the_python_program_prints_what_is_remembered(tmp_path, monkeypatch, capsys) -> None:
    live(**{"people/bo": "# Bo\n\n- Bo drinks green tea.\n"})
    [shown] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    program = tmp_path / "familiar"  # a client hands its path on, and not where the home is
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH='{ROOT}' FAMILIAR_HOME='{home()}' exec {sys.executable} "
        '-m familiar_cli "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    exec(compile(shown, "mcp.md", "exec"), {})
    assert capsys.readouterr().out.startswith("people/bo.md # Bo\n")


def test_the_page_names_every_tool_and_every_program() -> None:
    assert [tool.name for tool in TOOLS if f"`{tool.name}`" not in PAGE] == []
    assert [client for client in CLIENTS if f"`{client}`" not in PAGE] == []
    assert Path(ROOT / "benchmarks" / "mcp.py").exists()
