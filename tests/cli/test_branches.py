"""`familiar channel branch`: a conversation goes on from one of its turns in a new channel."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from tests.support.world import data, live, run, without_block

ANNA = Author("cli", "anna", display_name="Anna")
LATER = ("It sank.", "How sad.")


@pytest.fixture
def root():
    root = live("yuzu")
    (root / "channels").mkdir()
    (root / "channels" / "cli.toml").write_text('kind = "text"\n', encoding="utf-8")
    with closing(HistoryStore(root / "history.db")) as store:
        for question, reply in (("Shall we take the ferry?", "Yes, the ferry."), LATER):
            store.append("cli", "user", question, author=ANNA)
            store.append("cli", "assistant", reply)
    return root


def prompt(*argv: str) -> str:
    return json.dumps(data("ask", *argv, "--dry-run")["messages"])


def shown(*options: str) -> list[str]:
    return [turn["content"] for turn in data("history", "show", *options)["turns"]]


def test_a_branch_is_made_listed_and_shown(root) -> None:
    made = data("channel", "branch", "bridge", "--from", "2")

    told = {"channel": "bridge", "parent": "cli", "parent_turn": 2, "private": False}
    assert made == {**told, "changed": True}
    assert not data("channel", "branch", "bridge", "--from", "2")["changed"]
    listed = {c["id"]: c for c in data("channel", "ls")["channels"]}
    assert (listed["bridge"]["parent"], listed["bridge"]["parent_turn"]) == ("cli", 2)
    assert (listed["cli"]["parent"], listed["cli"]["parent_turn"]) == (None, None)
    assert data("channel", "show", "bridge")["parent_turn"] == 2
    assert "branch of cli at turn 2" in run("channel", "ls").stdout
    assert "branch of cli at turn 2" in run("channel", "show", "bridge").stdout
    assert shown("--channel", "bridge") == ["Shall we take the ferry?", "Yes, the ferry."]


def test_a_prompt_of_a_branch_holds_its_past_and_nothing_of_what_followed_elsewhere(root) -> None:
    run("channel", "branch", "bridge", "--from", "2")

    said = prompt("What about the ferry that sank? How sad?", "--channel", "bridge")
    assert "Yes, the ferry." in said
    assert "It sank." not in said
    assert "How sad." not in said
    with closing(HistoryStore(root / "history.db")) as store:
        store.append("bridge", "user", "The bridge collapsed.", author=ANNA)
    assert "collapsed." not in prompt("Did the bridge collapse? collapsed")
    assert "collapsed." in prompt("Did the bridge collapse? collapsed", "--channel", "pier")


def test_each_turn_is_found_counted_and_written_once(root) -> None:
    run("channel", "branch", "bridge", "--from", "2")

    hits = data("history", "search", "ferry")["hits"]
    assert sorted(hit["turn"] for hit in hits) == [1, 2]
    hits = data("history", "search", "ferry", "--channel", "bridge")["hits"]
    assert sorted(hit["turn"] for hit in hits) == [1, 2]
    assert data("history", "stats")["turns"] == 4
    assert data("status")["unsummarised_turns"] == 4


def test_another_reply_in_a_fresh_branch_leaves_the_old_one_to_its_parent(root, serve) -> None:
    server = serve("Rather not.")
    run("channel", "branch", "bridge", "--from", "2")
    made = data("again", "--channel", "bridge")

    assert (made["reply"], made["supersedes"]) == ("Rather not.", 2)
    assert "Yes, the ferry." not in json.dumps(without_block(server.last.json()["messages"]))
    assert shown("--channel", "bridge") == ["Shall we take the ferry?", "Rather not."]
    assert shown("--channel", "cli")[:2] == ["Shall we take the ferry?", "Yes, the ferry."]


def test_a_shared_question_is_replied_to_in_the_branch(root, serve) -> None:
    serve("Rather not.")
    run("channel", "branch", "bridge", "--from", "1")
    made = data("ask", "--channel", "bridge", "--reply-to", "1")
    assert made["reply"] == "Rather not."
    assert shown("--channel", "bridge") == ["Shall we take the ferry?", "Rather not."]
    assert run("ask", "--channel", "bridge", "--reply-to", "1").exit_code != 0


def test_a_branch_of_a_private_channel_stays_private(root) -> None:
    run("channel", "set", "cli", "--kind", "dm")
    run("channel", "set", "cli", "--name", "Anna and me")
    assert data("channel", "branch", "bridge", "--from", "2")["private"]
    shown_channel = data("channel", "show", "bridge")
    assert (shown_channel["kind"], shown_channel["label"]) == ("dm", "DM:bridge")
    run("channel", "set", "bridge", "--kind", "text")
    assert data("channel", "show", "bridge")["private"]
    assert "ferry." not in prompt("Yes, the ferry", "--channel", "pier")
    assert "Yes, the ferry." in prompt("Yes", "--channel", "bridge")


def test_a_branch_is_exported_with_its_past(root) -> None:
    run("channel", "branch", "bridge", "--from", "2")
    assert len(run("history", "export", "--channel", "bridge").stdout.splitlines()) == 3
    with closing(HistoryStore(root / "history.db")) as store:
        store.append("bridge", "user", "The bridge, then.", author=ANNA)
    lines = run("history", "export", "--channel", "bridge", "--format", "jsonl").stdout.splitlines()
    said = [json.loads(line).get("content") for line in lines[1:]]
    assert said == ["Shall we take the ferry?", "Yes, the ferry.", "The bridge, then."]


def test_a_chat_that_is_imported_into_its_branch_adds_only_what_is_new(root, tmp_path) -> None:
    head = '{"user_name": "Anna", "character_name": "Yuzu", "chat_metadata": {}}\n'
    line = (
        '{{"name": "Anna", "is_user": true, "send_date": "2026-01-02T1{0}:00:00Z", "mes": "{1}"}}\n'
    )
    shared = [line.format(n, text) for n, text in enumerate(("one", "two"))]
    files = {"main": [*shared, line.format(2, "three")], "if": [*shared, line.format(3, "else")]}
    for name, lines in files.items():
        (tmp_path / f"{name}.jsonl").write_text(head + "".join(lines), encoding="utf-8")
    first = data("import-chat", str(tmp_path / "main.jsonl"), "--channel", "main")
    assert first["imported"] == 3
    run("channel", "branch", "if", "--from", "6")

    made = data("import-chat", str(tmp_path / "if.jsonl"), "--channel", "if")
    assert (made["imported"], made["already_there"]) == (1, 2)
    again = data("import-chat", str(tmp_path / "if.jsonl"), "--channel", "if")
    assert (again["imported"], again["already_there"]) == (0, 3)
    assert shown("--channel", "if") == ["one", "two", "else"]
    for name, lines in files.items():
        out = run("history", "export", "--channel", name).stdout
        assert out == head + "".join(lines)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["new", "--from", "99"], 4, "no turn 99"),
        (["new", "--from", "1", "--channel", "pier"], 4, "not in channel"),
        (["cli", "--from", "1"], 5, "exists already"),
        (["", "--from", "1"], 2, "name is empty"),
        (["new"], 2, "--from"),
    ],
)
def test_a_branch_that_cannot_be_made_changes_nothing(root, arguments, code, told) -> None:
    result = run("channel", "branch", *arguments)
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr
    assert [c["id"] for c in data("channel", "ls")["channels"]] == ["cli"]
