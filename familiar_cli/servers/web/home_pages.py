"""The home page with known facts and the last reply's explanation, and the pages of people."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.health.status import FamiliarStatus, status_of
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
    person_themes,
    pinned_pages,
)
from familiar_cli.actions.memory.graph import neighbourhood
from familiar_cli.actions.people import change_people, people
from familiar_cli.actions.talk.sent import find_trace
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.markdown import title_of
from familiar_cli.base.text import counted
from familiar_cli.base.times.clock import now, to_zone
from familiar_cli.familiar import Familiar
from familiar_cli.imports.export_card import card_picture
from familiar_cli.servers.connection import state_of_files
from familiar_cli.servers.web.asking import (
    Data,
    PageRequest,
    Redirect,
    Shown,
    WebPage,
    with_speakers,
)
from familiar_cli.servers.web.drawing import evidence_links, render_inline, render_markdown
from familiar_cli.servers.web.memory_pages import change_runs, recent_changes, told_changes
from familiar_cli.servers.web.relation_pages import READ_S, draw_graph
from familiar_cli.servers.web.turn_pages import show_reason
from familiar_cli.store.history.selection import TurnFilter, newest_turns, people_in
from familiar_cli.store.history.statistics import first_and_last
from familiar_cli.store.memory.aliases import main_account
from familiar_cli.store.memory.layout import is_page, people_path
from familiar_cli.store.memory.merge.files import conflicts_in
from familiar_cli.store.memory.pages.lines import number_spans
from familiar_cli.writing.review.waiting import pending_ids
from familiar_cli.writing.writer.page_text import summary_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from familiar_cli.base.config.home import FamiliarPaths
    from familiar_cli.servers.web.html.elements import Html
    from familiar_cli.store.history.rows import ChannelSummary, Turn

_PATIENCE_S: Final = 0.06
_FIRST_PATIENCE_S: Final = 1.0
_MUCH_BYTES: Final = 20_000_000  # of a history; counting it takes longer than a page may


class Numbers:
    """Cached status of each familiar. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[object, FamiliarStatus]] = {}
        self._at_work: dict[str, threading.Thread] = {}

    def of(self, paths: FamiliarPaths) -> tuple[FamiliarStatus | None, bool]:
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
            found = status_of(familiar)
            with self._lock:
                self._known[key] = (state, found)


def _is_much(paths: FamiliarPaths) -> bool:
    try:
        return paths.history.stat().st_size > _MUCH_BYTES
    except OSError:
        return False


NUMBERS: Final = Numbers()
"""Status of all familiars in this process."""


_LAST: Final = 8
_MOST_FACTS: Final = 6
_MOST_PEOPLE: Final = 4
_MOST_LATELY: Final = 6
_MOST_SENTENCES: Final = 2  # of one change
_MOST_OF_PIN: Final = 2  # facts of one pinned page
_MOST_PINNED: Final = 3
_Latest = tuple[list[dict[str, Any]], "list[KnownFact]"]
_MOST_RECENT: Final = 40


def show_home(asked: PageRequest) -> Shown:
    """Return the first page."""
    familiar, viewer = asked.familiar, asked.viewer
    said = [kept.turn for kept in newest_turns(familiar.history, TurnFilter(viewer), _LAST)]
    status, is_fresh = NUMBERS.of(familiar.paths)
    pages = known_people(familiar, viewer, _MOST_PEOPLE)
    facts = [fact for path, text in pages for fact in facts_in(familiar, path, text, viewer)]
    lately, pinned = _latest_state(asked)
    lines = {fact.line for fact in pinned}
    shown = [*pinned, *best_facts([one for one in facts if one.line not in lines], _MOST_FACTS)]
    mine = {people_path(slug) for slug in familiar.me().slugs}
    return Shown(
        "home",
        {
            "name": familiar.name,
            "has_portrait": bool(card_picture(familiar.memory)[0]),
            "since": _known_since(familiar),
            "status": status,
            "is_fresh": is_fresh,
            "plans": len(pending_ids(familiar.memory)),
            "conflicts": len(conflicts_in(familiar.memory)),
            "facts": fact_rows(asked, shown[:_MOST_FACTS]),
            "known": len(facts),
            "people": [
                (path.rpartition("/")[2].removesuffix(".md"), title_of(text))
                for path, text in pages
            ],
            "is_mine": bool(pages) and pages[0][0] in mine,
            "turns": with_speakers(familiar, said[-_SHOWN_TURNS:]),
            "why": _last_reason(asked, said),
            "lately": lately,
        },
    )


_SHOWN_TURNS: Final = 2
_LATEST: Final[dict[object, tuple[object, _Latest]]] = {}
"""Latest changes and pinned facts, cached by familiar, address and state."""


def _latest_state(asked: PageRequest) -> _Latest:
    """Return the latest changes in sentences, and facts of pinned pages.

    Finding them scans the memory directory, so it is done once per state.
    """
    familiar = asked.familiar
    key = (str(familiar.paths.root), asked.base, asked.viewer.sees_everything)
    state, known = state_of_files(familiar.paths), _LATEST.get(key)
    if known is None or known[0] != state:
        found = [run[0] for run in change_runs(recent_changes(asked, _MOST_RECENT))]
        pinned = [
            fact
            for path, text in pinned_pages(familiar)
            for fact in newest_facts(facts_in(familiar, path, text, asked.viewer))[:_MOST_OF_PIN]
        ]
        told = told_changes(asked, found[:_MOST_LATELY], _MOST_SENTENCES)
        known = state, (told, pinned[:_MOST_PINNED])
        _LATEST[key] = known
    return known[1]


