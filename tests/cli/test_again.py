"""`familiar again`: another reply takes the place of the last one, and nothing is lost."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from familiar_cli import Familiar, Said, take_turn
from familiar_cli.actions.talk.change_turns import again
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.selection import TurnFilter, select_turns
from tests.support.server import CutOff, Fail
from tests.support.world import data, home, live, run, without_block


@pytest.fixture
def root():
    return live("ada")


def shown(*options: str) -> list[tuple[str, bool]]:
    turns = data("history", "show", *options)["turns"]
    return [(turn["content"], turn["standing"]) for turn in turns]


def prompt(server) -> list[tuple[str, str]]:
    messages = without_block(server.last.json()["messages"])
    return [(message["role"], message["content"]) for message in messages]


def test_one_reply_stands_and_the_other_is_kept(root, serve) -> None:
    serve("One.", "Two.")
    first = data("ask", "Hello", "--no-background")
    second = data("again")

    assert (second["reply"], second["supersedes"]) == ("Two.", first["reply_turn"])
    assert second["turn"] == first["turn"]
    assert shown() == [("Hello", True), ("Two.", True)]
    assert shown("--all") == [("Hello", True), ("One.", False), ("Two.", True)]


def test_the_model_is_asked_what_it_was_asked_before(root, serve) -> None:
    server = serve("Zero.", "One.", "Two.")
    run("ask", "First")
    run("ask", "Hello")
    before = prompt(server)
    result = run("again")

    assert (result.exit_code, result.stdout) == (0, "Two.\n")
    assert prompt(server) == before


def test_again_and_again_leaves_one_reply_of_three(root, serve) -> None:
    serve("One.", "Two.", "Three.", "Four.")
    run("ask", "Hello")
    run("again")
    run("again")

    assert shown() == [("Hello", True), ("Three.", True)]
    turns = data("history", "show", "--all")["turns"]
    assert turns[-1]["alternatives"] == [turn["turn"] for turn in turns[1:]]
    run("history", "choose", str(turns[1]["turn"]))
    run("ask", "And now?")
    assert [text for text, _ in shown()] == ["Hello", "One.", "And now?", "Four."]


def test_the_next_prompt_holds_only_the_reply_that_stands(root, serve) -> None:
    server = serve("One.", "Two.", "Three.")
    run("ask", "Hello")
    run("again")
    run("ask", "And now?")
    said = [text for _, text in prompt(server)]
    assert "Two." in said
    assert "One." not in said


def test_a_model_that_fails_leaves_the_old_reply(root, serve) -> None:
    serve("One.", Fail(500), Fail(500), Fail(500), Fail(500))
    run("ask", "Hello")
    result = run("again")
    assert result.exit_code == 6
    assert shown("--all") == [("Hello", True), ("One.", True)]


def test_a_part_of_a_reply_is_kept_as_one(root, serve) -> None:
    serve("One.", CutOff("Two and"))
    run("ask", "Hello")
    run("again")
    assert shown("--all") == [("Hello", True), ("One.", False), ("Two and", True)]


def test_a_dry_run_shows_the_prompt_and_keeps_nothing(root, serve) -> None:
    serve("One.")
    run("ask", "Hello")
    trace = data("again", "--dry-run")
    assert trace["messages"][-1]["content"].endswith("Hello")
    assert "One." not in [message["content"] for message in trace["messages"]]
    assert shown("--all") == [("Hello", True), ("One.", True)]


def test_without_a_turn_nothing_is_asked(root, serve) -> None:
    server = serve()
    assert run("again").exit_code == 4
    assert server.requests == []


def test_a_message_without_a_reply_gets_its_first_one(root, serve) -> None:
    server = serve("One.")
    with closing(HistoryStore(root / "history.db")) as store:
        store.append("cli", "user", "Hello", author=Author("x", "1"))
    assert "familiar again" in run("continue").stderr
    assert run("again").stdout == "One.\n"
    assert prompt(server)[-1][1].endswith("Hello")
    assert shown() == [("Hello", True), ("One.", True)]


def test_an_edited_question_is_replied_to_in_its_new_words(root, serve) -> None:
    server = serve("One.", "Two.")
    asked = data("ask", "Hello")
    run("history", "edit", str(asked["turn"]), "Good evening")
    run("again")
    assert prompt(server)[-1][1].endswith("Good evening")
    assert shown() == [("Good evening", True), ("Two.", True)]


async def test_of_two_at_once_the_second_replaces_what_the_first_wrote(root, serve) -> None:
    serve("One.", "Two.", "Three.")
    async with Familiar.load_from_disk(home(), "ada") as familiar:
        await take_turn(familiar, Said("Hello", None, "cli"))
        said = again(familiar, Said("", None, "cli"))
        first, second = await asyncio.gather(take_turn(familiar, said), take_turn(familiar, said))
        turns = [
            kept.turn for kept in select_turns(familiar.history, TurnFilter(OWNER, everything=True))
        ]
    assert {first.supersedes, second.supersedes} == {2, 3}
    assert [turn.stands for turn in turns] == [True, False, False, True]
