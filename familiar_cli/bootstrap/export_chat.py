"""`familiar history export`: turns as a SillyTavern chat with swipes, or as plain JSON Lines."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.bootstrap.chats.plain import HEAD
from familiar_cli.bootstrap.chats.sillytavern import CHARACTERS, swipes_of
from familiar_cli.bootstrap.chats.types import PLAIN, SILLY_TAVERN
from familiar_cli.bootstrap.json_text import dump_json
from familiar_cli.clock import iso
from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.history.selection import TurnFilter, imported_from, kept_turns, select
from familiar_cli.history.standing import marked_count, standings
from familiar_cli.identity import Me
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from familiar_cli.bootstrap.chats.sillytavern import ChatHead, ChatMessage
    from familiar_cli.history.selection import Kept
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn
    from familiar_cli.identity import Author


_AT_ONCE: Final = 200
_OF_ONE: Final = ("gen_started", "gen_finished")  # what is said of the swipe that is shown


def with_others(
    history: HistoryStore, turns: Iterable[Kept]
) -> Iterator[tuple[Kept, tuple[Kept, ...]]]:
    """Yield each turn with all that stood at its place and was not withdrawn, itself among them."""
    if not marked_count(history):
        yield from ((kept, (kept,)) for kept in turns)
        return
    rest = iter(turns)
    while some := list(islice(rest, _AT_ONCE)):
        became = standings(history, [kept.turn.id for kept in some])
        wanted = {i for found in became.values() for i in found.alternatives}
        withdrawn = {i for i, found in standings(history, wanted).items() if found.withdrawn}
        others = kept_turns(history, wanted - withdrawn)
        for kept in some:
            group = became[kept.turn.id].alternatives
            yield kept, tuple(others[i] for i in group if i in others) or (kept,)


def as_message(kept: Kept, group: Sequence[Kept], made: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the message that holds a turn and what it replaced; None: what was imported does.

    Args:
        kept: The turn.
        group: All of which it is the one that stands, in the order in which they came.
        made: The turn as a message of its own.
    """
    imported = {k.turn.id: json.loads(k.raw) for k in group if k.format == SILLY_TAVERN}
    own = imported.get(kept.turn.id)
    base: dict[str, Any] = own or next(iter(imported.values()), {})
    if kept.turn.role != "assistant":
        return None if own else {**made, **base, "mes": kept.turn.content}
    swipes: dict[str, dict[str, Any]] = {}
    for one in group:
        for text, info in _swipes(one, imported.get(one.turn.id, {})):
            swipes.setdefault(text, info)
    if own and swipes.keys() <= {text for text, _ in _swipes(kept, own)}:
        return None
    if len(swipes) == 1:
        return dict(made)
    told = {key: value for key, value in base.items() if own or key not in _OF_ONE}
    return {
        **made,
        **told,
        "send_date": base["send_date"] if own and "send_date" in base else made["send_date"],
        "mes": kept.turn.content,
        "extra": base.get("extra", {}) if own else made["extra"],
        "swipes": list(swipes),
        "swipe_id": list(swipes).index(kept.turn.content),
        "swipe_info": list(swipes.values()),
    }


