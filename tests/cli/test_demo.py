"""`familiar demo`, from argv to what a newcomer sees."""

from __future__ import annotations

import json

from tests.support import world
from tests.support.server import ChatServer, Fail, Say


def test_a_dry_run_shows_the_prompt_and_asks_nobody() -> None:
    result = world.run("demo", "--dry-run")
    assert result.exit_code == 0
    assert "memory/self/description.md" in result.stdout
    assert "memory/topics/robin-s-dog.md" in result.stdout
    assert "Good evening! What is my dog called?" in result.stdout
    assert "No model is asked, because you asked for a dry run." in result.stdout


def test_without_a_model_it_still_runs_and_says_what_is_missing() -> None:
    result = world.run("demo")  # no model is on disk, and the network is off in tests
    assert result.exit_code == 0
    assert "No model is asked, because no model is available." in result.stdout
    assert "smollm2-135m-instruct" in result.stderr


def test_it_asks_two_questions_and_shows_what_the_last_one_sent(monkeypatch) -> None:
    with ChatServer([Say("The green one? Shelf four."), Say("It waits for you.")]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "scripted")
        result = world.run("demo")
    assert result.exit_code == 0
    assert "The green one? Shelf four." in result.stdout
    assert result.stdout.count("It waits for you.") == 1
    for found in ("topics/robin-s-dog.md", "lore/imported/kazahaya-station/inspector-the-heron.md"):
        assert found in result.stdout.partition("4. Two questions")[2].partition("5. What")[0]
    sent = server.last.json()["messages"]
    assert {"role": "assistant", "content": "The green one? Shelf four."} in sent


def test_json_holds_the_replies_and_nothing_else_reaches_stdout(monkeypatch) -> None:
    with ChatServer([Say("One."), Say("Two.")]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "scripted")
        result = world.run("demo", "--json")
    data = json.loads(result.stdout)["data"]
    assert [turn["reply"] for turn in data["turns"]] == ["One.", "Two."]
    assert data["context"]["turn"] == data["turns"][-1]["turn"]
    assert data["turns"][0]["found"] == ["topics/robin-s-dog.md"]
    assert "lore/imported/kazahaya-station/inspector-the-heron.md" in data["turns"][1]["found"]


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


def test_the_model_inside_the_program_answers_both_questions(model_cache, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_CACHE", str(model_cache))
    data = world.data("demo")
    assert data["model"] == "smollm2-135m-instruct"
    assert all(turn["reply"].strip() for turn in data["turns"])
    assert len(data["turns"]) == 2
    lead = data["context"]["messages"][0]["content"]
    assert lead.startswith("You are Yuzu, talking with Robin.")
    assert "Yuzu remembers: Inspector is a grey heron" in lead
    assert not any("---" in turn["reply"] or "\n" in turn["reply"] for turn in data["turns"])
