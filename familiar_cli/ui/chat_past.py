"""The end of a conversation, dimmed, as it is shown to whoever comes back to it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import to_zone
from familiar_cli.history.types import in_pairs
from familiar_cli.ui.stream_text import StreamedText
from familiar_cli.ui.terminal import console, plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from familiar_cli.history.types import Turn
    from familiar_cli.identity import Me

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
