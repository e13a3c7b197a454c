"""What was brought in can be found at once; what a prompt could not search is named."""

from __future__ import annotations

import json

import pytest

from familiar_cli.actions.talk import prompt
from familiar_cli.base import files
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.search import search
from tests.support.world import data, live, run

BOOK = {
    "entries": {"0": {"comment": "Amber", "key": ["Amber"], "content": "She tunes the zither."}}
}
TURN = {"role": "user", "name": "Robin", "at": "2023-06-19T20:00:00Z", "content": "My zither hums."}


def unread() -> tuple[int, int]:
    """Return how many files and turns cannot be found by their words."""
    status = data("index", "status")
    assert status["status"]["exists"] or not status["status"]["files"]
    return status["status"]["stale_files"], status["turns"]["unread"]


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.json"
    path.write_text(json.dumps(BOOK), "utf-8")
    return str(path)


def test_a_lorebook_ends_with_its_words_indexed(book) -> None:
    live("ada")
    assert run("import-lorebook", book).exit_code == 0
    assert unread() == (0, 0)
    assert data("index", "status")["status"]["files"] == 1


def test_memories_end_with_their_words_indexed(tmp_path) -> None:
    live("ada")
    (tmp_path / "tree" / "daily").mkdir(parents=True)
    (tmp_path / "tree" / "daily" / "2026-01-01.md").write_text("# Day\n\n- A zither.\n", "utf-8")
    assert run("import-memories", str(tmp_path / "tree")).exit_code == 0
    assert unread() == (0, 0)
    assert data("index", "status")["status"]["files"] >= 1


def test_a_chat_ends_with_its_words_indexed(tmp_path) -> None:
    live("ada")
    chat = tmp_path / "chat.jsonl"
    chat.write_text(json.dumps(TURN) + "\n", "utf-8")
    assert run("import-chat", str(chat), "--me", str(TURN["name"])).exit_code == 0
    assert unread() == (0, 0)
    assert data("index", "status")["turns"]["turns"] == 1


def test_a_new_familiar_ends_with_its_words_indexed() -> None:
    assert run("init", "ada", "--template", "companion").exit_code == 0
    status = data("index", "status")["status"]
    assert (status["exists"], status["stale_files"]) == (True, 0)
    assert status["files"] > 0


def put(root, name, text) -> None:
    (root / "memory" / f"{name}.md").write_text(text, "utf-8")


@pytest.fixture
def hurried(monkeypatch):
    """A familiar whose prompts have no time to read anything new, but for one file."""
    root = live("ada")
    put(root, "lamp", "# Lamp\n\nIt is lit.\n")
    (root / "character.toml").write_text("[context]\nprovider_deadline_s = 30\n", "utf-8")
    monkeypatch.setattr(files, "SETTLED_NS", -1)  # nobody changes a file twice within a moment here
    assert data("search", "lamp")["hits"]
    monkeypatch.setattr(prompt, "REFRESH_SHARE", 0.0)
    monkeypatch.setattr(prompt, "_PAST_SHARE", 0.0)
    monkeypatch.setattr(search, "LEAST_DIRECT_S", 0.0)
    return root


def notices() -> str:
    return "\n".join(data("ask", "Where is the zither?", "--dry-run")["notices"])


def test_a_prompt_says_how_many_files_it_could_not_search_and_what_reads_them(hurried) -> None:
    for name in ("a", "b", "c"):
        put(hurried, name, "A zither.\n")
    assert "2 files could not be searched in time; run `familiar index build`" in notices()
    assert "2 files could not be searched" in run("ask", "zither?", "--dry-run").stdout
    assert run("index", "build").exit_code == 0
    assert "searched in time" not in notices()


def test_it_says_so_of_turns_as_well(hurried) -> None:
    history = HistoryStore(hurried / "history.db")
    for number in range(3):
        history.append("den", "user", f"The zither number {number}.")
    history.close()
    assert "3 turns could not be searched in time; run `familiar index build`" in notices()
    assert run("index", "build").exit_code == 0
    assert "searched in time" not in notices()


def test_it_says_both_in_one_line(hurried) -> None:
    for name in ("a", "b"):
        put(hurried, name, "A zither.\n")
    history = HistoryStore(hurried / "history.db")
    history.append("den", "user", "The zither.")
    history.close()
    assert "1 file and 1 turn could not be searched in time" in notices()
