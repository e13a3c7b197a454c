"""A conversation in the terminal, and its commands, which begin with `/`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.actions.talk import change_turns
from familiar_cli.actions.talk.channels import audience_for, channels_of
from familiar_cli.actions.talk.explain_piece import explain_piece
from familiar_cli.actions.talk.sent import find_trace, oldest_in_prompt, recalled_pieces
from familiar_cli.actions.talk.why import explain_reply
from familiar_cli.base.errors import FamiliarError, RefusedError, UsageError
from familiar_cli.base.text import harmless, nearest, one_line
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.cli.terminal.reply import (
    BackgroundNotices,
    ChatOutput,
    ReplyPrinter,
    SpokenReply,
    asked_lines,
    begin_work,
    begun_text,
    can_edit,
    finish_work,
    keys_kept,
    note_slow_model,
    piped_lines,
    tell_error,
    tell_thinking,
)
from familiar_cli.context.trace import Trace
from familiar_cli.context.turn import TurnResult
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.llm.slots import check_usable
from familiar_cli.pages.context_page import context_page, recall_page, reply_page, why_page
from familiar_cli.pages.emit import Output, say
from familiar_cli.pages.page import PagePart, local_time, plain, print_page
from familiar_cli.pages.stream import TURNS, StreamedText, show_past
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.search.types import SearchOptions

if TYPE_CHECKING:
    from familiar_cli.cli.terminal.chat_prompt import ChatPrompt

    Printer = ReplyPrinter | SpokenReply


_EXCERPT_CHARS: Final = 60
_MOST_FOUND: Final = 5
_MOST_LISTED: Final = 20
_HELP: Final = """\
Type a message; Alt-Enter or a backslash at the end of a line begins another line.
Ctrl-C interrupts a reply and keeps what has arrived; on an empty line it ends the chat, like Ctrl-D.
Tab completes commands, channels and paths.
{commands}
A message that begins with / is sent with a space or another / before it."""  # noqa: E501


class Command(Struct, frozen=True):
    """A command of the chat.

    Args:
        act: Runs it with its argument; returns an exit code or None.
        meaning: Description for `/help`.
        argument: Placeholder of the argument for `/help`.
        offers: Completions of the argument.
    """

    act: Callable[[Conversation, str], int | None]
    meaning: str
    argument: str = ""
    offers: Callable[[Conversation], Iterable[str]] = lambda _: ()


def run_command(chat: Conversation, line: str) -> int:
    """Run a line that begins with `/`. Returns the exit code.

    Raises:
        FamiliarError: The command failed; the message says what is unchanged.
    """
    name, _, argument = line.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        _say_unknown(chat, name)
        return 0
    if argument and not command.argument:
        raise UsageError(f"{name} takes no argument; nothing was sent")
    return command.act(chat, argument.strip()) or 0


def complete_line(chat: Conversation, typed: str) -> tuple[int, list[str]]:
    """Return the completions of a line, and the offset from which they replace it."""
    if not typed.startswith("/") or "\n" in typed:
        return 0, []
    name, space, argument = typed.partition(" ")
    if not space:
        return 0, [offered for offered in COMMANDS if offered.startswith(name)]
    offers = COMMANDS[name].offers(chat) if name in COMMANDS else ()
    return len(name) + 1, [offered for offered in offers if offered.startswith(argument)]


def _say_unknown(chat: Conversation, name: str) -> None:
    guess = nearest(name, COMMANDS)
    hint = f"Did you mean {guess}?" if guess else "/help lists the commands."
    chat.out.note(f"No such command: {name!r}. {hint} To send it as a message, begin it with //.")


def _show_help(chat: Conversation, _: str) -> None:
    shown = {f"{name} {command.argument}".rstrip(): command for name, command in COMMANDS.items()}
    width = max(map(len, shown))
    rows = "\n".join(f"  {name:<{width}}  {command.meaning}" for name, command in shown.items())
    chat.out.note(_HELP.format(commands=rows))


def _quit_chat(chat: Conversation, _: str) -> None:
    chat.is_over = True


def _reply_again(chat: Conversation, _: str) -> int:
    if chat.said.off_record:
        return chat.take(chat.forget_last())
    return chat.take(change_turns.again(chat.familiar, chat.said))


def _continue_reply(chat: Conversation, _: str) -> int:
    _check_on_record(chat, "/continue")
    return chat.take(change_turns.go_on(chat.familiar, chat.said))


def _edit_last(chat: Conversation, _: str) -> None:
    chat.check_edits("/edit")
    if chat.said.off_record:
        chat.draft = chat.forget_last().text
        return
    chat.edited = change_turns.last_exchange(chat.familiar, chat.said.channel_id).said
    chat.draft = chat.edited.content


def _undo_last(chat: Conversation, _: str) -> None:
    if chat.said.off_record:
        chat.out.note(f"Forgotten: {one_line(chat.forget_last().text, _EXCERPT_CHARS)}")
        return
    exchange = change_turns.take_back(chat.familiar, chat.said.channel_id)
    ids = " ".join(str(turn.id) for turn in exchange.turns)
    rest = ("", " and its reply", " and its replies")[min(len(exchange.replies), 2)]
    chat.out.note(
        f"Withdrawn: {one_line(exchange.said.content, _EXCERPT_CHARS)!r}{rest}. "
        f"`familiar history restore {ids}` brings {'them' if rest else 'it'} back."
    )


def _choose_reply(chat: Conversation, argument: str) -> None:
    channel_id = chat.said.channel_id
    _check_on_record(chat, "/choose")
    if argument:
        if not argument.isdecimal():
            raise UsageError(f"{argument!r} is not a number; nothing was changed")
        reply = change_turns.choose_reply(chat.familiar, channel_id, int(argument))
        chat.show(reply.content)
        return
    found = change_turns.alternatives(chat.familiar, channel_id)
    rows = (
        f"{'*' if number == found.standing else ' '} {number}  "
        f"{one_line(reply.content, _EXCERPT_CHARS)}"
        for number, reply in enumerate(found.replies, start=1)
    )
    chat.out.note("\n".join(rows))
    chat.out.note("/choose N selects another one; /again asks for one more.")


def _reply_numbers(chat: Conversation) -> Iterable[str]:
    found = change_turns.alternatives(chat.familiar, chat.said.channel_id)
    return map(str, range(1, len(found.replies) + 1))


def _make_branch(chat: Conversation, argument: str) -> None:
    name, _, turn = argument.partition(" ")
    if not name:
        raise UsageError("The name of the new channel is missing", hint="Type /branch NAME.")
    _check_on_record(chat, "/branch")
    parent = chat.said.channel_id
    if turn:
        turn_id = chat.familiar.turn_number(turn.strip())
    else:
        turn_id = change_turns.last_turn(chat.familiar, parent).id
    result = change_turns.branch_channel(chat.familiar, name, turn_id, parent)
    chat.go_to(result.branch.channel_id, show=bool(turn))
    chat.out.note(
        f"You are in {one_line(name)}, a branch of {one_line(parent)}; neither sees what follows "
        f"in the other. /channel {one_line(parent)} goes back."
    )


def _change_channel(chat: Conversation, argument: str) -> None:
    if argument:
        chat.go_to(argument)
        return
    from familiar_cli.pages.status_pages import short_channels_page

    chat.show_page(short_channels_page(channels_of(chat.familiar), chat.familiar.zone))
    chat.out.note(
        f"You are in {one_line(chat.said.channel_id)}; /channel NAME switches to another."
    )


def _channel_names(chat: Conversation) -> Iterable[str]:
    return (channel.channel_id for channel in chat.familiar.history.channels())


def _speak_as(chat: Conversation, argument: str) -> None:
    chat.speak_as(change_turns.speaking_as(chat.familiar, argument) if argument else None)


def _people_names(chat: Conversation) -> Iterable[str]:
    return change_turns.people_here(chat.familiar)


def _draft_for_me(chat: Conversation, _: str) -> int:
    chat.check_edits("/impersonate")
    result = chat.ask_quietly(change_turns.as_the_person(chat.said))
    speaker = chat.said.author
    name = chat.familiar.me(chat.said.channel_id).name_of(speaker) if speaker else ""
    chat.draft = harmless(change_turns.only_words(result.text, name))
    return 0


def _set_note(chat: Conversation, argument: str) -> None:
    chat.out.note(f"Noted in {change_turns.take_note(chat.familiar, argument)}.")


def _remember(chat: Conversation, argument: str) -> None:
    """Write the last message of a person to memory; with a text, note that."""
    if argument:
        _set_note(chat, argument)
        return
    from familiar_cli.actions.memory.write_memory import remember_turn

    _check_on_record(chat, "/remember")
    turn = change_turns.shared_exchange(chat.familiar, chat.said.channel_id).said
    rel_path = remember_turn(chat.familiar, turn.id)
    chat.out.note(f"Remembered in {rel_path}: {one_line(turn.content, _EXCERPT_CHARS)}")


def _search(chat: Conversation, argument: str) -> None:
    """Show the best lines of memory, and what was said."""
    from familiar_cli.actions.memory.search import kept_back, search_past

    if not argument:
        raise UsageError("The words to search for are missing", hint="Type /search WORDS.")
    familiar = chat.familiar
    found = familiar.finder.search(argument, SearchOptions(k=_MOST_FOUND, viewer=OWNER)).hits
    said = search_past(familiar, argument, k=_MOST_FOUND, viewer=familiar.privacy.glance()).hits
    kept = kept_back(familiar, argument, (hit.rel_path for hit in found), OWNER)
    marks = {path: f" ({why})" for path, why in kept.items()}
    rows = [
        (hit.score, f"{hit.rel_path}:{hit.line}", f"{hit.best}{marks.get(hit.rel_path, '')}")
        for hit in found
    ]
    rows += [(h.score, f"{h.channel}:{h.turns[0]}", f"{h.speaker}: {h.text}") for h in said]
    best = sorted(rows, reverse=True)[:_MOST_FOUND]
    chat.out.note(*(f"{place}  {one_line(text, _EXCERPT_CHARS)}" for _, place, text in best))
    if not best:
        chat.out.note(f"Nothing was found for {argument!r}.")


def _show_memory(chat: Conversation, argument: str) -> None:
    if argument:
        chat.show_page(plain(chat.familiar.memory.read_file(argument)))
        return
    paths = list(_recalled_paths(chat))
    chat.out.note(*paths[:_MOST_LISTED], "/memory PATH shows one; /search WORDS finds lines.")
    if len(paths) > _MOST_LISTED:
        chat.out.note(f"{len(paths) - _MOST_LISTED} more: `familiar memory list`.")


def _swipe(chat: Conversation, argument: str) -> int:
    if not argument:
        return _reply_again(chat, argument)
    _choose_reply(chat, argument)
    return 0


def _show_recalled(chat: Conversation, _: str) -> None:
    fragments = recalled_pieces(chat.last_trace())
    if fragments:
        chat.show_page(recall_page(fragments))
    else:
        chat.out.note("Nothing from memory was in the last prompt; /context shows what was.")


def _explain(chat: Conversation, argument: str) -> None:
    trace = chat.last_trace()
    if argument:
        chat.show_page(why_page(explain_piece(chat.familiar, trace, argument, viewer=OWNER)))
    else:
        chat.show_page(reply_page(explain_reply(chat.familiar, trace)))


def _recalled_paths(chat: Conversation) -> Iterable[str]:
    files = chat.familiar.memory.walk().files
    return [file.rel_path for file in files if not file.is_dir]


def _show_context(chat: Conversation, _: str) -> None:
    chat.show_page(context_page(chat.last_trace(), chat.familiar.zone))


def _check_on_record(chat: Conversation, name: str) -> None:
    if chat.said.off_record:
        raise RefusedError(
            f"{name} works with saved turns; off the record there are none",
            hint="Type /offrecord to go back on the record.",
        )


COMMANDS: Final = {
    "/again": Command(_reply_again, "ask for another reply; the previous one is kept"),
    "/continue": Command(_continue_reply, "continue the last reply from its end"),
    "/edit": Command(_edit_last, "change your last message and get a new reply"),
    "/retry": Command(_reply_again, "the same as /again"),
    "/undo": Command(_undo_last, "withdraw the last exchange"),
    "/forget": Command(_undo_last, "the same as /undo; `familiar memory rm` deletes a file"),
    "/choose": Command(_choose_reply, "choose one of several replies", "[N]", _reply_numbers),
    "/swipe": Command(
        _swipe, "ask for another reply, or choose the one with a number", "[N]", _reply_numbers
    ),
    "/branch": Command(
        _make_branch, "continue in a new channel, from here or from a turn", "NAME [TURN]"
    ),
    "/channel": Command(
        _change_channel, "go to another channel, or list all", "[NAME]", _channel_names
    ),
    "/as": Command(
        _speak_as, "speak as someone else, or as yourself again", "[NAME]", _people_names
    ),
    "/impersonate": Command(_draft_for_me, "let the model write your next line, unsent"),
    "/remember": Command(_remember, "save your last message to memory, or note TEXT", "[TEXT]"),
    "/search": Command(_search, "search memory and past turns", "WORDS"),
    "/memory": Command(_show_memory, "list memory, or show a file", "[PATH]", _recalled_paths),
    "/note": Command(_set_note, "add a line to notes.md in memory", "TEXT"),
    "/recall": Command(_show_recalled, "show the memories used for the last reply"),
    "/why": Command(
        _explain, "explain the last reply, or why a file was used or not", "[PATH]", _recalled_paths
    ),
    "/context": Command(_show_context, "show what was sent for the last reply"),
    "/offrecord": Command(
        lambda chat, _: chat.toggle_record(), "save nothing from here on, until you type it again"
    ),
    "/help": Command(_show_help, "show this list"),
    "/quit": Command(_quit_chat, "end the chat, like Ctrl-D"),
}


INTERRUPTED: Final = 130
MOST_REMEMBERED: Final = 200
"""So many of the latest turns can be called back with the arrow keys."""

_MOST_LABELS: Final = 3
_OFF: Final = "Off the record: nothing is saved until you type /offrecord."
_ON: Final = "Back on the record. What was said off the record is forgotten."


@dataclass(slots=True)
class Conversation:
    """A conversation.

    Args:
        said: Template of each message: speaker, channel and modality; its text is ignored.
        out: Where output goes.
        take_turn: Takes a turn, given the message, `on_text` and `on_wait`; Ctrl-C ends the reply
            and returns the partial result.
        interactive: A person is typing: errors are reported and the conversation continues. From a
            pipe, the first error ends it.
        shows_thinking: Print the model's reasoning after each reply.

    Attributes:
        draft: Text to put into the line editor next, unsent.
        edited: The turn that the next line replaces, if any.
        is_over: The person has asked to leave.
    """

    familiar: Familiar
    said: Said
    out: Output
    take_turn: Callable[..., TurnResult]
    interactive: bool = False
    shows_thinking: bool = False
    draft: str = ""
    edited: Turn | None = None
    is_over: bool = False
    _named: Author | None = None
    _name: str = ""
    _opening: str = ""
    _last: Trace | None = None
    _has_heard: bool = False
    _prompt: ChatPrompt | None = None
    _knows_why: bool = False
    _reach: str = ""
    _heard_by: tuple[object, str] = (None, "")
    _beside: BackgroundNotices = field(init=False)

    def __post_init__(self) -> None:
        """Remember the speaker if the command line names one."""
        if self.said.author != self.familiar.me(self.said.channel_id).author:
            self._named = self.said.author
        if self.interactive:
            self.out = ChatOutput(self.out.command, self.out.as_json, self.out.quiet)
        self._beside = BackgroundNotices(self.out, self.familiar)

    def run(self) -> int:
        """Talk until the lines end. Returns the exit code.

        Raises:
            FamiliarError: A turn failed, and nobody is there to continue.
        """
        code = 0
        with keys_kept() if self.interactive else nullcontext():
            self._open()
            for line in self._lines():
                code = self._heed(line)
                if code or self.is_over:
                    break
        if code:
            return code
        if self.interactive:
            self._beside.leave()
        else:
            finish_work(self.out, self.familiar)
        if not self._has_heard and not self.interactive:
            self.out.note("Nothing was sent: standard input is empty.")
        return 0

    def take(self, said: Said) -> int:
        """Take a turn, show the reply, and start the work it made due. Returns the exit code.

        Raises:
            FamiliarError: As `actions.talk.talk.take_turn`.
        """
        said = self._begin_conversation(said)
        if self.interactive:
            self._beside.make_way()
        with self._printer(begun_text(said)) as printer:
            wait = printer.note if isinstance(printer, SpokenReply) else self.out.note
            with self._prompt.replying() if self._prompt else nullcontext():
                result = self.take_turn(said, printer, on_wait=wait)
        self._last = result.trace
        self._remember(said, result)
        code = self._tell(result)
        if self._draws:
            say("")
        self._afterwards(result)
        return code

    def ask_quietly(self, said: Said) -> TurnResult:
        """Ask the model without showing or storing its reply.

        Raises:
            FamiliarError: As `actions.talk.talk.take_turn`.
        """
        self._beside.make_way()
        self.out.note("Writing a line for you; Ctrl-C stops that.")
        with self._prompt.replying() if self._prompt else nullcontext():
            return self.take_turn(said, lambda _: None, on_wait=self.out.note)

    def show(self, reply: str) -> None:
        """Show a text by the familiar."""
        if not self._draws:
            say(reply)
            return
        with StreamedText(sys.stdout, self._name) as text:
            text(reply)
        say("")

    def show_page(self, page: PagePart) -> None:
        """Show a page, in a pager if it is long."""
        print_page(page, in_pager=self._draws)
        if self._draws:
            say("")

    def go_to(self, channel_id: str, *, show: bool = True) -> None:
        """Continue in another channel.

        Args:
            show: Show its last turns.

        Raises:
            FamiliarError: As `_open`; the conversation stays where it was.
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
        """Change the speaker from here on; None for the one who began the chat."""
        speaker = author or self._me(self.said.channel_id)
        self.said = replace(self.said, author=speaker)
        label = self.familiar.me(self.said.channel_id).name_of(speaker)
        self.out.note(f"You speak as {label} ({speaker.platform}:{one_line(speaker.user_id)}).")

    def toggle_record(self) -> None:
        """Stop storing turns, or resume."""
        off = not self.said.off_record
        self.said = replace(self.said, off_record=off, remembered=())
        self._last = None
        self.out.note(_OFF if off else _ON)

    def forget_last(self) -> Said:
        """Drop the last off-the-record exchange, and return its message.

        Raises:
            NotFoundError: There is none.
        """
        forgotten = change_turns.forget_last(self.said)
        self.said = replace(self.said, remembered=forgotten.remembered)
        return forgotten

    def last_trace(self) -> Trace:
        """Return the trace of the channel's last reply.

        Raises:
            NotFoundError: There is none.
        """
        channel_id = self.said.channel_id
        if self._last and self._last.channel_id == channel_id:
            return self._last
        exchange = change_turns.shared_exchange(self.familiar, channel_id)
        return find_trace(self.familiar, exchange.said.id)

    def check_edits(self, name: str) -> None:
        """Check that there is a line editor.

        Raises:
            RefusedError: Lines come from a pipe, or are typed without an editor.
        """
        if not (self.interactive and can_edit()):
            raise RefusedError(f"{name} needs a terminal with a line editor; nothing was changed")

    def _me(self, channel_id: str) -> Author:
        """Return the speaker in a channel, unless `/as` named another."""
        return self._named or self.familiar.me(channel_id).author

    @property
    def _draws(self) -> bool:
        """Whether replies are styled for a person; otherwise they are exact text."""
        return self.interactive and not self.out.as_json and sys.stdout.isatty()

    def _open(self) -> None:
        """Prepare a channel, and show its last turns."""
        check_usable(self.familiar.models.slot())  # better now than after the first message
        self._name = self.familiar.name
        if self.interactive:
            self.familiar.finder.load_embedder(optimised=True)
            note_slow_model(self.out, self.familiar)
            self.out.note("/help lists the commands; Ctrl-D ends the chat.")
        self._begin_in_channel()
        if self.said.off_record:
            self.out.note(_OFF)

    def _begin_in_channel(self, *, show: bool = True) -> None:
        """Show the last turns, or greet in a new channel; the first turn stores the greeting."""
        from familiar_cli.actions.talk.talk import opening_of

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
        """Store the greeting that was shown; return the message that follows it."""
        if not self._opening or said.off_record:
            return said
        modality = str(said.modality)
        self.familiar.history.begin(said.channel_id, self._opening, modality=modality)
        self._opening, self.said = "", replace(self.said, greeting=None)
        return replace(said, greeting=None)

    def _lines(self) -> Iterator[str]:
        """Yield the messages: typed by a person, with a history of earlier ones, or from a pipe."""
        if not self.interactive:
            yield from piped_lines()
        elif can_edit():
            yield from self._typed_lines()
        else:
            yield from asked_lines()

    def _typed_lines(self) -> Iterator[str]:
        from familiar_cli.cli.terminal.chat_prompt import ChatPrompt

        turns = self.familiar.history.recent(self.said.channel_id, MOST_REMEMBERED, viewer=OWNER)
        past = [turn.content for turn in turns if turn.role == "user"]
        with ChatPrompt(past, self._completions, self._status, self._tell_late) as self._prompt:
            while (line := self._prompt.read(self._take_draft())) is not None:
                yield line

    def _tell_late(self) -> None:
        self.out.note("The reply was complete already. Ctrl-C again ends the chat.")

    def _take_draft(self) -> str:
        draft, self.draft = self.draft, ""
        return draft

    def _completions(self, typed: str) -> tuple[int, list[str]]:
        with suppress(FamiliarError):
            return complete_line(self, typed)
        return 0, []

    def _status(self) -> list[str]:
        said = self.said
        parts = (
            self._name,
            said.channel_id,
            self._audience(),
            "off the record" if said.off_record else "",
            f"editing turn {self.edited.id}; Ctrl-C leaves it" if self.edited else "",
            self._reach,
            self._beside.status(),
        )
        return [one_line(part) for part in parts if part]

    def _audience(self) -> str:
        """Say who can hear the conversation; it is looked up anew when the privacy rules change."""
        with suppress(FamiliarError):
            stamp = self.said.channel_id, self.familiar.privacy.rules()
            if self._heard_by[0] != stamp:
                self._heard_by = stamp, f"heard by {audience_for(self.familiar, self.said)}"
        return self._heard_by[1]

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
            self.out.note("Interrupted; nothing was saved.")
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
            said = change_turns.say_again(self.familiar, said, edited)
        return self.take(said)

    def _printer(self, begun: str) -> Printer:
        if self._draws:
            return SpokenReply(self._name, begun)
        return ReplyPrinter(silent=self.out.as_json, begun=begun)

    def _afterwards(self, result: TurnResult) -> None:
        """Let older turns be summarised: while a person types, or before the next line is read."""
        if result.interrupted:
            return
        if self.interactive:
            self._beside.begin(result)
        else:
            begin_work(self.out, self.familiar, result)
            finish_work(self.out, self.familiar)

    def _remember(self, said: Said, result: TurnResult) -> None:
        """Remember what was said off the record until that ends."""
        if self.said.off_record:
            remembered = change_turns.with_exchange(self.said.remembered, said, result.text)
            self.said = replace(self.said, remembered=remembered)

    def _tell(self, result: TurnResult) -> int:
        thinking = tell_thinking(self.out, result) if self.shows_thinking else {}
        if self.out.as_json:
            self.out.answer(result.to_json() | thinking, "")
        self.out.warn(*result.notices)
        self._reach = self._prompt_reach(result.trace) if self._draws else ""
        if not result.interrupted:
            self._tell_memories(result)
            return 0
        self.out.note(f"Interrupted; {_what_came(result)}.")
        return 0 if self.interactive else INTERRUPTED

    def _prompt_reach(self, trace: Trace) -> str:
        """Say which messages have left the prompt; empty if none have."""
        first = self.familiar.history.turn(oldest_in_prompt(trace))
        channel_id = self.said.channel_id
        if not first or not self.familiar.history.recent(channel_id, 1, first.id, viewer=OWNER):
            return ""
        return f"messages before {local_time(first.at, self.familiar.zone)} left the prompt"

    def _tell_memories(self, result: TurnResult) -> None:
        """Print one line about the memories that the reply used."""
        if not self._draws:
            return

        labels = [one.label for one in explain_reply(self.familiar, result.trace).memories]
        if not labels:
            return
        more = f" · {len(labels) - _MOST_LABELS} more" if len(labels) > _MOST_LABELS else ""
        hint = "" if self._knows_why else "   (/why tells more)"
        self._knows_why = True
        self.out.note(f"✦ {' · '.join(labels[:_MOST_LABELS])}{more}{hint}")


def _is_command(line: str) -> bool:
    return line.startswith("/") and not line.startswith("//")


def _as_sent(line: str) -> str:
    """Remove the escape in front of a `/` that does not begin a command."""
    return line[1:] if line.startswith(("//", " /")) else line


def _what_came(result: TurnResult) -> str:
    if result.turn is None:
        return "nothing was saved"
    if result.reply is None:
        return "no reply had arrived"
    return f"the partial reply is saved as turn {result.reply.id}"
