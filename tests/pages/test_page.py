"""A page is the same words in a pipe, without Rich, as where Rich draws them."""

from __future__ import annotations

import io
from datetime import UTC
from itertools import islice

from familiar_cli.pages.context_page import context_page
from familiar_cli.pages.page import (
    Bar,
    Columns,
    IndentedPart,
    Name,
    PagePart,
    Stack,
    Words,
    plain,
    print_page,
)
from familiar_cli.pages.terminal import as_plain
from familiar_cli.pages.writing_pages import consolidation_notices
from familiar_cli.writing.consolidation.calendar import ConsolidationReport
from tests.support.cases import each
from tests.support.traces import piece, trace

TABLE = Columns(
    [
        [plain("a\n\nb"), Name("people/日本語の名前.md"), Bar(1, 2), plain(10)],
        [plain("long one", "dim"), Name("x"), Bar(0, 2), plain(7)],
        [plain("é\u0301"), plain(""), plain(""), plain("")],
    ],
    ("first", "second", "", "number"),
    right=(3,),
)
PAGES = [
    plain("one\n\ntwo "),
    IndentedPart(Words([("a", "bold"), (" b\nc", "dim")])),
    TABLE,
    Stack(plain("title", "bold"), IndentedPart(TABLE, 2), plain("")),
    context_page(trace(), UTC),
    context_page(trace(None, contributions=(piece("x", score=0.5), piece("y", tokens=9))), UTC),
]


class Terminal(io.StringIO):
    """A stream that a person sees."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch, stream: io.StringIO, *parts: PagePart) -> str:
    monkeypatch.setattr("sys.stdout", stream)
    print_page(*parts)
    return stream.getvalue()


@each("page", PAGES)
def test_a_pipe_gets_what_rich_would_draw_without_a_terminal(monkeypatch, page) -> None:
    assert shown(monkeypatch, io.StringIO(), page) == as_plain(page)


def test_a_terminal_gets_the_same_lines(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "100")
    lines = shown(monkeypatch, Terminal(), TABLE).splitlines()
    assert [line.rstrip() for line in lines] == as_plain(TABLE).splitlines()


def test_what_could_steer_a_terminal_is_left_out_of_both(monkeypatch) -> None:
    page = plain("a\x1b[2Jb", "bold")
    assert shown(monkeypatch, io.StringIO(), page) == "a[2Jb\n"
    assert "\x1b[2J" not in shown(monkeypatch, Terminal(), page)


def test_an_empty_page_prints_nothing(monkeypatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == shown(monkeypatch, Terminal()) == ""


def test_a_notice_of_a_consolidation_is_shown_whole() -> None:
    path = f"/home/{'very-long-directory/' * 20}quarantine/x.txt"
    report = ConsolidationReport(problems=[f"not used; kept in {path}"], waiting={"a": path})
    shown = consolidation_notices(report)
    assert list(islice(shown, 2)) == [f"a waits: {path}", f"warning: not used; kept in {path}"]
