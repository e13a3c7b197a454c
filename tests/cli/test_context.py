"""`familiar context`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json

import pytest

from familiar_cli.context.trace import TracedMessage, write_trace
from familiar_cli.store.history.store import GREETING, HistoryStore
from tests.support.traces import trace
from tests.support.world import data, live, run, spawn


@pytest.fixture
def root():
    """A familiar with two traces: of turn 7 (and its reply 8), and of turn 9."""
    root = live("ada")
    write_trace(root / "traces", trace(7))
    messages = (TracedMessage("system", "You are Ada.\nAnd old."), TracedMessage("user", "Bye"))
    write_trace(root / "traces", trace(9, messages=messages))
    return root


@pytest.fixture
def turns():
    """A familiar that has spoken but kept no trace."""
    root = live("ada")
    store = HistoryStore(root / "history.db")
    store.append("cli", "user", "hi")
    store.append("cli", "user", "from elsewhere", source="import-chat")
    store.close()
    return root


def test_the_newest_is_shown_by_default_and_with_last(root) -> None:
    assert run("context").stdout == run("context", "--last").stdout == run("context", "9").stdout


def test_a_reply_leads_to_what_was_sent_for_it(root) -> None:
    assert run("context", "8").stdout == run("context", "7").stdout


def test_the_page_shows_layers_pieces_cuts_providers_and_messages(root) -> None:
    page = run("context", "7").stdout
    for words in (
        "turn 7, text, in cli at 2026-0",
        "430 of 1000, counted by estimate",
        "character       ████████████████████████  400 of 400",
        "self/description.md",
        "turns 3-6",
        "self/scenario.md  100 of 260 tokens  the layer is full",
        "history    late      2000.0 ms  took longer than 2 s",
        "--- 2 user\nHello, 日本 👋",
    ):
        assert words in page


def test_brackets_in_a_message_show_as_they_are(root) -> None:
    assert "She keeps [b]brackets[/b] and [/b] as they are." in run("context", "7").stdout


def test_json_has_the_keys_of_the_contract(root) -> None:
    found = data("context", "7")
    assert found["turn"] == 7
    assert set(found["layers"][0]) >= {"name", "budget_tokens", "used_tokens"}
    wanted = {"layer", "priority", "source", "rel_path", "tokens", "kept", "reason"}
    assert set(found["contributions"][0]) >= wanted
    assert set(found["providers"][0]) >= {"name", "verdict", "elapsed_ms"}
    assert found["messages"][1] == {"role": "user", "content": "Hello, 日本 👋"}
    assert found["model"] == "m"
    assert found["usage"]["prompt_tokens"] == 421


def test_raw_is_the_very_bytes(root) -> None:
    sent = trace(7).request.body
    assert spawn("context", "7", "--raw").stdout == sent


def test_messages_are_printed_as_text_to_read(root) -> None:
    assert run("context", "9", "--messages").stdout == (
        "--- 1 system\nYou are Ada.\nAnd old.\n\n--- 2 user\nBye\n"
    )


def test_a_diff_shows_what_changed_since_another_turn(root) -> None:
    text = run("context", "9", "--diff", "7").stdout
    assert text.startswith("--- turn 7\n+++ turn 9\n")
    assert "\n You are Ada.\n" in text
    assert "\n+And old.\n" in text
    assert "\n-Hello, 日本 👋\n" in text


def test_a_diff_without_a_difference_says_so(root) -> None:
    result = run("context", "9", "--diff", "9")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "same messages were sent" in result.stderr


def test_a_diff_is_also_data(root) -> None:
    assert {"turn": 9, "against": 7}.items() <= data("context", "9", "--diff", "7").items()


def test_before_anything_was_sent_it_says_what_to_do() -> None:
    live("ada")
    result = run("context")
    assert (result.exit_code, result.stdout) == (4, "")
    assert 'familiar ask "' in result.stderr


def test_a_turn_that_was_imported_says_so(turns) -> None:
    result = run("context", "2")
    assert result.exit_code == 4
    assert "Turn 2 was imported" in result.stderr


def test_a_greeting_says_that_nothing_was_sent() -> None:
    root = live("ada")
    store = HistoryStore(root / "history.db")
    store.append("cli", "assistant", "Good evening.", source=GREETING)
    store.close()
    write_trace(root / "traces", trace(2))
    result = run("context", "1")
    assert (result.exit_code, "Turn 1 is the greeting" in result.stderr) == (4, True)


def test_a_turn_without_a_trace_says_so(turns) -> None:
    result = run("context", "1")
    assert result.exit_code == 4
    assert "Turn 1 has no trace" in result.stderr


def test_a_turn_that_is_older_than_what_is_kept_says_so(turns) -> None:
    write_trace(turns / "traces", trace(2))
    result = run("context", "1")
    assert "no longer kept: context.keep_traces = 1000" in result.stderr
    assert "`familiar context 2`" in result.stderr


def test_a_turn_that_never_was_is_not_found(root) -> None:
    result = run("context", "3")
    assert result.exit_code == 4
    assert "No such turn: 3" in result.stderr
    assert "from turn 7 to 9" in result.stderr


def test_raw_of_a_turn_for_which_nothing_was_sent_says_why(root) -> None:
    write_trace(root / "traces", trace(11, request=None, error="no key"))
    result = run("context", "--raw")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "no key" in result.stderr


@pytest.mark.parametrize("content", ["", "{", "[]", '{"trace": 1}', "[" * 100_000])
def test_a_damaged_trace_is_an_error_and_no_traceback(root, content) -> None:
    (root / "traces" / "9.json").write_text(content, encoding="utf-8")
    result = run("context")
    assert result.exit_code == 5
    assert "9.json" in result.stderr


@pytest.mark.parametrize(
    "argv",
    [
        ("7", "--last"),
        ("--raw", "--messages"),
        ("--raw", "--json"),
        ("--diff", "7", "--messages"),
        ("seven",),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(root, argv) -> None:
    assert run("context", *argv).exit_code == 2


def test_an_escape_in_memory_reaches_neither_page_nor_messages_nor_diff(root) -> None:
    evil = (TracedMessage("user", "\x1b[2J\x1b]0;title\x07 \u202e hidden"),)
    write_trace(root / "traces", trace(11, messages=evil, model="\x1b[31mm"))
    for argv in ((), ("--messages",), ("--diff", "9")):
        printed = run("context", "11", *argv).stdout
        assert not set(printed) & set("\x1b\x07\u202e")


def test_escapes_stay_in_the_data(root) -> None:
    evil = (TracedMessage("user", "\x1b[2J"),)
    write_trace(root / "traces", trace(11, messages=evil))
    printed = run("context", "11", "--json").stdout
    assert "\x1b" not in printed
    assert json.loads(printed)["data"]["messages"][0]["content"] == "\x1b[2J"
