"""The page of the one search: pages, people, sentences, and what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from familiar_cli.servers.web.asking import NAVIGATION, PageRequest, Shown, WebPage, with_speakers
from familiar_cli.servers.web.fact_rows import page_of_file
from familiar_cli.servers.web.relation_pages import finish_reading
from familiar_cli.store.search.types import options_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.store.search.types import Hit

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


def show_search(asked: PageRequest) -> Shown:
    """Return everything that answers a query."""
    query = asked.query.get("q", "").strip()
    values: dict[str, Any] = {
        "q": query,
        "where": asked.query.get("in", ""),
        "method": asked.query.get("method", "auto"),
        "methods": _METHODS,
        "within": asked.query.get("within", ""),
        "since": asked.query.get("since", ""),
        "found": FoundMoments(),
        "commands": _matching_pages(query),
        "pages": [],
        "rows": [],
        "hint": "",
    }
    if not query:
        return Shown("search", values)
    try:
        found = _search(asked, values)
    except FamiliarError as error:
        found = FoundMoments(problems=(str(error),))
        values["hint"] = error.hint or ""
    if found.memory.unread:
        finish_reading(asked.familiar.paths)
    values |= {
        "found": found,
        "rows": _rows_of(asked, found, query),
        "pages": _named_pages(asked, found),
    }
    return Shown("search", values)


def _search(asked: PageRequest, values: dict[str, Any]) -> FoundMoments:
    from msgspec.structs import replace

    options = options_from(
        k=_K,
        method=values["method"],
        within=values["within"],
        since=asked.day("since"),
        lines=True,
        viewer=asked.viewer,
    )
    return search_everything(
        asked.familiar,
        values["q"],
        replace(options, refresh_s=_REFRESH_S),
        memory=values["where"] != "past",
        past=values["where"] != "memory",
    )


def _named_pages(asked: PageRequest, found: FoundMoments) -> list[tuple[str, str]]:
    """Return the title and address of each page whose name is in the query."""
    memory = asked.familiar.memory
    return [
        (page_title(memory, path), page_of_file(asked, path)) for path in found.named[:_MOST_NAMED]
    ]


def _matching_pages(query: str) -> list[tuple[str, str]]:
    """Return the pages of the site whose names begin with the query: address and name."""
    wanted = fold(query)
    named = [(path, name) for pages in NAVIGATION.values() for path, name in pages.items()]
    return [one for one in named if wanted and fold(one[1]).startswith(wanted)]


def _rows_of(asked: PageRequest, found: FoundMoments, query: str) -> list[dict[str, Any]]:
    best = max((one.score for one in found.moments), default=1.0) or 1.0
    paths = (one.fact.rel_path for one in found.moments if one.fact)
    kept = kept_back(asked.familiar, query, paths, asked.viewer)
    return [_row_of(asked, one, query, one.score / best, kept) for one in found.moments]


def _row_of(
    asked: PageRequest, one: Moment, query: str, strength: float, kept: Mapping[str, str]
) -> dict[str, Any]:
    """Return a result: its sentence, marked, with the page behind it and what was said around."""
    hit, memory = one.fact, asked.familiar.memory
    said = [
        {
            "turn": turn,
            "who": who,
            "is_it": one.turn is not None and turn.id == one.turn.id,
            "pieces": mark_words(spoken_text(turn.content), query, whole=one.answers(turn)),
        }
        for turn, who in with_speakers(asked.familiar, one.around)
    ]
    return {
        "sentence": mark_words(fact_words(hit), query, whole=True) if hit else [],
        "title": page_title(memory, hit.rel_path) if hit else "",
        "href": page_of_file(asked, hit.rel_path) if hit else "",
        "kept_back": kept.get(hit.rel_path, "") if hit else "",
        "said": said,
        "turn": one.turn,
        "strength": strength,
        "bars": _signal_bars(hit) if hit else [],
    }


def _signal_bars(hit: Hit) -> list[tuple[str, str, float | None]]:
    """Return each ranking signal: name, description, and strength from 0 to 1."""
    return [
        (name, said, None if value is None else min(max(float(value), 0.0), 1.0))
        for name, said in _BARS
        for value in (getattr(hit.signals, name),)
    ]


PAGES: Final = (WebPage("/search", show_search),)
