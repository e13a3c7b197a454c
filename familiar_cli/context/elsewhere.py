"""What was said in other channels while this one was silent: a line for each."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.identity import NO_LABELS, Labels
from familiar_cli.languages import ENGLISH
from familiar_cli.text import framed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from familiar_cli.history.types import Turn
    from familiar_cli.languages import Phrases

LOOK_BACK_TURNS: Final = 200
"""So many of the newest turns are looked at, however long this channel was silent."""

MOST_AGE: Final = timedelta(days=7)
"""What is older is no news."""

LINE_CHARS: Final = 80


def meanwhile(
    turns: Sequence[Turn],
    at: datetime,
    label: Callable[[str], str],
    most_channels: int,
    *,
    labels: Labels = NO_LABELS,
    phrases: Phrases = ENGLISH,
) -> str:
    """Return a line for each channel's last turn, the newest first; empty when there is none.

    Args:
        turns: What was said in other channels, oldest first. All of it may be shown here.
        at: The present, in UTC.
        label: Says what a channel is called.
        most_channels: Most lines.
        labels: What people are called.
        phrases: In which language.
    """
    newest: dict[str, Turn] = {}
    for turn in reversed(turns):
        if turn.content.strip() and at - turn.at <= MOST_AGE:
            newest.setdefault(turn.channel_id, turn)
    shown = list(newest.values())[:most_channels]
    labels = labels.joined(turn.author for turn in shown)
    lines = [_line(turn, at - turn.at, label, labels, phrases) for turn in shown]
    return "\n".join([phrases.meanwhile, *lines]) if lines else ""


def _line(
    turn: Turn, age: timedelta, label: Callable[[str], str], labels: Labels, phrases: Phrases
) -> str:
    who = labels.of(turn.author) if turn.author else phrases.somebody
    who = phrases.you if turn.role == "assistant" else who
    words = framed(turn.content, LINE_CHARS)
    when = f"{who}{phrases.comma}{phrases.since(age)}"
    return f'- {framed(label(turn.channel_id))} ({when}): "{words}"'
