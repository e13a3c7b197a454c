"""A conversation in the terminal; `chat_commands` holds the lines that begin with `/`."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from familiar_cli.clock import to_zone
from familiar_cli.context.types import Spoken
from familiar_cli.errors import FamiliarError, NotFoundError, RefusedError
from familiar_cli.history.rows import in_pairs
from familiar_cli.text import one_line
from familiar_cli.ui.afterwards import BackgroundNotices, begin, finish
from familiar_cli.ui.chat_commands import completions, run_command
from familiar_cli.ui.emit import Output, print_error, say
from familiar_cli.ui.lines import asked_lines, can_edit, piped_lines
from familiar_cli.ui.reply import ReplyPrinter, SpokenReply, keys_kept
from familiar_cli.ui.stream import StreamedText
from familiar_cli.ui.terminal import console, plain
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from familiar_cli.history.rows import Turn
    from familiar_cli.identity import Me


_DIM: Final = "dim"


@dataclass(frozen=True, slots=True)
class ChatOutput(Output):
    """The words of a chat with a person."""

    def note(self, text: str) -> None:
        """Tell what is going on, on stderr."""
        if self.quiet or not sys.stderr.isatty():
            Output.note(self, text)
        else:
            _print(text, _DIM)


def tell_error(error: FamiliarError) -> None:
    """Tell of an error, and what to do about it; the chat goes on."""
    if not sys.stderr.isatty():
        print_error(error)
        return
    _print(f"error: {error}", "red")
    if error.hint:
        _print(f"hint: {error.hint}", _DIM)


def _print(text: str, style: str) -> None:
    from familiar_cli.ui.stream import print_wrapped

    print_wrapped(sys.stderr, text, style)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.context.trace import Trace
    from familiar_cli.context.turn import TurnResult
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.rows import Turn
    from familiar_cli.identity import Author

    Printer = ReplyPrinter | SpokenReply

INTERRUPTED: Final = 130
MOST_REMEMBERED: Final = 200
"""So many of the latest turns can be called back with the arrow keys."""

_OFF: Final = "Off the record: nothing is kept until you type /offrecord."
_ON: Final = "Back on the record. What was said off the record is forgotten."


class TakesTurn(Protocol):
    """Takes a turn; Ctrl-C ends the reply, and what came of it is the result."""

    def __call__(
        self, said: Said, on_text: Callable[[str], None], *, on_wait: Callable[[str], None]
    ) -> TurnResult:
        """Say something, and hand each piece of the reply to `on_text`."""


@dataclass(slots=True)
class Conversation:
    """One conversation.

    Args:
        familiar: Whom one talks to.
        said: Who speaks, where and how; its text does not matter.
        out: Where the words go.
        take_turn: Takes a turn.
        interactive: A person is typing: failures are told and the conversation goes on. From a
            pipe, the first failure ends it.

    Attributes:
        draft: What is to stand in the line editor next, unsent.
        edited: The turn that the next line replaces; None: none.
        is_over: The person has asked to leave.
    """

    familiar: Familiar
    said: Said
    out: Output
    take_turn: TakesTurn
    interactive: bool = False
    draft: str = ""
    edited: Turn | None = None
    is_over: bool = False
    _named: Author | None = None
    _name: str = ""
    _opening: str = ""
    _last: Trace | None = None
    _has_heard: bool = False
    _beside: BackgroundNotices = field(init=False)

    def __post_init__(self) -> None:
        """Remember who sits here, if the command line names somebody."""
        if self.said.author != self.familiar.me(self.said.channel_id).author:
            self._named = self.said.author
        if self.interactive:
            self.out = ChatOutput(self.out.command, self.out.as_json, self.out.quiet)
        self._beside = BackgroundNotices(self.out, self.familiar)

    def run(self) -> int:
        """Talk until the lines end. Returns the exit code.

        Raises:
            FamiliarError: A turn failed, and nobody is there to go on.
        """
        with keys_kept() if self.interactive else nullcontext():
            code = self._talk()
        if code:
            return code
        if self.interactive:
            self._beside.leave()
        else:
            finish(self.out, self.familiar)
        if not self._has_heard and not self.interactive:
            self.out.note("Nothing was sent: standard input is empty.")
        return 0

    def _talk(self) -> int:
        self._open()
        for line in self._lines():
            code = self._heed(line)
            if code or self.is_over:
                return code
        return 0

    def take(self, said: Said) -> int:
        """Take a turn, show the reply, and begin with what that made due. Returns the exit code.

        Raises:
            FamiliarError: As `actions.talk.take_turn`.
        """
        said = self._begin_conversation(said)
        if self.interactive:
            self._beside.make_way()
        with self._printer(_begun(said)) as printer:
            wait = printer.note if isinstance(printer, SpokenReply) else self.out.note
            result = self.take_turn(said, printer, on_wait=wait)
        self._last = result.trace
        self._remember(said, result)
        code = self._tell(result)
        self._afterwards(result)
        return code

    def ask_quietly(self, said: Said) -> TurnResult:
        """Ask the model without showing or keeping what it says.

        Raises:
            FamiliarError: As `actions.talk.take_turn`.
        """
        self._beside.make_way()
        self.out.note("Writing a line for you; Ctrl-C stops that.")
        return self.take_turn(said, lambda _: None, on_wait=self.out.note)

    def show(self, reply: str) -> None:
        """Show something that the familiar says."""
        if not self._draws:
            say(reply)
            return
        from familiar_cli.ui.stream import StreamedText

        with StreamedText(sys.stdout, self._name) as shown:
            shown(reply)
        say("")

    def go_to(self, channel_id: str, *, show: bool = True) -> None:
        """Go on in another channel.

        Args:
            channel_id: Which.
            show: Show what was said last there.

        Raises:
            FamiliarError: As `_open`; the conversation goes on where it was.
        """
        before = self.said
        was_me = before.author == self._me(before.channel_id)
        author = self._me(channel_id) if was_me else before.author
        self.said = replace(before, channel_id=channel_id, author=author, remembered=())
        try:
            self._begin_in_channel(show=show)
        except FamiliarError:
            self.said = before
            raise

    def speak_as(self, author: Author | None) -> None:
        """Let somebody else speak from here on; None: whoever began the chat."""
        speaker = author or self._me(self.said.channel_id)
        self.said = replace(self.said, author=speaker)
        label = self.familiar.me(self.said.channel_id).name_of(speaker)
        self.out.note(f"You speak as {label} ({speaker.platform}:{one_line(speaker.user_id)}).")

    def turn_record_off(self, *, off: bool) -> None:
        """Keep nothing from here on, or keep everything again."""
        self.said = replace(self.said, off_record=off, remembered=())
        self._last = None
        self.out.note(_OFF if off else _ON)

    def forget_last(self) -> Said:
        """Forget the last exchange off the record, and return what was said in it.

        Raises:
            NotFoundError: There is none.
        """
        heard = self.said.remembered
        at = max((n for n, spoken in enumerate(heard) if spoken.role == "user"), default=None)
        if at is None:
            raise NotFoundError("Nothing was said off the record yet")
        self.said = replace(self.said, remembered=heard[:at])
        return replace(self.said, text=heard[at].text)

    def last_trace(self) -> Trace:
        """Return the record of the last reply.

        Raises:
            NotFoundError: There is none.
        """
        from familiar_cli.actions.sent import find_trace

        return self._last or find_trace(self.familiar)

    def check_edits(self, name: str) -> None:
        """Make sure that there is a line editor.

        Raises:
            RefusedError: Lines come from a pipe, or are typed without one.
        """
        if not (self.interactive and can_edit()):
            raise RefusedError(f"{name} needs a terminal with a line editor; nothing was changed")

    def _me(self, channel_id: str) -> Author:
        """Return who speaks in a channel, unless another name was called with `/as`."""
        return self._named or self.familiar.me(channel_id).author

    @property
    def _draws(self) -> bool:
        """Whether a person sees replies drawn; else they are exact text."""
        return self.interactive and not self.out.as_json and sys.stdout.isatty()

    def _open(self) -> None:
        """Make ready, and show where the conversation stands."""
        from familiar_cli.llm.slots import check_usable

        check_usable(self.familiar.slot())  # better now than after the first line
        self._name = self.familiar.name
        if self.interactive:
            self.familiar.load_embedder(optimised=True)
            self.out.note("/help lists the commands; Ctrl-D ends the chat.")
        self._begin_in_channel()
        if self.said.off_record:
            self.out.note(_OFF)

    def _begin_in_channel(self, *, show: bool = True) -> None:
        """Show what was said last, or greet where nothing was said; that is kept with a turn."""
        from familiar_cli.actions.talk import opening_of

        self._opening = opening_of(self.familiar, self.said)
        if not self.interactive or self.out.as_json or not show:
            return
        if self._opening:
            self.show(self._opening)
        elif self._draws:
            turns = self.familiar.history.recent(self.said.channel_id, TURNS, viewer=OWNER)
            me = self.familiar.me(self.said.channel_id)
            show_past(turns, self._name, me, self.familiar.zone)
            say("")

    def _begin_conversation(self, said: Said) -> Said:
        """Keep the greeting that was shown; return what is said now that there is one."""
        if not self._opening or said.off_record:
            return said
        modality = str(said.modality)
        self.familiar.history.begin(said.channel_id, self._opening, modality=modality)
        self._opening, self.said = "", replace(self.said, greeting=None)
        return replace(said, greeting=None)

    def _lines(self) -> Iterator[str]:
        """Yield what is said: by a person, who can call back what was said, or by a pipe."""
        if not self.interactive:
            yield from piped_lines()
        elif can_edit():
            yield from self._typed_lines()
        else:
            yield from asked_lines()

    def _typed_lines(self) -> Iterator[str]:
        from familiar_cli.ui.chat_prompt import ChatPrompt

        turns = self.familiar.history.recent(self.said.channel_id, MOST_REMEMBERED, viewer=OWNER)
        past = [turn.content for turn in turns if turn.role == "user"]
        prompt = ChatPrompt(past, self._completions, self._status)
        while (line := prompt.read(self._take_draft())) is not None:
            yield line

    def _take_draft(self) -> str:
        draft, self.draft = self.draft, ""
        return draft

    def _completions(self, typed: str) -> tuple[int, list[str]]:
        with suppress(FamiliarError):
            return completions(self, typed)
        return 0, []

    def _status(self) -> list[str]:
        said = self.said
        parts = (
            self._name,
            said.channel_id,
            "off the record" if said.off_record else "",
            f"editing turn {self.edited.id}; Ctrl-C leaves it" if self.edited else "",
            self._beside.status(),
        )
        return [one_line(part) for part in parts if part]

    def _heed(self, line: str) -> int:
        try:
            return self._do(line)
        except FamiliarError as error:
            if not self.interactive:
                raise
            tell_error(error)
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            self.out.note("Interrupted; nothing was kept.")
        return 0

    def _do(self, line: str) -> int:
        edited, self.edited = self.edited, None
        if not line.strip():
            if edited:
                self.out.note(f"Turn {edited.id} is unchanged.")
            return 0
        self._has_heard = True
        if _is_command(line) and not (edited and _is_command(edited.content)):
            return run_command(self, line)
        said = replace(self.said, text=_as_sent(line))
        if edited:
            from familiar_cli.actions.change_turns import say_again

            said = say_again(self.familiar, said, edited)
        return self.take(said)

    @contextmanager
    def _printer(self, begun: str) -> Iterator[Printer]:
        if self._draws:
            with SpokenReply(self.out, self._name, begun) as spoken:
                yield spoken
            return
        with ReplyPrinter(silent=self.out.as_json, begun=begun) as printer:
            yield printer

    def _afterwards(self, result: TurnResult) -> None:
        """Let older turns be summarised: while a person types, or before the next line is read."""
        if result.interrupted:
            return
        if self.interactive:
            self._beside.begin(result)
        else:
            begin(self.out, self.familiar, result)
            finish(self.out, self.familiar)

    def _remember(self, said: Said, result: TurnResult) -> None:
        """Hold what was said off the record, for as long as it goes on."""
        if not self.said.off_record:
            return
        spoken = (Spoken("user", said.text, said.author), Spoken("assistant", result.text))
        heard = spoken if result.text.strip() else spoken[:1]
        self.said = replace(self.said, remembered=(*self.said.remembered, *heard))

    def _tell(self, result: TurnResult) -> int:
        if self.out.as_json:
            self.out.answer(result.to_json(), "")
        for notice in result.notices:
            self.out.warn(notice)
        if not result.interrupted:
            return 0
        self.out.note(f"Interrupted; {_what_came(result)}.")
        return 0 if self.interactive else INTERRUPTED


def _begun(said: Said) -> str:
    """Return the beginning of a reply that goes on."""
    return said.instead_of.content if said.instead_of and said.remake == "continue" else ""


def _is_command(line: str) -> bool:
    return line.startswith("/") and not line.startswith("//")


def _as_sent(line: str) -> str:
    """Return a message without what stands before its `/` so that it is no command."""
    return line[1:] if line.startswith(("//", " /")) else line


def _what_came(result: TurnResult) -> str:
    if result.turn is None:
        return "nothing was kept"
    return (
        f"the partial reply is kept as turn {result.reply.id}"
        if result.reply
        else "no reply had arrived"
    )


TURNS: Final = 6
"""So many of the latest are shown."""

_LAST_CHARS: Final = 1200  # of the last exchange, each turn
_EARLIER_CHARS: Final = 300


def show_past(turns: Sequence[Turn], name: str, me: Me, zone: tzinfo | None) -> None:
    """Show turns with their days and times, dimmed; long ones are cut.

    Args:
        turns: What was said, oldest first.
        name: The familiar's.
        me: Who sits here.
        zone: Where that is.
    """
    day = ""
    arranged = in_pairs(turns)
    for at, turn in enumerate(arranged, start=1):
        when = to_zone(turn.at, zone)
        if (today := f"{when:%A, }{when.day}{when: %B %Y}") != day:
            day = today
            console(sys.stdout).print(plain(f"— {day} —", "dim"))
        most = _LAST_CHARS if at > len(arranged) - 2 else _EARLIER_CHARS
        with StreamedText(sys.stdout, f"{when:%H:%M} {_who(turn, name, me)}", "dim") as shown:
            shown(_cut(turn.content, most))


def _who(turn: Turn, name: str, me: Me) -> str:
    if turn.author is None:
        return name if turn.role == "assistant" else turn.role
    return "You" if me.is_me(turn.author) else me.name_of(turn.author)


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, up to a word; all of it if it is short."""
    if len(text) <= most:
        return text
    head, _, _ = text[:most].rpartition(" ")
    return f"{(head or text[:most]).rstrip()} …"
