"""The commands of a chat: lines that begin with `/`. Each calls one action and shows its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import RefusedError, UsageError
from familiar_cli.text import harmless, nearest, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.ui.chat import Conversation

_EXCERPT_CHARS: Final = 60
_HELP: Final = """\
Type a message; Alt-Enter or a backslash at the end of a line begins another line.
Ctrl-C interrupts a reply and keeps what has arrived; on an empty line it ends the chat, like Ctrl-D.
Tab completes commands, channels and paths.
{commands}
A message that begins with / is sent with a space or another / before it."""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Args:
        act: Does it, given what stands behind the command; returns an exit code or None.
        meaning: What it does, for `/help`.
        argument: What may stand behind it, for `/help`.
        offers: What Tab offers for that.
    """

    act: Callable[[Conversation, str], int | None]
    meaning: str
    argument: str = ""
    offers: Callable[[Conversation], Iterable[str]] = lambda _: ()


def run_command(chat: Conversation, line: str) -> int:
    """Do what a line that begins with `/` says. Returns the exit code.

    Raises:
        FamiliarError: It could not be done; the message says what is unchanged.
    """
    name, _, argument = line.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        _unknown(chat, name)
        return 0
    if argument and not command.argument:
        raise UsageError(f"{name} takes no argument; nothing was sent")
    return command.act(chat, argument.strip()) or 0


def completions(chat: Conversation, typed: str) -> tuple[int, list[str]]:
    """Return what Tab offers for a line, and from which character on it replaces it."""
    if not typed.startswith("/") or "\n" in typed:
        return 0, []
    name, space, argument = typed.partition(" ")
    if not space:
        return 0, [offered for offered in COMMANDS if offered.startswith(name)]
    command = COMMANDS.get(name)
    offers = command.offers(chat) if command else ()
    return len(name) + 1, [offered for offered in offers if offered.startswith(argument)]


def _unknown(chat: Conversation, name: str) -> None:
    guess = nearest(name, COMMANDS)
    hint = f"Did you mean {guess}?" if guess else "/help lists the commands."
    chat.out.note(f"No such command: {name!r}. {hint} To send it as a message, begin it with //.")


def _help(chat: Conversation, _: str) -> None:
    shown = {f"{name} {command.argument}".rstrip(): command for name, command in COMMANDS.items()}
    width = max(map(len, shown))
    rows = "\n".join(f"  {name:<{width}}  {command.meaning}" for name, command in shown.items())
    chat.out.note(_HELP.format(commands=rows))


def _quit(chat: Conversation, _: str) -> None:
    chat.is_over = True


def _off_record(chat: Conversation, _: str) -> None:
    chat.turn_record_off(off=not chat.said.off_record)


def _again(chat: Conversation, _: str) -> int:
    from familiar_cli.actions.change_turns import again, unanswered

    if chat.said.off_record:
        return chat.take(chat.forget_last())
    first = unanswered(chat.familiar, chat.said)  # as after a failure
    return chat.take(first or again(chat.familiar, chat.said))


def _continue(chat: Conversation, _: str) -> int:
    from familiar_cli.actions.change_turns import go_on

    _check_on_record(chat, "/continue")
    return chat.take(go_on(chat.familiar, chat.said))


def _edit(chat: Conversation, _: str) -> None:
    from familiar_cli.actions.change_turns import last_exchange

    chat.check_edits("/edit")
    if chat.said.off_record:
        chat.draft = chat.forget_last().text
        return
    chat.edited = last_exchange(chat.familiar, chat.said.channel_id).said
    chat.draft = chat.edited.content


def _undo(chat: Conversation, _: str) -> None:
    from familiar_cli.actions.change_turns import take_back

    if chat.said.off_record:
        chat.out.note(f"Forgotten: {one_line(chat.forget_last().text, _EXCERPT_CHARS)}")
        return
    exchange = take_back(chat.familiar, chat.said.channel_id)
    ids = " ".join(str(turn.id) for turn in exchange.turns)
    chat.out.note(
        f"Withdrawn: {one_line(exchange.said.content, _EXCERPT_CHARS)!r} and its "
        f"{'reply' if len(exchange.replies) < 2 else 'replies'}. "  # noqa: PLR2004
        f"`familiar history restore {ids}` brings them back."
    )


def _choose(chat: Conversation, argument: str) -> None:
    from familiar_cli.actions.change_turns import alternatives, choose_reply

    channel_id = chat.said.channel_id
    _check_on_record(chat, "/choose")
    if argument:
        chat.show(choose_reply(chat.familiar, channel_id, _number(argument)).content)
        return
    found = alternatives(chat.familiar, channel_id)
    rows = (
        f"{'*' if number == found.standing else ' '} {number}  "
        f"{one_line(reply.content, _EXCERPT_CHARS)}"
        for number, reply in enumerate(found.replies, start=1)
    )
    chat.out.note("\n".join(rows))
    chat.out.note("/choose N selects another one; /again asks for one more.")


def _numbers(chat: Conversation) -> Iterable[str]:
    from familiar_cli.actions.change_turns import alternatives

    found = alternatives(chat.familiar, chat.said.channel_id)
    return map(str, range(1, len(found.replies) + 1))


