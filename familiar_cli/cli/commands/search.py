"""`familiar search`: parse, call, render."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import tzinfo
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec.structs import asdict, replace

from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.text import bare_lines, counted, hint_sentence, one_line
from familiar_cli.base.who.visibility import OWNER, Viewer
from familiar_cli.cli.commands._base import App, day_of, familiar_of, output, text_or_stdin
from familiar_cli.cli.commands._options import most, speaker
from familiar_cli.cli.commands._options import since as since_option
from familiar_cli.pages.emit import Output
from familiar_cli.pages.page import IndentedPart, PagePart, Words, local_time, mark_query, plain
from familiar_cli.store import fts
from familiar_cli.store.fts import match_spans
from familiar_cli.store.memory.layout import LORE_DIR, told_path
from familiar_cli.store.search.types import (
    BY_MEANING,
    MEMORIES_BY_MEANING,
    Hit,
    SearchResult,
    Signals,
    options_from,
)

if TYPE_CHECKING:
    from familiar_cli.actions.memory.search import PastHit, PastSearchResult
    from familiar_cli.familiar import Familiar


_OF_TURNS: Final = ("auto", "hybrid", "lexical")  # methods
_WAYS: Final = {
    "lexical": "by words",
    "grep": "by words",
    "dense": "by meaning",
    "hybrid": "by words and meaning",
}
_SHOWN: Final = 0.005  # the least score that is not printed as 0.00
_HEADINGS: Final = re.compile(r"\A(?:#{1,6} [^\n]*\n+)+")


def search_page(
    found: SearchResult | None,
    said: PastSearchResult | None = None,
    *,
    query: str,
    zone: tzinfo | None,
    k: int,
    lines: bool = False,
    explain: bool = False,
    unwritten: bool = False,
    kept_back: Mapping[str, str] = {},
) -> list[PagePart]:
    """Lay out the `k` best: below each place its best line, then what surrounds it; or one line.

    A turn is among them, if any was found.

    Args:
        found: What was found in memory.
        said: What was found among past turns.
        query: Its words are marked.
        zone: The familiar's timezone.
        k: Most results.
        lines: Show one line each.
        explain: Show how each was scored.
        unwritten: The turns are not in memory yet.
        kept_back: Why entries of lorebooks are in no prompt now, by path.
    """
    page: list[PagePart] = []
    for number, hit in enumerate(_best_hits(found, said, k)):
        if lines:
            page.append(plain(f"{_address(hit)}:{one_line(hit.text, 10_000)}"))
        else:
            place = _place(hit, zone, unwritten=unwritten)
            page += [plain("")] * (number > 0) + [place, *_text_parts(hit, query)]
            if isinstance(hit, Hit) and (why := kept_back.get(hit.rel_path)):
                page.append(IndentedPart(plain(why, "yellow")))
        if explain and isinstance(hit, Hit):
            page.append(IndentedPart(plain(_signals(hit.signals), "dim")))
    return page


def _best_hits(
    found: SearchResult | None, said: PastSearchResult | None, k: int
) -> list[Hit | PastHit]:
    """Return the `k` best of memory and of past turns; a turn is among them, if there is one."""
    every: list[Hit | PastHit] = [*(found.hits if found else ()), *(said.hits if said else ())]
    best = sorted(every, key=lambda hit: -hit.score)[:k]
    if said and said.hits and all(isinstance(hit, Hit) for hit in best):
        best[-1:] = said.hits[:1]
    return best


def search_data(
    found: SearchResult | None,
    said: PastSearchResult | None,
    query: str,
    kept_back: Mapping[str, str] = {},
) -> dict[str, Any]:
    """Return a result as `--json` prints it."""
    data: dict[str, Any] = (
        asdict(found) if found else {"query": query, "method": said.method if said else ""}
    )
    if found:
        data["hits"] = [
            asdict(hit)
            | {"signals": asdict(hit.signals), "kept_back": kept_back.get(hit.rel_path, "")}
            for hit in found.hits
        ]
    if said:
        past = [asdict(hit) | {"at": hit.at.isoformat()} for hit in said.hits]
        data |= {"past": past, "turns_waiting": said.waiting}
    return data


def _address(hit: Hit | PastHit) -> str:
    if not isinstance(hit, Hit):
        return f"{hit.channel}:{hit.turns[0]}"
    return f"{hit.rel_path}:{hit.line}"


def _place(hit: Hit | PastHit, zone: tzinfo | None, *, unwritten: bool) -> PagePart:
    if isinstance(hit, Hit):
        is_told = not hit.day or hit.day in hit.rel_path
        about = one_line(hit.heading if is_told else f"{hit.heading} ({hit.day})", 200)
    else:
        mark = " (not in memory yet)" if unwritten else " (beside a match)" * (hit.score < _SHOWN)
        about = f"{one_line(hit.speaker, 60)}, {local_time(hit.at, zone)}{mark}"
    return Words([(_address(hit), "bold"), (f"  {hit.score:.2f}", "dim"), (f"  {about}", "cyan")])


def _text_parts(hit: Hit | PastHit, query: str) -> Iterator[PagePart]:
    """Yield the best line with the query's words highlighted, then its context, dimmed."""
    if not isinstance(hit, Hit):
        yield IndentedPart(mark_query(query, hit.text))
        return
    body = _HEADINGS.sub("", hit.text).strip() or hit.text.strip()
    best = hit.best.strip()
    if best not in body:  # it is the heading shown above
        lines = [line for line in bare_lines(body) if line.strip()]
        best = next((line for line in lines if any(match_spans(query, line))), lines[0])
    before, _, after = body.partition(best)
    # Another section keeps its heading.
    if re.search(r"^#{1,6} ", before + best, re.MULTILINE):
        before = hit.text.partition(best)[0]
    around = "\n".join(filter(None, (before.strip(), after.strip())))
    yield IndentedPart(mark_query(query, best))
    if around:
        yield IndentedPart(plain(around, "dim"), 6)


