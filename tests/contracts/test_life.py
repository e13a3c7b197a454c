"""The replay of a life: planted facts are found, and a model that misbehaves loses nothing."""

from __future__ import annotations

import json

import pytest

from benchmarks import life, life_model
from tests.support.cases import IS_NIGHT, at_night, each

SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "My cat is called Pluto."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "I climbed a mountain yesterday."},
        ],
        "session_2_date_time": "9:05 am on 12 May, 2023",
        "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "I bought a red kite."}],
    },
    "qa": [
        {"question": "What is Ada's cat called?", "evidence": ["D1:1"], "category": 4},
        {"question": "What did Ben climb?", "evidence": ["D1:2"], "category": 5},
        {"question": "Who knows?"},
    ],
}
OTHERS = {
    "Lucy": {"history": {"2023-05-01": [{"query": "I saw a heron.", "response": "Lovely."}]}},
    "Nobody": {"history": {"2023-05-02": [{"response": "Are you there?"}]}},
}
ROOMS = life.ROOMS if IS_NIGHT else (32,)
KINDS = {
    *("single-hop", "update", "contradiction", "extraction", "preference", "instruction"),
    *("counting", "last", "ordering", "since", "several sessions", "summary", "month"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    root = tmp_path_factory.mktemp("life")
    for name, data in (("one", [SAMPLE]), ("others", OTHERS)):
        (root / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    files = [str(root / "one.json"), str(root / "others.json")]
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", printed.append)
        patch.setattr(life, "ROOMS", ROOMS)
        life.main([*files, "--months", "0.3", "--misbehaves", "3", "--questions", "1", "--json"])
    return json.loads(printed[0])


def test_every_source_and_room_has_the_same_columns(found):
    columns = {"verbatim", "or_cited", "answer", "n", "kinds", "tokens", "stale", "dated"}
    columns |= {"refused_with_room", "late", "prompt_ms_p50"}
    assert found["evidence"].keys() == {"both", "raw", "files"}
    for rooms in found["evidence"].values():
        assert rooms.keys() == {*map(str, ROOMS), "leaks"}
        for heard in map(str, ROOMS):
            assert rooms[heard].keys() == columns
            assert rooms[heard]["kinds"].keys() == KINDS


def test_the_rules_replace_what_holds_once_and_only_that():
    moved, job = "Ada moved to Lund.", "Ada work as a cook."
    assert life_model.replaces(moved, "Ada moved to Oslo. (May 2023)")
    assert not life_model.replaces(moved, job)
    assert not life_model.replaces(moved, moved)


@each("source", ["both", "raw", "files"])
def test_planted_facts_are_found_from_each_source_in_a_busy_room(found, source):
    kinds = found["evidence"][source]["32"]["kinds"]
    assert kinds["extraction"]["or_cited"] == 1
    assert kinds["ordering"]["or_cited"] >= 0.5  # each session keeps some of its facts
    assert kinds["counting"]["answer"] == 1


@at_night
def test_a_busy_room_has_hardly_less_of_the_evidence(found):
    for source in ("both", "raw", "files"):
        rooms = found["evidence"][source]
        assert rooms["32"]["or_cited"] >= rooms["0"]["or_cited"] - 0.05


def test_a_model_that_misbehaves_loses_nothing(found):
    made = found["replay"]
    writer = made["costs_per_100_turns"]["writer"]
    assert {"bad JSON", "empty", "refusal"} <= writer["faults"].keys()
    assert (made["lost_lines"], made["changed_lines"], made["unread_turns"]) == (0, 0, 0)


def test_what_is_private_is_shown_to_no_stranger(found):
    assert [rooms["leaks"] for rooms in found["evidence"].values()] == [0, 0, 0]


def test_calls_tokens_and_times_are_told_by_pass_and_by_month(found):
    assert found["replay"]["costs_per_100_turns"].keys() == {
        *("reply", "writer", "consolidation", "summary")
    }
    assert list(found["months"]) == ["2023-05"]
    assert found["months"]["2023-05"]["turns"] >= 2 * 19
    assert found["replay"]["memory_tokens"] > 0
