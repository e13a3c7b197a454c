"""Digests from the page and from programs, the search for what was said, and the settings."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.actions.memory.search import excerpt_of
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.store import HistoryStore
from tests.support.browsing import looking
from tests.support.world import live

BO = Author("discord", "7", display_name="Bo")


@pytest.fixture
def root():
    return live("ada", **{"sessions/2026-03-02-evening": "# Evening\n\n- Bo keeps bees.\n"})


def test_a_digest_is_made_with_a_button(root) -> None:
    with looking() as client:
        answer = client.post("/distill/short", data={"page": "1"})
        assert answer.status_code == 303
        assert "made digest/short.md" in client.get(answer.headers["location"]).text
    assert "Bo keeps bees" in (root / "memory" / "digest" / "short.md").read_text()


def test_a_program_makes_a_digest_and_asks_how_it_stands(root) -> None:
    with looking() as client:
        made = client.post("/distill/short").json()
        assert (made["name"], made["outcome"]) == ("short", "made")
        tiers = client.get("/distill/status").json()["tiers"]
    assert [(t["name"], t["fresh"]) for t in tiers] == [
        ("short", True),
        ("mid", False),
        ("long", False),
    ]


def test_a_digest_that_needs_a_model_says_so(root) -> None:
    with looking() as client:
        client.post("/distill/short")
        answer = client.post("/distill/mid")
        browser = {"accept": "text/html,*/*;q=0.8"}
        page = client.post("/distill/mid", data={"page": "1"}, headers=browser)
    assert answer.status_code >= 500
    assert {"code", "message", "hint"} == set(answer.json()["error"])
    assert page.status_code == answer.status_code
    assert "<h1>" in page.text


def test_days_are_consolidated_with_a_button(root) -> None:
    with looking() as client:
        answer = client.post("/consolidate", data={"page": "1"})
        told = client.get(answer.headers["location"]).text
    assert "daily/2026-03-02_" in told
    assert list((root / "memory" / "daily").glob("2026-03-02_*.md"))


@pytest.fixture
def said(root):
    at = datetime(2026, 3, 2, 12, tzinfo=UTC)
    with closing(HistoryStore(root / "history.db")) as history:
        history.append("cli", "user", "I lost the red scarf!", author=BO, at=at)
        history.append("cli", "assistant", "A <red> scarf is easily found.", at=at)
        later = at.replace(day=4)
        history.append("cli", "user", "Scarves, again.", author=BO, at=later)
    return root


def test_what_was_said_is_found_by_day_with_its_words_marked(said) -> None:
    with looking() as client:
        found = client.get("/sessions/search", params={"q": "red scarf"}).json()
    assert [day["date"] for day in found["days"]][-1] == "2026-03-02"
    hit = found["days"][-1]["turns"][0]
    marked = [hit["excerpt"][begin:end] for begin, end in hit["highlights"]]
    assert (hit["turn"], hit["speaker"], marked) == (1, "Bo", ["red", "scarf"])


@pytest.mark.parametrize("user", ["Bo", "bo", "discord:7"])
def test_only_one_person_can_be_asked_for(said, user) -> None:
    with looking() as client:
        query = {"q": "scarf", "user": user, "persona": "ada"}
        days = client.get("/sessions/search", params=query).json()["days"]
    assert {turn["speaker"] for day in days for turn in day["turns"]} == {"Bo"}


@pytest.mark.parametrize(
    ("query", "status"), [({"q": "?!"}, 400), ({}, 400), ({"q": "x", "persona": "bob"}, 404)]
)
def test_what_cannot_be_asked_is_an_error_in_json(said, query, status) -> None:
    with looking() as client:
        answer = client.get("/sessions/search", params=query)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


@given(st.text(max_size=900), st.text(min_size=1, max_size=40))
def test_marks_are_apart_and_inside_the_excerpt(text, query) -> None:
    excerpt, marks = excerpt_of(text, query)
    assert excerpt.strip("…") in text
    ends = [0, *(place for mark in marks for place in mark), len(excerpt)]
    assert ends == sorted(ends)
    assert all(begin < end for begin, end in marks)


def test_settings_say_where_they_come_from(root) -> None:
    (root / "character.toml").write_text("[history]\nrecent_turns = 7\n")
    with looking() as client:
        text = client.get("/settings").text
    assert "recent_turns" in text
    assert ">7<" in text
