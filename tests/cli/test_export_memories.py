"""`familiar export --format mem|text`: memories for other programs, and back without a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from portable_memory import BundleValidator

from tests.support.world import data, live, run

PAGE = """# Robin

## Facts

- Robin keeps bees, as told yesterday.
- 2025-03-04: Has a dog called Biscuit
- Lives in Oslo. (until March 2026) <!-- ended 2026-03-14 -->

## In private: cli <!-- private @cli%2Duser -->

- Hides the honey.

## Aliases

- Rob
"""
MIA = "# Mia\n\n- Sings älto\n"


@pytest.fixture
def ada(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return live(**{"people/cli-user": PAGE, "topics/mia": MIA, "self/soul": "Kind.\n"})


def test_a_bundle_is_valid_and_comes_back_equal(ada) -> None:
    assert data("export", "a.mem", "--format", "mem")["memories"] == 4
    assert BundleValidator().validate("a.mem").issues == []
    live("bo")
    assert data("import", "a.mem", "--yes", "--familiar", "bo")["items"][0]["error"] is None
    data("export", "b.mem", "--format", "mem", "--familiar", "bo")
    told, again = (
        [
            json.loads(line)
            for line in Path(name, "items", "episode.jsonl").read_bytes().splitlines()
        ]
        for name in ("a.mem", "b.mem")
    )
    assert [one["details"] for one in told if one["sensitivity"] != "low"] == ["Hides the honey."]
    assert {one["sensitivity"] for one in again} == {"high"}  # the owner's, until published
    assert [one | {"sensitivity": "high"} for one in told] == again


def test_text_has_a_dated_line_for_each_memory(ada) -> None:
    assert run("export", "--format", "text").stdout.splitlines() == [
        "[unknown] - Robin keeps bees, as told yesterday. (day unknown)",
        "[2025-03-04] - Has a dog called Biscuit",
        "[unknown] - Hides the honey.",
        "[unknown] - Mia: Sings älto",
    ]


def test_other_programs_get_nothing_private_to_others(ada) -> None:
    private = "# Bo\n\n- Fishes.\n\n## In private <!-- private @discord%2Dbo -->\n\n- Is ill.\n"
    live("cy", **{"people/cli-user": PAGE, "people/discord-bo": private})
    told = data("export", "--format", "text", "--familiar", "cy")
    text = str(told["text"])
    assert ("honey" in text, "Fishes" in text, "ill" in text) == (True, True, False)
    assert told["warnings"] == [
        "What other people said in private is left out: 1 page has lines based on it"
    ]
    text = str(data("export", "--format", "text", "--familiar", "cy", "--public")["text"])
    assert ("honey" in text, "Fishes" in text) == (False, True)


def test_a_damaged_bundle_is_refused_whole(ada) -> None:
    data("export", "a.mem", "--format", "mem")
    stream = Path("a.mem/items/episode.jsonl")
    stream.write_bytes(stream.read_bytes().replace(b"Biscuit", b"Bruiser"))
    assert "not as its checksum says" in run("import", "a.mem", "--yes").stderr


def test_an_earlier_export_is_replaced_on_demand_and_nothing_else_is(ada, tmp_path) -> None:
    data("export", "a.mem", "--format", "mem")
    assert run("export", "a.mem", "--format", "mem").exit_code == 5
    assert run("export", "a.mem", "--format", "mem", "--force").exit_code == 0
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("mine")
    assert run("export", "notes", "--format", "mem", "--force").exit_code == 5
    assert run("export", "--format", "mem").exit_code == 2
