"""The timeline: what is counted, what it links to, and what an empty one says."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.actions.memory.past import timeline
from familiar_cli.base.times.clock import now
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.familiar import Familiar
from familiar_cli.servers.web.asking import PageRequest
from familiar_cli.store.history.marks import withdraw_turns
from familiar_cli.store.history.store import HistoryStore
from tests.support.browsing import looking
from tests.support.world import home, live

BO = Author("discord", "7", display_name="Bo")


def said(*days: str, author: Author | None = BO) -> None:
    with closing(HistoryStore(home() / "ada" / "history.db")) as history:
        for day in days:
            at = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC)
            history.append("cli", "user" if author else "assistant", "Hello", author=author, at=at)


@pytest.fixture
def ada():
    live(
        "ada",
        **{
            "people/discord-7": "# Bo\n",
            "sessions/2026-03-02-evening": "# One\n",
            "daily/2026-03-02_laptop": "# Two\n",
            "weekly/2026-W10": "# Three\n",
            "monthly/2026-03": "# Four\n",
            "significant/2026-03-02_the-day": "# Five\n",
            "significant/someday": "# Six\n",
        },
    )
    with Familiar.load_from_disk(home(), "ada") as familiar:
        yield familiar


def test_turns_are_counted_by_day_and_person(ada) -> None:
    said("2026-03-02", "2026-03-02", "2026-03-05")
    said("2026-03-05", author=None)
    found = timeline(ada)
    assert [(str(d.day), d.turns, d.first) for d in found.days] == [
        ("2026-03-02", 2, 1),
        ("2026-03-05", 2, 3),
    ]
    (lane,) = found.lanes
    assert (lane.name, lane.rel_path, lane.turns) == ("Bo", "people/discord-7.md", 3)


def test_a_page_works_anew_only_when_a_turn_a_change_or_a_day_came(ada, monkeypatch) -> None:
    asked, made = PageRequest(ada, OWNER, ("ada",), ""), []
    for _ in range(2):
        asked.once_per_state("x", lambda: made.append("x"))
    assert len(made) == 1
    said("2026-03-02")
    asked.once_per_state("x", lambda: made.append("x"))
    assert len(made) == 2
    tomorrow = now() + timedelta(days=1)
    monkeypatch.setattr("familiar_cli.servers.web.asking.now", lambda: tomorrow)
    asked.once_per_state("x", lambda: made.append("x"))
    assert len(made) == 3


def test_files_stand_where_their_days_are(ada) -> None:
    rows = timeline(ada, "2026-03-02", "month").rows
    assert {name: [m.rel_path for m in marks] for name, marks in rows.items() if marks} == {
        "sessions": ["sessions/2026-03-02-evening.md"],
        "daily": ["daily/2026-03-02_laptop.md"],
        "weekly": ["weekly/2026-W10.md"],
        "monthly": ["monthly/2026-03.md"],
        "significant": ["significant/2026-03-02_the-day.md"],
    }
    assert not any(timeline(ada, "2026-05-02", "month").rows.values())


def test_what_no_longer_stands_is_not_counted(ada) -> None:
    said("2026-03-02", "2026-03-02", "2026-03-05")
    with closing(HistoryStore(home() / "ada" / "history.db")) as history:
        withdraw_turns(history, [1, 3])
    assert [(str(d.day), d.turns) for d in timeline(ada).days] == [("2026-03-02", 1)]


@pytest.mark.parametrize(
    ("span", "ends"),
    [
        ("month", ("2024-02-01", "2024-02-29")),
        ("quarter", ("2024-01-01", "2024-03-31")),
        ("year", ("2024-01-01", "2024-12-31")),
    ],
)
def test_a_span_is_whole_months(ada, span, ends) -> None:
    found = timeline(ada, "2024-02-29", span)
    assert (str(found.first), str(found.last)) == ends
    assert timeline(ada, str(found.after), span).first == found.last + timedelta(days=1)


@pytest.mark.parametrize("at", ["9998-12-31", "0002-01-01"])
def test_the_ends_of_the_calendar_can_be_looked_at(ada, at) -> None:
    for span in ("year", "quarter", "month"):
        assert timeline(ada, at, span).first <= timeline(ada, at, span).last


def test_a_day_ends_where_the_familiar_lives() -> None:
    root = live("ada")
    (root / "character.toml").write_text('timezone = "Asia/Kathmandu"\n')
    with closing(HistoryStore(root / "history.db")) as history:
        history.append(
            "cli", "user", "Late", author=BO, at=datetime(2026, 3, 2, 18, 14, tzinfo=UTC)
        )
        history.append(
            "cli", "user", "Late", author=BO, at=datetime(2026, 3, 2, 18, 15, tzinfo=UTC)
        )
    with Familiar.load_from_disk(home(), "ada") as familiar:
        assert [str(d.day) for d in timeline(familiar).days] == ["2026-03-02", "2026-03-03"]


def test_the_picture_links_to_turns_files_and_people(ada) -> None:
    said("2026-03-02")
    with looking() as client:
        text = client.get("/timeline").text
    assert 'href="/turns/1"' in text
    assert "2 March 2026: 1 turn" in text
    assert 'href="/memory/weekly/2026-W10.md"' in text
    assert 'href="/memory/people/discord-7.md"' in text


def test_a_wrong_day_is_a_wrong_request(ada) -> None:
    with looking() as client:
        answer = client.get("/timeline", params={"at": "soonish"})
    assert answer.status_code == 400
    assert "soonish" in answer.text


def test_before_anything_was_said_the_page_says_how_to_begin() -> None:
    live("ada")
    with looking() as client:
        assert "familiar ask" in client.get("/timeline").text
