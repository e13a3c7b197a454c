"""Search memory for whoever asks through a program: several questions at once, nothing private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError, UsageError
from familiar_cli.index.types import SearchOptions
from familiar_cli.memory.pages.evidence import turn_ids
from familiar_cli.memory.pages.machine_text import shown_between
from familiar_cli.memory.pages.privacy import private_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.familiar import Familiar
    from familiar_cli.index.types import Hit, Method, SearchResult
    from familiar_cli.visibility import Viewer

MOST_RESULTS: Final = 50
_TIERS: Final = ("daily", "weekly", "monthly", "yearly", "significant")


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """One memory that was found.

    Args:
        rel_path: Its file.
        granularity: `daily` … `significant`; empty for any other file.
        date: The day it is about, or an empty string.
        score: The best that any of the questions gave it.
        text: All of it if it is short, else its best section with what surrounds it.
        line: The number of the best line in the file, from 1.
        heading: The headings above it.
        turns: The turns that it rests on.
    """

    rel_path: str
    granularity: str
    date: str
    score: float
    text: str
    line: int
    heading: str
    turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundMemories:
    """What was found, best first.

    Args:
        memories: Each file once.
        method: How it was found.
        notes: What the caller should know, such as a missing model.
    """

    memories: tuple[FoundMemory, ...]
    method: Method
    notes: tuple[str, ...] = ()


def search_memories(
    familiar: Familiar,
    query: str | Sequence[str],
    *,
    max_results: int = 10,
    min_score: float = 0.0,
    instance: str = "",
    viewer: Viewer,
) -> FoundMemories:
    """Return the memories that fit any of the questions, each with its best score.

    Args:
        familiar: Whose memory.
        query: A message, whose sentences are asked apart, or up to five questions.
        max_results: Most memories.
        min_score: Least score.
        instance: The instance that asks; memories of its own are preferred.
        viewer: Who will see them.

    Raises:
        UsageError: There is no question, or more than five, or one holds no word.
    """
    from familiar_cli.index.search import SENTENCES

    queries = [query] if isinstance(query, str) else list(dict.fromkeys(query))
    if not 1 <= len(queries) <= SENTENCES:
        raise UsageError(f"`query` takes 1 to {SENTENCES} questions, not {len(queries)}")
    options = SearchOptions(
        k=min(max(max_results, 1), MOST_RESULTS),
        instance=instance,
        zone=familiar.zone,
        min_score=min_score,
        viewer=viewer,
    )
    results = [familiar.search(one, options) for one in queries]
    best: dict[str, Hit] = {}
    for hit in (hit for result in results for hit in result.hits):
        known = best.get(hit.rel_path)
        if known is None or hit.score > known.score:
            best[hit.rel_path] = hit
    ranked = sorted(best.values(), key=lambda hit: (-hit.score, hit.rel_path))[: options.k]
    cited = [_cited(familiar, hit, viewer) for hit in ranked]
    memories = (_memory(hit, turns) for hit, turns in zip(ranked, cited, strict=True))
    return FoundMemories(tuple(memories), results[0].method, _notes(results))


def _memory(hit: Hit, turns: tuple[int, ...]) -> FoundMemory:
    top = hit.rel_path.partition("/")[0]
    tier = top if top in _TIERS else ""
    return FoundMemory(
        hit.rel_path, tier, hit.day, hit.score, hit.text, hit.line, hit.heading, turns
    )


def _cited(familiar: Familiar, hit: Hit, viewer: Viewer) -> tuple[int, ...]:
    """Return the turns that what is shown of a hit rests on."""
    try:
        text = familiar.memory.read_file(hit.rel_path)
    except FamiliarError:  # it is gone since it was found
        return ()
    hidden = private_spans(text, viewer)
    return turn_ids(shown_between(text, hit.char_start, hit.char_end, hidden), familiar.numbering)


def _notes(results: Sequence[SearchResult]) -> tuple[str, ...]:
    told = (note for result in results for note in (*result.notes, result.hint and _try(result)))
    return tuple(dict.fromkeys(filter(None, told)))


def _try(result: SearchResult) -> str:
    return result.hint if "`" in result.hint else f"Run `{result.hint}`."
