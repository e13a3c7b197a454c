"""Restored backups, copied homes and replaced histories: no number of a turn is used twice."""

from __future__ import annotations

import shutil
from base64 import b64encode

import pytest

from familiar_cli.store.history.attachments import (
    DIRECTORY,
    keep_pictures,
    picture_mark,
    stored_pictures,
)
from familiar_cli.store.memory.store.files import MOST_RECORDED_BYTES
from tests.cli.test_sync import Home
from tests.support.remotes import HAS_GIT, bare, bare_by_hand


@pytest.fixture
def hub(tmp_path):
    return bare(tmp_path / "hub.git") if HAS_GIT else bare_by_hand(tmp_path / "hub.git")


@pytest.fixture
def first(tmp_path, hub) -> Home:
    home = Home(tmp_path / "first")
    home.run("init", "ada", "--template", "companion")
    home.run("sync", "remote", "add", "hub", str(hub))
    for number in (1, 2, 3):
        say(home, f"word {number}")
    return home


def say(home: Home, text: str, who: str = "discord:1") -> str:
    """Say something, and return its number here."""
    home.run("hear", text, "--channel", "room", "--as", who)
    told = home.data("history", "show", "--channel", "room")["turns"][-1]["id"]
    return str(told).rpartition(":")[2]


def words(home: Home, rel_path: str = "notes.md") -> str:
    """Return the words that the lines of a file rest on."""
    return home.run("memory", "blame", rel_path, "--words").stdout


def texts(home: Home) -> list[str]:
    return [turn["content"] for turn in home.data("history", "show", "--channel", "room")["turns"]]


def restored(home: Home, path, name: str = "restored") -> Home:
    copy = Home(path / name)
    copy.run("restore", str(path / "backups"))
    return copy


def test_a_line_rests_on_the_same_words_after_a_restored_backup_was_synced(first, tmp_path) -> None:
    first.run("sync")
    first.run("backup", str(tmp_path / "backups"))
    say(first, "Nia has a cat", "discord:2")
    first.run("sync")
    copy = restored(first, tmp_path)
    number = say(copy, "Bo has a dog", "discord:3")
    assert number == "4"
    copy.run("memory", "append", "notes.md", f"- a dog <!-- turns {number} -->\n")
    before = words(copy)
    assert "Bo has a dog" in before
    for home in (copy, first, copy, first):
        home.run("sync")
    assert "Bo has a dog" in words(copy)
    assert "Nia" not in words(copy)
    assert "Bo has a dog" in words(first)
    assert sorted(texts(first)) == sorted(texts(copy))
    assert len(texts(copy)) == 5
    assert first.files() == copy.files()


def test_turns_that_the_original_never_sent_travel_once(first, tmp_path) -> None:
    first.run("memory", "append", "notes.md", "- three <!-- turns 3 -->\n")
    first.run("backup", str(tmp_path / "backups"))
    copy = restored(first, tmp_path)
    assert "word 3" in words(copy)
    say(copy, "later")
    for home in (copy, first, copy, first):
        home.run("sync")
    assert "word 3" in words(copy)
    assert "word 3" in words(first)
    assert texts(copy) == texts(first) == ["word 1", "word 2", "word 3", "later"]


def test_a_backup_that_moved_the_familiar_keeps_its_id(first, tmp_path) -> None:
    own = first.data("sync", "status")["instance"]
    first.run("backup", str(tmp_path / "backups"), "--move", "another disk")
    copy = restored(first, tmp_path)
    say(copy, "later")
    assert copy.data("sync", "status")["instance"] == own


def test_a_renamed_home_keeps_its_id(first, tmp_path) -> None:
    own = first.data("sync", "status")["instance"]
    first.path.rename(tmp_path / "elsewhere")
    home = Home(tmp_path / "elsewhere")
    say(home, "later")
    assert home.data("sync", "status")["instance"] == own


def test_a_history_put_back_from_an_older_copy_loses_no_turn_that_was_synced(
    first, hub, tmp_path
) -> None:
    first.run("sync")
    second = Home(tmp_path / "second")
    second.run("init", "ada", "--from-remote", str(hub))
    database = first.path / "ada" / "history.db"
    shutil.copy(database, tmp_path / "older.db")
    for text in ("four", "five"):
        say(first, text)
    first.run("sync")
    shutil.copy(tmp_path / "older.db", database)
    say(first, "six")
    for home in (first, second, first, second):
        home.run("sync")
    wanted = ["word 1", "word 2", "word 3", "four", "five", "six"]
    assert texts(first) == texts(second) == wanted


@pytest.mark.parametrize("is_deleted", [False, True])
def test_turns_that_are_nowhere_any_more_are_told(first, tmp_path, is_deleted) -> None:
    first.run("sync")
    database = first.path / "ada" / "history.db"
    shutil.copy(database, tmp_path / "older.db")
    say(first, "four")
    if is_deleted:
        database.unlink()
    else:
        shutil.copy(tmp_path / "older.db", database)
    done = first.run("hear", "five", "--channel", "room")
    assert "are lost" in done.stderr
    assert texts(first) == ["word 1", "word 2", "word 3", "five"]
    assert "lost" in first.run("sync", exit_code=7).stdout
    assert "lost" in first.run("doctor").stdout
    first.run("sync", "accept")
    first.run("sync")


def test_a_file_that_is_too_large_stays_here_is_named_and_stops_nothing(
    first, hub, tmp_path
) -> None:
    first.run("sync")
    second = Home(tmp_path / "second")
    second.run("init", "ada", "--from-remote", str(hub))
    with (first.memory / "film.bin").open("wb") as file:
        file.truncate(135_000_000)
    assert "film.bin" in first.run("sync", exit_code=7).stdout
    assert "film.bin" in first.run("doctor").stdout
    (first.memory / "film.bin").unlink()
    first.append("notes.md", "- later\n")
    for home in (first, second, first, second):
        home.run("sync")
    assert "- later" in second.files()["notes.md"].decode()
    assert "film.bin" not in second.files()


def test_pictures_travel_only_if_set_and_go_with_their_person(first, hub, tmp_path) -> None:
    shown = f"data:image/png;base64,{b64encode(b'a cat').decode()}"
    keep_pictures(first.path / "ada", [shown])
    say(first, f"Look {picture_mark(shown)}", "irc:bob")
    large = first.path / "ada" / DIRECTORY / f"{'0' * 16}.png"
    first.run("sync")
    second = Home(tmp_path / "second")
    second.run("init", "ada", "--from-remote", str(hub))
    second.run("config", "set", "sync.attachments", "on")
    second.run("sync")
    assert not stored_pictures(second.path / "ada")

    first.run("config", "set", "sync.attachments", "on")
    with large.open("wb") as file:
        file.truncate(MOST_RECORDED_BYTES + 1)
    assert f"not synced: {DIRECTORY}/{large.name}" in first.run("sync", exit_code=7).stdout
    large.unlink()
    second.run("sync")
    (found,) = stored_pictures(second.path / "ada").values()
    assert found.read_bytes() == b"a cat"
    second.run("sync")
    first.run("sync")
    assert "nothing" in second.run("sync").stdout

    first.run("people", "forget", "irc:bob", "--yes")
    for home in (first, second, first):
        home.run("sync")
    assert not stored_pictures(second.path / "ada")
    assert not stored_pictures(first.path / "ada")
