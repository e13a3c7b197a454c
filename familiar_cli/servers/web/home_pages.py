"""The home page: today, with the owner's last exchange, known facts and memories."""

from __future__ import annotations

import threading
from calendar import monthrange
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from familiar_cli.actions.health.status import StatusCounts, counts_of
from familiar_cli.actions.memory.fact_days import DatedFact, facts_on
from familiar_cli.actions.memory.facts import (
    KnownFact,
    best_facts,
    confirm_fact,
    correct_fact,
    facts_in,
    find_fact,
    forget_fact,
    known_people,
    newest_facts,
    pinned_pages,
)
from familiar_cli.actions.talk.sent import find_trace
from familiar_cli.base.config.home import FamiliarPaths, cache_dir
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.files import read_record, status_of, write_whole
from familiar_cli.base.markdown import title_of
from familiar_cli.base.text import counted
from familiar_cli.base.times.clock import now, to_zone
from familiar_cli.base.times.when import weekday_name
from familiar_cli.familiar import Familiar
from familiar_cli.imports.export_card import card_picture
from familiar_cli.servers.connection import state_of_files
from familiar_cli.servers.web import asking
from familiar_cli.servers.web.conversations import title_of_channel
from familiar_cli.servers.web.fact_rows import dated_rows, fact_rows
from familiar_cli.servers.web.memory_pages import change_runs, recent_changes, told_changes
from familiar_cli.servers.web.relation_pages import known_facts
from familiar_cli.servers.web.turn_pages import show_reason
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.selection import TurnFilter, newest_turns
from familiar_cli.store.history.statistics import first_and_last
from familiar_cli.store.memory.layout import is_page, people_path
from familiar_cli.store.memory.merge.files import conflicts_in
from familiar_cli.store.memory.pages.lines import number_spans

_READ_S: Final = 0.05  # for pages that changed; the rest is read in the background
_PATIENCE_S: Final = 0.06
_FIRST_PATIENCE_S: Final = 0.25
_MUCH_BYTES: Final = 20_000_000  # of a history; counting it takes longer than a page may


