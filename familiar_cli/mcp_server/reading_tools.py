"""Tools that read: files, search, people, relations, past turns and prompts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.search import MOST_RESULTS, search_memories
from familiar_cli.clock import in_zone
from familiar_cli.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.identity import check_id
from familiar_cli.markdown import title_of
from familiar_cli.mcp_server.tool import (
    COUNT,
    NUMBER,
    OFFSET,
    TEXT,
    TEXTS,
    WHOLE,
    Answer,
    Tool,
    ToolItem,
    day_of,
    is_readable,
    one_of,
    see,
    speaker_of,
    turn_item,
)
from familiar_cli.memory.layout import PERIOD_DIRS, SIGNIFICANT_DIR
from familiar_cli.memory.pages.lines import number_spans, private_spans, visible_in
from familiar_cli.text import framed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.actions.search import FoundMemory
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Fragment
    from familiar_cli.history.rows import Turn
    from familiar_cli.mcp_server.tool import Arguments, Caller
    from familiar_cli.memory.relation_index import Edge
    from familiar_cli.memory.store.files import MemoryEntry

GRANULARITIES: Final = (*PERIOD_DIRS, SIGNIFICANT_DIR)
GRANULARITY: Final = one_of(*GRANULARITIES)

_LISTED: Final = 100
_HEAD_BYTES: Final = 4096


def memory_read(caller: Caller, arguments: Arguments) -> Answer:
    """Return a file, or the files of a day or period, section by section.

    Raises:
        NotFoundError: There is none.
        UsageError: Neither a path nor a granularity with a date was given.
    """
    path = arguments.get("path")
    files = [see(caller, p) for p in ([path] if path else _paths_about(caller, arguments))]
    items = [item for file in files for item in file.items()]
    notes = () if items else ("The file is empty, or holds nothing that may be shown here.",)
    return Answer(items, notes, stamp="".join(file.file.sha256[:12] for file in files))


def memory_list(caller: Caller, arguments: Arguments) -> Answer:
    """Return the files there are, the newest first."""
    files = sorted(
        _list_files(caller, arguments), key=lambda one: (one.day, one.rel_path), reverse=True
    )
    start = arguments.get("offset", 0)
    wanted = files[start : start + arguments.get("limit", _LISTED)]
    left = len(files) - start - len(wanted)
    notes = [f"{left} older ones follow at offset {start + len(wanted)}."] if left > 0 else []
    if not files:
        notes = ["There is no such file."]
    return Answer([_file_item(caller, one) for one in wanted], notes, {"total": len(files)})


@dataclass(frozen=True, slots=True)
class _File:
    entry: MemoryEntry
    day: str

    @property
    def rel_path(self) -> str:
        return self.entry.rel_path


def _paths_about(caller: Caller, arguments: Arguments) -> list[str]:
    """Return the files of a granularity that are about a date, of whichever instance."""
    granularity, day = arguments.get("granularity"), arguments.get("date")
    if not granularity or not day:
        raise UsageError(
            "memory_read needs a path, or a granularity and a date", hint="memory_list names both."
        )
    wanted = [day, *filter(None, (arguments.get("instanceId"), arguments.get("slug")))]
    found = [
        entry.rel_path
        for entry in _list_entries(caller, granularity)
        if _begins_with(entry.rel_path.removeprefix(f"{granularity}/"), "_".join(wanted))
    ]
    if not found:
        raise NotFoundError(
            f"No {granularity} memory is about {framed('_'.join(wanted))}",
            hint=f"memory_list with granularity {granularity} lists those that exist.",
        )
    return found


def _begins_with(name: str, wanted: str) -> bool:
    """Return whether a file's name begins with all that is wanted of it."""
    stem = name.rpartition(".")[0]
    return stem == wanted or stem.startswith(f"{wanted}_")


