"""Tools that read: files, search, people, relations, past turns and prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.memory import search
from familiar_cli.actions.memory.write_memories import GRANULARITIES
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.markdown import title_of
from familiar_cli.base.text import fold, framed, sha256_of
from familiar_cli.base.times.clock import in_zone
from familiar_cli.base.times.spans import Span, spans_in
from familiar_cli.base.who.identity import check_id
from familiar_cli.servers.mcp.tool import (
    TEXT,
    TEXTS,
    WHOLE,
    Answer,
    Tool,
    ToolItem,
    choice_of,
    count_of,
    day_of,
    see,
    speaker_of,
    text_of,
    turn_item,
)
from familiar_cli.store.history.selection import TurnFilter, newest_turns
from familiar_cli.store.memory.layout import DAILY_DIR, PEOPLE_DIR
from familiar_cli.store.memory.pages.lines import number_spans
from familiar_cli.writing.consolidation.periods import read_period

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Fragment
    from familiar_cli.servers.mcp.tool import Arguments, Caller
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.memory.relation_index import Edge
    from familiar_cli.store.memory.store.files import MemoryEntry
    from familiar_cli.store.search.types import Hit

_LISTED: Final = 100
_DATE_CHARS: Final = 10
_NAMES: Final = {"type": "array"}


def memory_read(caller: Caller, arguments: Arguments) -> Answer:
    """Return a file, or the files of a day or period, section by section.

    Raises:
        NotFoundError: No such file.
        UsageError: Neither a path nor a granularity with a date was given.
    """
    path, find = arguments.get("path"), arguments.get("find", "")
    files = [see(caller, p) for p in ([path] if path else _paths_about(caller, arguments))]
    items = [item for file in files for item in file.items(find)]
    nothing = "The file is empty, or contains nothing that may be shown here."
    if find:
        nothing = f"No line holds {framed(find)!r}; memory_read without `find` shows the file."
    notes = () if items else (nothing,)
    return Answer(items, notes, stamp="".join(sha256_of(file.text)[:12] for file in files))


def memory_list(caller: Caller, arguments: Arguments) -> Answer:
    """List the files, newest first."""
    items = _list_files(caller, arguments)
    files = sorted(items, key=lambda one: (one[1], one[0].rel_path), reverse=True)
    start = arguments.get("offset", 0)
    wanted = files[start : start + arguments.get("limit", _LISTED)]
    left = len(files) - start - len(wanted)
    notes = (
        [f"{left} older ones follow: call with offset {start + len(wanted)}, or a higher limit."]
        if left > 0
        else []
    )
    if not files:
        notes = ["There is no such file."]
    return Answer([_file_item(caller, *one) for one in wanted], notes, {"total": len(files)})


def _paths_about(caller: Caller, arguments: Arguments) -> list[str]:
    """List the files of a granularity for a date, from all instances."""
    day = arguments.get("date")
    if not day:
        raise UsageError("memory_read needs a path or a date", hint="memory_list names both.")
    period = read_period(day)
    if period is None:
        day = _named_span(caller, day, "date").first.isoformat()
    granularity = arguments.get("granularity") or (period.tier if period else DAILY_DIR)
    wanted = [day, *filter(None, (arguments.get("instanceId"), arguments.get("slug")))]
    rel_paths = [
        entry.rel_path
        for entry in caller.files(granularity)
        if _begins_with(entry.rel_path.removeprefix(f"{granularity}/"), "_".join(wanted))
    ]
    if not rel_paths:
        raise NotFoundError(
            f"There is no {granularity} memory for {framed('_'.join(wanted))}",
            hint=f"memory_list with folder {granularity} lists those that exist.",
        )
    return rel_paths


def _begins_with(name: str, wanted: str) -> bool:
    """Tell whether a file name starts with the given prefix."""
    stem = name.rpartition(".")[0]
    return stem == wanted or stem.startswith(f"{wanted}_")


def _list_files(caller: Caller, arguments: Arguments) -> Iterable[tuple[MemoryEntry, str]]:
    """Yield the files that the arguments ask for, each with its day."""
    first, last = asked_days(caller, arguments)
    glob = arguments.get("glob", "*")
    for entry in caller.files(arguments.get("folder", "").strip("/")):
        day = day_of(entry.rel_path) or _changed_on(caller, entry)
        is_early = first is not None and day < first.isoformat()
        is_late = last is not None and day > last.isoformat()
        if not is_early and not is_late and _fits_glob(entry.rel_path, glob):
            yield entry, day


def _changed_on(caller: Caller, entry: MemoryEntry) -> str:
    """Return the day of a file's last change that the caller may know of."""
    if caller.viewer.is_owner:
        return in_zone(entry.modified, caller.familiar.zone).date().isoformat()
    text = caller.seen_text(entry.rel_path)
    (day,) = caller.familiar.numbering.newest_days([text], caller.viewer)
    return day.isoformat() if day else ""


