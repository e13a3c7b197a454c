"""The newest exchange is no memory before it is settled: a reply may still be made again."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest

from familiar_cli.base.times.clock import now
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from familiar_cli.sync import turns_outgoing as outgoing
from tests.support.world import data, run
from tests.support.writing import NOTHING, talked

ANNA = Author("discord", "42", "anna", "Anna")


@pytest.fixture
def root():
    root = talked(0, settings='[memory_writer]\nauto = "off"\n')
    with closing(HistoryStore(root / "history.db")) as store:
        say(store, "I keep bees.", "How many?", minutes_ago=3)
        say(store, "Nine hives.", "That is a lot.", minutes_ago=2)
    return root


def say(store, question, reply="", *, minutes_ago=0, channel="cli") -> None:
    at = now() - timedelta(minutes=minutes_ago)
    said = store.append(channel, "user", question, author=ANNA, at=at)
    if reply:
        store.append(channel, "assistant", reply, at=at, reply_to=said.id)


def asked(server) -> str:
    return "".join(request.json()["messages"][-1]["content"] for request in server.requests)


def test_the_newest_exchange_is_left_until_another_one_follows(root, serve) -> None:
    server = serve(NOTHING)
    first = data("write-memory")

    assert (first["turns_covered"], first["newest_left"], first["remaining"]) == (2, 2, 2)
    assert "Nine hives" not in asked(server)
    assert "--newest" in run("write-memory").stderr
    with closing(HistoryStore(root / "history.db")) as store:
        say(store, "And a cat.", "A cat!")
    second = data("write-memory")
    assert (second["turns_covered"], second["newest_left"]) == (2, 2)
    assert asked(server).count("Nine hives") == 1


def test_it_is_read_once_it_is_quiet_and_on_request(root, serve) -> None:
    server = serve(NOTHING)
    run("config", "set", "memory_writer.idle_timeout", "60")
    assert data("write-memory")["turns_covered"] == 4
    with closing(HistoryStore(root / "history.db")) as store:
        say(store, "And a cat.", "A cat!")
    assert data("write-memory")["turns_covered"] == 0
    assert data("write-memory", "--newest")["turns_covered"] == 2
    assert "A cat!" in asked(server)
    assert data("status")["unsummarised_turns"] == 0


def test_a_reply_that_was_made_again_is_never_read(root, serve) -> None:
    server = serve(NOTHING, "So many!", NOTHING)
    run("write-memory")
    run("again")
    run("write-memory", "--newest")
    assert "That is a lot." not in asked(server)
    assert "So many!" in asked(server)


def test_other_conversations_and_messages_without_a_reply_do_not_wait(root) -> None:
    with closing(HistoryStore(root / "history.db")) as store:
        say(store, "Just heard.", channel="pier")
        say(store, "Just said.", "And replied to.", channel="harbour")
        store.append("old", "user", "Imported.", source="import-chat")
        store.append("old", "assistant", "Imported too.", source="import-chat")
        begun = outgoing.fresh_exchanges(store, now() - timedelta(minutes=30))
    assert begun == {"cli": 3, "harbour": 6}
