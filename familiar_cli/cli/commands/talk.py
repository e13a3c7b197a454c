"""`familiar ask`, `again`, `continue`, `hear` and `chat`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec.structs import replace

from familiar_cli.base.errors import ModelError, PartialError, UsageError
from familiar_cli.cli.commands import _base as base
from familiar_cli.cli.commands._options import DryRunUnasked
from familiar_cli.cli.commands._options import name as name_option
from familiar_cli.cli.commands._options import speaker as speaker_option
from familiar_cli.pages.emit import Output, is_terminal

if TYPE_CHECKING:
    from familiar_cli.context.turn import TurnResult
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar

As = Annotated[
    str | None, speaker_option("Speaker's account, or an owner; default: you (`familiar me`).")
]
Name = Annotated[str | None, name_option("Speaker's display name.")]
Channel = Annotated[
    str, typer.Option("--channel", metavar="ID", help="Channel of the conversation.")
]
How = Annotated[
    Literal["text", "voice"], typer.Option("--modality", help="Modality of the message.")
]
Greeting = Annotated[
    int | None,
    typer.Option(
        "--greeting",
        metavar="N",
        help="Number of the greeting that opens a new conversation, from 1.",
    ),
]
NoGreeting = Annotated[
    bool, typer.Option("--no-greeting", help="Open a new conversation without a greeting.")
]
NoStream = Annotated[
    bool, typer.Option("--no-stream", help="Print a reply only when it is complete.")
]
ShowThinking = Annotated[
    bool, typer.Option("--show-thinking", help="Show the model's reasoning on stderr.")
]
MessageId = Annotated[
    str,
    typer.Option(
        "--id", metavar="ID", help="Message id on its platform; a message is saved only once."
    ),
]
Tier = Annotated[
    int | None,
    typer.Option(
        "--tier", min=1, max=4, metavar="N", help="Amount of memory to load: 1 (little) to 4 (all)."
    ),
]


def said_as(
    familiar: Familiar, text: str, as_: str | None, name: str | None, channel: str, *, modality: str
) -> Said:
    """Return the message that these options describe.

    Raises:
        UsageError: `as_` names nobody.
        ConfigError: The settings have something wrong in them.
    """
    from familiar_cli.base.config.home import who_speaks
    from familiar_cli.context.types import Modality, Said

    author = who_speaks(as_, name, familiar.me(channel))
    return Said(text, author, channel, Modality(modality))


def greeting_number(greeting: int | None, *, no_greeting: bool) -> int | None:
    """Return the number of the greeting for a new conversation, 0 for none; see `Said.greeting`.

    Raises:
        UsageError: The options contradict each other.
    """
    if no_greeting and greeting is not None:
        raise UsageError("--greeting and --no-greeting cannot be combined")
    return 0 if no_greeting else greeting


def hint_of_me(out: Output, familiar: Familiar, said: Said) -> str:
    """Return a hint on how to say who one is, or an empty string if it is not needed."""
    if out.as_json or not is_terminal():
        return ""
    from familiar_cli.actions.people import me

    return me.hint_of_me(familiar, said.author)


def reply_to(
    familiar: Familiar,
    said: Said,
    on_text: Callable[[str], None],
    *,
    stream: bool = True,
    on_wait: Callable[[str], None],
    in_chat: bool = False,
) -> TurnResult:
    """Take a turn; Ctrl-C ends the reply, and the partial result is returned.

    Raises:
        KeyboardInterrupt: Ctrl-C was typed before anything was stored.
        FamiliarError: As `take_turn`.
    """
    from familiar_cli.actions.talk.talk import take_turn

    results: list[TurnResult] = []

    async def take_and_keep() -> TurnResult:
        result = await take_turn(
            familiar, said, on_text, stream=stream, on_wait=on_wait, on_interrupted=results.append
        )
        results.append(result)  # Ctrl-C may come before `run_async` has returned it
        return result

    try:
        return base.run_async(take_and_keep())
    except KeyboardInterrupt:
        if not results:
            raise
        return results[0]
    except ModelError as error:
        if not said.off_record:
            retry = _retry_command(familiar, said, in_chat=in_chat)
            error.hint = f"{error.hint or ''} To try again, {retry}.".lstrip()
        raise


def _retry_command(familiar: Familiar, said: Said, *, in_chat: bool) -> str:
    """Name the command that asks for the failed reply once more."""
    from familiar_cli.actions.talk.talk import kept_question
    from familiar_cli.base.text import channel_option

    name = "continue" if said.remake == "continue" else "again"
    if in_chat:
        return f"type /{name}"
    return f"run `familiar {name}{channel_option(kept_question(familiar, said).channel_id)}`"


ask_app = base.App()
_CHECK_S = 0.2  # at most, after a reply, for a look at the pages of the history


@ask_app.command()
def ask(
    ctx: typer.Context,
    text: Annotated[str | None, typer.Argument()] = None,
    *,
    as_: As = None,
    name: Name = None,
    channel: Channel = "cli",
    modality: How = "text",
    greeting: Greeting = None,
    no_greeting: NoGreeting = False,
    message_id: MessageId = "",
    again_for: Annotated[str | None, typer.Option("--reply-to")] = None,
    dry_run: DryRunUnasked = False,
    tier: Tier = None,
    off_record: Annotated[bool, typer.Option("--off-record")] = False,
    no_stream: NoStream = False,
    show_thinking: ShowThinking = False,
    no_background: Annotated[bool, typer.Option("--no-background")] = False,
) -> None:
    """Send one message and print the reply. Only the reply goes to stdout.

    From time to time, older turns are summarised after the reply; Ctrl-C postpones
    that. A channel answers one message at a time; other channels do not wait.

    \b
    familiar ask "Do you remember the harbour?"
    familiar ask "Hello" --as=discord:1234 --name=Anna
    familiar ask "Between you and me …" --off-record
    git log -1 | familiar ask - --dry-run

    Args:
        text (TEXT|-): Message to send; `-` reads standard input.
        again_for (TURN): Reply to a saved turn that has no reply (without TEXT).
        off_record: Keep nothing: neither the turn nor a record of the prompt.
        no_background: Exit after the reply, without background work.
    """
    words, out = _words(text, again_for), base.output(ctx)
    with base.with_models(base.familiar_of(ctx)) as familiar:
        said = replace(
            said_as(familiar, words, as_, name, channel, modality=modality),
            greeting=greeting_number(greeting, no_greeting=no_greeting),
            tier=tier,
            off_record=off_record,
            message_id=message_id,
            reply_to=None if again_for is None else familiar.turn_number(again_for),
        )
        hint = hint_of_me(out, familiar, said)
        result = take_turn(
            out, familiar, said, dry_run=dry_run, stream=not no_stream, show_thinking=show_thinking
        )
        _warn_of_damage(out, familiar)
        if result:
            if hint:
                out.note(hint)
            _go_on(out, familiar, result, background=not no_background)


def _warn_of_damage(out: Output, familiar: Familiar) -> None:
    from familiar_cli.store.history.schema import damage_notice

    if notice := damage_notice(familiar.paths.history, _CHECK_S):
        out.warn(notice)


def _words(text: str | None, again_for: str | None) -> str:
    if text is not None and again_for is not None:
        raise UsageError(
            f"Turn {again_for} already has a text, and TEXT was given as well",
            hint=f"Run `familiar ask --reply-to {again_for}`.",
        )
    if text is None and again_for is None:
        raise UsageError("Missing argument 'TEXT|-'", hint='Run `familiar ask "Hello"`.')
    if text is None:
        return ""
    return base.text_or_stdin(text).rstrip("\r\n") if text == "-" else text


def show_prompt(out: Output, familiar: Familiar, said: Said) -> None:
    """Print the prompt that would be sent."""
    from familiar_cli.actions.talk.talk import assemble
    from familiar_cli.pages.context_page import context_page
    from familiar_cli.store.memory.layout import told_path

    trace = base.run_async(assemble(familiar, said))
    if not familiar.me(said.channel_id).is_me(said.author):
        told = (
            replace(one, rel_path=one.rel_path and told_path(one.rel_path))
            for one in trace.contributions
        )
        trace = replace(trace, contributions=tuple(told))
    out.answer(trace.to_json(), context_page(trace, familiar.zone))
    out.warn(*trace.notices)


def take_turn(
    out: Output,
    familiar: Familiar,
    said: Said,
    *,
    dry_run: bool,
    stream: bool,
    show_thinking: bool = False,
) -> TurnResult | None:
    """Take a turn and print the reply, or print its prompt only."""
    if dry_run:
        show_prompt(out, familiar, said)
        return None
    from familiar_cli.cli.terminal.reply import (
        ReplyPrinter,
        begun_text,
        note_slow_model,
        tell_thinking,
    )

    note_slow_model(out, familiar)
    # Nothing can be taken back from a pipe, and it is not known yet how this model thinks.
    waits = not is_terminal() and not familiar.models.slot().thinking
    with ReplyPrinter(silent=out.as_json, begun=begun_text(said), waits=waits) as printer:
        result = reply_to(familiar, said, printer, stream=stream, on_wait=out.note)
    thinking = tell_thinking(out, result) if show_thinking else {}
    out.warn(*result.notices)
    turns = {"id": result.turn, "reply_id": result.reply}
    names = familiar.turn_names(turn.id for turn in turns.values() if turn)
    data = result.to_json() | {key: turn and names[turn.id] for key, turn in turns.items()}
    data |= thinking
    error = PartialError(f"Interrupted. {_what_is_kept(result)}")
    out.answer(data, None, [error] if result.interrupted else [], exit_code=130)
    return result


def _go_on(out: Output, familiar: Familiar, result: TurnResult, *, background: bool) -> None:
    """Start the work that a turn made due, unless it is switched off."""
    from familiar_cli.cli.terminal.reply import begin_work, finish_work, leave_work

    if not background:
        leave_work(out, familiar, result)
        return
    begin_work(out, familiar, result)
    finish_work(out, familiar)


def _what_is_kept(result: TurnResult) -> str:
    if result.turn is None:
        return "Nothing was saved"
    text = f"; the partial reply is turn {result.reply.id}" if result.reply else ""
    return f"Your message is saved as turn {result.turn.id}{text}"


again_app = base.App()


@again_app.command()
def again(
    ctx: typer.Context,
    *,
    channel: Channel = "cli",
    tier: Tier = None,
    dry_run: DryRunUnasked = False,
    no_stream: NoStream = False,
    show_thinking: ShowThinking = False,
) -> None:
    """Ask for another reply in place of a channel's last one, which is kept.

    Only the new reply is part of the conversation. `familiar history show --all` lists both, and
    `familiar history choose` brings the other one back. If the last message has no reply, because
    the model failed, this asks for the first one.

    \b
    familiar again
    familiar again --channel harbour
    familiar history choose 1204
    """
    from familiar_cli.actions.talk.change_turns import again as asked_again

    how = {"dry_run": dry_run, "stream": not no_stream, "show_thinking": show_thinking}
    _remake(ctx, asked_again, channel, tier, **how)


def _remake(
    ctx: typer.Context,
    find: Callable[[Familiar, Said], Said],
    channel: str,
    tier: int | None,
    **how: bool,
) -> None:
    """Take the turn that `find` derives from a channel's last exchange."""
    from familiar_cli.context.types import Said

    with base.with_models(base.familiar_of(ctx)) as familiar:
        said = find(familiar, Said("", None, channel, tier=tier))
        take_turn(base.output(ctx), familiar, said, **how)


