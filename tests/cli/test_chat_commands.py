"""The commands of `familiar chat`, from the typed line to the history and the answer."""

from __future__ import annotations

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from tests.support.server import bad_key
from tests.support.world import data, live, run


@pytest.fixture
def root():
    return live("ada", notes="# Notes\n\n- the harbour is closed\n")


def standing(root, channel: str = "cli") -> list[str]:
    store = HistoryStore(root / "history.db")
    turns = [turn.content for turn in store.recent(channel, 100, viewer=OWNER)]
    store.close()
    return turns


def chat(*lines: str, code: int = 0, **options: str):
    argv = [word for name, value in options.items() for word in (f"--{name}", value)]
    result = run("chat", *argv, stdin="".join(f"{line}\n" for line in lines))
    assert result.exit_code == code, result.output
    return result


def test_again_asks_once_more_and_one_reply_stands(root, serve) -> None:
    serve("One.", "Two.")
    assert chat("hello", "/again").stdout == "One.\nTwo.\n"
    assert standing(root) == ["hello", "Two."]


def test_again_asks_for_a_first_reply_where_the_model_failed(root, serve) -> None:
    serve(bad_key(), "Two.")
    chat("hello", code=6)
    assert chat("/again").stdout == "Two.\n"
    assert standing(root) == ["hello", "Two."]


def test_again_where_nothing_was_said_says_so(root, serve) -> None:
    serve("One.")
    assert "has no turns yet" in chat("/again", code=4).stderr


def test_continue_lets_the_reply_go_on_and_one_stands(root, serve) -> None:
    serve("Once upon a time", "there was a lamp.")
    assert chat("hello", "/continue").stdout.endswith("Once upon a time there was a lamp.\n")
    assert standing(root) == ["hello", "Once upon a time there was a lamp."]


def test_choose_lists_the_replies_and_brings_one_back(root, serve) -> None:
    serve("One.", "Two.")
    result = chat("hello", "/again", "/choose", "/choose 1")
    assert result.stdout == "One.\nTwo.\nOne.\n"
    assert "  1  One.\n* 2  Two.\n" in result.stderr
    assert standing(root) == ["hello", "One."]


@pytest.mark.parametrize(
    ("argument", "code", "told"),
    [("3", 4, "from 1 to 2"), ("x", 2, "is not a number"), ("0", 4, "from 1 to 2")],
)
def test_choose_refuses_what_is_not_there(root, serve, argument, code, told) -> None:
    serve("One.", "Two.")
    assert told in chat("hello", "/again", f"/choose {argument}", code=code).stderr
    assert standing(root) == ["hello", "Two."]


def test_undo_withdraws_one_exchange_after_another(root, serve) -> None:
    serve("One.", "Two.", "Three.")
    result = chat("first", "second", "/undo", "/undo", "third")
    assert standing(root) == ["third", "Three."]
    assert "`familiar history restore 3 4`" in result.stderr
    run("history", "restore", "3", "4")
    assert standing(root)[:2] == ["second", "Two."]


def test_undo_of_a_message_whose_reply_failed_speaks_of_no_reply(root, serve) -> None:
    serve(bad_key())
    chat("hello", code=6)
    told = chat("/undo").stderr
    assert "Withdrawn: 'hello'. `familiar history restore 1` brings it back." in told
    assert standing(root) == []


def test_undo_where_nothing_was_said_says_so(root, serve) -> None:
    serve("One.")
    assert "has no turns yet" in chat("/undo", code=4).stderr


def test_a_channel_is_left_for_another_and_both_are_kept_apart(root, serve) -> None:
    serve("One.", "Two.")
    chat("hello", "/channel harbour", "ahoy")
    assert standing(root) == ["hello", "One."]
    assert standing(root, "harbour") == ["ahoy", "Two."]


def test_channel_without_a_name_lists_all(root, serve) -> None:
    serve("One.")
    result = chat("hello", "/channel")
    assert "cli" in result.stdout.partition("One.\n")[2]
    assert "You are in cli" in result.stderr
    assert "heard by" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_branch_shares_the_past_and_goes_its_own_way(root, serve) -> None:
    serve("One.", "Two.", "Three.")
    chat("hello", "/branch what-if", "over here", "/channel cli", "over there")
    assert standing(root, "what-if") == ["hello", "One.", "over here", "Two."]
    assert standing(root) == ["hello", "One.", "over there", "Three."]


def test_a_branch_may_begin_at_an_earlier_turn(root, serve) -> None:
    serve("One.", "Two.", "Three.")
    chat("hello", "second", "/branch what-if 2", "other")
    assert standing(root, "what-if") == ["hello", "One.", "other", "Three."]


def test_a_branch_does_not_undo_what_it_only_shares(root, serve) -> None:
    serve("One.")
    assert "is also in channel 'cli'" in chat("hello", "/branch b", "/undo", code=5).stderr
    assert standing(root) == ["hello", "One."]


def test_as_lets_somebody_else_speak_and_back(root, serve) -> None:
    serve("One.")
    chat("hello", "/as Bo", "I am Bo", "/as discord:7", "I am seven", "/as", "me", **{"as": "x:me"})
    store = HistoryStore(root / "history.db")
    who = [turn.author.slug for turn in store.recent("cli", 100, viewer=OWNER) if turn.author]
    store.close()
    assert who == ["x-me", "cli-bo", "discord-7", "x-me"]


def test_who_i_am_in_a_channel_holds_once_i_go_there(root, serve) -> None:
    server = serve("One.")
    run("me", "--name", "Anna")
    run("channel", "set", "castle", "me.name", "Galahad")
    assert "You speak as Galahad" in chat("hello", "/channel castle", "ahoy", "/as").stderr
    assert "Galahad" in server.last.body.decode()


