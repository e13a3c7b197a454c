"""`familiar continue`: the last reply goes on, and the shorter one is kept."""

from __future__ import annotations

import json

import pytest

from familiar_cli.context.pipeline import INSTRUCTION
from tests.support.server import CutOff, Fail
from tests.support.world import data, live, run, without_block


@pytest.fixture
def root():
    return live("ada")


def shown(*options: str) -> list[tuple[str, bool]]:
    turns = data("history", "show", *options)["turns"]
    return [(turn["content"], turn["standing"]) for turn in turns]


def prompt(server) -> list[tuple[str, str]]:
    messages = without_block(server.last.json()["messages"])
    return [(message["role"], message["content"]) for message in messages]


def test_the_longer_reply_takes_the_place_of_the_shorter_one(root, serve) -> None:
    server = serve("It began to", "rain.", "Indeed.")
    first = data("ask", "Tell me", "--no-background")
    made = data("continue")

    assert prompt(server)[-2:] == [("assistant", "It began to"), ("system", INSTRUCTION)]
    assert made["reply"] == "It began to rain."
    assert (made["added"], made["supersedes"]) == (" rain.", first["reply_turn"])
    assert shown() == [("Tell me", True), ("It began to rain.", True)]
    assert shown("--all")[1] == ("It began to", False)
    run("ask", "And then?")
    said = [text for _, text in prompt(server)]
    assert "It began to rain." in said
    assert "It began to" not in said


def test_the_whole_reply_is_printed(root, serve) -> None:
    serve("It began to", "rain.")
    run("ask", "Tell me")
    assert run("continue").stdout == "It began to rain.\n"


def test_what_is_said_once_more_is_not_added(root, serve) -> None:
    serve("It was a dark night", "It was a dark night, and it rained.")
    run("ask", "Tell me")
    assert run("continue").stdout == "It was a dark night, and it rained.\n"
    assert shown()[-1] == ("It was a dark night, and it rained.", True)


def test_a_server_that_goes_on_by_itself_gets_the_reply_last(root, serve) -> None:
    server = serve("It was a dark and sto", "rmy night.")
    run("ask", "Tell me")
    url = data("config", "get", "llm.base_url")["value"]
    run("config", "set", "llm.preset", "llamacpp")
    run("config", "set", "llm.base_url", url)
    made = data("continue")
    assert prompt(server)[-1] == ("assistant", "It was a dark and sto")
    assert made["reply"] == "It was a dark and stormy night."


def test_a_model_that_fails_or_says_nothing_more_leaves_the_reply(root, serve) -> None:
    serve("It began", Fail(500), Fail(500), Fail(500), Fail(500))
    run("ask", "Tell me")
    assert run("continue").exit_code == 6
    assert shown("--all") == [("Tell me", True), ("It began", True)]


def test_a_model_that_only_repeats_the_reply_leaves_it(root, serve) -> None:
    serve("It was a dark night.", "It was a dark night.")
    run("ask", "Tell me")
    assert "unchanged" in run("continue").stderr
    assert shown("--all") == [("Tell me", True), ("It was a dark night.", True)]


def test_a_part_of_what_was_to_come_is_kept(root, serve) -> None:
    serve("It began", CutOff("to rain and"))
    run("ask", "Tell me")
    run("continue")
    assert shown()[-1] == ("It began to rain and", True)


def test_a_dry_run_shows_the_prompt_and_keeps_nothing(root, serve) -> None:
    serve("It began")
    run("ask", "Tell me")
    trace = data("continue", "--dry-run")
    assert [m["content"] for m in trace["messages"]][-2:] == ["It began", INSTRUCTION]
    assert shown("--all") == [("Tell me", True), ("It began", True)]


def test_without_a_reply_nothing_is_asked(root, serve) -> None:
    server = serve()
    assert run("continue").exit_code == 4
    run("hear", "Hello", "--channel", "cli")
    assert run("continue").exit_code == 5
    assert server.requests == []


def test_a_reply_that_a_branch_shares_goes_on_in_the_branch_alone(root, serve) -> None:
    serve("It began to", "rain.")
    first = data("ask", "Tell me", "--no-background")
    run("channel", "branch", "wet", "--from", str(first["reply_turn"]))
    assert data("continue", "--channel", "wet")["reply"] == "It began to rain."
    assert shown("--channel", "cli") == [("Tell me", True), ("It began to", True)]
    assert json.dumps(shown("--channel", "wet")).endswith('["It began to rain.", true]]')
