"""What memory holds about what is said goes to the model, end to end, and can be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.server import ChatServer, Fail
from tests.support.world import data, home, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HERON = "lore/imported/kazahaya-station/inspector-the-heron.md"
ASKED = "What is the story of Inspector Heron?"


@pytest.fixture
def root():
    result = run("init", "yuzu", "--from-card", str(EXAMPLES / "cards" / "yuzu.png"))
    assert result.exit_code == 0, result.output
    return home() / "yuzu"


def configure(root, server, **slots) -> None:
    text = f'[llm]\npreset = "custom"\nbase_url = "{server.base_url}"\nmodel = "m"\n'
    for slot, other in slots.items():
        text += (
            f'[llm.slots.{slot}]\npreset = "custom"\nbase_url = "{other.base_url}"\nmodel = "s"\n'
            "retries = 0\n"
        )
    text += "[context]\nprovider_deadline_s = 20\n"  # a busy machine is no reason to fail
    with (root / "character.toml").open("a", encoding="utf-8") as file:
        file.write("\n" + text)


def rag(found) -> list[dict]:
    return [p for p in found["contributions"] if p["source"] == "content_search.rag"]


def test_the_first_question_of_a_new_familiar_finds_its_lore(root) -> None:
    with ChatServer(["It is a heron."]) as server:
        configure(root, server)
        assert run("ask", ASKED).exit_code == 0
        sent = json.dumps(server.requests[0].json()["messages"])
    assert "From memory: Inspector" in sent
    assert "lorebook entry" not in sent
    (piece,) = [p for p in rag(data("context", "--last")) if p["rel_path"] == HERON]
    assert piece["kept"]
    assert piece["score"] > 0
    page = run("context", "--last").stdout
    assert f"{HERON}:" in page
    assert f"{piece['score']:.2f}" in page


def test_why_tells_of_files_that_are_there_and_that_are_not(root) -> None:
    with ChatServer(["It is a heron."]) as server:
        configure(root, server)
        run("ask", ASKED)
    assert data("context", "--why", HERON)["verdict"] == "kept"
    absent = data("context", "--why", "lore/imported/kazahaya-station/shelf-nine.md")
    assert absent["verdict"] == "absent"
    assert any("contains none of the words" in reason for reason in absent["reasons"])


def test_a_filter_is_asked_and_stands_in_the_record(root) -> None:
    with ChatServer(["Yes."]) as server, ChatServer(["ANSWER: He is a heron."]) as cheap:
        configure(root, server, content_filter=cheap)
        run("ask", ASKED)
        sent = json.dumps(server.requests[0].json()["messages"])
        assert len(cheap.requests) == 1
    assert "[From memory]\\nHe is a heron." in sent
    found = data("context", "--last")
    (call,) = found["side_calls"]
    assert (call["name"], call["model"]) == ("content_filter", "scripted-1")
    assert call["usage"]["prompt_tokens"] == 11
    assert call["elapsed_ms"] > 0
    assert any(HERON in piece["cause"] for piece in rag(found) if piece["kept"])
    assert "content_filter" in run("context", "--last").stdout
    assert "replaced by the filter's answer" in data("context", "--why", HERON)["reasons"][0]


def test_a_filter_that_fails_is_named_and_filters_nothing(root) -> None:
    with ChatServer(["Yes."]) as server, ChatServer([Fail(400, "no")]) as cheap:
        configure(root, server, content_filter=cheap)
        result = run("ask", ASKED)
    assert result.exit_code == 0
    assert "the filter failed" in result.stderr
    assert any(piece["rel_path"] == HERON and piece["kept"] for piece in rag(data("context")))


def test_a_dry_run_asks_no_filter(root) -> None:
    with ChatServer(["Yes."]) as server, ChatServer(["ANSWER: x"]) as cheap:
        configure(root, server, content_filter=cheap)
        result = run("ask", ASKED, "--dry-run")
        assert (server.requests, cheap.requests) == ([], [])
    assert "it was not asked" in result.stderr


def test_what_was_said_is_not_its_own_context(root) -> None:
    with ChatServer(["Hm."]) as server:
        configure(root, server)
        run("ask", "My zither is made of glass.")
        path = root / "memory" / "sessions" / "2026-01-02-night.md"
        path.parent.mkdir(parents=True)
        path.write_text("# Night\n\nA zither of glass. <!-- turns 1-3 -->\n", "utf-8")
        run("ask", "Where is my zither?")
    assert not [p for p in rag(data("context")) if p["rel_path"]]


def test_no_model_is_no_warning(root) -> None:
    with ChatServer(["Yes."]) as server:
        configure(root, server)
        result = run("ask", ASKED)
    assert "words only" not in result.stderr
    told = [piece["reason"] for piece in rag(data("context")) if not piece["kept"]]
    assert sum("words only" in reason for reason in told) == 1