def test_as_finds_those_who_spoke_before_by_their_name(root, serve) -> None:
    serve("One.")
    chat("hello", **{"as": "discord:42", "name": "Anna"})
    assert "You speak as Anna (discord:42)" in chat("/as anna").stderr


def test_note_is_an_item_in_the_notes_and_can_be_undone(root, serve) -> None:
    serve("One.")
    assert "Noted in notes.md." in chat("/note  the lamp\tflickers ").stderr
    notes = root / "memory" / "notes.md"
    assert notes.read_text().endswith("- the harbour is closed\n- the lamp flickers\n")
    run("memory", "undo")
    assert notes.read_text() == "# Notes\n\n- the harbour is closed\n"


def test_an_empty_note_changes_nothing(root, serve) -> None:
    serve("One.")
    assert "nothing was changed" in chat("/note", code=2).stderr


def test_recall_shows_what_memory_gave(root, serve) -> None:
    serve("One.")
    printed = chat("is the harbour closed?", "/recall").stdout
    assert "notes.md" in printed
    assert "the harbour is closed" in printed


def test_recall_says_when_there_was_nothing(serve) -> None:
    live("bo")
    serve("One.")
    assert "Nothing from memory" in chat("hello", "/recall").stderr


def test_why_explains_a_file(root, serve) -> None:
    serve("One.")
    assert "notes.md" in chat("is the harbour closed?", "/why notes.md").stdout


def test_off_the_record_there_is_nothing_to_continue(root, serve) -> None:
    serve("One.")
    assert "off the record" in chat("/offrecord", "hello", "/continue", code=5).stderr


@pytest.mark.parametrize("name", ["/edit", "/impersonate"])
def test_what_needs_a_line_editor_is_refused_in_a_pipe(root, serve, name) -> None:
    server = serve("One.")
    assert "needs a terminal" in chat("hello", name, code=5).stderr
    assert len(server.requests) == 1


def test_off_the_record_undo_and_again_leave_no_trace(root, serve) -> None:
    server = serve("One.", "Two.", "Three.")
    chat("/offrecord", "hello", "/again", "/undo", "new")
    sent = [message["content"] for message in server.last.json()["messages"]]
    assert sent[-1] == "new"
    assert not {"hello", "One.", "Two."} & set(sent)
    assert not (root / "history.db").exists()


@pytest.mark.parametrize("line", ["/agian", "/chooose 2", "/recal"])
def test_an_unknown_command_names_its_neighbour_and_sends_nothing(root, serve, line) -> None:
    server = serve("One.")
    assert "Did you mean /" in chat(line).stderr
    assert server.requests == []


@pytest.mark.parametrize("line", ["//shrug", " /shrug"])
def test_a_slash_can_be_said(root, serve, line) -> None:
    serve("One.")
    chat(line)
    assert standing(root) == ["/shrug", "One."]


def test_a_command_that_takes_nothing_says_so(root, serve) -> None:
    server = serve("One.")
    assert "/again takes no argument" in chat("/again now", code=2).stderr
    assert server.requests == []


def test_a_reply_that_fails_after_again_leaves_the_one_before(root, serve) -> None:
    serve("One.", bad_key())
    chat("hello", "/again", code=6)
    assert standing(root) == ["hello", "One."]
    assert len(data("history", "show", "--all")["turns"]) == 2


def test_help_names_every_command(root, serve) -> None:
    from familiar_cli.cli.terminal.chat import COMMANDS

    serve("One.")
    told = chat("/help").stderr
    assert [name for name in COMMANDS if name not in told] == []


def test_remember_writes_the_last_message_with_its_turn_as_evidence(root, serve) -> None:
    server = serve("Noted.")
    result = chat("My boat is called Ladybird.", "/remember", "/memory people/cli-user.md")
    assert "Remembered in people/cli-user.md" in result.stderr
    page = (root / "memory" / "people" / "cli-user.md").read_text("utf-8")
    assert "“My boat is called Ladybird.”" in page
    assert "turns" in page.partition("Ladybird")[2].partition("\n")[0]
    assert "Ladybird" in result.stdout
    assert len(server.requests) == 1  # no model writes it


def test_a_branch_remembers_and_explains_what_it_shares(root, serve) -> None:
    serve("Noted.", "Fine.")
    chat("My boat is called Ladybird.")
    chat("Elsewhere.", channel="harbour")
    assert "Remembered in people/cli-user.md" in chat("/branch side", "/remember").stderr
    assert "Ladybird" in chat("/context", channel="side").stdout
    assert "no turns yet" in chat("/why", channel="nowhere", code=4).stderr


def test_remembered_twice_it_stands_once(root, serve) -> None:
    serve("Noted.")
    result = chat("My boat is called Ladybird.", "/remember", "/remember", code=5)
    assert "the file already says so" in result.stderr
    page = (root / "memory" / "people" / "cli-user.md").read_text("utf-8")
    assert page.count("Ladybird") == 1


def test_remember_with_a_text_notes_it(root, serve) -> None:
    serve()
    chat("/remember Buy rope.")
    assert "- Buy rope." in (root / "memory" / "notes.md").read_text("utf-8")


def test_search_and_memory_show_what_is_known(root, serve) -> None:
    serve("Aye.")
    found = chat("The lantern is lit.", "/search lantern harbour", "/memory").stderr
    assert "the harbour is closed" in found
    assert "The lantern is lit." in found
    assert "\nnotes.md\n" in found
    assert "missing" in chat("/search", code=2).stderr


def test_retry_swipe_and_forget_are_other_words(root, serve) -> None:
    serve("One.", "Two.", "Three.")
    assert chat("hello", "/retry", "/swipe", "/swipe 1").stdout.endswith("Three.\nOne.\n")
    chat("/forget")
    assert standing(root) == []
