"""Homes of earlier versions: commands work on them, and what changes is told first."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from familiar_cli.store.search import schema
from familiar_cli.store.search.finding import Finder
from tests.support.cases import each
from tests.support.embedders import EmbedderChoice, TokenWordEmbedder
from tests.support.world import data, home, live, run

HOMES = Path(__file__).parent / "homes"
COMMANDS = (
    ("status",),
    ("history", "stats"),
    ("history", "show", "--last", "3"),
    ("context", "--last"),
    ("ask", "Who keeps bees?", "--dry-run"),
    ("memory", "ls"),
    ("memory", "log"),
    ("memory", "blame", "topics/bees.md"),
    ("memory", "append", "topics/bees.md", "- and wasps"),
    ("memory", "undo"),
    ("people", "ls"),
    ("people", "show", "discord-42"),
    ("channel", "ls"),
    ("search", "Harrow"),
    ("remind", "ls"),
    ("task", "ls"),
    ("distill", "status"),
    ("graph", "Anna"),
    ("review", "list"),
    ("housekeep",),
    ("index", "build"),
    ("sync", "status"),
    ("config", "show"),
)


@pytest.fixture(params=["8071b9d", "9f88b58"])
def older(request) -> Path:
    home().mkdir(parents=True, exist_ok=True)
    with tarfile.open(HOMES / f"{request.param}.tar.xz") as packed:
        packed.extractall(home(), filter="data")
    return home() / "ada"


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_an_upgrade_changes_is_told_and_nothing_is_changed(older) -> None:
    before = contents(older)
    told = run("doctor", "--upgrade")
    assert told.exit_code == 0
    assert "history.db is migrated from schema " in told.stdout
    assert contents(older) == before
    (copy,) = [word for word in told.stdout.split() if word.startswith("history.db.before-")]

    run("history", "stats")
    assert (older / copy).read_bytes()[:15] == b"SQLite format 3"
    assert "history.db" not in run("doctor", "--upgrade").stdout


def test_every_command_works_on_it(older) -> None:
    codes = {argv: run(*argv).exit_code for argv in COMMANDS}
    assert codes == dict.fromkeys(COMMANDS, 0)


def test_people_sessions_digests_and_turns_are_there(older) -> None:
    def cat(rel_path: str) -> str:
        return run("memory", "cat", rel_path).stdout

    assert "Keeps bees in Harrow." in cat("people/discord-42.md")
    assert "Anna and Bo talked about bees." in cat("sessions/2026-04-06-evening.md")
    assert "Bo fears them" in cat("digest/long.md")
    turns = run("history", "export", "--format", "jsonl").stdout
    assert all(f"Day {day}, remark 3" in turns for day in range(3))
    assert "Harrow" in run("search", "Where does Annie keep bees?").stdout


def test_it_can_be_backed_up_and_restored(older, tmp_path) -> None:
    assert run("backup", str(tmp_path / "copy")).exit_code == 0
    assert run("restore", str(tmp_path / "copy"), "--home", str(tmp_path / "new")).exit_code == 0
    export = ("history", "export", "--format", "jsonl")
    assert run(*export, "--home", str(tmp_path / "new")).stdout == run(*export).stdout


def test_vectors_stay_with_the_text_that_they_were_made_of(older, monkeypatch) -> None:
    embedder = TokenWordEmbedder()
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(embedder))
    run("index", "build")
    with closing(sqlite3.connect(older / "memory" / ".index" / schema.FILE)) as index, index:
        index.execute("UPDATE meta SET value = '6' WHERE key = 'schema'")
    for path in (older / "recall").glob("turns-*"):
        if path.suffix != ".tokens":  # whose form is the same
            path.write_bytes(path.read_bytes()[16:])
        path.rename(path.with_name(path.name.replace("-v4.", "-v3.")))
    run("memory", "append", "topics/bees.md", "- and wasps")
    embedder.read.clear()

    assert "vectors: 1 made" in run("index", "build").stdout
    assert ["wasps" in text for text in embedder.read] == [True]


def newer() -> Path:
    root = live("ada")
    assert run("hear", "Hello.").exit_code == 0
    with closing(sqlite3.connect(root / "history.db")) as connection:
        connection.execute("PRAGMA user_version = 999")
    return root


@each("argv", [("ask", "Hi", "--dry-run"), ("hear", "Hi"), ("history", "stats"), ("status",)])
def test_a_home_of_a_newer_version_is_refused_and_stays_as_it_is(argv) -> None:
    root = newer()
    before = (root / "history.db").read_bytes()
    refused = run(*argv)
    assert refused.exit_code == 5
    assert "supports only up to" in refused.stderr.splitlines()[0]
    assert (root / "history.db").read_bytes() == before


def test_doctor_says_that_a_home_is_too_new() -> None:
    newer()
    (check,) = data("doctor", "--upgrade", code=7)["checks"]
    assert (check["name"], check["verdict"]) == ("ada", "fail")
