"""A small model gets a short prompt and is shown briefly; what a person has set holds."""

from __future__ import annotations

import json

import pytest

from tests.support import world
from tests.support.server import Say

ABOUT = "# Description\n\nYuzu runs a lost property office.\n"
SCENARIO = "# Scenario\n\nIt is late and snow is falling.\n"


@pytest.fixture
def small(model_cache, monkeypatch):
    """A familiar whose model is the small one, on disk."""
    monkeypatch.setenv("FAMILIAR_CACHE", str(model_cache))
    return yuzu()


def yuzu(settings: str = ""):
    root = world.live("yuzu")
    (root / "memory" / "self").mkdir()
    for name, text in {"description": ABOUT, "scenario": SCENARIO}.items():
        (root / "memory" / "self" / f"{name}.md").write_text(text, encoding="utf-8")
    (root / "character.toml").write_text(f'name = "Yuzu"\n{settings}', encoding="utf-8")
    return root


def prompt(*argv: str) -> str:
    return json.dumps(world.data("ask", "Hello?", "--name=Robin", "--dry-run", *argv)["messages"])


def sent():
    return json.loads(world.run("context", "--last", "--raw").stdout)


def test_the_small_model_gets_a_short_prompt_and_says_no_more_than_two_sentences(
    small, quick_engine
) -> None:
    reply = world.data("ask", "Hello?", "--name=Robin")["reply"]
    trace = world.data("context", "--last")
    body = sent()
    assert (body["max_tokens"], body["temperature"]) == (56, 0.2)
    assert body["messages"][0]["content"].startswith("You are Yuzu, talking with Robin. Yuzu runs")
    assert "snow" not in json.dumps(body["messages"])
    assert "\n" not in reply
    out = {piece["source"]: piece["reason"] for piece in trace["contributions"]}
    assert "context.frame" in out["character.scenario"]


def test_a_dry_run_shows_the_full_prompt_and_names_the_short_one(small) -> None:
    data = world.data("ask", "Hello?", "--dry-run")
    assert "snow" in json.dumps(data["messages"])
    assert any("context.frame short" in notice for notice in data["notices"])


def test_a_dry_run_shows_the_short_prompt_where_it_is_set(small) -> None:
    assert world.run("config", "set", "context.frame", "short").exit_code == 0
    assert "You are Yuzu, talking with Robin. Yuzu runs a lost property" in prompt()
    assert not world.data("ask", "Hello?", "--dry-run")["notices"]


def test_a_model_that_is_not_on_disk_changes_nothing() -> None:
    yuzu()
    assert "snow" in prompt()


def test_the_full_prompt_can_be_chosen(small, quick_engine) -> None:
    world.run("config", "set", "context.frame", "full")
    assert world.run("ask", "Hello?", "--name=Robin").exit_code == 0
    body = sent()
    assert "snow" in json.dumps(body["messages"])
    assert body["max_tokens"] == 256
    assert "stop" not in body


def test_another_server_gets_the_full_prompt(small, serve) -> None:
    server = serve(Say("Hi."))
    world.run("ask", "Hello?")
    body = server.last.json()
    assert "snow" in json.dumps(body["messages"])
    assert not {"stop", "top_p"} & set(body)


def test_a_turn_keeps_the_bytes_that_were_sent_and_the_raw_reply(serve) -> None:
    root = yuzu('[context]\nframe = "short"\n[llm]\npreset = "llamacpp"\n')
    server = serve(Say("It is here. Robin: Thank you! Yuzu: Sure."))
    result = world.run("ask", "Where is it?", "--name=Robin")
    assert result.stdout == "It is here.\n"
    trace = json.loads(next((root / "traces").glob("*.json")).read_text(encoding="utf-8"))
    assert trace["raw_reply"] == "It is here. Robin: Thank you! Yuzu: Sure."
    sent = world.run("context", "--last", "--raw").stdout
    assert sent.encode() == server.last.body
    assert "Thank you" not in world.run("history", "ls").stdout


def test_a_server_of_llama_cpp_is_told_how_to_sample(serve, monkeypatch) -> None:
    server = serve(Say("Hi."))
    monkeypatch.delenv("FAMILIAR_LLM_BASE_URL")
    yuzu(
        f'[context]\nframe = "short"\n[llm]\npreset = "llamacpp"\nbase_url = "{server.base_url}"\n'
    )
    world.run("ask", "Hello?", "--name=Robin")
    body = server.last.json()
    assert (body["max_tokens"], body["temperature"], body["dry_multiplier"]) == (56, 0.2, 0.8)
    assert "\nRobin:" in body["stop"]


def test_what_a_person_has_set_for_the_model_holds(serve) -> None:
    settings = '[context]\nframe = "short"\n[llm]\nmax_tokens = 300\ntemperature = 1.1\n'
    yuzu(f'system_prompt = "Answer in French."\n{settings}')
    said = "One sentence of more than six words stands here. Then another. And a third."
    server = serve(Say(said))
    assert world.run("ask", "Hello?").stdout == f"{said}\n"
    body = server.last.json()
    assert (body["max_tokens"], body["temperature"]) == (300, 1.1)
    assert body["messages"][0]["content"].startswith("Answer in French.")


def test_a_reply_cut_by_the_limit_ends_with_a_whole_sentence(serve) -> None:
    yuzu('[context]\nframe = "short"\n')
    serve(Say("It waits here. And then it", finish_reason="length"))
    result = world.run("ask", "Hello?")
    assert result.stdout == "It waits here.\n"
    assert "cut at" not in result.stderr


def test_a_reply_without_a_whole_sentence_is_told_to_be_cut(serve) -> None:
    yuzu('[context]\nframe = "short"\n')
    serve(Say("It waits here and then it", finish_reason="length"))
    result = world.run("ask", "Hello?")
    assert result.stdout == "It waits here and then it\n"
    assert "cut at" in result.stderr
