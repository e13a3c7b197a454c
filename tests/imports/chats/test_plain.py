"""Plain JSON lines: our own format, in and out again."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports import source
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.selection import TurnFilter, select_turns
from tests.support.chats import bring, exported, only, robin, said, save, yuzu

AT = "2025-12-01T09:15:00Z"


def turns(store, channel="c"):
    return [kept.turn for kept in select_turns(store, TurnFilter(OWNER, channel))]


def line(content="Hi", role="user", **more):
    return {"role": role, "content": content, "at": AT} | more


def test_a_long_line_of_our_own_is_read_and_one_too_long_is_named_once(
    store, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 50_000)
    head = {"familiar_chat": 1, "id": "x", "channels": ["a", "b"]}
    long, longer = "x" * 300_000, "y" * 500_000
    lines = [line(long, channel="a"), line("b", channel="b"), line(longer, channel="b")]
    chats = bring(store, save(tmp_path / "c.jsonl", head, *lines)).chats
    assert (said(store, "a"), said(store, "b")) == ([long], ["b"])
    assert [skip.line for chat in chats for skip in chat.skipped] == [4]


def test_without_names_the_roles_name_the_speakers(store, tmp_path) -> None:
    lines = [line(), line("Hello.", "assistant")]
    chat = only(bring(store, save(tmp_path / "c.jsonl", *lines), dry_run=True))
    assert {(one.name, one.role) for one in chat.speakers} == {("", "me"), ("", "familiar")}


def test_every_key_has_its_meaning(store, tmp_path) -> None:
    who = {"platform": "discord", "user_id": "7", "username": "rob", "display_name": "Robin"}
    lines = [line(author=who, modality="voice", partial=True), line("b", "system", hidden=False)]
    only(bring(store, save(tmp_path / "c.jsonl", *lines)))

    first, second = turns(store)
    assert first.author == Author("discord", "7", "rob", "Robin")
    assert (first.modality, first.partial, first.at) == (
        "voice",
        True,
        datetime(2025, 12, 1, 9, 15, tzinfo=UTC),
    )
    assert (second.role, second.hidden) == ("system", False)


def test_words_of_a_system_are_hidden_unless_they_say_otherwise(store, tmp_path) -> None:
    only(bring(store, save(tmp_path / "c.jsonl", line("b", "system"))))
    assert turns(store)[0].hidden


@pytest.mark.parametrize(
    ("given_by", "author"),
    [
        ({"author": "discord:7", "name": "Robin"}, Author("discord", "7", display_name="Robin")),
        ({"name": "Robin"}, Author("chat", "Robin", display_name="Robin")),
        ({"author": "Robin"}, Author("chat", "Robin", display_name="Robin")),
        ({"author": {"id": 7, "platform": "x", "name": "R"}}, Author("x", "7", display_name="R")),
        ({}, Author("chat", "user")),
    ],
)
def test_an_author_may_be_written_in_several_ways(store, tmp_path, given_by, author) -> None:
    only(bring(store, save(tmp_path / "c.jsonl", line(**given_by))))
    assert turns(store)[0].author == author


def test_an_array_of_messages_is_read_too(store, tmp_path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps([line("a"), line("b", "assistant")]), "utf-8")
    assert only(bring(store, path)).imported == 2


def test_a_head_names_the_chat_and_its_channel(store, tmp_path) -> None:
    head = {"familiar_chat": 1, "channel": "Harbour #1", "name": "At the harbour", "id": "h1"}
    chat = only(bring(store, save(tmp_path / "c.jsonl", head, line())))
    assert (chat.name, chat.channel) == ("At the harbour", "Harbour #1")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"role": "narrator"}, "its role is 'narrator'"),
        ({"role": None}, "its role is None"),
        ({"content": None}, "it has no text in 'content'"),
        ({"content": {"text": "a"}}, "it has no text in 'content'"),
        ({"content": [{"type": "image_url"}]}, "it has no text in 'content'"),
    ],
)
def test_a_line_that_is_no_message_is_left_out(store, tmp_path, wrong, reason) -> None:
    chat = only(bring(store, save(tmp_path / "c.jsonl", line("a"), line() | wrong)))
    assert (said(store, "c"), chat.skipped[0].line) == (["a"], 2)
    assert chat.skipped[0].reason.startswith(reason)


def test_the_parts_of_a_message_are_one_text(store, tmp_path) -> None:
    parts = ["a", {"type": "text", "text": "b"}, {"type": "image_url"}]
    only(bring(store, save(tmp_path / "c.jsonl", line(parts))))
    assert said(store, "c") == ["a\nb"]


def test_plain_lines_come_out_as_they_came_in(store, tmp_path) -> None:
    lines = [line("a", mood="blue", alternatives=["b"]), line("c", "assistant", at=None)]
    only(bring(store, save(tmp_path / "c.jsonl", *lines)))
    assert exported(store, "c", "jsonl") == [{"familiar_chat": 1, "channel": "c"}, *lines]


def test_a_sillytavern_line_keeps_all_of_it_in_plain_lines(store, tmp_path) -> None:
    message = yuzu("B", swipes=["A", "B"], swipe_id=1)
    only(bring(store, save(tmp_path / "c.jsonl", robin("a"), message)))
    assert exported(store, "c", "jsonl")[2]["from"] == {"format": "sillytavern", "raw": message}


AUTHORS = st.builds(
    Author,
    st.sampled_from(["cli", "discord"]),
    st.text(st.characters(), min_size=1, max_size=5),
    st.none() | st.text(min_size=1, max_size=5),
    st.none() | st.text(min_size=1, max_size=5),
)
TURNS = st.tuples(
    st.sampled_from(["cli", "harbour", "Kanal 城"]),
    st.sampled_from(["user", "assistant", "system"]),
    st.text(st.characters(), max_size=20),
    AUTHORS,
    st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001
    st.sampled_from(["text", "voice"]),
    st.booleans(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TURNS, min_size=1, max_size=8))
def test_a_whole_history_survives_export_and_import(tmp_path, said_turns) -> None:
    for name in ("old.db", "new.db"):
        (tmp_path / name).unlink(missing_ok=True)
    with (
        closing(HistoryStore(tmp_path / "old.db")) as old,
        closing(HistoryStore(tmp_path / "new.db")) as new,
    ):
        for channel, role, content, author, at, modality, partial in said_turns:
            old.append(
                channel,
                role,
                content,
                author=author if role == "user" else None,
                at=at.replace(tzinfo=UTC),
                modality=modality,
                partial=partial,
            )
        save(tmp_path / "all.jsonl", *exported(old, None, "jsonl"))
        assert bring(new, tmp_path / "all.jsonl").failed == ()
        for channel in {turn[0] for turn in said_turns}:
            assert meaning(new, channel) == meaning(old, channel)


def meaning(store, channel):
    return [
        (t.role, t.content, t.author, t.at, t.modality, t.partial, t.hidden)
        for t in turns(store, channel)
    ]
