"""Whatever a chat program does to its conversation, the history holds what the program shows."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from familiar_cli.actions.talk.served_log import SOURCE
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.servers.chat_api.aligning import RequestLine
from familiar_cli.servers.chat_api.conversations import Conversations, LineFinder
from familiar_cli.store.history.marks import supersede_turn
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.store import HistoryStore
from tests.support.cases import IS_NIGHT

ME = Author("cli", "anna")
PICK = st.integers(0, 1_000)


@dataclass
class Window:
    """A conversation as a chat program shows it."""

    lines: list[RequestLine] = field(default_factory=list)
    channel_id: str = ""


class Program(RuleBasedStateMachine):
    """Sends, regenerates, edits, trims and starts again, at random."""

    @initialize()
    def begin(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        root = Path(self.scratch.name) / "ada"
        (root / "memory").mkdir(parents=True)
        self.familiar = Familiar(FamiliarPaths(root))
        self.windows: list[Window] = []
        self.left: list[Window] = []
        self.number = 0
        self.open()

    def open(self) -> None:
        self.known = LineFinder(self.familiar.paths.root / "served.sqlite", self.familiar.history)
        self.conversations = Conversations(self.familiar, self.known)

    def teardown(self) -> None:
        self.known.close()
        self.familiar.close()
        self.scratch.cleanup()

    def words(self, what: str) -> str:
        self.number += 1
        return f"{what} number {self.number}, with enough words to be told from others"

    def send(self, window: Window, sent: list[RequestLine], channel_id: str = "") -> None:
        """Ask for a reply to the last line, as the server does, and show it."""
        found = self.conversations.find(sent, ME, channel_id)
        said = self.conversations.prepare(found, Said(sent[-1].text, ME, source=SOURCE))
        history = self.familiar.history
        if said.reply_to is None:
            question = history.append(
                said.channel_id, "user", said.text, author=ME, source=SOURCE
            ).id
        else:
            question = said.reply_to
        text = self.words("Reply")
        if said.instead_of:
            old = said.instead_of
            reply = Turn(
                0, said.channel_id, None, "assistant", text, old.at, "text", SOURCE, partial=False
            )
            supersede_turn(history, old, reply)
        else:
            history.append(said.channel_id, "assistant", text, source=SOURCE, reply_to=question)
        window.lines.append(RequestLine("assistant", text))
        window.channel_id = said.channel_id

    def window(self, pick: int) -> Window:
        return self.windows[pick % len(self.windows)]

    @rule()
    def open_a_window(self) -> None:
        window = Window([RequestLine("user", self.words("Hello"))])
        self.windows.append(window)
        self.send(window, window.lines[:])

    @precondition(lambda self: self.windows)
    @rule(pick=PICK, named=st.booleans())
    def say(self, pick: int, named: bool) -> None:
        window = self.window(pick)
        window.lines.append(RequestLine("user", self.words("Message")))
        self.send(window, window.lines[:], window.channel_id if named else "")

    @precondition(lambda self: self.windows)
    @rule(pick=PICK)
    def regenerate(self, pick: int) -> None:
        window = self.window(pick)
        window.lines.pop()
        self.send(window, window.lines[:])

    @precondition(lambda self: any(len(window.lines) > 2 for window in self.windows))
    @rule(pick=PICK, where=PICK)
    def edit_a_message(self, pick: int, where: int) -> None:
        windows = [window for window in self.windows if len(window.lines) > 2]
        window = windows[pick % len(windows)]
        at = 2 * (1 + where % (len(window.lines) // 2 - 1))
        self.left.append(Window(window.lines[:], window.channel_id))
        window.lines = [*window.lines[:at], RequestLine("user", self.words("Edited"))]
        self.send(window, window.lines[:])

    @precondition(lambda self: self.windows)
    @rule(pick=PICK)
    def edit_the_last_reply(self, pick: int) -> None:
        window = self.window(pick)
        window.lines[-1] = RequestLine("assistant", self.words("My own reply"))
        window.lines.append(RequestLine("user", self.words("Message")))
        self.send(window, window.lines[:])

    @precondition(lambda self: any(len(window.lines) > 4 for window in self.windows))
    @rule(pick=PICK, cut=PICK)
    def say_with_the_beginning_cut_off(self, pick: int, cut: int) -> None:
        windows = [window for window in self.windows if len(window.lines) > 4]
        window = windows[pick % len(windows)]
        window.lines.append(RequestLine("user", self.words("Message")))
        self.send(window, window.lines[1 + cut % (len(window.lines) - 4) :])

    @precondition(lambda self: self.windows)
    @rule(pick=PICK)
    def say_alone_in_a_named_conversation(self, pick: int) -> None:
        window = self.window(pick)
        window.lines.append(RequestLine("user", self.words("Message")))
        self.send(window, window.lines[-1:], window.channel_id)

    @rule(forget=st.booleans())
    def start_again(self, forget: bool) -> None:
        self.known.close()
        if forget:
            for file in self.familiar.paths.root.glob("served.sqlite*"):
                file.unlink()
        self.open()

    @invariant()
    def the_history_holds_what_each_window_shows(self) -> None:
        for window in getattr(self, "windows", []):
            assert self.kept(window) == window.lines

    @invariant()
    def what_was_edited_stands_no_more(self) -> None:
        for window in getattr(self, "left", []):
            kept = self.kept(window)
            assert len(kept) < len(window.lines)
            assert kept == window.lines[: len(kept)]

    def kept(self, window: Window) -> list[RequestLine]:
        turns = self.familiar.history.recent(window.channel_id, 10_000, viewer=OWNER)
        return [RequestLine(turn.role, turn.content) for turn in turns]

    @invariant()
    def nothing_is_asked_twice(self) -> None:
        if hasattr(self, "familiar"):
            turns = self.familiar.history.after(0, 10_000)
            asked = [turn.content for turn in turns if turn.role == "user"]
            assert len(asked) == len(set(asked))


TestProgram = Program.TestCase
TestProgram.settings = settings(
    max_examples=25 if IS_NIGHT else 15, stateful_step_count=25 if IS_NIGHT else 15
)


def test_a_damaged_file_of_lines_is_made_again(tmp_path) -> None:
    history = HistoryStore(tmp_path / "history.db")
    history.append("harbour", "user", "Hello", author=ME, source=SOURCE)
    (tmp_path / "served.sqlite").write_bytes(b"no database at all, but long enough" * 100)
    known = LineFinder(tmp_path / "served.sqlite", history)
    assert known.channels([RequestLine("user", "Hello")]) == ["harbour"]
    known.close()
    history.close()