def _swipes(kept: Kept, raw: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the texts of one turn, with what is said of each."""
    texts = swipes_of(raw)
    if kept.turn.content not in texts:
        date = raw.get("send_date") or iso(kept.turn.at)
        return [(kept.turn.content, {"send_date": date, "extra": raw.get("extra") or {}})]
    given = raw.get("swipe_info")
    infos = given if isinstance(given, list) and len(given) == len(texts) else [None] * len(texts)
    otherwise: dict[str, Any] = {
        "send_date": raw.get("send_date") or iso(kept.turn.at),
        "extra": {},
    }
    pairs = zip(texts, infos, strict=True)
    return [(text, info if isinstance(info, dict) else otherwise) for text, info in pairs]


Format = Literal["sillytavern", "jsonl"]
VERSION: Final = 1
"""The version of the plain format."""


def export_chat(
    history: HistoryStore,
    channel_id: str | None,
    chat_format: Format,
    *,
    familiar_name: str,
    me: Me = Me(),  # noqa: B008  # frozen
) -> Iterator[str]:
    """Return the lines of a channel, or of all channels, without their ends.

    Args:
        history: The history.
        channel_id: The channel; None: the only one there is, or all of them as plain lines.
        chat_format: As what.
        familiar_name: What the familiar is called where the source does not say.
        me: Whose home it is.

    Raises:
        NotFoundError: Nothing was said there.
        UsageError: There are several channels, and a SillyTavern chat holds one.
    """
    channels = [found.channel_id for found in history.channels()]
    if not channels:
        raise NotFoundError("There are no turns yet", hint='Start with `familiar ask "Hello"`.')
    known = {*channels, *(branch.channel_id for branch in history.branches())}
    if channel_id is not None and channel_id not in known:
        raise NotFoundError(
            f"There are no turns in channel {channel_id!r}", hint="Run `familiar history ls`."
        )
    if chat_format == "jsonl":
        return _plain(history, [channel_id] if channel_id is not None else sorted(channels))
    if channel_id is None and len(channels) > 1:
        raise UsageError(
            f"There are {len(channels)} channels, but a SillyTavern chat holds only one",
            hint=f"Add `--channel {channels[0]}`, or `--format jsonl` for all.",
        )
    return _silly_tavern(history, channel_id or channels[0], familiar_name, me)


def _silly_tavern(history: HistoryStore, channel_id: str, name: str, me: Me) -> Iterator[str]:
    heads = [c.head for c in imported_from(history, channel_id) if c.format == SILLY_TAVERN]
    headless = heads and not heads[0]  # its file had no such line either
    if not headless:
        yield heads[0] if heads else dump_json(_head(history, channel_id, name, me), indent=None)
    for kept, group in with_others(history, select(history, TurnFilter(OWNER, channel_id))):
        if kept.format == SILLY_TAVERN and len(group) == 1:
            yield kept.raw
            continue
        message = as_message(kept, group, _message(kept.turn, name, me))
        yield kept.raw if message is None else dump_json(message, indent=None)


def _head(history: HistoryStore, channel_id: str, name: str, me: Me) -> ChatHead:
    people = history.recent_distinct_authors(channel_id, 1)
    first = next(select(history, TurnFilter(OWNER, channel_id)), None)
    return {
        "user_name": me.name_of(people[0]) if people else "User",
        "character_name": name,
        "create_date": iso(first.turn.at) if first else "",
        "chat_metadata": {},
    }


def _message(turn: Turn, name: str, me: Me) -> ChatMessage:
    """Return a turn that was not in a SillyTavern chat as one of its messages."""
    person = turn.author is not None and turn.author.platform != CHARACTERS
    speaker = name if turn.role == "assistant" else "System"
    if turn.author is not None:
        speaker = me.name_of(turn.author)
    extra = {"type": "narrator"} if turn.role == "system" else {}
    return {
        "name": speaker,
        "is_user": person or (turn.role == "user" and turn.author is None),
        "is_system": turn.hidden,
        "send_date": iso(turn.at),
        "mes": turn.content,
        "extra": extra,
    }


def _plain(history: HistoryStore, channels: list[str]) -> Iterator[str]:
    one = len(channels) == 1
    where = {"channel": channels[0]} if one else {"channels": channels}
    heads = [c.head for c in imported_from(history, channels[0]) if c.format == PLAIN and c.head]
    about = json.loads(heads[0]) if one and heads else {}
    yield dump_json({HEAD: VERSION} | about | where, indent=None)
    for channel_id in channels:
        for kept in select(history, TurnFilter(OWNER, channel_id)):
            yield dump_json(_line(kept, "" if one else channel_id), indent=None)


def _line(kept: Kept, channel_id: str) -> dict[str, Any]:
    where = {"channel": channel_id} if channel_id else {}
    if kept.format == PLAIN:
        return dict(json.loads(kept.raw)) | where
    turn = kept.turn
    line: dict[str, Any] = {"role": turn.role, "content": turn.content, "at": iso(turn.at)}
    if kept.message_id:
        line["id"] = kept.message_id
    if turn.author is not None:
        line["author"] = _author(turn.author)
    if turn.hidden or turn.role == "system":
        line["hidden"] = turn.hidden
    if turn.modality != "text":
        line["modality"] = turn.modality
    line |= {key: True for key, said in _marks(kept) if said}
    if kept.raw:
        line["from"] = {"format": kept.format, "raw": json.loads(kept.raw)}
    return line | {"source": turn.source} | where


def _marks(kept: Kept) -> tuple[tuple[str, bool], ...]:
    return ("partial", kept.turn.partial), ("at_estimated", kept.estimated)


def _author(author: Author) -> dict[str, str]:
    found = {
        "platform": author.platform,
        "user_id": author.user_id,
        "username": author.username,
        "display_name": author.display_name,
    }
    return {key: value for key, value in found.items() if value is not None}