def _maxsim(signals: Signals) -> tuple[str, ...]:
    if signals.maxsim_line is None or signals.maxsim_passage is None:
        return ()
    return (
        f"tokens {signals.maxsim_line:.3f} in the line, {signals.maxsim_passage:.3f} around it",
    )


def _signals(signals: Signals) -> str:
    shown = [
        f"relevance {signals.relevance:.3f}",
        f"words {signals.lexical:.3f}",
        "meaning -" if signals.dense is None else f"meaning {signals.dense:.3f}",
        *_maxsim(signals),
        "cosine -" if signals.cosine is None else f"cosine {signals.cosine:.3f}",
        f"coverage {signals.coverage:.2f}",
        f"speaker {_yes(signals.speaker)}",
        f"people {signals.people:.2f}",
        f"time {signals.time:.2f}",
        f"recency {signals.recency:.3f}",
        f"linked {_yes(signals.linked)}",
        f"instance {_yes(signals.same_instance)}",
    ]
    return "  ".join(shown)


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


app = App()


@app.command()
def search(
    ctx: typer.Context,
    query: str,
    *,
    k: Annotated[int, most("memories")] = 5,
    min_score: Annotated[float, typer.Option(min=0.0, max=2.0)] = 0.0,
    method: str = "auto",
    within: Annotated[str, typer.Option("--in")] = "",
    since: Annotated[str | None, since_option("memories")] = None,
    lines: Annotated[bool, typer.Option("--lines")] = False,
    explain: Annotated[bool, typer.Option("--explain")] = False,
    past: Annotated[bool, typer.Option("--past")] = False,
    all_: Annotated[bool, typer.Option("--all")] = False,
    channel: str | None = None,
    as_: Annotated[
        str | None, speaker("Find only what this account, or an owner, may see; default: you.")
    ] = None,
) -> None:
    """Search memory by words and by meaning, and recent turns that are not in memory yet.

    --past searches all turns instead, and --all both. Turns of a channel declared private are
    shown only with --channel ID.

    \b
    familiar search "what does Alice like to drink?"
    familiar search "the trip to Rome" --since 2026-01-01
    familiar search tea --in sessions --explain
    familiar search "the red scarf" --past
    familiar search "who plays chess?" --min-score 0.5
    familiar search tea --as discord:1234

    Args:
        query (QUERY|-): Question or words; `-` reads standard input.
        min_score (SCORE): Only hits with at least this score.
        method (auto|hybrid|lexical|dense|grep): Search method.
        within (DIR): Only this file, or files below this directory.
        lines: Rank single lines, and print path:line:text.
        explain: Show how each hit was scored.
        past: Search past turns instead of memory.
        all_: Search memory and past turns.
        channel (ID): Only past turns of this channel, even a private one.
    """
    from familiar_cli.pages.progress import show_totals

    _check(past=past, all_=all_, channel=channel, within=within)
    out, familiar = output(ctx), familiar_of(ctx)
    day, question = day_of(familiar, since), text_or_stdin(query)
    person = None if as_ is None else _viewer_of(familiar, as_, channel)
    viewer = person or OWNER
    options = options_from(
        k=k,
        method=method,
        within=within,
        since=day,
        lines=lines,
        min_score=min_score,
        viewer=viewer,
    )
    result, said, unwritten, kept = None, None, 0, {}
    with familiar, show_totals(out) as report:
        if not past:
            result = familiar.finder.search(question, options, report)
            told = (replace(hit, rel_path=told_path(hit.rel_path, viewer)) for hit in result.hits)
            result = replace(result, hits=tuple(told))
            lore = [hit.rel_path for hit in result.hits if hit.rel_path.startswith(LORE_DIR)]
            if lore:
                from familiar_cli.actions.memory.search import kept_back

                kept = kept_back(familiar, question, lore, viewer)
        if not (past or all_ or lines or within) and method in _OF_TURNS:
            from familiar_cli.store.history.schema import count_unsummarised

            # Whether there are any tells others of turns that they may not see.
            unwritten = count_unsummarised(familiar.paths.history) if as_ is None else 1
        if past or all_ or (unwritten and fts.words(question)):
            from familiar_cli.actions.memory.search import search_past

            said = search_past(
                familiar,
                question,
                k=k,
                method=method,
                since=day,
                channel=channel,
                viewer=person or (OWNER if channel else familiar.privacy.glance()),
                min_score=min_score,
                unwritten=bool(unwritten),
            )
    page = search_page(
        result,
        said,
        query=question,
        zone=familiar.zone,
        k=k,
        lines=lines,
        explain=explain,
        unwritten=bool(unwritten),
        kept_back=kept,
    )
    shown = replace(result, waiting=0) if result and as_ is not None else result
    data = search_data(shown, said, question, kept)
    is_told = unwritten and as_ is None  # others hear no count of what they may not see
    out.answer(data | {"unwritten": unwritten} if is_told else data, page)
    if result:
        are_turns = bool(said and said.hits)
        memories = any(isinstance(hit, Hit) for hit in _best_hits(result, said, k))
        caution = MEMORIES_BY_MEANING if are_turns else BY_MEANING
        notes = (caution if memories and result.caution else "", *result.notes)
        has_turns = bool(unwritten and are_turns)
        _tell(out, replace(result, notes=notes), min_score, has_turns=has_turns, is_all=all_)
        _catch_up(out, familiar, result)
    if is_told:
        turns = counted(unwritten, "turn is", "turns are")
        out.note(f"{turns} not in memory yet, and searched as well; --past searches all turns.")
    elif said and not unwritten:
        _tell_of_turns(out, said, min_score)


