"""`familiar chat` as a person sees it: in a real terminal, at any width, while things go on."""

from __future__ import annotations

import json
import threading
import time

import pytest
from rich.cells import cell_len

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from tests.support.server import Fail, Say, Stall
from tests.support.tmux import Tmux, needs_tmux
from tests.support.world import live, run

pytestmark = needs_tmux
ANNA = Author("cli", "user", display_name="Anna")
REPLY = (
    "*She leans on the rail and watches the light come in over the water.* "
    '"You **never** told me about the harbour — did you?" she asks, half laughing.\n\n'
    "日本語の文章もここにあります。これは「とても」長い文なので、折り返されるはずです。"
    "שלום עולם, זה משפט ארוך מאוד שצריך להישבר בין המילים. "
    "*A gull cries.* Then tell me everything, from the beginning."
)


@pytest.fixture
def root():
    root = live("ada")
    (root / "character.toml").write_text('name = "Ada Quill"\n', encoding="utf-8")
    (root / "memory" / "self").mkdir()
    (root / "memory" / "self" / "first_mes.md").write_text("# First\n\nAhoy.\n", encoding="utf-8")
    return root


def said(root) -> list[str]:
    store = HistoryStore(root / "history.db")
    turns = [turn.content for turn in store.recent("cli", 100, viewer=OWNER)]
    store.close()
    return turns


def words_of(text: str) -> str:
    """Return a text without marks and without what wrapping changes."""
    return "".join(text.replace("*", "").split())


def reply_on(screen: str) -> str:
    return screen.rpartition("Ada Quill: ")[2].rpartition("\n>")[0]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_reply_is_wrapped_between_words_at_any_width(root, serve, columns) -> None:
    serve(REPLY)
    with Tmux("chat", columns=columns) as terminal:
        terminal.see("Ada Quill: Ahoy.")
        terminal.say("hello")
        terminal.see("from the beginning." if columns > 40 else "beginning.")
        lines = reply_on(terminal.see_prompt()).rstrip().splitlines()
    assert words_of("".join(lines)) == words_of(REPLY)
    assert max(map(cell_len, lines)) < columns
    assert all(" ".join(REPLY.split()).count(line.split()[-1]) for line in lines if line)
    english = [line for line in lines if line.isascii() and line]
    assert {word for line in english for word in line.split()} <= set(
        REPLY.replace("*", "").split()
    )


def wait_for_requests(server, count: int) -> None:
    until = time.monotonic() + 30
    while len(server.requests) < count:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(("before", "after"), [(80, 40), (40, 80), (200, 60)])
def test_a_terminal_resized_in_mid_reply_loses_nothing(root, serve, before, after) -> None:
    hold = threading.Event()
    serve(Say(REPLY, hold=hold))
    with Tmux("chat", columns=before) as terminal:
        terminal.see("Ahoy.")
        terminal.say("hello")
        terminal.see("She leans")
        terminal.resize(after)
        hold.set()
        terminal.see("beginning.")
        screen = terminal.see_prompt()
    assert words_of(reply_on(screen)) == words_of(REPLY)
    assert max(map(cell_len, screen.splitlines())) <= after


