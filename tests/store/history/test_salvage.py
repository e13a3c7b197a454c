"""What is left of a damaged history is read, page by page, into a new one."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import selection
from familiar_cli.store.history.marks import turn_statuses, withdraw_turns
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.salvage import salvage
from familiar_cli.store.history.store import HistoryStore, insert_turn
from tests.support.cases import IS_NIGHT, each
from tests.support.world import data, live, run

TURNS = 1500
NOISE_BYTES = 8192
AT = datetime(2026, 1, 2, tzinfo=UTC)
ANNA = Author("irc", "anna")


def words(number: int) -> str:
    """Return a text; a few are longer than a page."""
    return f"turn {number} " + "sea and salt " * (900 if number % 500 == 7 else number % 60)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """Return a history: a private and a public channel, and turns that are long."""
    path = tmp_path_factory.mktemp("whole") / "history.db"
    store = HistoryStore(path)
    with store.change() as connection:
        for n in range(1, TURNS + 1):
            channel = "dm" if n % 2 else "room"
            other = Author("irc", f"p{n % 5}")
            author = None if n % 4 == 3 else ANNA if channel == "dm" else other
            role = "user" if author else "assistant"
            turn = Turn(0, channel, author, role, words(n), AT, "text", "cli", partial=False)
            insert_turn(connection, turn, f"m{n}")
    store.close()
    return path.read_bytes()


def damaged(path, whole: bytes, at: int, seed: int) -> None:
    noise = random.Random(seed).randbytes(NOISE_BYTES)
    path.write_bytes(whole[:at] + noise + whole[at + NOISE_BYTES :])


PLACES = [0, 4096, 100, *(place / 8 for place in range(1, 8)), 1.0]


@each("place", PLACES if IS_NIGHT else PLACES[::3])
def test_noise_anywhere_costs_few_turns_and_makes_nothing_public(tmp_path, whole, place) -> None:
    path = tmp_path / "history.db"
    most = len(whole) - NOISE_BYTES
    damaged(
        path, whole, place if isinstance(place, int) else int(most * place), seed=int(place * 8)
    )
    found = salvage(path)
    assert found.turns >= 0.95 * TURNS
    assert found.turns + found.missing == TURNS
    assert [end for end in tmp_path.iterdir() if "salvaged" in end.name] == []
    store = HistoryStore(path)
    turns = store.after(0, TURNS)
    assert len(turns) == found.turns
    assert [t.content for t in turns] == [words(t.id) for t in turns]
    with store.use(create=False) as connection:
        private = [t.id for t in turns if selection.only_speaker_at(connection, t.id) == ANNA]
    assert private == [t.id for t in turns if t.channel_id == "dm"]
    assert store.append("room", "user", "and on", author=ANNA).id == TURNS + 1
    store.close()
    assert not salvage(path).damaged


def test_what_is_only_in_the_log_is_read_too(tmp_path, whole) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(whole)
    store = HistoryStore(path)
    newest = store.append("room", "user", "the newest", author=ANNA)
    log = path.with_name("history.db-wal").read_bytes()
    store.close()
    damaged(path, whole, 0, seed=1)
    path.with_name("history.db-wal").write_bytes(log)
    assert salvage(path).turns >= 0.95 * TURNS
    store = HistoryStore(path)
    assert store.turn(newest.id).content == "the newest"
    store.close()


def test_a_file_of_noise_stays_as_it_is(tmp_path) -> None:
    path = tmp_path / "history.db"
    content = random.Random(3).randbytes(50_000)
    path.write_bytes(content)
    with pytest.raises(FamiliarError, match="No turn can be recovered"):
        salvage(path)
    assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["history.db"]


def test_the_command_counts_first_and_keeps_the_damaged_file(whole) -> None:
    root = live("ada")
    path = root / "history.db"
    damaged(path, whole, 4096 * 3, seed=5)
    before = path.read_bytes()
    planned = data("history", "salvage", "--dry-run", code=7)
    words = run("history", "salvage", "--dry-run").stdout
    assert re.search(r"\n  watermarks +unknown +how far the memory writer has read\n", words)
    assert path.read_bytes() == before
    assert planned["kept"] == ""
    done = data("history", "salvage", code=7)
    assert done["turns"] == planned["turns"]
    kept = next(root.glob("history.db.damaged-*[0-9]"))
    assert (str(kept), kept.read_bytes()) == (done["kept"], before)
    assert data("history", "stats")["turns"] == done["turns"]
    assert "not damaged" in run("history", "salvage").stdout


def test_what_each_table_lost_is_named_and_unknown_turns_are_unread(tmp_path, whole) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = ((n, 1, b"i%d" % n, 0, "said " * 40, 1) for n in range(1, TURNS, 2))
        connection.executemany("INSERT INTO turn_extras VALUES (?, ?, ?, ?, ?, ?)", rows)
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'unread'"
        (root,) = connection.execute(sql).fetchone()
    cut = path.stat().st_size - 100_000
    content = path.read_bytes()[:cut]
    path.write_bytes(content[: (root - 1) * 4096] + bytes(4096) + content[root * 4096 :])
    found = salvage(path)
    with closing(sqlite3.connect(path)) as connection:
        (kept,) = connection.execute("SELECT count(*) FROM turn_extras").fetchone()
        (unread,) = connection.execute("SELECT count(*) FROM unread").fetchone()
    assert (found.turns, unread) == (TURNS, TURNS)
    assert "unread" not in found.lost
    assert 0 < TURNS // 2 - kept <= found.lost["turn_extras"] <= 2 * (TURNS // 2 - kept) + 40


def test_lost_marks_come_back_from_the_events(tmp_path, whole) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(whole)
    with closing(HistoryStore(path)) as store:
        withdraw_turns(store, [5, 9])
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'set_aside'"
        (root,) = connection.execute(sql).fetchone()
    content = path.read_bytes()
    path.write_bytes(content[: (root - 1) * 4096] + bytes(4096) + content[root * 4096 :])
    assert salvage(path).lost == {}
    with closing(HistoryStore(path)) as store:
        assert {i for i, found in turn_statuses(store, [5, 8, 9]).items() if found.withdrawn} == {
            5,
            9,
        }