def _known_since(familiar: Familiar) -> tuple[date, str] | None:
    """Return the day of the first turn, and its age in words."""
    ends = first_and_last(familiar.history)
    if ends is None:
        return None
    first, today = (to_zone(moment, familiar.zone).date() for moment in (ends[0], now()))
    days = (today - first).days
    months = (today.year - first.year) * 12 + today.month - first.month - (today.day < first.day)
    if months >= 24:  # noqa: PLR2004
        return first, counted(months // 12, "year")
    return first, counted(months, "month") if months > 1 else counted(max(days, 0), "day")


def _last_reason(asked: PageRequest, said: list[Turn]) -> dict[str, Any] | None:
    """Return the explanation of the last reply, or None."""
    reply = next((turn for turn in reversed(said) if turn.role == "assistant"), None)
    if reply is None:
        return None
    with suppress(FamiliarError):
        trace = find_trace(asked.familiar, reply.id)
        return {"turn": reply.id, **show_reason(asked, trace)}
    return None


def send_portrait(asked: PageRequest) -> Data:
    """Return the card's picture."""
    content, media_type = card_picture(asked.familiar.memory)
    if not content:
        raise NotFoundError(f"The card of {asked.familiar.name} has no picture")
    return Data(content, media_type)


def fact_rows(asked: PageRequest, facts: Iterable[KnownFact]) -> list[tuple[KnownFact, Html, Html]]:
    """Return facts with their words as HTML and links to their evidence."""
    return [
        (
            fact,
            render_inline(fact.words, fact.rel_path, asked.base),
            evidence_links(fact.days, asked.base),
        )
        for fact in facts
    ]


def change_fact(asked: PageRequest) -> Redirect:
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
            return Redirect(to, ("Confirmed. The journal can undo it.",))
        case "wrong":
            correct_fact(familiar, rel_path, line, asked.sent("words"))
            told = "Corrected" if asked.sent("words").strip() else "Taken out"
            return Redirect(to, (f"{told}. The journal can undo it.",))
        case "forget":
            withdrawn = forget_fact(familiar, rel_path, line)
            notes = ["Forgotten. The journal can undo it."]
            if withdrawn:
                where = number_spans(withdrawn)
                notes.append(
                    f"{counted(len(withdrawn), 'message')} it rests on will not be recalled; "
                    f"the page of turn {where} can bring that back. Other lines that rest on it "
                    "are listed by `familiar housekeep`."
                )
            return Redirect(to, tuple(notes))
        case other:
            raise UsageError(f"Unknown action for a fact: {other[:40]!r}; nothing was changed")


_PEOPLE_A_PAGE: Final = 200


def show_people(asked: PageRequest) -> Shown:
    """Return everyone known."""
    found = people.people_of(asked.familiar, thorough=False)
    start = asked.number("from") or 0
    shown = found.people[start : start + _PEOPLE_A_PAGE]
    more = start + _PEOPLE_A_PAGE if len(found.people) > start + _PEOPLE_A_PAGE else None
    return Shown("people", {"people": shown, "shared": found.collisions, "more": more})


def show_one_person(asked: PageRequest) -> Shown:
    """Return a person: facts, relations, and channels."""
    familiar, viewer = asked.familiar, asked.viewer
    person = people.show_person(familiar, asked.path["person"])
    related = {}
    if person.text:
        near = neighbourhood(
            familiar,
            person.rel_path,
            viewer=familiar.privacy.owner(),
            links=False,
            thorough=False,
            within_s=READ_S,
        )
        related = draw_graph(asked, near)
    facts = facts_in(familiar, person.rel_path, person.text, viewer)
    public = [fact for fact in facts if not fact.is_private]
    private = [fact for fact in facts if fact.is_private]
    themes = [(name, fact_rows(asked, some)) for name, some in person_themes(public).items()]
    summary = summary_of(person.text)
    return Shown(
        "person",
        {
            "person": person,
            "summary": render_markdown(
                summary, person.rel_path, asked.base, familiar.numbering, viewer
            ),
            "themes": themes,
            "private": fact_rows(asked, newest_facts(private)),
            "related": related,
            "channels": _channels_of(asked, person.slug),
            "main": main_account(person.text),
        },
    )


def _channels_of(asked: PageRequest, slug: str) -> list[tuple[ChannelSummary, bool]]:
    """Return the channels in which a person spoke, and whether each is private."""
    history, private = asked.familiar.history, asked.familiar.channels.private()
    channels = [one for one in history.channels() if asked.viewer.sees_channel(one.channel_id)]
    spoke = people_in(history, [one.channel_id for one in channels])
    return [
        (one, one.channel_id in private)
        for one in channels
        if slug in spoke.get(one.channel_id, ())
    ]


def change_person(asked: PageRequest) -> Redirect:
    """Add or remove a person's name, or merge or split people."""
    familiar, person, name = asked.familiar, asked.path["person"], asked.sent("name").strip()
    match asked.sent("do"):
        case "add":
            change_people.add_alias(familiar, person, name)
            told = f"{person} is now also called {name!r}."
        case "remove":
            change_people.remove_alias(familiar, person, name)
            told = f"{person} is no longer called {name!r}."
        case "merge":
            change_people.merge(familiar, person, name)
            told = f"Merged {name} into {person}."
        case "split":
            change_people.split(familiar, person)
            told = f"{person} has a file of their own again."
        case other:
            raise UsageError(f"Unknown action for a person: {other[:40]!r}")
    return Redirect(asked.to("people", person), (told, "The journal can undo it."))


PAGES: Final = (
    WebPage("/", show_home),
    WebPage("/portrait/{name}", send_portrait),
    WebPage("/facts", change_fact, "POST"),
    WebPage("/people", show_people),
    WebPage("/people/{person}", show_one_person),
    WebPage("/people/{person}", change_person, "POST"),
)