def test_a_reply_is_styled_as_it_comes(root, serve, monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    serve('*nods* "yes" **now** `ls`')
    with Tmux("chat") as terminal:
        terminal.see("Ahoy.")
        terminal.say("hello")
        terminal.see("now ls")
        styled = terminal.styled.replace("\x1b[39m\x1b[49m", "")
    for expected in ("3mnods", '36m"yes"', "1mnow", "32mls"):
        assert expected in styled


def test_what_a_model_writes_never_steers_the_terminal(root, serve) -> None:
    serve("a\x1b[2Jb\x1b]0;owned\x07c \u202edrawkcab")
    with Tmux("chat") as terminal:
        terminal.see("Ahoy.")
        terminal.say("hello")
        assert "a[2Jb]0;ownedc drawkcab" in terminal.see("drawkcab")


def test_it_opens_with_what_was_said_last_and_greets_only_once(root, serve) -> None:
    serve("One.")
    run("chat", "--name", "Anna", stdin="hello\n")
    with Tmux("chat") as terminal:
        screen = terminal.see_prompt()
        assert screen.count("Ahoy.") == 1
        assert f"{time.gmtime().tm_year} —" in screen
        assert "You: hello" in screen
        assert "Ada Quill: One." in screen
        assert "\x1b[2m" in terminal.styled


def test_an_answer_of_the_terminal_behind_enter_does_not_make_it_a_paste(root, serve) -> None:
    server = serve("One.")
    with Tmux("chat", columns=200) as terminal:
        terminal.see_prompt()
        terminal.type("a" * 1023 + "\r\x1b[5;3R")  # read 1024 at a time
        terminal.see("One.")
    assert server.last.json()["messages"][-1]["content"] == "a" * 1023


def test_several_lines_are_one_message(root, serve) -> None:
    server = serve("One.")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.type("first")
        terminal.press("M-Enter")
        terminal.type("second\\")
        terminal.press("Enter")
        terminal.paste("third\nfourth")
        terminal.press("Enter")
        terminal.see("One.")
    assert server.last.json()["messages"][-1]["content"] == "first\nsecond\nthird\nfourth"


def test_the_last_line_is_edited_in_place_and_answered_anew(root, serve) -> None:
    server = serve("One.", "Two.")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("One.")
        terminal.see_prompt()
        terminal.say("/edit")
        terminal.see("editing turn")
        terminal.say(" there")
        terminal.see("Two.")
    assert said(root) == ["Ahoy.", "hello there", "Two."]
    assert "One." not in json.dumps(server.last.json()["messages"])


def test_an_edit_that_is_dropped_changes_nothing(root, serve) -> None:
    server = serve("One.")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("One.")
        terminal.see_prompt()
        terminal.say("/edit")
        terminal.see("editing turn")
        terminal.press("C-c")
        terminal.see("Turn 2 is unchanged.")
        terminal.see_prompt()
    assert said(root) == ["Ahoy.", "hello", "One."]
    assert len(server.requests) == 1


def test_a_line_that_the_model_writes_for_me_is_not_sent(root, serve) -> None:
    server = serve("One.", "I walk to the harbour.", "Three.")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("One.")
        terminal.see_prompt()
        terminal.say("/impersonate")
        terminal.see("> I walk to the harbour.")
        assert len(server.requests) == 2
        assert said(root) == ["Ahoy.", "hello", "One."]
        terminal.press("Enter")
        terminal.see("Three.")
    assert said(root)[3:] == ["I walk to the harbour.", "Three."]


def test_tab_completes_commands_channels_and_paths(root, serve) -> None:
    serve("One.")
    run("chat", "--channel", "harbour", stdin="hello\n")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        for typed, completed in (("/imp", "> /impersonate"), ("/channel ha", "> /channel harbour"),
                                 ("/why self/f", "> /why self/first_mes.md")):  # fmt: skip
            terminal.type(typed)
            terminal.press("Tab")
            terminal.see(completed)
            terminal.press("C-c")
            terminal.see_prompt()


def test_ctrl_c_drops_a_line_and_on_an_empty_one_leaves(root, serve) -> None:
    server = serve("One.")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.type("never sent")
        terminal.press("C-c")
        terminal.see_prompt()
        terminal.press("C-c")
        terminal.see("ENDED 0")
    assert server.requests == []


def test_ctrl_c_stops_a_reply_and_keeps_what_came(root, serve) -> None:
    serve(Stall("Once upon a time"), "Two.")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("Once upon a")
        terminal.press("C-c")
        terminal.see("Once upon a time")
        terminal.see("the partial reply is saved as turn 3")
        terminal.see_prompt()
        terminal.say("/again")
        terminal.see("Two.")
    assert said(root) == ["Ahoy.", "hello", "Two."]


def test_ctrl_c_before_the_first_word_keeps_the_message(root, serve) -> None:
    server = serve(Stall(), "Two.")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("Ada Quill is writing")
        wait_for_requests(server, 1)
        terminal.press("C-c")
        terminal.see("no reply had arrived")
        assert "is writing" not in terminal.see_prompt()
    assert said(root) == ["Ahoy.", "hello"]


def test_replies_go_into_a_file_where_stdout_is_one(root, serve, tmp_path) -> None:
    serve("*One* of us.")
    kept = tmp_path / "replies.txt"
    with Tmux("chat", stdout=kept) as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see(">", times=2)
        terminal.press("C-d")
        terminal.see("ENDED 0")
    assert kept.read_text() == "Ahoy.\n*One* of us.\n"


@pytest.mark.parametrize(("bracketed", "is_logged"), [(True, False), (False, False), (True, True)])
def test_what_is_pasted_during_a_reply_is_a_draft_and_never_sent_by_itself(
    root, serve, bracketed, is_logged, tmp_path
) -> None:
    log = tmp_path / "log" if is_logged else None
    hold = threading.Event()
    server = serve(Say("One two three four five six.", hold=hold), "Second.")
    lines = [f"line {number:02}, 日本語 עברית" for number in range(50)]
    with Tmux("chat", rows=80, stderr=log) as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("One")
        terminal.say("meanwhile")
        terminal.paste("\n".join(lines) + "\n", bracketed=bracketed)
        hold.set()
        assert "One two three four five six.\n" in terminal.see("not sent")
        terminal.see("line 49")
        assert len(server.requests) == 1
        terminal.press("Enter")
        terminal.see("Second.")
    assert said(root)[-2] == "\n".join(["meanwhile", *lines])
    assert len(server.requests) == 2


def test_the_line_at_the_bottom_says_which_messages_left_the_prompt(root, serve) -> None:
    assert run("config", "set", "history.recent_turns", "1").exit_code == 0
    serve("Aye.", "Aye, aye.")
    with Tmux("chat") as terminal:
        terminal.see("Ada Quill: Ahoy.")
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("Ada Quill: Aye.")
        terminal.see_prompt()
        terminal.say("hello again")
        terminal.see("messages before ")


def test_a_reply_is_followed_by_the_memories_it_used_and_why_shows_them(root, serve) -> None:
    serve(Fail(503, "overloaded", retry_after="0"), "Green, of course.")
    run("memory", "write", "topics/the-boat.md", "# The boat\n\nRobin painted it green.\n")
    with Tmux("chat", rows=30) as terminal:
        terminal.see_prompt()
        terminal.say("Which colour is the boat?")
        terminal.see("✦ the boat")
        screen = terminal.see_prompt()
        assert "overloaded" not in screen
        assert "is writing" not in screen
        terminal.say("/why")
        terminal.see("I used the page on the boat.")
        terminal.see("Robin painted it green.")
        terminal.see_prompt()
        terminal.say("/context")  # is longer than the terminal
        terminal.see("pinned")  # the last line of the first page, whatever the pager asks below
        assert "--- 1 system" not in terminal.screen
        terminal.press("q")
        terminal.see_prompt()


@pytest.fixture
def long_past(root):
    run("channel", "set", "cli", "--kind", "text")
    store = HistoryStore(root / "history.db")
    for number in range(30):
        store.append("cli", "user", f"turn {number}", author=ANNA)
    store.close()
    run("config", "set", "history.recent_turns", "4")
    return root


def test_a_new_line_never_waits_for_a_summary(long_past, serve) -> None:
    server = serve("One.", Stall(seconds=60), "Two.", "Anna counted.")
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("One.")
        terminal.see("summarising 2")
        wait_for_requests(server, 2)
        began = time.monotonic()
        terminal.say("quickly")
        terminal.see("Two.")
        assert time.monotonic() - began < 10
        terminal.see_prompt()
        terminal.press("C-d")
        terminal.see("ENDED 0")
    assert len(server.requests) >= 4  # the summary that was stopped was made after the next turn


def test_a_new_line_never_waits_for_memory_and_no_turn_is_lost(long_past, serve) -> None:
    run("config", "set", "history.summary_every", "0")
    run("config", "set", "memory_writer.turn_threshold", "2")
    run("config", "set", "memory_writer.auto", "on")
    server = serve("One.", Stall(seconds=60), "Two.", '{"operations": []}')
    with Tmux("chat", columns=100) as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("One.")
        terminal.see_prompt()
        terminal.see("writing memory from")
        wait_for_requests(server, 2)
        began = time.monotonic()
        terminal.say("quickly")
        terminal.see("Two.")
        assert time.monotonic() - began < 10
        terminal.see_prompt()
        terminal.press("C-d")
        terminal.see("ENDED 0")
    assert "turn 29" in server.last.body.decode()
    assert len(server.requests) >= 4


def test_a_summary_that_fails_is_one_line_and_the_chat_goes_on(long_past, serve) -> None:
    serve("One.", Fail(400, "no summaries here"), "Two.")
    with Tmux("chat", columns=200) as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        screen = terminal.see("The summary of earlier turns is unchanged")
        assert sum("no summaries here" in line for line in screen.splitlines()) == 1
        terminal.see_prompt()
        terminal.say("again")
        terminal.see("Two.")


def test_leaving_says_what_it_waits_for_and_ctrl_c_postpones_it(long_past, serve) -> None:
    serve("One.", Stall(seconds=60))
    with Tmux("chat") as terminal:
        terminal.see_prompt()
        terminal.say("hello")
        terminal.see("summarising 2")
        terminal.press("C-d")
        terminal.see("Ctrl-C postpones that.")
        terminal.press("C-c")
        terminal.see("a later turn continues it")
        terminal.see("ENDED 0")
