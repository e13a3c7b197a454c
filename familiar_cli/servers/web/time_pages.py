"""Pages of time: memory on any day, the timeline, and the diary of a day."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date
from functools import cache, partial
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.memory import past
from familiar_cli.actions.memory.fact_days import (
    DatedFact,
    fact_days,
    facts_on,
    pages_known,
    text_then,
)
from familiar_cli.actions.memory.facts import change_sentences, page_title
from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.markdown import split_front_matter
from familiar_cli.base.times.when import day_words, weekday_name
from familiar_cli.servers.web.asking import (
    PageRequest,
    PageView,
    Redirect,
    WebPage,
    to_number,
    with_speakers,
)
from familiar_cli.servers.web.drawing import RENDERED_CHARS, render_markdown
from familiar_cli.servers.web.fact_rows import dated_rows
from familiar_cli.servers.web.html.elements import Html, el
from familiar_cli.servers.web.html.page import draw_part
from familiar_cli.servers.web.memory_pages import cited_sentences, path_crumbs
from familiar_cli.servers.web.relation_pages import known_facts
from familiar_cli.store.memory.layout import is_hidden
from familiar_cli.writing.consolidation.periods import TIERS

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.store.journal.history import FileDiff, JournalDay, JournalDays

_MOST_CHANGED: Final = 200
_MOST_DIFFS: Final = 12
_MOST_SENTENCES: Final = 40
_MOST_PAGES: Final = 30
_OF_DAYS: Final = frozenset({"sessions", *TIERS})  # they repeat what other pages say
_FEW_DAYS: Final = 3  # fewer need no marks
_FIRST: Final = date(2, 1, 1)
_LAST: Final = date(9998, 12, 31)  # the day after has to be one, too, in every zone


def show_day(asked: PageRequest) -> PageView | Redirect:
    """Return memory as of a day."""
    if "n" in asked.query:  # from the slider
        days = fact_days(asked.familiar).days(asked.familiar)
        number = min(to_number(asked.query["n"], "n"), max(len(days) - 1, 0))
        return Redirect(asked.to("asof", at=days[number] if days else None))
    found = past.as_of(asked.familiar, _asked_day(asked), _day_within(asked, "since"))
    return PageView("asof", _day_values(asked, found))


def show_file_then(asked: PageRequest) -> PageView:
    """Return a file or directory as of a day."""
    day, rel_path = _asked_day(asked), asked.path.get("path", "").strip("/")
    days, memory = asked.familiar.journal_days, asked.familiar.memory
    text = text_then(asked.familiar, rel_path, day) if rel_path else None
    state = days.at(day)
    listed = _list_directory(days, state.commit, rel_path) if state and text is None else []
    if rel_path and text is None and not listed:
        raise NotFoundError(f"{rel_path!r} did not exist on {day}")
    values = {"day": day, "rel_path": rel_path, "crumbs": path_crumbs(rel_path), "listed": listed}
    front, body = split_front_matter(text or "")
    html = None
    if text is not None:
        html = render_markdown(
            body[:RENDERED_CHARS], rel_path, asked.base, asked.familiar.numbering, asked.viewer
        )
    is_now = text is not None and memory.exists(rel_path)
    same = is_now and memory.read_bytes(rel_path) == (text or "").encode()
    title = page_title(memory, rel_path) if is_now else rel_path.split("/")[-1] or "Memory"
    return PageView(
        "asof_file",
        {**values, "title": title, "front": front or "", "html": html, "is_now": is_now,
         "same": same},
    )  # fmt: skip


def show_prompt(asked: PageRequest) -> PageView:
    """Return the prompt that a message would have produced at the end of a day."""
    day, text = _asked_day(asked), asked.sent("text")
    trace = asyncio.run(past.prompt_then(asked.familiar, day, text, asked.sent("channel") or "cli"))
    found = past.as_of(asked.familiar, day)
    return PageView("asof", {**_day_values(asked, found), "said": text, **_trace_pictures(trace)})


def _day_values(asked: PageRequest, found: past.AsOf) -> dict[str, Any]:
    familiar, day = asked.familiar, found.day
    known = fact_days(familiar).days(familiar)
    facts, unread = known_facts(asked)
    days, changes = familiar.journal_days, {one.day: one.changes for one in found.days}
    listed = _list_directory(days, found.state.commit) if found.state else []
    is_written = found.state is not None and found.state.day == day
    return {
        "found": found,
        "known": known,
        "marks": _day_marks([(one, changes.get(one, 0)) for one in known]),
        "at": max((n for n, one in enumerate(known) if one <= day), default=0),
        "before": next((one for one in reversed(known) if one < day), None),
        "after": next((one for one in known if one > day), None),
        "facts": dated_rows(asked, facts_on(facts, day)),
        "pages": _pages_then(asked, facts, day),
        "unread": unread,
        "listed": listed,
        "names": {path: path_crumbs(path)[-1][0] for path, _ in listed},
        "is_written": is_written,
        "changed": found.changed[:_MOST_CHANGED],
        "more_changed": max(len(found.changed) - _MOST_CHANGED, 0),
        **_change_values(asked, found.since, found.state, found.changed),
        "since": asked.query.get("since", ""),
        "budget": draw_part("budget", found.trace) if found.trace else None,
        "said": "",
        "picture": None,
        "messages": None,
    }


def _pages_then(
    asked: PageRequest, facts: Sequence[DatedFact], day: date
) -> list[tuple[str, str, int]]:
    """Return the pages that knew most on a day: path, title, and number of facts."""
    memory = asked.familiar.memory
    kept = [one for one in pages_known(facts, day) if one[0].partition("/")[0] not in _OF_DAYS]
    return [(path, page_title(memory, path), count) for path, count in kept[:_MOST_PAGES]]


def _differences(
    asked: PageRequest, old: JournalDay | None, new: JournalDay | None, paths: Sequence[str]
) -> list[FileDiff]:
    """Return the diffs of some files between two days, up to a limit."""
    if new is None:
        return []
    days, base = asked.familiar.journal_days, old.commit if old else None
    found = (days.difference(base, new.commit, path) for path in paths[:_MOST_DIFFS])
    return [diff for diff in found if diff]


def _change_values(
    asked: PageRequest, old: JournalDay | None, new: JournalDay | None, paths: Sequence[str]
) -> dict[str, Any]:
    """Return the changes of some files between two days, as sentences and diffs."""
    diffs = _differences(asked, old, new, paths)
    found = change_sentences("", diffs, cache(partial(page_title, asked.familiar.memory)))
    return {
        "sentences": cited_sentences(asked, found[:_MOST_SENTENCES]),
        "more_sentences": max(len(found) - _MOST_SENTENCES, 0),
        "diffs": diffs,
    }


def _day_marks(days: Sequence[tuple[date, int]]) -> Html:
    """Return one mark per day, higher for more changes of memory, and the years."""
    if len(days) < _FEW_DAYS:
        return Html("")
    most = max(changes for _, changes in days) or 1
    marks, last = [], 0
    for number, (day, changes) in enumerate(days):
        high = 10 + 22 * sqrt(changes / most)
        x = 1000 * number / (len(days) - 1)
        marks.append(f"M{x:.1f} 32V{32 - high:.1f}")
        if day.year != last:
            last = day.year
            marks.append(f"M{x:.1f} 40V32")
    shape = el("path", d="".join(marks))
    box = "0 0 1000 40"
    return el("svg", shape, viewBox=box, preserveAspectRatio="none", aria_hidden="true")


def _list_directory(days: JournalDays, commit: str, directory: str = "") -> list[tuple[str, bool]]:
    """List what a person sees of a directory, without directories of hidden files only."""

    def visible(directory: str) -> list[tuple[str, bool]]:
        return [entry for entry in days.files(commit, directory) if not is_hidden(entry[0])]

    return [(path, is_dir) for path, is_dir in visible(directory) if not is_dir or visible(path)]


def _trace_pictures(trace: Trace) -> dict[str, Any]:
    picture, messages = draw_part("budget", trace), draw_part("messages", trace)
    return {"picture": picture, "messages": messages, "budget": None}


def _asked_day(asked: PageRequest) -> date:
    return _day_within(asked, "at") or past.local_today(asked.familiar)


def _day_within(asked: PageRequest, name: str) -> date | None:
    day = asked.day(name)
    return day and min(max(day, _FIRST), _LAST)


def show_timeline(asked: PageRequest) -> PageView:
    """Return a year, a quarter or a month."""
    at, span = asked.query.get("at", ""), asked.query.get("span", "")
    line = asked.once_per_state((at, span), partial(past.timeline, asked.familiar, at, span))
    values = {"line": line, "spans": past.SPANS, "most_of_year": past.MOST_OF_YEAR}
    return PageView("timeline", values)


def show_diary(asked: PageRequest) -> PageView:
    """Return a day: its turns, files about it, and what memory learned."""
    found = past.diary_day(asked.familiar, _day_within(asked, "day"), asked.viewer)
    changed: list[str] = []
    if found.state:
        days, old = asked.familiar.journal_days, found.since.commit if found.since else None
        changed = [p for p in days.changed(old, found.state.commit) if not is_hidden(p)]
    about = {mark.rel_path for mark in found.files}
    learned = [path for path in changed if path not in about]
    return PageView(
        "diary",
        {
            "found": found,
            "title": f"{weekday_name(found.day)}, {day_words(found.day)}",
            "turns": with_speakers(asked.familiar, found.turns),
            "facts": dated_rows(asked, facts_on(known_facts(asked)[0], found.day)),
            "files": [_diary_file(asked, mark) for mark in found.files],
            **_change_values(asked, found.since, found.state, learned),
            "more_changed": max(len(learned) - _MOST_DIFFS, 0),
        },
    )


def _diary_file(asked: PageRequest, mark: past.DatedFile) -> tuple[past.DatedFile, Html]:
    """Render a file about a day."""
    familiar = asked.familiar
    try:
        text = familiar.memory.read_head(mark.rel_path, RENDERED_CHARS).text
    except FamiliarError as error:
        return mark, el("p", str(error))
    body = split_front_matter(text)[1]
    return mark, render_markdown(body, mark.rel_path, asked.base, familiar.numbering, asked.viewer)


PAGES: Final = (
    WebPage("/asof", show_day),
    WebPage("/as-of", show_day),
    WebPage("/asof/files", show_file_then),
    WebPage("/asof/files/{path:path}", show_file_then),
    WebPage("/asof/prompt", show_prompt, "POST", is_long=True),
    WebPage("/timeline", show_timeline),
    WebPage("/diary", show_diary),
    WebPage("/diary/{day}", show_diary),
)
