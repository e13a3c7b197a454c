"""One line for each turn that came through the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.text import one_line

if TYPE_CHECKING:
    from datetime import tzinfo

    from familiar_cli.actions.served_turns import ServedLine

_TEXT_CHARS: Final = 160


def line_of(turn: ServedLine, zone: tzinfo | None) -> str:
    """Return a turn as one line: time, number, channel, how it was recognised, speaker, words."""
    at = turn.at.astimezone(zone)
    cut = " (broke off)" if turn.partial else ""
    said = one_line(turn.text, _TEXT_CHARS)
    channel = one_line(turn.channel_id, 40)
    head = f"{at:%H:%M:%S} {turn.turn} {channel} ({turn.match})"
    return f"{head} {one_line(turn.who, 40)}: {said}{cut}"