class Numbers:
    """Cached status of each familiar. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[object, StatusCounts]] = {}
        self._at_work: dict[str, threading.Thread] = {}

    def of(self, paths: FamiliarPaths) -> tuple[StatusCounts | None, bool]:
        """Return the status, or None while it is being computed, and whether it is current.

        It waits briefly, so that small familiars are always current.
        """
        key, state = str(paths.root), state_of_files(paths)
        with self._lock:
            known = self._known.get(key)
            if known and known[0] == state:
                return known[1], True
            work = self._at_work.get(key)
            if work is None or not work.is_alive():
                work = threading.Thread(target=self._count, args=(key, paths), daemon=True)
                self._at_work[key] = work
                work.start()
        work.join(_PATIENCE_S if known or _is_much(paths) else _FIRST_PATIENCE_S)
        with self._lock:
            known = self._known.get(key)
            return (known[1], known[0] == state) if known else (None, False)

    def _count(self, key: str, paths: FamiliarPaths) -> None:
        state = state_of_files(paths)
        with suppress(FamiliarError), Familiar(paths) as familiar:
            found = counts_of(familiar)
            with self._lock:
                self._known[key] = (state, found)


def _is_much(paths: FamiliarPaths) -> bool:
    status = status_of(paths.history)
    return bool(status and status.st_size > _MUCH_BYTES)


NUMBERS: Final = Numbers()
"""Status of all familiars in this process."""


_LAST: Final = 200  # turns among which the owner's own are looked for
_MOST_FACTS: Final = 6
_MOST_PEOPLE: Final = 4
_MOST_LATELY: Final = 6
_MOST_NEW: Final = 3
_MOST_SENTENCES: Final = 2  # of one change
_MOST_OF_PIN: Final = 2  # facts of one pinned page
_MOST_PINNED: Final = 3
_Latest = tuple[list[dict[str, Any]], "list[KnownFact]"]
_MOST_RECENT: Final = 40
_MOST_BEFORE: Final = 2  # facts of a day of an earlier year
_YEARS: Final = 10
_WEEK: Final = 7
_NEAR_DAYS: Final = (0, -1, 1, -2, 2, -3, 3)


def show_home(asked: asking.PageRequest) -> asking.PageView:
    """Return the first page: today."""
    familiar, viewer = asked.familiar, asked.viewer
    today = to_zone(now(), familiar.zone).date()
    status, is_fresh = NUMBERS.of(familiar.paths)
    pages = known_people(familiar, viewer, _MOST_PEOPLE)
    facts = [fact for path, text in pages for fact in facts_in(familiar, path, text, viewer)]
    lately, pinned = asked.once_per_state("latest", partial(_latest_state, asked))
    lines = {fact.line for fact in pinned}
    shown = [*pinned, *best_facts([one for one in facts if one.line not in lines], _MOST_FACTS)]
    mine = {people_path(slug) for slug in familiar.me().slugs}
    own = _own_exchange(asked)
    since = _last_visit(familiar.paths.root)
    return asking.PageView(
        "home",
        {
            "name": familiar.name,
            "today": today,
            "weekday": weekday_name(today),
            "has_portrait": bool(card_picture(familiar.memory)[0]),
            "since": _known_since(familiar),
            "status": status,
            "is_fresh": is_fresh,
            "plans": len(familiar.memory.plan_ids()),
            "conflicts": len(conflicts_in(familiar.memory)),
            "facts": fact_rows(asked, shown[:_MOST_FACTS]),
            "known": len(facts),
            "people": [
                (slug := path.rpartition("/")[2].removesuffix(".md"), title_of(text) or slug)
                for path, text in pages
            ],
            "is_mine": bool(pages) and pages[0][0] in mine,
            "turns": asking.with_speakers(familiar, own),
            "place": title_of_channel(familiar, own[-1].channel_id) if own else "",
            "why": _last_reason(asked, own),
            "lately": lately,
            "new": [one for one in lately if since and one["change"].commit.time > since][
                :_MOST_NEW
            ],
            "visited": since,
            **_memories_of_today(asked, today, facts),
        },
    )


def _own_exchange(asked: asking.PageRequest) -> list[Turn]:
    """Return the owner's last message with the reply to it; never a stranger's."""
    familiar = asked.familiar
    own = familiar.me().slugs | familiar.privacy.own
    said = [kept.turn for kept in newest_turns(familiar.history, TurnFilter(asked.viewer), _LAST)]
    mine = [turn for turn in said if turn.author and turn.author.slug in own]
    if not mine:
        return []
    replies = [turn for turn in said if turn.reply_to == mine[-1].id and turn.role == "assistant"]
    following = (turn for turn in said if turn.id > mine[-1].id and turn.role == "assistant"
                 and turn.channel_id == mine[-1].channel_id and turn.reply_to is None)  # fmt: skip
    return [mine[-1], *(replies[-1:] or islice(following, 1))]


def _memories_of_today(
    asked: asking.PageRequest, today: date, facts: Sequence[KnownFact]
) -> dict[str, Any]:
    """Return the facts of this day in an earlier year, and one memory worth rereading."""
    dated, _ = known_facts(asked, _READ_S)
    before = next(
        filter(None, (_year_before(today, years, dated) for years in range(1, _YEARS))), None
    )
    worth = [one for one in facts if one.times_said > 1 or one.is_confirmed]
    worth = worth if len(worth) >= _WEEK else list(facts)  # so that each day has its own
    chosen = worth[today.toordinal() % len(worth)] if worth else None
    return {
        "before": before and (before[0], before[1], dated_rows(asked, before[2])),
        "memory": fact_rows(asked, [chosen])[0] if chosen else None,
    }


def _year_before(
    today: date, years: int, dated: Sequence[DatedFact]
) -> tuple[str, date, list[DatedFact]] | None:
    """Return the facts of this day, or this week, some years ago, with their date in words."""
    year = today.year - years
    then = today.replace(year=year, day=min(today.day, monthrange(year, today.month)[1]))
    for away in _NEAR_DAYS:
        day = then + timedelta(days=away)
        if found := facts_on(dated, day):
            when = "today" if not away else "this week"
            ago = "A year" if years == 1 else counted(years, "year").capitalize()
            return f"{ago} ago {when}", day, found[:_MOST_BEFORE]
    return None


def _latest_state(asked: asking.PageRequest) -> _Latest:
    """Return the latest changes in sentences, and facts of pinned pages.

    Finding them scans the memory directory.
    """
    familiar = asked.familiar
    found = [run[0] for run in change_runs(recent_changes(asked, _MOST_RECENT))]
    pinned = [
        fact
        for path, text in pinned_pages(familiar)
        for fact in newest_facts(facts_in(familiar, path, text, asked.viewer))[:_MOST_OF_PIN]
    ]
    told = told_changes(asked, found[:_MOST_LATELY], _MOST_SENTENCES)
    return told, pinned[:_MOST_PINNED]


def _known_since(familiar: Familiar) -> tuple[date, str] | None:
    """Return the day of the first turn, and its age in words, empty for today."""
    ends = first_and_last(familiar.history)
    if ends is None:
        return None
    first, today = (to_zone(moment, familiar.zone).date() for moment in (ends[0], now()))
    days = (today - first).days
    months = (today.year - first.year) * 12 + today.month - first.month - (today.day < first.day)
    if months >= 24:  # noqa: PLR2004
        return first, counted(months // 12, "year")
    if months > 1:
        return first, counted(months, "month")
    return first, counted(days, "day") if days > 0 else ""


def _last_reason(asked: asking.PageRequest, said: list[Turn]) -> dict[str, Any] | None:
    """Return the explanation of the last reply, or None."""
    reply = next((turn for turn in reversed(said) if turn.role == "assistant"), None)
    if reply is None:
        return None
    with suppress(FamiliarError):
        trace = find_trace(asked.familiar, reply.id)
        return {"turn": reply.id, **show_reason(asked, trace)}
    return None


def send_portrait(asked: asking.PageRequest) -> asking.Data:
    """Return the card's picture."""
    content, media_type = card_picture(asked.familiar.memory)
    if not content:
        raise NotFoundError(f"The card of {asked.familiar.name} has no picture")
    return asking.Data(content, media_type)


