"""`familiar again`: another reply takes the place of the last one, and nothing is lost."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import closing
from datetime import timedelta

import pytest

from familiar_cli import Familiar, Said, take_turn
from familiar_cli.actions.talk.change_turns import again
from familiar_cli.base.times.clock import now
from familiar_cli.base.who.identity import NEUTRAL, Author
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


def questions(server) -> list[str]:
    return [text for role, text in prompt(server) if role == "user"]


def test_failures_leave_one_message_and_again_replies_to_it(root, serve) -> None:
    server = serve(Fail(400), Fail(400), Fail(400), "Here I am.")
    failed = [run("ask", "Hello?") for _ in range(3)]
    assert {(one.exit_code, "run `familiar again`" in one.stderr) for one in failed} == {(6, True)}
    assert run("again").stdout == "Here I am.\n"
    assert questions(server) == ["Hello?"]
    assert shown() == [("Hello?", True), ("Here I am.", True)]


def test_the_same_words_after_a_failure_are_the_same_message(root, serve) -> None:
    server = serve(Fail(400), CutOff("Here"), "Here I am.", "Still here.")
    for _ in range(4):
        run("ask", "Hello?")
    assert questions(server) == ["Hello?", "Hello?"]  # the last one was said after a reply
    assert [text for text, _ in shown()] == ["Hello?", "Here I am.", "Hello?", "Still here."]


def test_the_same_words_of_somebody_else_are_another_message(root, serve) -> None:
    serve(Fail(400), "Hello, Bo.")
    run("ask", "Hello?", "--as", "irc:ann", "--channel", "hall")
    run("ask", "Hello?", "--as", "irc:bo", "--channel", "hall")
    assert [text for text, _ in shown("--channel", "hall")] == ["Hello?", "Hello?", "Hello, Bo."]


def test_another_id_makes_another_message_and_the_same_id_the_same(root, serve) -> None:
    serve(Fail(400), Fail(400), "Here I am.")
    for message_id in ("7", "8", "8"):
        run("ask", "Hello?", "--id", message_id)
    assert [text for text, _ in shown()] == ["Hello?", "Hello?", "Here I am."]


def test_a_heard_message_is_not_the_question_that_repeats_it(root, serve) -> None:
    serve("One.")
    run("hear", "Hello")
    run("ask", "Hello")
    assert [text for text, _ in shown()] == ["Hello", "Hello", "One."]


def test_after_a_day_the_same_words_are_a_new_message(root, serve) -> None:
    serve("Good morning.")
    with closing(HistoryStore(root / "history.db")) as store:
        store.append("cli", "user", "Morning!", author=NEUTRAL, at=now() - timedelta(hours=23))
    run("ask", "Morning!")
    assert [text for text, _ in shown()] == ["Morning!", "Morning!", "Good morning."]


@pytest.mark.parametrize("channel", ["hall", "the hall"])
def test_the_hint_of_a_failure_is_a_command_that_replies(channel, root, serve) -> None:
    serve(Fail(400), "Here I am.")
    hint = run("ask", "Hello?", "--channel", channel).stderr.partition("run `familiar ")[2]
    assert run(*shlex.split(hint.partition("`")[0])).stdout == "Here I am.\n"


def test_a_piped_chat_asks_the_failed_line_again(root, serve) -> None:
    server = serve(Fail(400), "Here I am.")
    assert run("chat", stdin="Hello?\n").exit_code == 6
    assert run("chat", stdin="Hello?\n").exit_code == 0
    assert questions(server) == ["Hello?"]


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
