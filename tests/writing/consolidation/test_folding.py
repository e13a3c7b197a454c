"""What is too long for one question is read in parts: nothing twice, nothing left out."""

from __future__ import annotations

import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadReplyError
from familiar_cli.llm import tokens
from familiar_cli.writing.consolidation.composing import Replies, fold_part, in_parts
from familiar_cli.writing.consolidation.periods import DraftedSummary, Point, SourceItem
from tests.writing.consolidation.support import DAY, MONDAY, Life, RuleModel, names, sources_in

COUNT = tokens.heuristic().count
texts = st.lists(st.text(alphabet="ab \n.日", max_size=200), max_size=8)


@given(texts, st.integers(3, 60))
def test_every_source_is_in_exactly_one_part_in_order(found, most) -> None:
    items = [SourceItem(str(n), text) for n, text in enumerate(found)]
    pieces = [piece for part in in_parts(items, most, COUNT) for piece in part]
    joined = {item.label: "" for item in items}
    for piece in pieces:
        joined[piece.label] += piece.text
    assert joined == {item.label: item.text for item in items}
    assert [int(piece.label) for piece in pieces] == sorted(int(piece.label) for piece in pieces)
    whole = [item for item in items if COUNT(item.text) <= most]
    assert all(pieces.count(item) == 1 for item in whole)


@given(texts, st.integers(3, 60))
def test_no_part_is_longer_than_it_may_be(found, most) -> None:
    for part in in_parts([SourceItem("x", text) for text in found], most, COUNT):
        assert sum(COUNT(item.text) for item in part) <= most or len(part[0].text) == 1


@pytest.fixture
def busy(tmp_path):
    life = Life(tmp_path)
    life.part_tokens = life.reply_tokens = 700
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
    assert "as long as the parts" in report.waiting["2026-W15"]


def test_a_model_that_reads_too_little_is_told_of(busy) -> None:
    busy.model.context_tokens = 600
    assert "too few" in busy.run(tiers=("daily", "weekly")).waiting["2026-W15"]


def test_a_point_of_a_folded_part_keeps_the_days_that_it_rests_on(busy) -> None:
    busy.part_tokens, busy.reply_tokens = 1500, 700  # several days in one part
    report = busy.run(tiers=("daily", "weekly"))
    asked = [json.loads(r.body)["messages"][-1]["content"] for r in busy.model.requests]
    assert "2026-W15" in names(report)
    assert any(len({name for _, name, _ in sources_in(user)}) > 1 for user in asked[:-1])
    points = [line for line in busy.file("weekly/2026-W15.md").splitlines() if "<!-- from" in line]
    for n in range(7):
        day = str(MONDAY + n * DAY)
        assert any(line.endswith(f"<!-- from {day} -->") and day in line[:40] for line in points)


@pytest.mark.parametrize("words", [2, 10, 30, 90, 300])
def test_however_wordy_a_model_is_the_loop_ends(busy, words) -> None:
    said = " ".join(f"bee{n}" for n in range(words))
    points = [{"text": f"{k} {said}"[:500], "from": [1]} for k in range(4)]
    busy.model._say = lambda _: json.dumps({"summary": said, "points": points})
    report = busy.run(tiers=("daily", "weekly"))
    is_made = "2026-W15" in names(report)
    assert is_made or "as long as the parts" in report.waiting["2026-W15"]
    assert len(busy.model.requests) < 40


@given(
    st.lists(
        st.tuples(st.text("ab ", max_size=20), st.lists(st.sampled_from("xyz"), min_size=1)),
        max_size=8,
    )
)
def test_what_a_model_made_of_a_part_is_all_in_its_items_with_its_sources(points) -> None:
    plan = DraftedSummary("All.", tuple(Point(text, tuple(sorted(set(on)))) for text, on in points))
    items = fold_part(plan, ("x", "y", "z"))
    assert items[0].text.startswith("All.")
    assert len({item.rests_on for item in items}) == len(items)
    said = [(line, item.rests_on) for item in items for line in item.text.split("\n")]
    wanted = [("All.", ("x", "y", "z")), *((f"- {p.text}", p.sources) for p in plan.points)]
    assert sorted(said) == sorted(wanted)


class FailingOn(RuleModel):
    """Fails at one question, counted from 1."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    async def complete(self, request, on_text=None):
        if len(self.requests) + 1 == self.number:
            self.requests.append(request)
            raise BadReplyError("502")
        return await super().complete(request, on_text)


def run(busy, model, replies):
    """Make the week with a model, while replies are kept."""
    busy.model, busy.replies = model, replies
    return busy.run(tiers=("daily", "weekly"))


def asked_of(model) -> list[bytes]:
    return [request.body for request in model.requests]


@pytest.mark.parametrize("k", [1, 4, 8])
def test_a_model_that_fails_on_part_k_is_asked_only_for_k_and_on_at_the_next_run(
    busy, tmp_path, k
) -> None:
    replies = Replies(tmp_path / "parts")
    failing = FailingOn(k)
    run(busy, failing, replies)
    assert len(asked_of(failing)) == k
    sound = RuleModel()
    assert "2026-W15" in names(run(busy, sound, replies))
    assert asked_of(sound)[0] == asked_of(failing)[-1]
    assert len(asked_of(sound)) == 8 - k + 1
    assert not (tmp_path / "parts").exists()


def test_parts_are_asked_again_when_what_they_read_has_changed_or_the_model_has(
    busy, tmp_path
) -> None:
    replies = Replies(tmp_path / "parts")
    run(busy, FailingOn(8), replies)
    busy.edit("daily/2026-04-06_laptop.md", "thing 0", "thing nought")
    failing = RuleModel(failing=1.0)
    run(busy, failing, replies)
    assert "thing nought" in asked_of(failing)[0].decode()
    other = RuleModel()
    other.name = "another"
    run(busy, other, replies)
    assert len(asked_of(other)) == 8


def test_a_kept_reply_that_is_damaged_or_no_use_is_asked_for_again(tmp_path) -> None:
    replies = Replies(tmp_path / "parts")
    replies.keep("2026", "k", "said")
    assert (replies.find("2026", "k"), replies.find("2026", "j")) == ("said", None)
    (tmp_path / "parts" / "2026_k.json").write_text("[" * 5000)
    assert replies.find("2026", "k") is None


def test_kept_replies_are_few_and_young_and_go_with_their_period(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("familiar_cli.writing.consolidation.composing.MOST_REPLIES", 3)
    replies = Replies(tmp_path)
    for n in range(5):
        replies.keep("2026", str(n), "said")
        os.utime(tmp_path / f"2026_{n}.json", (time.time() - 100 + n,) * 2)
    replies.keep("2026-W15", "new", "said")
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["2026-W15_new.json", "2026_3.json", "2026_4.json"]
    os.utime(tmp_path / "2026_3.json", (time.time() - 31 * 86_400,) * 2)
    replies.keep("2026-W15", "newer", "said")
    replies.forget("2026")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "2026-W15_new.json",
        "2026-W15_newer.json",
    ]


def test_a_disk_that_refuses_to_keep_a_reply_is_no_failure(busy, tmp_path) -> None:
    (tmp_path / "parts").write_text("a file is in the way")
    assert "2026-W15" in names(run(busy, RuleModel(), Replies(tmp_path / "parts")))