def _fits_glob(rel_path: str, glob: str) -> bool:
    names = (rel_path, rel_path.rpartition("/")[2])
    return any(fnmatchcase(fold(name), fold(glob)) for name in names)


def asked_days(caller: Caller, arguments: Arguments) -> tuple[date | None, date | None]:
    """Return the first and last day of a range; None if unlimited.

    Raises:
        UsageError: One of them is not a time.
    """
    after, before = (arguments.get(name) for name in ("after", "before"))
    first = _named_span(caller, after, "after").first if after else None
    return first, (_named_span(caller, before, "before").last if before else None)


def _named_span(caller: Caller, text: str, argument: str) -> Span:
    """Parse a range of days: `2026-01-31`, `2026-W05`, `last week`, `3 days ago`."""
    from familiar_cli.actions.memory.consolidate import day_named

    today = day_named(caller.familiar, None)
    with suppress(ValueError):
        day = date.fromisoformat(text.strip()[:_DATE_CHARS])
        return Span(day, day)
    if period := read_period(text.strip()):
        return Span(period.first, period.last)
    for span in spans_in(text, today):
        with suppress(ValueError):
            return span if isinstance(span, Span) else span.beside(today, -1)
    try:
        day = day_named(caller.familiar, text)
    except UsageError:
        raise UsageError(
            f"The argument {argument!r} is not a time: {framed(text)!r}",
            hint="Write it as 2026-01-31, 2026-W05 or last week.",
        ) from None
    return Span(day, day)


def _file_item(caller: Caller, file: MemoryEntry, day: str) -> ToolItem:
    about: dict[str, Any] = {"path": file.rel_path, "date": day}
    try:
        text = caller.seen_text(file.rel_path)
    except FamiliarError as error:
        return ToolItem({**about, "bytes": file.size_bytes, "problem": str(error)})
    about |= {"bytes": len(text.encode(errors="replace"))}
    title = title_of(text)
    return ToolItem({**about, **({"title": framed(title)} if title else {})})


_MOST_HITS: Final = 10


def memory_search(caller: Caller, arguments: Arguments) -> Answer:
    """Search memories by one query or up to five, best first."""
    first, last = asked_days(caller, arguments)
    result = search.search_memories(
        caller.familiar,
        arguments["query"],
        max_results=arguments.get("maxResults", _MOST_HITS),
        min_score=arguments.get("minScore", 0.0),
        instance=arguments.get("instanceId", ""),
        since=first,
        until=last,
        viewer=caller.viewer,
    )
    # What is found here stands in a prompt, so what a lorebook keeps back is not offered.
    question = arguments["query"] if isinstance(arguments["query"], str) else result.query
    kept = search.kept_back(
        caller.familiar, question, (hit.rel_path for hit in result.hits), caller.viewer
    )
    hits = [hit for hit in result.hits if hit.rel_path not in kept]
    items = [ToolItem(_memory_facts(caller, hit), hit.text) for hit in hits]
    notes = result.notes if items else ("No memory matches; memory_list lists all.", *result.notes)
    return Answer(items, notes, {"method": result.method})


def _memory_facts(caller: Caller, hit: Hit) -> dict[str, Any]:
    directory = hit.rel_path.partition("/")[0]
    about = {
        "path": caller.told(hit.rel_path),
        "line": hit.line,
        "date": hit.day,
        "turns": number_spans(search.cited_turns(caller.familiar, hit, caller.viewer)),
        "granularity": directory if directory in GRANULARITIES else "",
        "heading": hit.heading,
    }
    return {name: value for name, value in about.items() if value} | {"score": hit.score}