continue_app = base.App()


@continue_app.command("continue")
def continue_(
    ctx: typer.Context,
    *,
    channel: Channel = "cli",
    tier: Tier = None,
    dry_run: DryRunUnasked = False,
    no_stream: NoStream = False,
    show_thinking: ShowThinking = False,
) -> None:
    """Continue a channel's last reply, for example where it was cut off.

    The longer reply replaces the shorter one, which is kept: `familiar history show --all`
    lists both, and `familiar history choose` brings the shorter one back.

    \b
    familiar continue
    familiar continue --channel harbour
    """
    from familiar_cli.actions.talk.change_turns import go_on

    how = {"dry_run": dry_run, "stream": not no_stream, "show_thinking": show_thinking}
    _remake(ctx, go_on, channel, tier, **how)


hear_app = base.App()


@hear_app.command()
def hear(
    ctx: typer.Context,
    text: str,
    *,
    as_: As = None,
    name: Name = None,
    channel: Channel = "cli",
    modality: How = "text",
    at: str | None = None,
    message_id: MessageId = "",
) -> None:
    """Save a message without asking for a reply. Later prompts include it.

    It never waits for a reply. A message with an `--id` already in the channel is not added again.

    \b
    familiar hear "I will be late." --as discord:7 --name Bo
    familiar hear - --channel general --id 1184 < message.txt
    familiar hear "Hi" --at 2026-01-31T12:00:00Z

    Args:
        text (TEXT|-): Message to save; `-` reads standard input.
        at (TIME): Time of the message; default: now.
    """
    from familiar_cli.actions.talk.channels import hear
    from familiar_cli.base.times.clock import iso

    words = base.text_or_stdin(text).rstrip("\r\n") if text == "-" else text
    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        said = said_as(familiar, words, as_, name, channel, modality=modality)
        said = replace(said, message_id=message_id)
        message = hear(familiar, said, base.moment_of(familiar, at))
        named = familiar.turn_names([message.turn.id])[message.turn.id]
    turn = message.turn
    data = {
        "turn": turn.id,
        "id": named,
        "channel": turn.channel_id,
        "at": iso(turn.at),
        "is_new": message.is_new,
        "notices": list(message.notices),
    }
    told = f"{'Saved' if message.is_new else 'Already saved'} as turn {turn.id}\n"
    changed = PartialError(
        f"Message {message_id!r} was changed since it was saved as turn {turn.id}; the saved "
        "text is kept",
        hint="Turns are never rewritten. Send the new text under a new id.",
    )
    out.warn(*message.notices)
    out.answer(data, told, [changed] if turn.content != words else [])