def _viewer_of(familiar: Familiar, account: str, channel: str | None) -> Viewer:
    from familiar_cli.base.config.home import who_speaks

    person = who_speaks(account, None, familiar.me(channel or ""))
    return familiar.privacy.viewer_in(channel or "", person)


def _check(*, past: bool, all_: bool, channel: str | None, within: str) -> None:
    if past and all_:
        raise UsageError("--past and --all cannot be combined")
    if channel is not None and not (past or all_):
        raise UsageError("--channel applies only to past turns", hint="Add --past or --all.")
    if past and within:
        raise UsageError("--in applies only to memory", hint="Leave it out, or use --all.")


def _tell_of_turns(out: Output, said: PastSearchResult, min_score: float) -> None:
    if said.waiting:
        waiting = counted(said.waiting, "turn")
        out.note(f"Searched by words only: {waiting} without a vector yet.")
        out.note("hint: Run `familiar index build`.")
    if not said.hits:
        above = _above(min_score)
        out.note(f"Nothing was found in past turns{above}. See all: `familiar history list`.")


def _above(min_score: float) -> str:
    return f" with a score of {min_score:g} or more" if min_score else ""


def _tell(
    out: Output, found: SearchResult, min_score: float, *, has_turns: bool, is_all: bool
) -> None:
    notes = filter(None, found.notes)
    out.note(*(note if note.endswith(".") else f"{note}." for note in notes))
    if found.hint:
        out.note(f"hint: {hint_sentence(found.hint)}")
    if not (found.hits or has_turns):
        past = "" if is_all else "--past searches past turns; "
        out.note(
            f"Nothing was found in memory {_WAYS[found.method]}{_above(min_score)}. "
            f"{past}`familiar memory list` lists all files."
        )


def _catch_up(out: Output, familiar: Familiar, found: SearchResult) -> None:
    """Compute some missing vectors after the answer, unless words come first."""
    if found.direct or not (found.waiting and familiar.finder.embedder.embedder):
        return
    from familiar_cli.store.search.build import SOME
    from familiar_cli.store.search.schema import IndexUnusableError

    try:
        with suppress(IndexUnusableError):  # what was found is as good; the next search tries again
            familiar.index.embed_waiting(familiar.finder.embedder.embedder, at_most=SOME)
    except FamiliarError as error:
        if not any(str(error) in note for note in found.notes):
            out.warn(str(error))
