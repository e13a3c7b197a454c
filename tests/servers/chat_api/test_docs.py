"""What the pages tell to type and to write works against a real server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tests.support.pages import ROOT
from tests.support.serving import serving
from tests.support.world import live

PAGE = (ROOT / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8765"
CURL = shutil.which("curl")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def url(serve):
    live("ada")
    serve("Of course I do.")
    with serving() as server:
        yield server.url


@pytest.mark.posix
@pytest.mark.skipif(CURL is None, reason="there is no curl")
def test_the_curl_commands_print_the_models_and_a_reply(url) -> None:
    [shown] = [block for block in blocks("sh") if "curl" in block]
    env = {**os.environ, "no_proxy": "*"}
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", shown.replace(ADDRESS, url)],
        capture_output=True,
        encoding="utf-8",
        env=env,
        timeout=60,
        check=True,
    )
    assert '"id":"ada+memory"' in done.stdout
    assert "Of course I do." in done.stdout


def test_the_python_program_prints_a_reply(url, monkeypatch, capsys) -> None:
    [shown] = blocks("python")
    monkeypatch.setenv("NO_PROXY", "*")
    exec(compile(shown.replace(ADDRESS, url), "serve.md", "exec"), {})
    assert capsys.readouterr().out == "Of course I do.\n"