chat_app = base.App()


@chat_app.command()
def chat(
    ctx: typer.Context,
    *,
    as_: As = None,
    name: Name = None,
    channel: Channel = "cli",
    modality: How = "text",
    greeting: Greeting = None,
    no_greeting: NoGreeting = False,
    tier: Tier = None,
    off_record: Annotated[bool, typer.Option("--off-record")] = False,
    no_stream: NoStream = False,
    show_thinking: ShowThinking = False,
) -> None:
    """Chat interactively: each message you type is sent, and the reply is printed.

    Lines that begin with / are commands: /again, /edit, /undo, /choose, /channel and more; /help
    lists them, and Tab completes them. Alt-Enter or a backslash at the end begins another line.
    Ctrl-C interrupts a reply and keeps what has arrived; Ctrl-D ends the chat. Input from a pipe
    is sent line by line, up to the first failure. With --json each reply is one line.

    \b
    familiar chat
    familiar chat --channel harbour --name Anna
    familiar chat < lines.txt

    Args:
        off_record: Start off the record; /offrecord toggles it.
    """
    from familiar_cli.cli.terminal.chat import Conversation
    from familiar_cli.cli.terminal.reply import prompt_stream

    out = base.output(ctx)
    with base.with_models(base.familiar_of(ctx)) as familiar:
        said = replace(
            said_as(familiar, "", as_, name, channel, modality=modality),
            greeting=greeting_number(greeting, no_greeting=no_greeting),
            tier=tier,
            off_record=off_record,
        )
        if hint := hint_of_me(out, familiar, said):
            out.note(hint)
        is_typed = sys.stdin.isatty() and prompt_stream().isatty()
        reply = partial(reply_to, familiar, stream=not no_stream, in_chat=is_typed)
        talk = Conversation(familiar, said, out, reply, is_typed, show_thinking)
        code = talk.run()
    if code:
        raise typer.Exit(code)
