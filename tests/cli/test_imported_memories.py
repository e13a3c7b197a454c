"""A tree of memories that was imported, and what consolidation and search make of it."""

from __future__ import annotations

import json

import pytest

from familiar_cli.imports.folders import MEMORIES
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.imported import originals
from tests.support.server import ChatServer
from tests.support.world import data, live, run

BULLET = "- Ib sold the boat [chat:7] [via:harbour]\r\n  for 40 crowns\r\n"
FILES = {
    "daily/2024-04-08_harbour.md": f"# 2024-04-08\r\n\r\n{BULLET}".encode(),
    "daily/2024-04-08_phone.md": b"- Laila rang twice [chat:9] [via:phone]",
    "daily/2024-04-16_harbour.md": b"- The mast broke [chat:8] [via:harbour]\n",
    "daily/2024-04-20.md": b"- No instance is named here\n",
    "weekly/2024-W15.md": b"# Week 15\n\nThe boat was sold.\n",
    "monthly/2024-03.md": b"March.\n\n\n",
    "yearly/2023.md": b"\xef\xbb\xbf# 2023\n\nThe year of the oars.\n",
    "significant/2023-07-01_the-first-storm.md": b"We held the rope.\n",
    "graph.db": b"\x00\x01",
    "daily/notes.txt": b"\xff",
}
WEEK = "weekly/2024-W15.md"
REPLY = json.dumps({"summary": "A mast broke.", "points": []})


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "core" / "data" / "memories"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return str(tmp_path / "core")


@pytest.fixture
def memory(tree):
    root = live("ada")
    (root / "character.toml").write_text('timezone = "UTC"\n[instance]\nid = "harbour"\n', "utf-8")
    assert run("import-memories", tree).exit_code == 0
    return root / "memory"


@pytest.fixture
def server(monkeypatch):
    with ChatServer([REPLY]) as started:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", started.base_url)
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "scripted-1")
        yield started


def stored(memory):
    walk = MemoryStore(memory).walk(hidden=True)
    found = {file.rel_path: (memory / file.rel_path).read_bytes() for file in walk.files}
    return {path: content for path, content in found.items() if ".index" not in path}


def session(memory, day, text):
    path = memory / "sessions" / f"{day}-evening.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# {day}, evening\n\n## Highlights\n\n{text}", "utf-8")


def test_every_byte_of_every_file_is_there_and_again_nothing_changes(memory, tree) -> None:
    assert originals(MemoryStore(memory), MEMORIES.ledger) == FILES
    before, commits = stored(memory), data("memory", "log")["commits"]
    assert set(FILES.values()) <= set(before.values())
    assert all(before[name] == FILES[name] for name in FILES if name.endswith(".md"))
    for options in ((), ("--update",), ("--force",)):
        assert data("import-memories", tree, *options)["written"] == []
    assert (stored(memory), data("memory", "log")["commits"]) == (before, commits)


@pytest.mark.usefixtures("memory")
def test_a_memory_is_found_with_its_own_day_and_instance() -> None:
    found = {hit["rel_path"]: hit for hit in data("search", "boat mast oars rang")["hits"]}
    mast, rang = found["daily/2024-04-16_harbour.md"], found["daily/2024-04-08_phone.md"]
    assert (mast["day"], rang["day"]) == ("2024-04-16", "2024-04-08")
    assert (mast["signals"]["same_instance"], rang["signals"]["same_instance"]) == (True, False)


@pytest.mark.parametrize("method", ["lexical", "grep"])
@pytest.mark.usefixtures("memory")
def test_a_memory_is_as_old_as_it_says_and_not_as_new_as_the_import(method) -> None:
    words = ("search", "boat sold mast oars March", "--method", method)
    age = {hit["rel_path"]: hit["signals"]["recency"] for hit in data(*words)["hits"]}
    assert age["yearly/2023.md"] < age["monthly/2024-03.md"] < age[WEEK] < 0.3
    assert [hit["rel_path"] for hit in data(*words, "--since", "2024-04-15")["hits"]] == [
        "daily/2024-04-16_harbour.md"
    ]


def test_weeks_that_came_with_it_are_neither_made_again_nor_overwritten(memory, server) -> None:
    before = stored(memory)
    done = data("consolidate")["done"]
    assert [one["rel_path"] for one in done] == [
        "weekly/2024-W16.md",
        "monthly/2024-04.md",
        "yearly/2024.md",
    ]
    assert WEEK in done[1]["sources"]
    after = stored(memory)
    assert {path: after[path] for path in before} == before
    assert data("consolidate")["done"] == []
    sources = [request.body.decode() for request in server.requests]
    assert [("The boat was sold." in text, "Ib sold" in text) for text in sources] == [
        (False, False),
        (True, False),
        (False, False),
    ]


def test_a_week_that_came_with_it_stays_also_when_it_is_asked_for_and_says_why(
    memory, server
) -> None:
    for options in ((), ("--redo",)):
        result = run("consolidate", "weekly", "--period", "2024-W15", *options)
        assert result.exit_code == 5
        assert "its file was not generated by this program, so it is kept" in result.stderr
    assert run("consolidate", "--period", "2024-W15", "--due").exit_code == 0
    session(memory, "2024-04-09", "- Late news of the boat.\n")
    assert run("consolidate").exit_code == 0
    assert (memory / WEEK).read_bytes() == FILES[WEEK]
    assert len(server.requests) == 3


def test_a_day_that_came_with_it_is_added_to_and_nothing_in_it_is_doubled(memory, tree) -> None:
    session(memory, "2024-04-08", "- Ib sold the boat\n- The sea froze.\n")
    own, other = "daily/2024-04-08_harbour.md", "daily/2024-04-08_phone.md"
    assert run("consolidate", "daily").exit_code == 0
    for _ in range(2):
        page = (memory / own).read_bytes().decode()
        assert BULLET in page
        assert page.count("The sea froze") == 1
        assert page.count("2024-04-08\r\n") == 1
        assert (memory / other).read_bytes() == FILES[other]
        assert originals(MemoryStore(memory), MEMORIES.ledger)[other] == FILES[other]
        assert data("import-memories", tree)["written"] == []
        assert run("consolidate", "daily", "--redo").exit_code == 0
    assert data("memory", "show", "HEAD")["files"]
    for _ in data("memory", "log", own)["commits"][1:]:
        run("memory", "undo")
    assert (memory / own).read_bytes() == FILES[own]
