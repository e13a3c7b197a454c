"""The page on hostile input names tests that there are, and every kind of input."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from tests.hostile import table
from tests.hostile.run import Tally
from tests.hostile.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]


def test_the_attacks_on_what_is_private_are_tested() -> None:
    page = (ROOT / "docs/explanation/hostile-input.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 10
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), name


def test_every_kind_of_input_stands_in_the_table_and_none_failed() -> None:
    kept = json.loads(table.RECORD.read_text("utf-8"))
    assert set(kept) == set(TARGETS)
    assert [name for name, counts in kept.items() if counts["failed"] or not counts["cases"]] == []
    assert all(target.what in table.table() for target in TARGETS.values())


def test_a_run_that_is_recorded_takes_the_place_of_the_last(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(table, "RECORD", tmp_path / "record.json")
    for cases in (3, 5):
        table.keep(Tally(outcomes=Counter({"card: a result": cases, "card: LimitError": 1})), 7)
    kept = json.loads(table.RECORD.read_text("utf-8"))
    assert kept == {"card": {"seed": 7, "cases": 6, "failed": 0}}