def _list_files(caller: Caller, arguments: Arguments) -> Iterable[_File]:
    after, before = (_read_day(arguments, name) for name in ("afterDate", "beforeDate"))
    for entry in _list_entries(caller, arguments.get("granularity", "")):
        modified = in_zone(entry.modified, caller.familiar.zone).date().isoformat()
        day = day_of(entry.rel_path) or modified
        if (not after or day >= after) and (not before or day <= before):
            yield _File(entry, day)


def _list_entries(caller: Caller, directory: str) -> list[MemoryEntry]:
    with suppress(NotFoundError):
        walk = caller.familiar.memory.walk(directory)
        return [entry for entry in walk.files if is_readable(entry.rel_path, caller.viewer)]
    return []


def _read_day(arguments: Arguments, name: str) -> str:
    """Return a day that was given, or an empty string."""
    given = arguments.get(name, "")
    if not given:
        return ""
    try:
        return date.fromisoformat(given[:10]).isoformat()
    except ValueError:
        raise UsageError(
            f"{name} is not a date: {framed(given)!r}", hint="Write it as 2026-01-31."
        ) from None


def _file_item(caller: Caller, file: _File) -> ToolItem:
    about = {"path": file.rel_path, "date": file.day, "bytes": file.entry.size_bytes}
    try:
        head = caller.familiar.memory.read_head(file.rel_path, _HEAD_BYTES).text
    except FamiliarError as error:
        return ToolItem({**about, "problem": str(error)})
    title = title_of(visible_in(head, caller.viewer, file.rel_path))
    return ToolItem({**about, **({"title": framed(title)} if title else {})})


_DATES: Final = {"beforeDate": TEXT, "afterDate": TEXT}


_MOST_HITS: Final = 10


def memory_search(caller: Caller, arguments: Arguments) -> Answer:
    """Return the memories that fit a query, or any of up to five, best first."""
    found = search_memories(
        caller.familiar,
        arguments["query"],
        max_results=arguments.get("maxResults", _MOST_HITS),
        min_score=arguments.get("minScore", 0.0),
        instance=arguments.get("instanceId", ""),
        viewer=caller.viewer,
    )
    items = [ToolItem(_memory_facts(memory), memory.text) for memory in found.memories]
    notes = found.notes if items else ("No memory matches; memory_list lists all.", *found.notes)
    return Answer(items, notes, {"method": found.method})


def _memory_facts(memory: FoundMemory) -> dict[str, Any]:
    about = {
        "path": memory.rel_path,
        "line": memory.line,
        "date": memory.date,
        "turns": number_spans(memory.turns),
        "granularity": memory.granularity,
        "heading": memory.heading,
    }
    return {name: value for name, value in about.items() if value} | {"score": memory.score}


def person(caller: Caller, arguments: Arguments) -> Answer:
    """Answer with the page of a person.

    Raises:
        NotFoundError: Nobody is called so, or no file tells of them.
        UsageError: Several people are.
    """
    from familiar_cli.actions.people import show_person
    from familiar_cli.memory.aliases import names_of

    found = show_person(caller.familiar, arguments["name"])
    if not found.sha256:
        raise NotFoundError(f"There is no file about {framed(found.slug)!r} yet")
    seen = see(caller, found.rel_path)
    notes = [
        f"The name {framed(shared.name)} is shared by {', '.join(shared.slugs)}."
        for shared in found.collisions
    ]
    more = {"slug": found.slug, "names": [framed(name) for name in names_of(seen.text)]}
    return Answer(list(seen.items()), notes, more, stamp=found.sha256[:12])


def relations(caller: Caller, arguments: Arguments) -> Answer:
    """Return how a page is related to others, or all that is related; nothing private.

    Raises:
        NotFoundError: Nothing is called so.
        UsageError: Several things are.
    """
    from familiar_cli.actions.graph import neighbourhood, overview

    name = arguments.get("name")
    familiar, viewer = caller.familiar, caller.viewer
    found = (
        neighbourhood(familiar, name, viewer=viewer) if name else overview(familiar, viewer=viewer)
    )
    edges = found.edges
    notes = [] if edges else ["There are no relations."]
    if found.is_cut:
        notes.append("Not all relations are listed.")
    return Answer([_edge_item(edge) for edge in edges], notes)


