"""As of: memory and prompt as they were on any day."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.web.asking import Redirect, Shown, WebPage, to_number
from familiar_cli.web.pages.memory import crumbs

if TYPE_CHECKING:
    from familiar_cli.actions.past import AsOf
    from familiar_cli.context.trace import Trace
    from familiar_cli.memory.journal.history import JournalDays
    from familiar_cli.web.asking import PageRequest

_MOST_CHANGED: Final = 200
_MOST_DIFFS: Final = 12
_SHOWN_CHARS: Final = 24_000
_FIRST: Final = date(2, 1, 1)
_LAST: Final = date(9998, 12, 31)  # the day after has to be one, too, in every zone


def show(asked: PageRequest) -> Shown | Redirect:
    """Return memory as it was on a day."""
    from familiar_cli.actions.past import as_of

    if "n" in asked.query:  # from the slider
        days = asked.familiar.journal_days.all()
        number = min(to_number(asked.query["n"], "n"), max(len(days) - 1, 0))
        return Redirect(asked.to("asof", at=days[number].day if days else None))
    found = as_of(asked.familiar, _day(asked), _named(asked, "since"))
    return Shown("asof", _values(asked, found))


def file(asked: PageRequest) -> Shown:
    """Return one file as it was on a day, or what was in a directory then."""
    from familiar_cli.markdown import split_front_matter
    from familiar_cli.web.rendering import rendered

    day, rel_path = _day(asked), asked.path.get("path", "").strip("/")
    days = asked.familiar.journal_days
    state = days.at(day)
    content = days.content(state.commit, rel_path) if state and rel_path else None
    listed = _listed(days, state.commit, rel_path) if state and content is None else []
    if rel_path and content is None and not listed:
        raise NotFoundError(f"There was no {rel_path!r} in memory on {day}")
    values = {"day": day, "rel_path": rel_path, "crumbs": crumbs(rel_path), "listed": listed}
    text = content.decode("utf-8", "replace") if content is not None else ""
    front, body = split_front_matter(text)
    html = None
    if content is not None:
        html = rendered(body[:_SHOWN_CHARS], rel_path, asked.base, asked.familiar.numbering)
    memory = asked.familiar.memory
    is_now = content is not None and memory.exists(rel_path)
    same = is_now and memory.read_bytes(rel_path) == content
    return Shown(
        "asof_file",
        {**values, "front": front or "", "html": html, "is_now": is_now, "same": same},
    )


def prompt(asked: PageRequest) -> Shown:
    """Return the prompt that something would have led to at the end of a day."""
    from familiar_cli.actions.past import as_of, prompt_then

    day, text = _day(asked), asked.sent("text")
    trace = asyncio.run(prompt_then(asked.familiar, day, text, asked.sent("channel") or "cli"))
    found = as_of(asked.familiar, day)
    return Shown("asof", {**_values(asked, found), "said": text, **_pictures(trace)})


def _values(asked: PageRequest, found: AsOf) -> dict[str, Any]:
    from familiar_cli.ui.html import page

    days = asked.familiar.journal_days
    known = [state.day for state in found.days]
    at = max((n for n, day in enumerate(known) if day <= found.day), default=0)
    diffs = []
    if found.state:
        old = found.since.commit if found.since else None
        for path in found.changed[:_MOST_DIFFS]:
            diff = days.difference(old, found.state.commit, path)
            diffs += [diff] if diff else []
    return {
        "found": found,
        "known": known,
        "at": at,
        "before": next((day for day in reversed(known) if day < found.day), None),
        "after": next((day for day in known if day > found.day), None),
        "listed": _listed(days, found.state.commit) if found.state else [],
        "changed": found.changed[:_MOST_CHANGED],
        "more_changed": max(len(found.changed) - _MOST_CHANGED, 0),
        "diffs": diffs,
        "since": asked.query.get("since", ""),
        "budget": page.budget(found.trace) if found.trace else None,
        "said": "",
        "picture": None,
        "messages": None,
    }


def _listed(days: JournalDays, commit: str, directory: str = "") -> list[tuple[str, bool]]:
    from familiar_cli.actions.past import is_hidden

    return [entry for entry in days.files(commit, directory) if not is_hidden(entry[0])]


def _pictures(trace: Trace) -> dict[str, Any]:
    from familiar_cli.ui.html import page

    return {"picture": page.budget(trace), "messages": page.messages(trace), "budget": None}


def _day(asked: PageRequest) -> date:
    from familiar_cli.actions.past import today

    return _named(asked, "at") or today(asked.familiar)


def _named(asked: PageRequest, name: str) -> date | None:
    text = asked.query.get(name, "") or asked.sent(name)
    if not text:
        return None
    try:
        return min(max(date.fromisoformat(text), _FIRST), _LAST)
    except ValueError:
        raise UsageError(f"{text[:40]!r} is not a date; write it as 2026-01-31") from None


PAGES: Final = (
    WebPage("/asof", show),
    WebPage("/asof/files", file),
    WebPage("/asof/files/{path:path}", file),
    WebPage("/asof/prompt", prompt, "POST", is_long=True),
)
