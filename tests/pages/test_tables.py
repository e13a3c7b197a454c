"""A table fits the terminal, and a row is one line in a pipe, whatever names and ids hold."""

from __future__ import annotations

import re
import sys

import pytest
from rich.cells import cell_len

from familiar_cli.base.who.identity import Author
from familiar_cli.familiar import Familiar
from tests.pages.test_streams import in_terminal
from tests.support.cases import each
from tests.support.world import live, run

COLUMNS = 60
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ODD = {
    "a newline": "two\nlines",
    "300 characters": "x" * 300,
    "wide characters": "日本語" * 60,
    "combining characters": "e\u0301" * 150,
    "words": "a b " * 75,
    "nothing to see": "\u200b" * 50 + "z",
    "emoji of several signs": "\U0001f469\u200d\U0001f467" * 40,
    "the other direction": "\u202eabc",
    "a tab": "tab\tbed",
    "an escape": "\x1b[2J\x9b31m",
}
TABLES = {
    ("channel", "ls"): 1,  # command -> lines beside its rows
    ("people", "ls"): 1,
    ("history", "ls"): 1,
    ("task", "ls"): 1,
}


@pytest.fixture(scope="module")
def odd_familiar(tmp_path_factory):
    """A familiar whose people, channels and tasks bear odd names."""
    home = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FAMILIAR_HOME", str(home))
        live("ada")
        with Familiar.load_from_disk() as familiar:
            for odd in ODD.values():
                author = Author("discord", odd, username=odd, display_name=odd)
                familiar.history.append(odd, "user", f"Hello {odd}", author=author)
        for odd in ODD.values():
            assert run("task", "add", odd).exit_code == 0
    return home


@pytest.fixture(autouse=True)
def _here(odd_familiar, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_HOME", str(odd_familiar))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    "argv",
    [*TABLES, ("history", "stats"), ("history", "search", "hello"), ("status",)],
    ids=" ".join,
)
def test_no_line_of_a_page_is_wider_than_the_terminal(argv) -> None:
    lines = STYLE.sub("", in_terminal(COLUMNS, *argv)).splitlines()
    assert len(lines) > 3
    assert [line for line in lines if cell_len(line.rstrip()) > COLUMNS] == []


@each("argv", TABLES, ids=" ".join)
def test_in_a_pipe_a_row_is_one_line(argv) -> None:
    assert len(run(*argv).stdout.splitlines()) == len(ODD) + TABLES[argv]