def _edge_item(edge: Edge) -> ToolItem:
    known = {
        "since": edge.since,
        "until": edge.until,
        "lines": edge.line,
        "turns": ", ".join(edge.evidence),
    }
    about = {"path": edge.source, "relation": edge.relation, "to": edge.target}
    return ToolItem({**about, **{name: value for name, value in known.items() if value}})


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
    turns = _newest_turns(caller, channel, wanted)
    notes = () if turns else ("There are no turns yet.",)
    return Answer([turn_item(caller, turn, speaker_of(caller, turn)) for turn in turns], notes)


def history_search(caller: Caller, arguments: Arguments) -> Answer:
    """Return the turns that fit some words, best first.

    Raises:
        NotFoundError: The channel is unknown, or private and of others.
        UsageError: `query` holds no word.
    """
    from familiar_cli.actions.search import search_past

    found = search_past(
        caller.familiar,
        arguments["query"],
        k=min(arguments.get("limit", _FOUND), _MOST),
        channel=open_channel(caller, arguments),
        viewer=caller.viewer,
    )
    items = [
        ToolItem(
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


def _newest_turns(caller: Caller, channel: str | None, wanted: int) -> list[Turn]:
    from familiar_cli.history.selection import TurnFilter, newest_turns

    history, viewer = caller.familiar.history, caller.viewer
    if channel is not None:
        return history.recent(channel, wanted, viewer=viewer)
    return [kept.turn for kept in newest_turns(history, TurnFilter(viewer), wanted)]


CHANNEL: Final = "mcp"
"""Where a caller speaks that has no channel of its own."""


def context(caller: Caller, arguments: Arguments) -> Answer:
    """Answer with the prompt of a message, without keeping it.

    Raises:
        NotFoundError: The channel is unknown, or private and of others.
        LimitError: The message is longer than a prompt may be.
    """
    from familiar_cli.actions.talk import assemble
    from familiar_cli.context.types import Said

    channel = open_channel(caller, arguments) or caller.channel_id or CHANNEL
    said = Said(arguments["message"], caller.familiar.me(channel).author, channel, greeting=0)
    trace = asyncio.run(assemble(caller.familiar, said, viewer=caller.viewer))
    pieces = [piece for piece in trace.contributions if piece.kept]
    more = {"tokens": trace.used_tokens, "budget": trace.budget_tokens}
    return Answer([_piece_item(piece) for piece in pieces], trace.notices, more)


def why(caller: Caller, arguments: Arguments) -> Answer:
    """Return why a file or a turn was in a prompt, or was not.

    Raises:
        NotFoundError: There is no such prompt, file or turn that the caller may hear of.
    """
    from familiar_cli.actions.sent import explain_piece as why_of

    found = why_of(caller.familiar, _find_trace(caller, arguments), arguments["subject"])
    _check_open(caller, found.subject)
    reasons = [*found.reasons, *filter(None, [found.since])]
    more = {"verdict": found.verdict, "turn": found.turn, "reasons": reasons}
    items = [_piece_item(piece) for piece in found.contributions if _is_visible(caller, piece)]
    return Answer(items, [f"Verdict: {found.verdict}.", *reasons], more)


def _find_trace(caller: Caller, arguments: Arguments) -> Trace:
    from familiar_cli.actions.sent import find_trace

    turn = arguments.get("turn") or _newest_prompt(caller)
    asked = caller.familiar.history.turn(turn) if turn else None
    if turn and (asked is None or not caller.viewer.sees_turn(asked)):
        raise NotFoundError(f"No open channel has a turn {turn}", hint="See `recent`.")
    return find_trace(caller.familiar, turn)


def _newest_prompt(caller: Caller) -> int | None:
    """Return the newest turn whose prompt the caller may hear of; None: there is none at all."""
    from familiar_cli.actions.sent import find_trace

    history, viewer = caller.familiar.history, caller.viewer
    trace = find_trace(caller.familiar)
    asked = history.turn(trace.turn) if trace.turn else None
    if asked and viewer.sees_turn(asked):
        return trace.turn
    for turn in reversed(history.since(0, 1000)):
        if turn.role == "user" and viewer.sees_turn(turn):
            return turn.id
    raise NotFoundError("There is no prompt in an open channel yet")


def _check_open(caller: Caller, subject: str) -> None:
    """Make sure that a turn which was asked about is of an open channel.

    Raises:
        NotFoundError: It is not.
    """
    kind, _, number = subject.partition(":")
    turn = caller.familiar.history.turn(int(number)) if kind == "turn" else None
    if turn and not caller.viewer.sees_turn(turn):
        raise NotFoundError(f"No open channel has a turn {number}", hint="See `recent`.")


def _is_visible(caller: Caller, piece: Fragment) -> bool:
    """Tell whether no source of a piece is hidden from the caller now."""
    viewer, familiar = caller.viewer, caller.familiar
    first, last = piece.turns or (piece.turn_id or 0, piece.turn_id or -1)
    turns = (familiar.history.turn(number) for number in range(first, last + 1))
    if not all(turn is None or viewer.sees_turn(turn) for turn in turns):
        return False
    if not piece.rel_path:
        return True
    try:
        text = familiar.memory.read_file(piece.rel_path)
        return not private_spans(text, viewer, piece.rel_path)
    except FamiliarError:  # nobody can tell any more
        return False


def _piece_item(piece: Fragment) -> ToolItem:
    about: dict[str, Any] = {"layer": str(piece.layer), "source": piece.source}
    if piece.rel_path:
        about["path"] = piece.rel_path
    if piece.lines:
        about["lines"] = f"{piece.lines[0]}-{piece.lines[1]}"
    turns = piece.turns or (piece.turn_id and (piece.turn_id, piece.turn_id))
    if turns:
        about["turns"] = f"{turns[0]}-{turns[1]}"
    about["tokens"] = piece.tokens
    if piece.reason:
        about["reason"] = piece.reason
    return ToolItem(about, piece.text)


TOOLS: Final = (
    Tool(
        "memory_search",
        "Find memories by words and meaning.",
        {
            "query": {"anyOf": [TEXT, {**TEXTS, "minItems": 1, "maxItems": 5}]},
            "minScore": NUMBER,
            "maxResults": {**COUNT, "maximum": MOST_RESULTS},
            "instanceId": TEXT,
        },
        memory_search,
        needs=("query",),
        gives={"method": TEXT},
        pages=True,
        searches=True,
    ),
    Tool(
        "memory_read",
        "Read a memory file by path, or by granularity and date.",
        {
            "path": TEXT,
            "granularity": GRANULARITY,
            "date": TEXT,
            "slug": TEXT,
            "instanceId": TEXT,
        },
        memory_read,
        pages=True,
    ),
    Tool(
        "memory_list",
        "List memory files, newest first.",
        {"granularity": GRANULARITY, **_DATES, "limit": COUNT, "offset": OFFSET},
        memory_list,
        gives={"total": WHOLE},
        pages=True,
    ),
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
    Tool(
        "person",
        "What is known of a person, by any of their names.",
        {"name": TEXT},
        person,
        needs=("name",),
        gives={"names": TEXTS},
        pages=True,
    ),
    Tool(
        "relations",
        "Relations of a person, place or topic, or all.",
        {"name": TEXT},
        relations,
        pages=True,
    ),
    Tool(
        "context",
        "What a prompt for this message would hold.",
        {"message": TEXT, "channel": TEXT},
        context,
        needs=("message",),
        gives={"tokens": WHOLE, "budget": WHOLE},
        pages=True,
    ),
    Tool(
        "why",
        "Why a file or turn (`turn:12`) was in a prompt, or not.",
        {"subject": TEXT, "turn": COUNT},
        why,
        needs=("subject",),
        gives={"verdict": TEXT},
        pages=True,
    ),
)
