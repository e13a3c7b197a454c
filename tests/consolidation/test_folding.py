"""What is too long for one question is read in parts: nothing twice, nothing left out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from familiar_cli import tokens
from familiar_cli.consolidation.composing import Asking
from familiar_cli.consolidation.folding import in_parts
from familiar_cli.consolidation.types import Item
from tests.consolidation.support import DAY, MONDAY, Life, names, sources_in

COUNT = tokens.heuristic().count
texts = st.lists(st.text(alphabet="ab \n.日", max_size=200), max_size=8)


@settings(max_examples=60)
@given(texts, st.integers(3, 60))
def test_every_source_is_in_exactly_one_part_in_order(found, most) -> None:
    items = [Item(str(n), text) for n, text in enumerate(found)]
    pieces = [piece for part in in_parts(items, most, COUNT) for piece in part]
    joined = {item.label: "" for item in items}
    for piece in pieces:
        joined[piece.label] += piece.text
    assert joined == {item.label: item.text for item in items}
    assert [int(piece.label) for piece in pieces] == sorted(int(piece.label) for piece in pieces)
    whole = [item for item in items if COUNT(item.text) <= most]
    assert all(pieces.count(item) == 1 for item in whole)


@settings(max_examples=60)
@given(texts, st.integers(3, 60))
def test_no_part_is_longer_than_it_may_be(found, most) -> None:
    for part in in_parts([Item("x", text) for text in found], most, COUNT):
        assert sum(COUNT(item.text) for item in part) <= most or len(part[0].text) == 1


@pytest.fixture
def busy(tmp_path):
    life = Life(tmp_path)
    life.asking = Asking(part_tokens=700, reply_tokens=300)
    for n in range(7):
        lines = "".join(f"- Day {n}, thing {k}: the bees were moved again.\n" for k in range(30))
        life.session(MONDAY + n * DAY, lines)
    return life


def test_a_long_week_is_folded_and_each_of_its_bullets_is_read_once(busy) -> None:
    report = busy.run(tiers=("daily", "weekly"))
    assert "2026-W15" in names(report)
    asked = [json.loads(r.body)["messages"][-1]["content"] for r in busy.model.requests]
    parts, last = asked[:-1], asked[-1]
    assert len(parts) > 3
    read = "".join(text + "\n" for user in parts for _, _, text in sources_in(user))
    for n in range(7):
        for k in range(30):
            assert read.count(f"Day {n}, thing {k}:") == 1
    assert all(str(MONDAY + n * DAY) in last for n in (0, 6))


def test_a_model_that_only_grows_what_it_reads_is_stopped(busy) -> None:
    busy.model._say = lambda _: json.dumps({"summary": "So much. " * 400, "points": []})
    report = busy.run(tiers=("daily", "weekly"))
    assert "as long as they are" in report.waiting["2026-W15"]


def test_a_model_that_reads_too_little_is_told_of(busy) -> None:
    busy.model.context_tokens = 600
    assert "too few" in busy.run(tiers=("daily", "weekly")).waiting["2026-W15"]
