"""A page is coloured and wrapped on a terminal, and plain text everywhere else."""

from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from familiar_cli.pages import progress
from familiar_cli.pages.emit import Output, write_json
from familiar_cli.pages.page import WIDTH_CHARS, Bar, IndentedPart
from familiar_cli.pages.page import plain as words
from familiar_cli.pages.terminal import as_plain, column_table, plain
from tests.support.cases import each
from tests.support.terminals import encoded
from tests.support.world import live


def on_terminal(page, width: int) -> str:
    console = Console(width=width, force_terminal=True, color_system=None, markup=False)
    with console.capture() as captured:
        console.print(page)
    return captured.get()


@given(st.text())
def test_text_from_outside_is_never_markup_and_never_fails(text) -> None:
    shown = as_plain(plain(f"[b]{text}[/b] [/b]"))
    assert shown.startswith("[b]")
    assert "[/b] [/b]" in shown
    assert "\x1b" not in shown


@each("encoding", ["utf-8", "cp1252"])
def test_half_a_character_is_no_part_of_json_and_that_is_told(
    encoding, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    write_json(["\ud83d\ude00", "\ufffd"])
    assert capsys.readouterr().err == ""
    sys.stdout.buffer.seek(0)
    write_json(["\ud83d\ude00", "\ud800\u00e9"])
    assert "1 half character is shown as U+FFFD" in capsys.readouterr().err
    written = sys.stdout.buffer.getvalue()  # type: ignore[attr-defined]
    assert json.loads(written) == ["\U0001f600", "\ufffd\u00e9"]
    assert b"\\ud800" not in written


def test_lines_in_a_pipe_are_never_wrapped_and_end_without_space() -> None:
    page = as_plain(column_table([[plain("a"), plain("x" * 5000)], [plain("bbb"), plain("y")]]))
    assert page == f"a    {'x' * 5000}\nbbb  y\n"


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(width) -> None:
    rows = [[plain("a" * 30), plain("b " * 40), plain("c" * 200)]]
    lines = on_terminal(column_table(rows), width).splitlines()
    assert max(map(len, lines)) <= width


def test_nothing_is_lost_where_a_column_is_folded() -> None:
    shown = on_terminal(column_table([[plain("a"), plain("word" * 60)]]), 40)
    assert shown.replace("\n", "").replace(" ", "") == "a" + "word" * 60


def test_what_is_indented_stays_so_where_it_is_wrapped() -> None:
    lines = on_terminal(IndentedPart(words("one two three\n\nfour")), 12).splitlines()
    assert [line.rstrip() for line in lines] == ["    one two", "    three", "", "    four"]


def test_on_a_narrow_terminal_a_row_is_told_line_by_line() -> None:
    page = column_table(
        [
            [plain("sillytavern-Robin"), plain("Robin"), plain(""), plain("2025-11-14 22:52")],
            [plain("ada"), plain("Ada"), plain("3"), plain("never")],
        ],
        ("person", "name", "turns", "last seen"),
    )
    assert [line.rstrip() for line in on_terminal(page, 40).splitlines()] == [
        "sillytavern-Robin",
        "  name       Robin",
        "  last seen  2025-11-14 22:52",
        "ada",
        "  name       Ada",
        "  turns      3",
        "  last seen  never",
    ]
    assert on_terminal(page, 80).splitlines()[0].split() == [
        "person",
        "name",
        "turns",
        "last",
        "seen",
    ]


@each(("encoding", "signs"), [("utf-8", "█░"), ("cp1252", "#."), ("ascii", "#.")])
def test_a_bar_is_drawn_with_what_the_terminal_has(encoding, signs) -> None:
    assert set(as_plain(Bar(1, 2), encoding=encoding).strip()) == set(signs)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_bar_is_empty_for_nothing_and_full_for_everything_only(used, whole) -> None:
    filled = Bar(used, whole).filled_chars
    assert (filled == 0) == (used == 0)
    assert (filled == WIDTH_CHARS) == (used > 0 and used >= whole)


@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_more_never_fills_less(whole, one, other) -> None:
    less, more = sorted((one, other))
    assert Bar(less, whole).filled_chars <= Bar(more, whole).filled_chars


@each("encoding", ["ascii", "cp1252", "cp932", "utf-8"])
@each("argv", [("list",), ("status",), ("config", "show"), ("doctor",)])
def test_no_code_page_stops_a_page(argv, encoding) -> None:
    root = live("zoë-日本")
    (root / "character.toml").write_text('name = "Zoë 日本 👋"\n', encoding="utf-8")
    code, stdout, stderr = encoded(encoding, *argv)
    assert (code, b"Traceback" in stderr) == (0, False)
    assert stdout.decode(encoding)


def test_a_long_count_in_a_pipe_says_now_and_then_on_stderr_how_far_it_is(
    capsys, monkeypatch
) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0)
    with progress.show_count(Output("import"), "reading") as report:
        report("big.json", 0)
        report("big.json", 5_000)
    with progress.show_totals(Output("index build")) as report:
        report("files", 70, 5_000)
    told = capsys.readouterr()
    lines = ["reading big.json …", "reading big.json: 5,000 lines …", "files: 70 of 5,000 …"]
    assert (told.out, told.err.splitlines()) == ("", lines)
