"""A conversation, turn by turn: lines in, replies out, and a few commands that begin with `/`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from familiar_cli.context.types import Spoken
from familiar_cli.errors import FamiliarError
from familiar_cli.text import harmless, nearest
from familiar_cli.ui.afterwards import begin, finish
from familiar_cli.ui.emit import print_error, say
from familiar_cli.ui.lines import is_terminal, piped_lines, typed_lines
from familiar_cli.ui.reply import ReplyPrinter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.context.trace import Trace
    from familiar_cli.context.turn_runner import TurnResult
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.emit import Output

INTERRUPTED = 130
MOST_REMEMBERED = 200  # so many of the latest turns can be called back with the arrow keys
COMMANDS = {
    "/context": "show what was sent for the last reply",
    "/offrecord": "keep nothing from here on, until you type it again",
    "/help": "show this list",
    "/quit": "end the chat, like Ctrl-D",
}
_HELP = """\
Type a message. Ctrl-C interrupts a reply and keeps what has arrived; Ctrl-D ends the chat.
{commands}
A line that begins with // is sent with a single slash."""
_OFF = "Off the record: nothing is kept until you type /offrecord."
_ON = "Back on the record. What was said off the record is forgotten."


@dataclass(slots=True)
class Chat:
    """One conversation.

    Args:
        familiar: Whom one talks to.
        said: Who speaks, where and how; its text does not matter.
        out: Where the words go.
        reply_to: Takes a turn: given what is said, and what prints each piece of the reply.
        interactive: A person is typing: failures are told and the conversation goes on. From a
            pipe, the first failure ends it.
    """

    familiar: Familiar
    said: Said
    out: Output
    reply_to: Callable[[Said, Callable[[str], None]], TurnResult]
    interactive: bool = False
    opening: str = ""
    last: Trace | None = None
    turns: int = 0

    def run(self, lines: Iterable[str]) -> int:
        """Talk until the lines end. Returns the exit code.

        Raises:
            FamiliarError: A turn failed, and nobody is there to go on.
        """
        self._open()
        for line in lines:
            if line.strip() == "/quit":
                break
            code = self._take(line)
            if code:
                return code
        finish(self.out, self.familiar)
        if not self.turns and not self.interactive:
            self.out.note("Nothing was sent: standard input is empty.")
        return 0

    def _open(self) -> None:
        """Greet in a conversation that has not begun. It is kept with the first turn."""
        from familiar_cli.actions.talk import opening_of
        from familiar_cli.llm.slots import check_usable

        check_usable(self.familiar.slot())  # better now than after the first line
        self.opening = opening_of(self.familiar, self.said)
        if self.interactive:
            self.familiar.load_embedder(optimised=True)
            self.out.note("/help lists the commands; Ctrl-D ends the chat.")
        if self.said.off_record:
            self.out.note(_OFF)
        if self.opening and self.interactive and not self.out.as_json:
            self._name()
            say(self.opening)

    def _take(self, line: str) -> int:
        try:
            if line.startswith("/") and not line.startswith("//"):
                self._command(line.strip())
            elif line.strip():
                return self._turn(line.removeprefix("/") if line.startswith("//") else line)
        except FamiliarError as error:
            if not self.interactive:
                raise
            print_error(error)
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            self.out.note("Interrupted; nothing was kept.")
        return 0

    def _turn(self, text: str) -> int:
        if self.opening and not self.said.off_record:  # what was shown is what is kept
            modality = str(self.said.modality)
            self.familiar.history.begin(self.said.channel_id, self.opening, modality=modality)
            self.opening, self.said = "", replace(self.said, greeting=None)
        finish(self.out, self.familiar)  # the model does one thing after another
        self._name()
        with ReplyPrinter(silent=self.out.as_json) as printer:
            result = self.reply_to(replace(self.said, text=text), printer)
        self.turns += 1
        self.last = result.trace
        self._remember(text, result)
        code = self._tell(result)
        self._afterwards(result)
        return code

    def _afterwards(self, result: TurnResult) -> None:
        """Let older turns be summarised: while a person types, or before the next line is read."""
        if result.interrupted:
            return
        begin(self.out, self.familiar, result, stays=self.interactive)
        if not self.interactive:
            finish(self.out, self.familiar)

    def _remember(self, text: str, result: TurnResult) -> None:
        """Hold what was said off the record, for as long as it goes on."""
        if not self.said.off_record:
            return
        spoken = (Spoken("user", text, self.said.author), Spoken("assistant", result.text))
        heard = spoken if result.text.strip() else spoken[:1]
        self.said = replace(self.said, remembered=(*self.said.remembered, *heard))

    def _off_record(self) -> None:
        off = not self.said.off_record
        self.said = replace(self.said, off_record=off, remembered=())
        self.last = None
        self.out.note(_OFF if off else _ON)

    def _tell(self, result: TurnResult) -> int:
        if self.out.as_json:
            self.out.answer(result.to_json(), "")
        for notice in result.notices:
            self.out.warn(notice)
        if not result.interrupted:
            return 0
        self.out.note(f"Interrupted; {_what_came(result)}.")
        return 0 if self.interactive else INTERRUPTED

    def _command(self, line: str) -> None:
        if line == "/help":
            rows = "\n".join(f"  {name:<10} {meaning}" for name, meaning in COMMANDS.items())
            self.out.note(_HELP.format(commands=rows))
        elif line == "/context":
            self._context()
        elif line == "/offrecord":
            self._off_record()
        else:
            guess = nearest(line, COMMANDS)
            hint = f"Did you mean {guess}?" if guess else "/help lists the commands."
            self.out.note(
                f"No such command: {line!r}. {hint} To send it as a message, begin it with //."
            )

    def _context(self) -> None:
        from familiar_cli.actions.sent import find_trace
        from familiar_cli.ui.context_page import context_page
        from familiar_cli.ui.page import print_page

        trace = self.last or find_trace(self.familiar)
        print_page(context_page(trace))

    def _name(self) -> None:
        """Say who speaks, where a person is looking on."""
        if self.interactive and not self.out.quiet:
            sys.stderr.write(harmless(f"{self.familiar.paths.id}: "))
            sys.stderr.flush()


def _what_came(result: TurnResult) -> str:
    if result.turn is None:
        return "nothing was kept"
    return (
        f"the partial reply is kept as turn {result.reply.id}"
        if result.reply
        else "no reply had arrived"
    )


def lines_for(familiar: Familiar, channel_id: str) -> Iterable[str]:
    """Return where the lines come from; a person can call back what was said in the channel."""
    if not is_terminal():
        return piped_lines()
    turns = familiar.history.recent(channel_id, MOST_REMEMBERED)
    return typed_lines([turn.content for turn in turns if turn.role == "user"])