def person(caller: Caller, arguments: Arguments) -> Answer:
    """Return a person's page.

    Raises:
        NotFoundError: Nobody has this name, or they have no file.
        UsageError: Several people have it.
    """
    from familiar_cli.actions.people.people import show_person
    from familiar_cli.store.memory.aliases import names_of

    if not caller.viewer.is_owner:
        return _known_person(caller, arguments["name"])
    page = show_person(caller.familiar, arguments["name"], viewer=caller.viewer)
    if not page.sha256:
        raise NotFoundError(f"There is no file about {framed(page.slug)!r} yet")
    seen = see(caller, page.rel_path)
    notes = [
        f"The name {framed(shared.name)} is shared by {', '.join(shared.slugs)}."
        for shared in page.collisions
    ]
    more = {"slug": page.slug, "names": [framed(name) for name in names_of(seen.text)]}
    return Answer(list(seen.items()), notes, more, stamp=sha256_of(seen.text)[:12])


def _known_person(caller: Caller, name: str) -> Answer:
    """Return the page of a person of whom the caller may know, by the names that it may know.

    Raises:
        NotFoundError: Nobody has this name, or the caller may read no page about them.
        UsageError: Several have it.
    """
    from familiar_cli.store.memory.aliases import names_of, slug_in

    pages = {slug_in(entry.rel_path): entry.rel_path for entry in caller.files(PEOPLE_DIR)}
    names = {slug: names_of(caller.seen_text(path)) for slug, path in pages.items() if slug}
    for one in caller.familiar.history.speakers(caller.viewer):
        if one.turns:
            called = filter(None, (one.author.display_name, one.author.username))
            names[one.author.slug] = (*names.get(one.author.slug, ()), *called)
    target = fold(name.strip()).replace(":", "-", 1)
    matches = [
        slug
        for slug, known in sorted(names.items())
        if target in {fold(slug), *(fold(one).replace(":", "-", 1) for one in known)}
    ]
    if not matches:
        raise NotFoundError(f"Nobody is called {framed(name)!r}")
    if len(matches) > 1:
        raise UsageError(f"{framed(name)!r} is {', '.join(matches)}")
    (slug,) = matches
    if slug not in pages:
        raise NotFoundError(f"Nothing has been written about {framed(slug)!r} yet")
    seen = see(caller, pages[slug])
    more = {"slug": slug, "names": [framed(one) for one in dict.fromkeys(names[slug])]}
    return Answer(list(seen.items()), [], more, stamp=sha256_of(seen.text))


def relations(caller: Caller, arguments: Arguments) -> Answer:
    """Return a page's relations, or all relations, without private ones.

    Raises:
        NotFoundError: Nothing has this name.
        UsageError: Several things have it.
    """
    from familiar_cli.actions.memory.graph import neighbourhood, overview

    name = arguments.get("name")
    familiar, viewer = caller.familiar, caller.viewer
    try:
        found = (
            neighbourhood(familiar, name, viewer=viewer)
            if name
            else overview(familiar, viewer=viewer)
        )
    except (NotFoundError, UsageError):
        if viewer.is_owner:
            raise
        raise _no_relations(name or "") from None
    edges = found.edges
    if name and not edges and not viewer.is_owner:
        raise _no_relations(name)
    notes = [] if edges else ["There are no relations."]
    if found.is_cut:
        notes.append("Not all relations are listed.")
    return Answer([_edge_item(caller, edge) for edge in edges], notes)


def _no_relations(name: str) -> NotFoundError:
    """Build the error for a name; it does not say whether there is such a page."""
    return NotFoundError(f"No relation of {framed(name)!r} may be shown here")


def _edge_item(caller: Caller, edge: Edge) -> ToolItem:
    known = {
        "since": edge.since,
        "until": edge.until,
        "lines": edge.line if caller.viewer.is_owner else 0,
        "turns": ", ".join(edge.evidence),
    }
    told = caller.told
    about = {"path": told(edge.source), "relation": edge.relation, "to": told(edge.target)}
    return ToolItem({**about, **{name: value for name, value in known.items() if value}})


_RECENT: Final = 20
_FOUND: Final = 10
_MOST: Final = 200


