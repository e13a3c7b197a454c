"""Search: what is found, and the signals that put it where it stands."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import FamiliarError, UsageError
from familiar_cli.web.asking import Shown, WebPage

if TYPE_CHECKING:
    from familiar_cli.index.types import Hit
    from familiar_cli.web.asking import PageRequest

_K: Final = 10
_METHODS: Final = {
    "auto": "words and meaning",
    "lexical": "words",
    "dense": "meaning",
    "grep": "a regular expression",
}
_REFRESH_S: Final = 0.5  # for files that changed since the last search
_TEXT_CHARS: Final = 600
_BARS: Final = (
    ("relevance", "words and meaning together"),
    ("lexical", "words"),
    ("dense", "meaning"),
    ("coverage", "share of the words"),
    ("recency", "how new it is"),
    ("people", "who speaks or is mentioned"),
    ("time", "near the time asked for"),
)


def show(asked: PageRequest) -> Shown:
    """Return what was found."""
    query = asked.query.get("q", "").strip()
    where, method = asked.query.get("in", "memory"), asked.query.get("method", "auto")
    values: dict[str, Any] = {
        "q": query,
        "where": where,
        "method": method,
        "methods": _METHODS,
        "within": asked.query.get("within", ""),
        "since": asked.query.get("since", ""),
        "result": None,
        "past": None,
        "rows": [],
        "problem": "",
        "hint": "",
    }
    if not query:
        return Shown("search", values)
    try:
        values |= _past(asked, query, method) if where == "past" else _memory(asked, values)
    except FamiliarError as error:
        values |= {"problem": str(error), "hint": error.hint or ""}
    return Shown("search", values)


def _memory(asked: PageRequest, values: dict[str, Any]) -> dict[str, Any]:
    from dataclasses import replace

    from familiar_cli.index.types import options_from

    since = _since(values["since"])
    options = options_from(
        k=_K,
        method=values["method"],
        within=values["within"],
        since=since,
        lines=False,
        viewer=asked.viewer,
    )
    found = asked.familiar.search(values["q"], replace(options, refresh_s=_REFRESH_S))
    best = max((hit.score for hit in found.hits), default=1.0) or 1.0
    rows = [(hit, hit.text[:_TEXT_CHARS], hit.score / best, _bars(hit)) for hit in found.hits]
    return {"result": found, "rows": rows}


def _past(asked: PageRequest, query: str, method: str) -> dict[str, Any]:
    from familiar_cli.actions.search import search_past

    wanted = method if method in {"auto", "lexical"} else "hybrid"
    since = _since(asked.query.get("since", ""))
    return {
        "past": search_past(
            asked.familiar, query, k=_K, method=wanted, since=since, viewer=asked.viewer
        )
    }


def _bars(hit: Hit) -> list[tuple[str, str, float | None]]:
    """Return each signal: its name, what it says, and how strong it is, from 0 to 1."""
    return [
        (name, said, None if value is None else min(max(float(value), 0.0), 1.0))
        for name, said in _BARS
        for value in (getattr(hit.signals, name),)
    ]


def _since(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise UsageError(f"{text[:40]!r} is not a date; write it as 2026-01-31") from None


PAGES: Final = (WebPage("/search", show),)
