"""`familiar demo`, from argv to what a newcomer sees."""

from __future__ import annotations

import json
import sys

from tests.support import world
from tests.support.server import ChatServer, Fail, Say


def test_a_dry_run_shows_the_prompt_and_asks_nobody() -> None:
    result = world.run("demo", "--dry-run")
    assert result.exit_code == 0
    assert "memory/self/description.md" in result.stdout
    assert "memory/topics/robin-s-dog.md" in result.stdout
    assert "What is the name of my dog?" in result.stdout
    assert "No model is asked, because you asked for a dry run." in result.stdout


def test_without_a_model_it_still_runs_and_says_what_is_missing() -> None:
    result = world.run("demo")  # no model is on disk, and the network is off in tests
    assert result.exit_code == 0
    assert "No model is asked, because no model is available." in result.stdout
    assert "smollm2-135m-instruct" in result.stderr


def test_it_shows_the_memory_of_each_reply_also_where_the_words_miss_it(monkeypatch) -> None:
    with ChatServer([Say("A heron, of course."), Say("It waits for you.")]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "scripted")
        result = world.run("demo")
    assert result.exit_code == 0
    assert {"role": "assistant", "content": "A heron, of course."} in server.last.json()["messages"]
    first, second = result.output.partition("4. Two questions")[2].split("\n> ")[1:]
    assert "A heron, of course." in first
    assert "grey heron" in first.partition("I used")[2]
    assert "- heron" not in first.partition("I used")[2]
    assert "was in the prompt" not in first
    assert "'Biscuit' was in the prompt" in second
    assert "Robin has a small brown dog called Biscuit." in second.partition("I used")[2]
    assert second.index("familiar why") < second.index("familiar chat")


def test_the_engine_is_looked_for_before_98_mb_are_fetched(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    result = world.run("demo")
    assert result.exit_code == 0
    assert "The library that runs local models is not installed" in result.stderr
    assert "fetching" not in result.stderr
    assert "Robin has a small brown dog called Biscuit." in result.stdout.partition("Messages")[2]


def test_json_holds_the_replies_and_nothing_else_reaches_stdout(monkeypatch) -> None:
    with ChatServer([Say("One."), Say("Two.")]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "scripted")
        result = world.run("demo", "--json")
    data = json.loads(result.stdout)["data"]
    assert [turn["reply"] for turn in data["turns"]] == ["One.", "Two."]
    assert data["context"]["turn"] == data["turns"][-1]["turn"]
    assert "lore/imported/kazahaya-station/inspector-the-heron.md" in data["turns"][0]["found"]
    assert "topics/robin-s-dog.md" in data["turns"][1]["found"]


def test_a_failing_server_ends_it_with_6(monkeypatch) -> None:
    with ChatServer([Fail(401, "no")] * 3) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "scripted")
        assert world.run("demo").exit_code == 6


def test_keep_leaves_a_home_that_other_commands_can_use(tmp_path) -> None:
    home = tmp_path / "here"
    assert world.run("demo", "--dry-run", "--keep", str(home)).exit_code == 0
    cat = world.run("memory", "cat", "self/personality.md", "--home", str(home))
    assert cat.stdout.startswith("# Personality\n")


def test_keep_refuses_a_directory_that_is_not_empty(tmp_path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    result = world.run("demo", "--dry-run", "--keep", str(tmp_path))
    assert result.exit_code == 5
    assert "nothing was written" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_model_inside_the_program_answers_both_questions(
    model_cache, monkeypatch, quick_engine
) -> None:
    monkeypatch.setenv("FAMILIAR_CACHE", str(model_cache))
    data = world.data("demo")
    assert data["model"] == "smollm2-135m-instruct"
    assert all(turn["reply"].strip() for turn in data["turns"])
    assert len(data["turns"]) == 2
    lead = data["context"]["messages"][0]["content"]
    assert lead.startswith("You are Yuzu, talking with Robin.")
    assert "Robin has a small brown dog called Biscuit." in lead
    assert not any("---" in turn["reply"] or "\n" in turn["reply"] for turn in data["turns"])