def recent(caller: Caller, arguments: Arguments) -> Answer:
    """Return the newest turns, oldest first.

    Raises:
        NotFoundError: The channel is unknown, or private to others.
    """
    channel = open_channel(caller, arguments)
    wanted = min(arguments.get("limit", _RECENT), _MOST)
    turns = _newest_turns(caller, channel, wanted)
    notes = () if turns else ("There are no turns yet.",)
    return Answer([turn_item(caller, turn, speaker_of(caller, turn)) for turn in turns], notes)


def history_search(caller: Caller, arguments: Arguments) -> Answer:
    """Search past turns by words, best first.

    Raises:
        NotFoundError: The channel is unknown, or private to others.
        UsageError: `query` has no words.
    """
    first, last = asked_days(caller, arguments)
    past = search.search_past(
        caller.familiar,
        arguments["query"],
        k=min(arguments.get("limit", _FOUND), _MOST),
        since=first,
        until=last,
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
        for hit in past.hits
    ]
    notes = () if items else ("No turn matches.",)
    return Answer(items, notes, {"method": past.method})


def open_channel(caller: Caller, arguments: Arguments) -> str | None:
    """Return the requested channel; None for all that the caller may see.

    Raises:
        UsageError: Not a valid channel id.
        NotFoundError: It is unknown, or private to others; the error does not say which.
    """
    channel = arguments.get("channel")
    if channel is None:
        return None
    check_id(channel, "The argument 'channel'")
    channel_ids = {summary.channel_id for summary in caller.familiar.history.channels()}
    if channel not in channel_ids or not caller.viewer.sees_channel(channel):
        raise NotFoundError(
            f"There is no open channel {framed(channel)!r}",
            hint="`recent` lists the open ones; a private one needs a server with --channel.",
        )
    return str(channel)


def _newest_turns(caller: Caller, channel: str | None, wanted: int) -> list[Turn]:

    history, viewer = caller.familiar.history, caller.viewer
    if channel is not None:
        return history.recent(channel, wanted, viewer=viewer)
    return [selection.turn for selection in newest_turns(history, TurnFilter(viewer), wanted)]


CHANNEL: Final = "mcp"
"""Where a caller speaks that has no channel of its own."""


def context(caller: Caller, arguments: Arguments) -> Answer:
    """Return the prompt for a message without storing it.

    Raises:
        NotFoundError: The channel is unknown, or private to others.
        LimitError: The message exceeds the prompt's limit.
    """
    from familiar_cli.actions.talk.talk import assemble
    from familiar_cli.context.types import Said

    channel = open_channel(caller, arguments) or caller.channel_id or CHANNEL
    author = caller.familiar.me(channel).author if caller.viewer.is_owner else None
    said = Said(arguments["message"], author, channel, greeting=0)
    trace = asyncio.run(assemble(caller.familiar, said, viewer=caller.viewer))
    pieces = [piece for piece in trace.contributions if piece.kept]
    more = {"tokens": trace.used_tokens, "budget": trace.budget_tokens}
    return Answer([_piece_item(caller, piece) for piece in pieces], trace.notices, more)


def why(caller: Caller, arguments: Arguments) -> Answer:
    """Explain why a file or a turn was in a prompt, or was not.

    Raises:
        NotFoundError: No such prompt, file or turn is visible to the caller.
    """
    from familiar_cli.actions.talk.explain_piece import explain_piece as why_of

    trace = _find_trace(caller, arguments)
    subject = caller.place(arguments["subject"])
    explanation = why_of(caller.familiar, trace, subject, viewer=caller.viewer)
    reasons = [*explanation.reasons, *filter(None, [explanation.since])]
    more = {"verdict": explanation.verdict, "turn": explanation.turn, "reasons": reasons}
    items = [_piece_item(caller, piece) for piece in explanation.contributions]
    return Answer(items, [f"Verdict: {explanation.verdict}.", *reasons], more)


def _find_trace(caller: Caller, arguments: Arguments) -> Trace:
    from familiar_cli.actions.talk.sent import find_trace

    turn = arguments.get("turn") or _newest_prompt(caller)
    asked = caller.familiar.history.turn(turn) if turn else None
    if turn and (asked is None or not caller.viewer.sees_turn(asked)):
        raise NotFoundError(f"No open channel has a turn {turn}", hint="See `recent`.")
    return find_trace(caller.familiar, turn)