def _branch(chat: Conversation, argument: str) -> None:
    from familiar_cli.actions.change_turns import last_turn
    from familiar_cli.actions.chat_extras import branch_channel

    name, _, turn = argument.partition(" ")
    if not name:
        raise UsageError("Missing the name of the new channel", hint="Type /branch NAME.")
    _check_on_record(chat, "/branch")
    parent = chat.said.channel_id
    turn_id = (
        chat.familiar.turn_number(turn.strip()) if turn else last_turn(chat.familiar, parent).id
    )
    made = branch_channel(chat.familiar, name, turn_id, parent)
    chat.go_to(made.branch.channel_id, show=bool(turn))
    chat.out.note(
        f"You are in {one_line(name)}, a branch of {one_line(parent)}; neither learns what follows "
        f"in the other. /channel {one_line(parent)} goes back."
    )


def _channel(chat: Conversation, argument: str) -> None:
    if argument:
        chat.go_to(argument)
        return
    from familiar_cli.actions.channels import channels_of
    from familiar_cli.ui.settings_page import channels_page
    from familiar_cli.ui.terminal import print_page

    print_page(channels_page(channels_of(chat.familiar), chat.familiar.zone))
    chat.out.note(f"You are in {one_line(chat.said.channel_id)}; /channel NAME goes elsewhere.")


def _channels(chat: Conversation) -> Iterable[str]:
    return (channel.channel_id for channel in chat.familiar.history.channels())


def _as(chat: Conversation, argument: str) -> None:
    from familiar_cli.actions.chat_extras import speaking_as

    chat.speak_as(speaking_as(chat.familiar, argument) if argument else None)


def _people(chat: Conversation) -> Iterable[str]:
    from familiar_cli.actions.chat_extras import people_here

    return people_here(chat.familiar)


def _impersonate(chat: Conversation, _: str) -> int:
    from familiar_cli.actions.chat_extras import as_the_person, only_words

    chat.check_edits("/impersonate")
    result = chat.ask_quietly(as_the_person(chat.said))
    speaker = chat.said.author
    name = chat.familiar.me(chat.said.channel_id).name_of(speaker) if speaker else ""
    chat.draft = harmless(only_words(result.text, name))
    return 0


def _note(chat: Conversation, argument: str) -> None:
    from familiar_cli.actions.chat_extras import take_note

    chat.out.note(f"Noted in {take_note(chat.familiar, argument)}.")


def _recall(chat: Conversation, _: str) -> None:
    from familiar_cli.actions.sent import recalled
    from familiar_cli.ui.context_page import recall_page
    from familiar_cli.ui.page import print_page

    found = recalled(chat.last_trace())
    if found:
        print_page(recall_page(found))
    else:
        chat.out.note("Nothing from memory was in the last prompt; /context shows all that was.")


def _why(chat: Conversation, argument: str) -> None:
    from familiar_cli.actions.sent import why
    from familiar_cli.ui.terminal import print_page
    from familiar_cli.ui.why_page import why_page

    if not argument:
        raise UsageError("Missing the path of a memory file", hint="Type /why and press Tab.")
    print_page(why_page(why(chat.familiar, chat.last_trace(), argument)))


def _paths(chat: Conversation) -> Iterable[str]:
    files = chat.familiar.memory.walk().files
    return [file.rel_path for file in files if not file.is_dir]


def _context(chat: Conversation, _: str) -> None:
    from familiar_cli.ui.context_page import context_page
    from familiar_cli.ui.page import print_page

    print_page(context_page(chat.last_trace()))


def _number(argument: str) -> int:
    if not argument.isdecimal():
        raise UsageError(f"{argument!r} is not a number; nothing was changed")
    return int(argument)


def _check_on_record(chat: Conversation, name: str) -> None:
    if chat.said.off_record:
        raise RefusedError(
            f"{name} needs turns that are kept; off the record there are none",
            hint="Type /offrecord to go back on the record.",
        )


COMMANDS: Final = {
    "/again": Command(_again, "ask for another reply; the one before is kept"),
    "/continue": Command(_continue, "continue the last reply from its end"),
    "/edit": Command(_edit, "change what you said last; a new reply is asked for"),
    "/undo": Command(_undo, "withdraw the last exchange"),
    "/choose": Command(_choose, "choose one of several replies", "[N]", _numbers),
    "/branch": Command(
        _branch, "continue in a new channel, from here or from a turn", "NAME [TURN]"
    ),
    "/channel": Command(_channel, "go to another channel, or list all", "[NAME]", _channels),
    "/as": Command(_as, "speak as somebody else, or as yourself again", "[NAME]", _people),
    "/impersonate": Command(_impersonate, "let the model write your next line, unsent"),
    "/note": Command(_note, "add a line to notes.md in memory", "TEXT"),
    "/recall": Command(_recall, "show what memory gave to the last reply"),
    "/why": Command(_why, "explain why a memory file was used or not", "PATH", _paths),
    "/context": Command(_context, "show what was sent for the last reply"),
    "/offrecord": Command(_off_record, "save nothing from here on, until you type it again"),
    "/help": Command(_help, "show this list"),
    "/quit": Command(_quit, "end the chat, like Ctrl-D"),
}
