"""The page of the one search: pages, people, sentences, and what was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from familiar_cli.actions.memory.facts import page_title
from familiar_cli.actions.memory.moments import (
    FoundMoments,
    Moment,
    fact_words,
    mark_words,
    search_everything,
)
from familiar_cli.actions.memory.search import kept_back
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import fold
from familiar_cli.pages.stream import spoken_text
from familiar_cli.servers.web import asking
from familiar_cli.servers.web.fact_rows import page_of_file
from familiar_cli.servers.web.relation_pages import finish_reading
from familiar_cli.store.search.types import Hit, options_from

_K: Final = 10
_MOST_NAMED: Final = 6
_METHODS: Final = {
    "auto": "words and meaning",
    "lexical": "words",
    "dense": "meaning",
    "grep": "a regular expression",
}
_REFRESH_S: Final = 0.08  # for files that changed since the last search
_BARS: Final = (
    ("relevance", "words and meaning together"),
    ("lexical", "words"),
    ("dense", "meaning"),
    ("coverage", "share of the words"),
    ("recency", "how new it is"),
    ("people", "who speaks or is mentioned"),
    ("time", "near the time asked for"),
)


def show_search(request: asking.PageRequest) -> asking.PageView:
    """Return everything that answers a query."""
    query = request.query.get("q", "").strip()
    values: dict[str, Any] = {
        "q": query,
        "where": request.query.get("in", ""),
        "method": request.query.get("method", "auto"),
        "methods": _METHODS,
        "within": request.query.get("within", ""),
        "since": request.query.get("since", ""),
        "found": FoundMoments(),
        "commands": _matching_pages(query),
        "pages": [],
        "rows": [],
        "hint": "",
    }
    if not query:
        return asking.PageView("search", values)
    try:
        moments = _search(request, values)
    except FamiliarError as error:
        moments = FoundMoments(problems=(str(error),))
        values["hint"] = error.hint or ""
    if moments.memory.unread:
        finish_reading(request.familiar.paths)
    values |= {
        "found": moments,
        "rows": _rows_of(request, moments, query),
        "pages": _named_pages(request, moments),
    }
    return asking.PageView("search", values)


def _search(request: asking.PageRequest, values: dict[str, Any]) -> FoundMoments:
    from msgspec.structs import replace

    options = options_from(
        k=_K,
        method=values["method"],
        within=values["within"],
        since=request.day("since"),
        lines=True,
        viewer=request.viewer,
    )
    return search_everything(
        request.familiar,
        values["q"],
        replace(options, refresh_s=_REFRESH_S),
        memory=values["where"] != "past",
        past=values["where"] != "memory",
    )


def _named_pages(request: asking.PageRequest, moments: FoundMoments) -> list[tuple[str, str]]:
    """Return the title and address of each page whose name is in the query."""
    memory = request.familiar.memory
    return [
        (page_title(memory, path), page_of_file(request, path))
        for path in moments.named[:_MOST_NAMED]
    ]


def _matching_pages(query: str) -> list[tuple[str, str]]:
    """Return the pages of the site whose names begin with the query: address and name."""
    target = fold(query)
    named = [(path, name) for pages in asking.NAVIGATION.values() for path, name in pages.items()]
    return [one for one in named if target and fold(one[1]).startswith(target)]


def _rows_of(request: asking.PageRequest, found: FoundMoments, query: str) -> list[dict[str, Any]]:
    best = max((one.score for one in found.moments), default=1.0) or 1.0
    paths = (one.fact.rel_path for one in found.moments if one.fact)
    kept = kept_back(request.familiar, query, paths, request.viewer)
    return [_row_of(request, one, query, one.score / best, kept) for one in found.moments]


def _row_of(
    request: asking.PageRequest, one: Moment, query: str, strength: float, kept: Mapping[str, str]
) -> dict[str, Any]:
    """Return a result: its sentence, marked, with the page behind it and what was said around."""
    hit, memory = one.fact, request.familiar.memory
    said = [
        {
            "turn": turn,
            "who": who,
            "is_it": one.turn is not None and turn.id == one.turn.id,
            "pieces": mark_words(spoken_text(turn.content), query, whole=one.answers(turn)),
        }
        for turn, who in asking.with_speakers(request.familiar, one.around)
    ]
    return {
        "sentence": mark_words(fact_words(hit), query, whole=True) if hit else [],
        "title": page_title(memory, hit.rel_path) if hit else "",
        "href": page_of_file(request, hit.rel_path) if hit else "",
        "kept_back": kept.get(hit.rel_path, "") if hit else "",
        "said": said,
        "turn": one.turn,
        "strength": strength,
        "bars": _signal_bars(hit) if hit else [],
    }


def _signal_bars(hit: Hit) -> list[tuple[str, str, float | None]]:
    """Return each ranking signal: name, description, and strength from 0 to 1."""
    return [
        (name, text, None if value is None else min(max(float(value), 0.0), 1.0))
        for name, text in _BARS
        for value in (getattr(hit.signals, name),)
    ]


PAGES: Final = (asking.WebPage("/search", show_search),)
