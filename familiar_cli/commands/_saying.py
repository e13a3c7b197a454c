"""Saying something: the options (who speaks, where, how), and the turn itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from familiar_cli.commands._base import run_async
from familiar_cli.commands._options import name as name_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.context.turn import TurnResult
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.emit import Output

As = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="PLATFORM:ID", help="Speaker's account; default: yours (`familiar me`)."
    ),
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
MessageId = Annotated[
    str,
    typer.Option(
        "--id", metavar="ID", help="Message id on its platform; a message is saved only once."
    ),
]
Tier = Annotated[
    int | None,
    typer.Option(
        "--tier",
        min=1,
        max=4,
        metavar="N",
        help="Amount of memory to load: 1 (little) to 4 (all).",
    ),
]


def said_as(
    familiar: Familiar,
    text: str,
    as_: str | None,
    name: str | None,
    channel: str,
    *,
    modality: str,
    greeting: int | None = None,
    no_greeting: bool = False,
    tier: int | None = None,
    off_record: bool = False,
    message_id: str = "",
) -> Said:
    """Return what these options say to `familiar`.

    Raises:
        UsageError: `as_` names nobody, or they contradict each other.
        ConfigError: The settings have something wrong in them.
    """
    from familiar_cli.actions.me import speaker
    from familiar_cli.context.types import Modality, Said
    from familiar_cli.errors import UsageError

    if no_greeting and greeting is not None:
        raise UsageError("--greeting and --no-greeting cannot be combined")
    return Said(
        text,
        speaker(familiar, channel, as_, name),
        channel,
        Modality(modality),
        0 if no_greeting else greeting,
        tier=tier,
        off_record=off_record,
        message_id=message_id,
    )


def hint_of_me(out: Output, familiar: Familiar, said: Said) -> str:
    """Return how a person at a terminal can say who they are; empty where they need not be told."""
    from familiar_cli.actions import me
    from familiar_cli.ui.lines import is_terminal

    return "" if out.as_json or not is_terminal() else me.hint_of_me(familiar, said.author)


def reply_to(
    familiar: Familiar,
    said: Said,
    on_text: Callable[[str], None],
    *,
    stream: bool = True,
    on_wait: Callable[[str], None],
) -> TurnResult:
    """Take a turn; Ctrl-C ends the reply, and what came of it is the result.

    Raises:
        KeyboardInterrupt: Ctrl-C came before anything was kept.
        FamiliarError: As `take_turn`.
    """
    from familiar_cli.actions.talk import take_turn

    kept: list[TurnResult] = []
    turn = take_turn(
        familiar, said, on_text, stream=stream, on_wait=on_wait, on_interrupted=kept.append
    )
    try:
        return run_async(turn)
    except KeyboardInterrupt:
        if not kept:
            raise
        return kept[0]
