"""Styled lines are the same words in a pipe and on a terminal."""

from __future__ import annotations

import io

from familiar_cli.ui.styled import Styled, print_styled

PAGE = [Styled((("a.md:1", "bold"), ("  0.50", "dim"))), Styled((("one\n\ntwo ", ""),), True)]
PLAIN = "a.md:1  0.50\n    one\n\n    two\n"


class Terminal(io.StringIO):
    """A stream that a person sees."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch, stream: io.StringIO, page: list[Styled]) -> str:
    monkeypatch.setattr("sys.stdout", stream)
    print_styled(page)
    return stream.getvalue()


def test_in_a_pipe_they_are_plain_text(monkeypatch) -> None:
    assert shown(monkeypatch, io.StringIO(), PAGE) == PLAIN


def test_on_a_terminal_they_are_the_same_lines(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    lines = shown(monkeypatch, Terminal(), PAGE).splitlines()
    assert [line.rstrip() for line in lines] == PLAIN.splitlines()


def test_what_could_steer_a_terminal_is_left_out_of_both(monkeypatch) -> None:
    page = [Styled((("a\x1b[2Jb", "bold"),))]
    assert shown(monkeypatch, io.StringIO(), page) == "a[2Jb\n"
    assert "\x1b[2J" not in shown(monkeypatch, Terminal(), page)


def test_an_empty_page_prints_nothing(monkeypatch) -> None:
    assert shown(monkeypatch, io.StringIO(), []) == shown(monkeypatch, Terminal(), []) == ""
