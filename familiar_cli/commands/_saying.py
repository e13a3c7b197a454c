"""The options with which one says something: who speaks, where, how, and to how much memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from familiar_cli.context.types import Said

As = Annotated[
    str | None,
    typer.Option("--as", metavar="PLATFORM:ID", help="Who speaks; default: cli:<your login>."),
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="What the speaker is called.")
]
Channel = Annotated[str, typer.Option("--channel", metavar="ID", help="In which conversation.")]
How = Annotated[Literal["text", "voice"], typer.Option("--modality", help="How it is said.")]
Greeting = Annotated[
    int | None,
    typer.Option(
        "--greeting", metavar="N", help="Which greeting opens a new conversation; 1 is the first."
    ),
]
Tier = Annotated[
    int | None,
    typer.Option(
        "--tier",
        min=1,
        max=4,
        metavar="N",
        help="How much memory is loaded: 1 (little) to 4 (all).",
    ),
]


def said_as(
    text: str,
    as_: str | None,
    name: str | None,
    channel: str,
    modality: str,
    *,
    greeting: int | None,
    tier: int | None,
    off_record: bool,
) -> Said:
    """Return what these options say.

    Raises:
        UsageError: `as_` names nobody.
    """
    from familiar_cli.config.machine import who_speaks
    from familiar_cli.context.types import Modality, Said

    return Said(
        text,
        who_speaks(as_, name),
        channel,
        Modality(modality),
        greeting,
        tier=tier,
        off_record=off_record,
    )
