"""Which message a line is: by its id if it has one, else by author, words and time."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.base.errors import PartialError
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.selection import TurnFilter, select_turns
from familiar_cli.store.history.store import turn_of_message
from tests.support.chats import bring, exported, only, said, save

AT = "2026-01-31T12:00:00Z"


def line(content, author="discord:7", at=AT, **more):
    dated = {"at": at} if at else {}
    return {"role": "user", "content": content, "author": author} | dated | more


def piped(store, tmp_path, *lines, **reading):
    """Import lines into the channel `c`, as a bot that passes on what it hears."""
    return only(bring(store, save(tmp_path / "c.jsonl", *lines), channel="c", **reading))


def kept(store):
    return [
        (k.turn.author.user_id, k.turn.content) for k in select_turns(store, TurnFilter(OWNER, "c"))
    ]


def test_a_line_without_a_time_after_another_by_somebody_else_is_kept(store, tmp_path) -> None:
    piped(store, tmp_path, line("I will be late.", at=None))
    chat = piped(store, tmp_path, line("Me too.", "discord:8", at=None))
    assert (chat.imported, kept(store)) == (1, [("7", "I will be late."), ("8", "Me too.")])


def test_lines_without_a_time_by_one_person_are_all_kept(store, tmp_path) -> None:
    for words in ("One.", "Two.", "Three."):
        assert piped(store, tmp_path, line(words, at=None)).imported == 1
    assert said(store, "c") == ["One.", "Two.", "Three."]


def test_two_people_in_one_second_are_two(store, tmp_path) -> None:
    piped(store, tmp_path, line("Yes"))
    piped(store, tmp_path, line("Yes", "discord:8"))
    assert kept(store) == [("7", "Yes"), ("8", "Yes")]


def test_two_people_whom_only_as_tells_apart_are_two(store, tmp_path) -> None:
    from familiar_cli.base.who.identity import Author
    from familiar_cli.imports.cast import Cast
    from familiar_cli.imports.contract import Reading

    path = save(tmp_path / "c.jsonl", {"role": "user", "content": "Yes", "at": AT})
    for number in ("7", "8", "7"):
        reading = Reading(Cast(user=Author("discord", number)))
        bring(store, path, reading, channel="c")
    assert kept(store) == [("7", "Yes"), ("8", "Yes")]


def test_other_words_of_one_person_at_one_time_are_told_as_changed(store, tmp_path) -> None:
    piped(store, tmp_path, line("Yes"))
    done = bring(store, save(tmp_path / "c.jsonl", line("Yes!")), channel="c")
    assert isinstance(done.problem, PartialError)
    assert "1 changed line left as imported before" in str(done.problem)
    assert said(store, "c") == ["Yes"]


def test_ids_tell_messages_apart_that_are_else_the_same(store, tmp_path) -> None:
    chat = piped(store, tmp_path, line("ok", id="1"), line("ok", id="2"))
    assert chat.imported == 2
    chat = piped(store, tmp_path, line("ok", id="2"), line("ok", id="3"))
    assert (chat.imported, chat.already_there) == (1, 1)


def test_other_words_under_a_known_id_are_an_edit_whenever_they_were_said(store, tmp_path) -> None:
    piped(store, tmp_path, line("ok", id=1), *(line(f"{n}", id=10 + n) for n in range(20)))
    chat = piped(store, tmp_path, line("okay", at="2026-01-31T13:00:00Z", id=1))
    assert (chat.imported, chat.changed, said(store, "c")[0]) == (0, 1, "ok")


def test_an_id_twice_in_one_file_is_one_message(store, tmp_path) -> None:
    chat = piped(store, tmp_path, line("a", id="x"), line("a", id="x"), line("b", id="x"))
    assert (chat.imported, chat.already_there, chat.changed) == (1, 1, 1)


def test_the_same_id_in_another_channel_is_another_message(store, tmp_path) -> None:
    piped(store, tmp_path, line("a", id="x"))
    save(tmp_path / "d.jsonl", line("b", id="x"))
    other = only(bring(store, tmp_path / "d.jsonl", channel="d"))
    assert other.imported == 1
    assert turn_of_message(store, "d", "x").channel_id == "d"


def test_what_is_known_of_a_turn_is_never_changed(store) -> None:
    question = store.append("c", "user", "Hi", message_id="1")
    store.append("c", "assistant", "Hello", reply_to=question.id)
    for table in ("message_ids", "replies"):
        for sql in (f"UPDATE {table} SET turn_id = 9", f"DELETE FROM {table}"):
            with (
                closing(sqlite3.connect(store.path)) as other,
                pytest.raises(sqlite3.IntegrityError),
            ):
                other.execute(sql)


def test_a_message_id_is_exported(store, tmp_path) -> None:
    store.append("c", "user", "Hi", message_id="m1")
    line = exported(store, "c", "jsonl")[1]
    assert line["id"] == "m1"
    save(tmp_path / "c.jsonl", json.dumps(line))
    assert only(bring(store, tmp_path / "c.jsonl", channel="c")).already_there == 1


def by(turn):
    return f"{turn.author.platform}:{turn.author.user_id}", turn.content


LINES = st.tuples(
    st.sampled_from(["discord:7", "discord:8", "irc:7"]),
    st.sampled_from(["ok", "no"]),
    st.sampled_from([None, *(f"2026-01-31T12:00:0{second}Z" for second in range(3))]),
    st.none() | st.integers(1, 4),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINES, max_size=10))
def test_whatever_is_passed_on_line_by_line_is_there_or_told(tmp_path, messages) -> None:
    (tmp_path / "h.db").unlink(missing_ok=True)
    messages.sort(key=lambda message: message[2] or "2026-01-31T12:00:01Z")
    with closing(HistoryStore(tmp_path / "h.db")) as store:
        for author, words, at, number in messages:
            identity = {} if number is None else {"id": number}
            save(tmp_path / "c.jsonl", line(words, author, at, **identity))
            was_said = (author, words) in [
                by(k.turn) for k in select_turns(store, TurnFilter(OWNER, "c"))
            ]
            done = bring(store, tmp_path / "c.jsonl", channel="c")
            stored = turn_of_message(store, "c", str(number))
            is_there = (author, words) in [
                by(k.turn) for k in select_turns(store, TurnFilter(OWNER, "c"))
            ]
            is_there &= stored is None or by(stored) == (author, words)
            told = done.problem is not None
            assert is_there or told
            assert was_said or is_there != told


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINES, min_size=1, max_size=10), st.integers(0, 10))
def test_a_file_with_and_without_ids_that_grew_is_as_if_imported_at_once(
    tmp_path, messages, first
) -> None:
    lines = [
        line(words, author, at, **({} if number is None else {"id": f"{place}-{number}"}))
        for place, (author, words, at, number) in enumerate(messages)
    ]
    (tmp_path / "h.db").unlink(missing_ok=True)
    with closing(HistoryStore(tmp_path / "h.db")) as store:
        for end in (first, len(lines), len(lines)):
            if lines[:end]:
                last = only(bring(store, save(tmp_path / "c.jsonl", *lines[:end]), channel="c"))
        assert (last.imported, last.changed, last.inserted) == (0, 0, 0)
        assert said(store, "c") == [found["content"] for found in lines]
