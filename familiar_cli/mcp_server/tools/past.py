"""`recent` and `history_search`: what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError
from familiar_cli.identity import check_id
from familiar_cli.mcp_server.sight import speaker_of, turn_item
from familiar_cli.mcp_server.tool import COUNT, TEXT, Answer, Item, Tool
from familiar_cli.text import framed

if TYPE_CHECKING:
    from familiar_cli.history.types import Turn
    from familiar_cli.mcp_server.tool import Arguments, Caller

_RECENT: Final = 20
_FOUND: Final = 10
_MOST: Final = 200


def recent(caller: Caller, arguments: Arguments) -> Answer:
    """Return the newest turns, oldest first.

    Raises:
        NotFoundError: The channel is unknown, or private and of others.
    """
    channel = open_channel(caller, arguments)
    wanted = min(arguments.get("limit", _RECENT), _MOST)
    turns = _newest(caller, channel, wanted)
    notes = () if turns else ("There are no turns yet.",)
    return Answer([turn_item(caller, turn, speaker_of(caller, turn)) for turn in turns], notes)


def history_search(caller: Caller, arguments: Arguments) -> Answer:
    """Return the turns that fit some words, best first.

    Raises:
        NotFoundError: The channel is unknown, or private and of others.
        UsageError: `query` holds no word.
    """
    from familiar_cli.actions.search_past import search_past

    found = search_past(
        caller.familiar,
        arguments["query"],
        k=min(arguments.get("limit", _FOUND), _MOST),
        channel=open_channel(caller, arguments),
        viewer=caller.viewer,
    )
    items = [
        Item(
            {
                "turns": str(hit.turns[0]),
                "date": hit.at.isoformat(timespec="minutes"),
                "channel": hit.channel,
                "speaker": hit.speaker,
                "score": hit.score,
            },
            hit.text,
        )
        for hit in found.hits
    ]
    notes = () if items else ("No turn matches.",)
    return Answer(items, notes, {"method": found.method})


def open_channel(caller: Caller, arguments: Arguments) -> str | None:
    """Return the channel that was asked for; None: all that the caller may hear of.

    Raises:
        UsageError: It cannot be a channel's id.
        NotFoundError: It is unknown, or private and of others: which of the two is not said.
    """
    channel = arguments.get("channel")
    if channel is None:
        return None
    check_id(channel, "The argument 'channel'")
    known = {found.channel_id for found in caller.familiar.history.channels()}
    if channel not in known or not caller.viewer.sees_channel(channel):
        raise NotFoundError(
            f"There is no open channel {framed(channel)!r}",
            hint="A private channel is open to a server started with `--channel ID` only.",
        )
    return str(channel)


def _newest(caller: Caller, channel: str | None, wanted: int) -> list[Turn]:
    from familiar_cli.history.selection import TurnFilter, newest

    history, viewer = caller.familiar.history, caller.viewer
    if channel is not None:
        return history.recent(channel, wanted, viewer=viewer)
    return [kept.turn for kept in newest(history, TurnFilter(viewer), wanted)]


TOOLS: Final = (
    Tool(
        "recent",
        "Newest turns, of all open channels or one.",
        {"limit": COUNT, "channel": TEXT},
        recent,
        pages=True,
    ),
    Tool(
        "history_search",
        "Search past turns; returns them verbatim.",
        {"query": TEXT, "limit": COUNT, "channel": TEXT},
        history_search,
        needs=("query",),
        pages=True,
    ),
)
