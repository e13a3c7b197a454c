"""Replies of which one stands, as SillyTavern keeps them: the swipes of one message."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.chats.sillytavern import swipes_of
from familiar_cli.bootstrap.chats.types import SILLY_TAVERN
from familiar_cli.clock import iso
from familiar_cli.history.selection import kept_turns
from familiar_cli.history.standing import marked_count, standings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from familiar_cli.history.selection import Kept
    from familiar_cli.history.store import HistoryStore

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
