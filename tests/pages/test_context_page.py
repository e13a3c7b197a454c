"""The page of a turn, as a terminal of some width shows it."""

from __future__ import annotations

import io
from datetime import UTC

import pytest
from rich.cells import cell_len
from rich.console import Console

from familiar_cli.context.trace import TracedMessage
from familiar_cli.llm.types import PreparedRequest, SideCall
from familiar_cli.pages.context_page import context_page, state_of
from familiar_cli.pages.terminal import as_plain
from tests.support.traces import piece, trace


def shown(made, width: int = 80, **settings) -> str:
    buffer = io.StringIO()
    settings = {"color_system": None, "force_terminal": True, "markup": False, **settings}
    Console(file=buffer, width=width, **settings).print(context_page(made, UTC))
    return buffer.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_page_fits_the_terminal(width) -> None:
    assert max(len(line) for line in shown(trace(), width).splitlines()) <= width


def test_eighty_columns_are_enough_for_a_usual_row() -> None:
    assert "self/description.md    50     300  kept" in shown(trace())


@pytest.mark.parametrize("width", [20, 40])
def test_a_narrow_terminal_stops_nothing(width) -> None:
    assert "Messages" in shown(trace(), width)


def test_no_color_is_no_color(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    coloured = shown(trace(), color_system="truecolor")
    assert "\x1b[3" not in coloured


def test_a_dry_run_says_that_nothing_was_sent() -> None:
    made = trace(None, reply_ms=None, request=None, usage=None)
    assert "a dry run: nothing was sent" in as_plain(context_page(made, UTC))


def test_an_error_and_notices_stand_at_the_top() -> None:
    page = as_plain(context_page(trace(error="no server", notices=("tokens are estimated",)), UTC))
    assert page.index("no server") < page.index("tokens are estimated") < page.index("Layers")


def test_neighbouring_turns_share_a_row_and_other_pieces_do_not() -> None:
    pieces = [piece("history", turn_id=n, tokens=3) for n in (4, 5, 6)] + [piece("x"), piece("x")]
    page = as_plain(context_page(trace(contributions=tuple(pieces)), UTC))
    assert page.count("  character  x ") == 2
    assert "turns 4-6" in page
    assert "     9  kept" in page


def test_a_piece_is_kept_cut_or_out() -> None:
    assert state_of(piece("a")) == "kept"
    assert state_of(piece("a", reason="full")) == "cut"
    assert state_of(piece("a", kept=False, reason="full")) == "out"


def test_an_empty_prompt_is_a_page_too() -> None:
    made = trace(layers=(), contributions=(), providers=(), messages=())
    assert as_plain(context_page(made, UTC)).endswith("Messages\n")


def test_wide_characters_keep_their_columns() -> None:
    made = trace(messages=(TracedMessage("user", "日本語" * 100),))
    lines = shown(made, 80).splitlines()
    assert sum(line.count("日") for line in lines) == 100


def long_page(width: int) -> list[str]:
    pieces = [piece("character.description", rel_path="self/description.md", lines=(3, 44))]
    pieces += [piece("people", rel_path=f"people/長い名前-{n}-{'名' * 20}.md") for n in range(300)]
    return shown(trace(contributions=tuple(pieces)), width).splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_long_names_in_wide_characters_keep_to_the_terminal(width) -> None:
    assert max(cell_len(line) for line in long_page(width)) <= width


def test_a_narrow_terminal_is_spared_the_lines_of_files() -> None:
    assert any("self/description.md:3-44 " in line for line in long_page(120))
    assert any("self/description.md " in line for line in long_page(80))
    assert "self/description.md:3-44" in as_plain(
        context_page(
            trace(contributions=(piece("a", rel_path="self/description.md", lines=(3, 44)),)), UTC
        )
    )


def test_calls_of_other_models_are_named() -> None:
    sent = PreparedRequest("u", "small", True, b"{}")
    call = SideCall("recast", sent, "Hm.", "small-2", "stop", None, 12.3, "it broke off")
    page = shown(trace(side_calls=(call,)))
    assert "recast  small-2  12.3 ms  it broke off" in page