def change_fact(asked: asking.PageRequest) -> asking.Redirect:
    """Confirm a fact, correct it, or forget it."""
    familiar, rel_path = asked.familiar, asked.sent("path")
    back = asked.sent("person")
    to = asked.to("people", back) if back else asked.to()
    if not is_page(rel_path):
        raise UsageError(f"{rel_path[:60]!r} is not a page of memory; nothing was changed")
    line = find_fact(familiar, rel_path, asked.sent("line"))
    match asked.sent("do"):
        case "right":
            confirm_fact(familiar, rel_path, line, to_zone(now(), familiar.zone).date())
            return asking.Redirect(to, ("Confirmed. The journal can undo it.",))
        case "wrong":
            correct_fact(familiar, rel_path, line, asked.sent("words"))
            told = "Corrected" if asked.sent("words").strip() else "Taken out"
            return asking.Redirect(to, (f"{told}. The journal can undo it.",))
        case "forget":
            withdrawn = forget_fact(familiar, rel_path, line)
            notes = ["Forgotten. The journal can undo it."]
            if withdrawn:
                where = number_spans(withdrawn)
                notes.append(
                    f"{counted(len(withdrawn), 'message')} behind it will not be recalled; the "
                    f"page of turn {where} can undo that. `familiar housekeep` lists other lines "
                    "based on it."
                )
            return asking.Redirect(to, tuple(notes))
        case other:
            raise UsageError(f"Unknown action for a fact: {other[:40]!r}; nothing was changed")


PAGES: Final = (
    asking.WebPage("/", show_home),
    asking.WebPage("/portrait/{name}", send_portrait),
    asking.WebPage("/facts", change_fact, "POST"),
)


_VISITS_LOCK: Final = threading.Lock()
_VISIT: Final = timedelta(minutes=30)
_VISIT_NOTED: Final = timedelta(minutes=1)


def _last_visit(root: Path) -> datetime | None:
    """Note that a person looks at the page now; return the end of their last visit, or None."""
    path, key, at = cache_dir() / "visits.json", str(root), now()
    with _VISITS_LOCK:
        visits = read_record(path, dict[str, tuple[datetime | None, datetime | None]]) or {}
        since, last = visits.get(key, (None, None))
        if last and last - at > _VISIT_NOTED:  # the clock was wrong then
            last = since = None
        if last and at - last > _VISIT:
            since = last
        if last is None or at - last > _VISIT_NOTED:
            visits[key] = since, at
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, msgspec.json.encode(visits), durable=False)
        return since