def _newest_prompt(caller: Caller) -> int | None:
    """Return the newest turn whose prompt the caller may see, if any."""
    from familiar_cli.actions.talk.sent import find_trace

    history, viewer = caller.familiar.history, caller.viewer
    trace = find_trace(caller.familiar)
    asked = history.turn(trace.turn) if trace.turn else None
    if asked and viewer.sees_turn(asked):
        return trace.turn
    for one in reversed(newest_turns(history, TurnFilter(viewer), 1000)):
        if one.turn.role == "user":
            return one.turn.id
    raise NotFoundError("There is no prompt in an open channel yet")


def _piece_item(caller: Caller, piece: Fragment) -> ToolItem:
    about: dict[str, Any] = {"layer": str(piece.layer), "source": piece.source}
    if piece.rel_path:
        about["path"] = caller.told(piece.rel_path)
    if piece.lines:
        about["lines"] = f"{piece.lines[0]}-{piece.lines[1]}"
    turns = piece.turns or (piece.turn_id and (piece.turn_id, piece.turn_id))
    if turns:
        about["turns"] = f"{turns[0]}-{turns[1]}"
    about["tokens"] = piece.tokens
    if piece.reason:
        about["reason"] = piece.reason
    return ToolItem(about, piece.text)


_AFTER: Final = text_of("Day, or e.g. last week")
_BEFORE: Final = text_of("Latest day")
_DAYS: Final = {"after": _AFTER, "before": _BEFORE}
_CHANNEL: Final = {"channel": text_of("Only this channel")}
_INSTANCE: Final = {"instanceId": text_of("The instance that asks")}

TOOLS: Final = (
    Tool(
        "memory_search",
        "Find memories by words and meaning.",
        {
            "query": {"anyOf": [TEXT, TEXTS], "description": "Question, or up to five"},
            **_DAYS,
            "maxResults": {**count_of("Most memories", _MOST_HITS), "maximum": search.MOST_RESULTS},
        },
        memory_search,
        needs=("query",),
        also={"minScore": {"type": "number", "description": "Least score"}, **_INSTANCE},
        gives={"method": TEXT},
        pages=True,
        searches=True,
    ),
    Tool(
        "memory_read",
        "Read a memory file; its checksum is for memory_edit.",
        {
            "path": text_of("From memory_list, or give a date"),
            "find": text_of("Only lines near this text, or this section"),
            "date": text_of("2026-01-31, 2026-W05 or 2026-01"),
        },
        memory_read,
        also={
            "granularity": choice_of("Default: of the date", *GRANULARITIES),
            "slug": text_of("Of a significant moment"),
            **_INSTANCE,
        },
        pages=True,
    ),
    Tool(
        "memory_list",
        "List memory files, newest first.",
        {
            "folder": text_of("Such as people or daily"),
            "glob": text_of("Such as *bo*.md"),
            **_DAYS,
            "limit": count_of("Most files", _LISTED),
        },
        memory_list,
        also={"offset": count_of("Skip so many", 0, least=0)},
        gives={"total": WHOLE},
        pages=True,
    ),
    Tool(
        "recent",
        "Newest turns of conversations.",
        {"limit": count_of("Most turns", _RECENT), **_CHANNEL},
        recent,
        pages=True,
    ),
    Tool(
        "history_search",
        "Search past turns; returns them verbatim.",
        {
            "query": text_of("What was said"),
            **_DAYS,
            "limit": count_of("Most turns", _FOUND),
            **_CHANNEL,
        },
        history_search,
        needs=("query",),
        pages=True,
    ),
    Tool(
        "person",
        "What is known about a person.",
        {"name": text_of("Any of their names")},
        person,
        needs=("name",),
        gives={"names": _NAMES},
        pages=True,
    ),
    Tool(
        "relations",
        "Relations of a person, place or topic.",
        {"name": text_of("Default: all")},
        relations,
        pages=True,
    ),
    Tool(
        "context",
        "What a prompt for a message would hold.",
        {"message": text_of("The message"), **_CHANNEL},
        context,
        needs=("message",),
        gives={"tokens": WHOLE, "budget": WHOLE},
        pages=True,
    ),
    Tool(
        "why",
        "Why something was in a prompt, or not.",
        {"subject": text_of("File, or turn:12"), "turn": count_of("Whose prompt; default: newest")},
        why,
        needs=("subject",),
        gives={"verdict": TEXT},
        pages=True,
    ),
)
