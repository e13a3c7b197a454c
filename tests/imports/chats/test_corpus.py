"""Odd lines, and what is made of each: a turn, or a reason why not."""

from __future__ import annotations

import json

import pytest

from familiar_cli.imports import source
from tests.support.chats import HEAD, bring, only, robin, said, save, yuzu

DEEP = '{"mes": "deep", "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
LEFT_OUT = [
    ("not JSON", "Dear diary", "it is not JSON"),
    ("cut off", '{"name": "Robin", "mes": "Hel', "it is not JSON"),
    ("two on one line", '{"mes": "a"}{"mes": "b"}', "it is not JSON"),
    ("a list", "[1, 2]", "it is JSON, but not an object"),
    ("a text", '"hello"', "it is JSON, but not an object"),
    ("NaN", '{"mes": "a", "x": NaN}', "NaN is not a JSON number"),
    ("too deep", DEEP, "it nests too deeply"),
    ("a huge number", '{"mes": "a", "x": ' + "9" * 5000 + "}", "it is not JSON"),
    ("no mes", '{"name": "Robin", "text": "a"}', "there is no 'mes'"),
    ("mes null", '{"mes": null}', "'mes' is NoneType, not text"),
    ("mes a list", '{"mes": ["a"]}', "'mes' is list, not text"),
    ("a second head", json.dumps(HEAD), "it is a chat header, but not the first line"),
]
TAKEN = [
    ("empty text", '{"name": "Yuzu", "mes": ""}', ""),
    ("only a text", '{"mes": "a"}', "a"),
    ("name no text", '{"name": 7, "mes": "a", "is_user": true}', "a"),
    ("odd date", '{"name": "Yuzu", "mes": "a", "send_date": {"x": 1}}', "a"),
    ("odd swipes", '{"name": "Yuzu", "mes": "a", "swipes": "b", "swipe_id": "c"}', "a"),
    ("odd extra", '{"name": "Yuzu", "mes": "a", "extra": []}', "a"),
    ("keys twice", '{"name": "Yuzu", "mes": "a", "mes": "b"}', "b"),
    ("lone surrogate", '{"name": "Yuzu", "mes": "\\ud83d"}', "\ud83d"),
    ("nul", '{"name": "Yuzu", "mes": "a\\u0000b"}', "a\0b"),
    ("spaces around", '   {"name": "Yuzu", "mes": "a"}  \t', "a"),
    ("escape sequence", '{"name": "Yuzu", "mes": "\\u001b[31m"}', "\x1b[31m"),
    ("swipe id beyond", '{"name": "Yuzu", "mes": "a", "swipes": ["a"], "swipe_id": 9}', "a"),
]


@pytest.mark.parametrize(
    ("line", "reason"), [x[1:] for x in LEFT_OUT], ids=[x[0] for x in LEFT_OUT]
)
def test_a_line_that_is_no_message_is_left_out_by_number_and_reason(
    store, tmp_path, line, reason
) -> None:
    chat = only(
        bring(store, save(tmp_path / "c.jsonl", HEAD, yuzu("before"), line, robin("after")))
    )

    assert said(store, "c") == ["before", "after"]
    ((number, found),) = [(skip.line, skip.reason) for skip in chat.skipped]
    assert number == 3
    assert reason in found
    assert chat.damaged == 1


@pytest.mark.parametrize(("line", "text"), [x[1:] for x in TAKEN], ids=[x[0] for x in TAKEN])
def test_an_odd_message_is_taken_as_it_is(store, tmp_path, line, text) -> None:
    chat = only(bring(store, save(tmp_path / "c.jsonl", HEAD, yuzu("before"), line)))
    assert (said(store, "c"), chat.skipped) == (["before", text], ())


def test_a_line_that_is_not_utf8_is_left_out(store, tmp_path) -> None:
    path = save(tmp_path / "c.jsonl", HEAD, yuzu("a"))
    path.write_bytes(path.read_bytes() + b'{"mes": "\xff"}\n')
    chat = only(bring(store, path))
    assert [skip.reason for skip in chat.skipped] == ["it is not UTF-8"]


def test_a_line_that_is_too_long_is_left_out_and_the_next_is_read(
    store, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 1024 * 1024)
    path = save(tmp_path / "c.jsonl", HEAD, yuzu("x" * 3_000_000), yuzu("after"))
    chat = only(bring(store, path))
    assert ([s.line for s in chat.skipped], said(store, "c")) == ([2], ["after"])


def test_blank_lines_are_passed_over_and_counted_as_lines(store, tmp_path) -> None:
    chat = only(bring(store, save(tmp_path / "c.jsonl", HEAD, "", yuzu("a"), "  ", "?")))
    assert ([s.line for s in chat.skipped], said(store, "c")) == ([5], ["a"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"Dear diary", "is text, not a chat"),
        (b"PK\x03\x04....", "is a zip archive"),
        (b"\x89PNG\r\n\x00\x00", "is a binary file"),
        (b"{", "damaged, or not a chat"),
        (b"[", "is incomplete"),
        (b'[{"mapping": {}', "is incomplete"),
        (b"[1, 2]", "a JSON list, not a chat"),
        (
            b'{"spec": "chara_card_v2"}',
            "marked as a character card, but has none of a card's fields",
        ),
        (b'{"entries": {}}', "is a lorebook, not a chat"),
        (b'[{"a": 1}]', "not a chat in a known format"),
        (b'{"user_name": "a", "character_name": "b"}\nx\n', "has no readable message"),
        (b"\xff\xfe\x00", "looks like UTF-16, but is not valid"),
        (b"[" * 100_000, "is incomplete"),
    ],
)
def test_what_is_no_chat_is_refused_and_nothing_is_written(
    store, tmp_path, content, message
) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(content)
    done = bring(store, path)

    assert done.chats == ()
    assert message in str(done.failed[0].error)
    assert not store.path.exists()
