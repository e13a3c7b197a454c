"""The same chat again: nothing is added twice, and edits and deletions are followed by marks."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.errors import ConflictError, LockedError, RefusedError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports import import_chat
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history import marks as standing
from familiar_cli.store.history.imports import Appender
from familiar_cli.store.history.selection import TurnFilter, newest_turns
from tests.support.chats import HEAD, bring, exported, only, robin, said, save, talk, yuzu
from tests.support.processes import Process

WHO = Author("sillytavern", "Robin", display_name="Robin")


def again(store, tmp_path, *lines):
    return only(bring(store, save(tmp_path / "c.jsonl", HEAD, *lines)))


def shown(store):
    """Return the words as they are shown."""
    return [kept.turn.content for kept in newest_turns(store, TurnFilter(OWNER, "c"), 50)]


def test_the_same_again_adds_nothing(store, tmp_path) -> None:
    again(store, tmp_path, *talk(5))
    chat = again(store, tmp_path, *talk(5))
    assert (chat.imported, chat.already_there, chat.skipped) == (0, 5, ())


def test_what_was_withdrawn_stays_so_and_is_told_with_the_command_that_restores_it(
    store, tmp_path
) -> None:
    undated = yuzu("line 5")
    del undated["send_date"]
    again(store, tmp_path, *talk(5), undated)
    standing.withdraw_turns(store, [2, 3, 6])
    chat = again(store, tmp_path, *talk(5), undated)
    assert (chat.imported, chat.already_there, len(shown(store))) == (0, 6, 3)
    assert chat.notes[-1].startswith("withdrawn, and left so: turn 2-3, 6; `familiar history rest")
    standing.withdraw_channel(store, "c")
    chat = again(store, tmp_path, *talk(5), undated)
    assert chat.imported == 0
    assert "`familiar channel restore c` brings it back" in chat.notes[0]


def test_a_chat_that_grew_adds_its_new_lines(store, tmp_path) -> None:
    again(store, tmp_path, *talk(5))
    chat = again(store, tmp_path, *talk(9))
    assert (chat.imported, chat.already_there) == (4, 5)
    assert said(store, "c") == [f"line {n}" for n in range(9)]


def test_equal_lines_are_as_many_as_the_source_has(store, tmp_path) -> None:
    lines = [robin("ok"), yuzu("ok"), robin("ok"), yuzu("ok")]
    assert again(store, tmp_path, *lines).imported == 4
    chat = again(store, tmp_path, *lines, robin("ok"))
    assert (chat.imported, chat.already_there, len(said(store, "c"))) == (1, 4, 5)


def test_an_edited_line_takes_the_place_of_the_turn(store, tmp_path) -> None:
    lines = talk(4)
    again(store, tmp_path, *lines)
    lines[1] = lines[1] | {"mes": "something else"}
    chat = again(store, tmp_path, *lines, *talk(2, first=4))
    assert (chat.imported, chat.corrected, chat.changed) == (2, 1, 0)
    assert said(store, "c") == ["line 0", "something else", *(f"line {n}" for n in range(2, 6))]
    assert (
        again(store, tmp_path, *lines, *talk(2, first=4)).corrected,
        store.count(everything=True),
    ) == (0, 7)


def test_what_a_person_edited_or_withdrew_here_stays_as_they_left_it(store, tmp_path) -> None:
    again(store, tmp_path, *talk(4))
    turn = store.turn(2)
    standing.supersede_turn(store, turn, replace(turn, content="mine", source="edit"))
    standing.withdraw_turns(store, [3])
    chat = again(store, tmp_path, *talk(4))
    assert (chat.imported, chat.corrected) == (0, 0)
    assert said(store, "c") == ["line 0", "mine", "line 3"]


def test_another_swipe_of_the_last_line_takes_its_place_and_goes_back(store, tmp_path) -> None:
    again(store, tmp_path, robin("a"), yuzu("B"))
    for shown in ("C", "B"):
        swiped = yuzu(shown, "2025-11-14T22:07:00Z", swipes=["B", "C"], swipe_id=1)
        assert again(store, tmp_path, robin("a"), swiped).corrected == 1
        assert said(store, "c") == ["a", shown]
    assert store.count(everything=True) == 3


def swiped(text, *swipes):
    return yuzu(text, "2025-11-14T22:07:00Z", swipes=swipes or ["B", "C"])


def test_what_a_person_chose_stays_while_the_source_shows_what_it_did(store, tmp_path) -> None:
    again(store, tmp_path, robin("a"), swiped("B"))
    again(store, tmp_path, robin("a"), swiped("C"))
    standing.select_alternative(store, 2)
    for number in (1, 2):
        chat = again(store, tmp_path, robin("a"), swiped("C"), *talk(number))
        assert (chat.corrected, chat.imported, chat.notes) == (0, 1, ())
    assert said(store, "c") == ["a", "B", "line 0", "line 1"]
    again(store, tmp_path, robin("a"), swiped("B"), *talk(2))  # both agree again
    assert again(store, tmp_path, robin("a"), swiped("C"), *talk(2)).corrected == 1
    assert said(store, "c")[1] == "C"


def test_what_a_person_chose_stays_when_the_source_changes_and_that_is_told_once(
    store, tmp_path
) -> None:
    again(store, tmp_path, robin("a"), swiped("B"))
    again(store, tmp_path, robin("a"), swiped("C"))
    turn = store.turn(3)
    standing.supersede_turn(store, turn, replace(turn, content="mine", source="edit"))
    for shown, known in (("B", 4), ("D", 5)):
        line = swiped(shown, "B", "C", "D")
        chat = again(store, tmp_path, robin("a"), line)
        assert (chat.corrected, store.count(everything=True)) == (0, known)
        assert chat.notes[-1].startswith("changed in the source, and kept as you chose it: turn 4;")
        assert again(store, tmp_path, robin("a"), line).notes == ()
    assert said(store, "c") == ["a", "mine"]
    standing.select_alternative(store, 5)
    assert again(store, tmp_path, robin("a"), swiped("B", "B", "C", "D")).corrected == 1
    assert said(store, "c") == ["a", "B"]


def test_new_swipes_of_the_same_words_add_no_turn(store, tmp_path) -> None:
    again(store, tmp_path, yuzu("B", swipes=["B"]))
    chat = again(store, tmp_path, yuzu("B", swipes=["B", "C"]))
    assert (chat.imported, chat.already_there) == (0, 1)


def test_the_same_line_written_otherwise_is_no_change(store, tmp_path) -> None:
    bring(store, save(tmp_path / "c.jsonl", '{"name": "Yuzu", "mes": "a", "x": 1.0}'))
    chat = only(bring(store, save(tmp_path / "c.jsonl", '{"mes":"a","x":1.00,"name":"Yuzu"}')))
    assert (chat.already_there, chat.skipped) == (1, ())


def test_a_line_in_between_stands_at_its_place(store, tmp_path) -> None:
    lines = talk(4)
    again(store, tmp_path, *lines)
    lines.insert(2, yuzu("in between", "2025-11-14T19:00:00Z"))
    assert again(store, tmp_path, *lines).imported == 1
    assert shown(store) == ["line 0", "line 1", "in between", "line 2", "line 3"]
    assert again(store, tmp_path, *lines).imported == 0


def test_deleted_lines_are_withdrawn_and_none_is_lost(store, tmp_path) -> None:
    again(store, tmp_path, *talk(6))
    chat = again(store, tmp_path, *talk(1), *talk(2, first=4), *talk(1, first=6))
    assert (chat.imported, chat.already_there, chat.withdrawn) == (1, 3, 3)
    assert (said(store, "c"), store.count(everything=True)) == (
        ["line 0", "line 4", "line 5", "line 6"],
        7,
    )


def test_a_turn_that_a_person_restored_stays_although_its_line_is_gone(store, tmp_path) -> None:
    again(store, tmp_path, *talk(4))
    assert again(store, tmp_path, *talk(3)).withdrawn == 1
    standing.restore_turns(store, [4])
    chat = again(store, tmp_path, *talk(3))
    assert (chat.withdrawn, len(said(store, "c"))) == (0, 4)
    assert chat.notes[-1].endswith("kept as you restored it: turn 4")


def test_a_damaged_file_withdraws_nothing(store, tmp_path) -> None:
    again(store, tmp_path, *talk(4))
    assert again(store, tmp_path, *talk(2), "{not json").withdrawn == 0
    assert said(store, "c") == [f"line {n}" for n in range(4)]


def test_live_turns_are_not_imported_again_and_an_older_file_withdraws_none(store, tmp_path):
    for n, line in enumerate(talk(4)):
        role = ("user", "assistant")[n % 2]
        store.append("c", role, line["mes"], author=WHO if role == "user" else None, source="serve")
    for _ in range(2):
        chat = only(bring(store, save(tmp_path / "c.jsonl", HEAD, *talk(3)), channel="c"))
        assert (chat.imported, chat.withdrawn) == (0, 0)
    assert said(store, "c") == [f"line {n}" for n in range(4)]
    assert only(bring(store, save(tmp_path / "c.jsonl", HEAD, *talk(6)), channel="c")).imported == 2


def test_lines_that_changed_places_stand_at_their_new_ones(store, tmp_path) -> None:
    lines = talk(6)
    again(store, tmp_path, *lines)
    again(store, tmp_path, *lines[3:], *lines[:3])
    assert sorted(shown(store)) == sorted(f"line {n}" for n in range(6))
    assert again(store, tmp_path, *lines[3:], *lines[:3]).imported == 0


def test_another_chat_of_the_same_name_gets_a_channel_of_its_own(store, tmp_path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    save(tmp_path / "a" / "c.jsonl", HEAD, *talk(3))
    save(tmp_path / "b" / "c.jsonl", HEAD, *talk(3, first=10))
    assert only(bring(store, tmp_path / "a" / "c.jsonl")).channel == "c"
    assert only(bring(store, tmp_path / "b" / "c.jsonl")).channel == "b-c"
    for name, channel in (("a", "c"), ("b", "b-c")):
        chat = only(bring(store, tmp_path / name / "c.jsonl"))
        assert (chat.channel, chat.imported) == (channel, 0)


def test_a_channel_with_later_turns_of_its_own_is_refused(store, tmp_path) -> None:
    again(store, tmp_path, *talk(3))
    store.append("c", "user", "Are you there?")
    (failed,) = bring(store, save(tmp_path / "c.jsonl", HEAD, *talk(5))).failed

    assert isinstance(failed.error, RefusedError)
    assert "--channel" in failed.error.hint
    assert said(store, "c")[3:] == ["Are you there?"]
    assert only(bring(store, tmp_path / "c.jsonl", channel="c2")).imported == 2


def test_a_channel_with_later_turns_may_be_asked_whether_all_is_there(store, tmp_path) -> None:
    again(store, tmp_path, *talk(3))
    store.append("c", "user", "Are you there?")
    assert again(store, tmp_path, *talk(3)).already_there == 3


def test_a_chat_may_follow_older_turns_of_a_channel(store, tmp_path) -> None:
    from datetime import UTC, datetime

    store.append("cli", "user", "Before.", at=datetime(2020, 1, 1, tzinfo=UTC))
    chat = only(bring(store, save(tmp_path / "c.jsonl", *talk(2)), channel="cli"))
    assert (chat.imported, said(store, "cli")) == (2, ["Before.", "line 0", "line 1"])


def test_somebody_who_speaks_meanwhile_stops_the_import(store, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(import_chat, "_BATCH", 2)
    add = Appender.add

    def interrupted(self, batch):
        verdicts = add(self, batch)
        store.append("c", "user", "Me too!")
        return verdicts

    monkeypatch.setattr(Appender, "add", interrupted)
    done = bring(store, save(tmp_path / "c.jsonl", *talk(6)))
    assert isinstance(done.failed[0].error, ConflictError)
    assert done.chats[0].imported == 2
    assert done.problem.exit_code == 7


def test_a_history_that_somebody_else_writes_to_stops_the_import(store, tmp_path) -> None:
    store.append("cli", "user", "Hi")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = bring(store, save(tmp_path / "c.jsonl", *talk(6)))
    assert isinstance(done.problem, LockedError)
    assert bring(store, tmp_path / "c.jsonl").chats[0].imported == 6


def test_a_killed_import_is_taken_up_by_the_next(tmp_path) -> None:
    path = save(tmp_path / "c.jsonl", HEAD, *talk(800))
    code = (
        "import sys, time; from pathlib import Path\n"
        "from familiar_cli.imports import import_chat\n"
        "from familiar_cli.store.history.imports import Appender\n"
        "import_chat._BATCH = 100\n"
        "add = Appender.add\n"
        "def slow(self, batch):\n"
        "    found = add(self, batch); print('batch', flush=True); time.sleep(0.2)\n"
        "    return found\n"
        "Appender.add = slow\n"
        "from tests.support.chats import bring\n"
        "from familiar_cli.store.history import HistoryStore\n"
        "bring(HistoryStore(Path(sys.argv[1])), Path(sys.argv[2]))\n"
    )
    root = str(Path(__file__).parents[3])
    process = Process(
        [sys.executable, "-c", code, str(tmp_path / "h.db"), str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    )
    with process:
        for _ in range(3):
            process.stdout.readline()
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    with closing(HistoryStore(tmp_path / "h.db")) as store:
        before = store.count()
        chat = only(bring(store, path))
        assert (before % 100, before > 0, before < 800) == (0, True, True)
        assert (chat.already_there, chat.imported) == (before, 800 - before)
        assert said(store, "c") == [f"line {n}" for n in range(800)]


def test_what_a_source_said_is_never_changed(store, tmp_path) -> None:
    again(store, tmp_path, *talk(1))
    for sql in ("UPDATE turn_extras SET raw = ''", "DELETE FROM turn_extras"):
        with closing(sqlite3.connect(store.path)) as other, pytest.raises(sqlite3.IntegrityError):
            other.execute(sql)


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=WORDS, more=WORDS, is_dated=st.booleans())
def test_growing_by_pieces_is_as_good_as_all_at_once(tmp_path, first, more, is_dated) -> None:
    date = "2025-11-14T22:00:00Z" if is_dated else None
    lines = [robin(word, date) for word in [*first, *more]]
    (tmp_path / "h.db").unlink(missing_ok=True)
    with closing(HistoryStore(tmp_path / "h.db")) as store:
        for end in (len(first), len(lines), len(lines)):
            if end:
                only(bring(store, save(tmp_path / "c.jsonl", HEAD, *lines[:end])))
        if lines:
            assert exported(store, "c") == [HEAD, *lines]
