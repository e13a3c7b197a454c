"""Pages of all that is looked after: plans, reminders, digests, sync, settings."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from familiar_cli.actions.memory import desk
from familiar_cli.actions.memory.consolidate import Consolidating, ConsolidationOptions
from familiar_cli.actions.share.sync import status
from familiar_cli.actions.share.sync_decisions import Choice, open_conflicts, resolve
from familiar_cli.base.config.settings import Effective, effective_settings
from familiar_cli.base.errors import BadInputError, NotFoundError, UsageError
from familiar_cli.pages import writing_pages
from familiar_cli.servers.web.asking import (
    Data,
    PageRequest,
    Redirect,
    Shown,
    WebPage,
    to_number,
    with_speakers,
)
from familiar_cli.store.memory.layout import REMINDERS, TASKS, digest_path
from familiar_cli.writing.review.pending import decide_plan as decide_on
from familiar_cli.writing.review.pending import drop_damaged, read_pending
from familiar_cli.writing.review.waiting import pending_ids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.writing.consolidation.digests import Name
    from familiar_cli.writing.review.pending import PieceRef, ReviewPlan


_MOST_PLANS: Final = 100
_MOST_TURNS: Final = 30


def show_plans(asked: PageRequest) -> Shown:
    """Return the pending plans."""
    plans, damaged = [], []
    ids = pending_ids(asked.familiar.memory)
    for plan_id in ids[:_MOST_PLANS]:
        try:
            plans.append(read_pending(asked.familiar.memory, plan_id))
        except BadInputError as error:
            damaged.append((plan_id, str(error)))
    titles = _page_titles(asked, plans)
    more = len(ids) - _MOST_PLANS
    return Shown("review", {"plans": plans, "damaged": damaged, "more": more, "titles": titles})


def _page_titles(asked: PageRequest, plans: Iterable[ReviewPlan]) -> dict[str, str]:
    """Return the titles of pages that plans change, by path."""
    from familiar_cli.actions.memory.facts import page_title

    paths = {file.rel_path for plan in plans for file in plan.files}
    return {path: page_title(asked.familiar.memory, path) for path in paths}


def show_plan(asked: PageRequest) -> Shown:
    """Return one plan."""
    from familiar_cli.store.history.selection import kept_turns

    familiar = asked.familiar
    plan = read_pending(familiar.memory, asked.path["plan"])
    first, last = plan.turns
    wanted = range(first, min(last, first + _MOST_TURNS - 1) + 1) if any(plan.turns) else ()
    kept = kept_turns(familiar.history, wanted)
    turns = with_speakers(familiar, (kept[n].turn for n in sorted(kept)))
    more, titles = max(last - first + 1 - _MOST_TURNS, 0), _page_titles(asked, [plan])
    return Shown("plan", {"plan": plan, "turns": turns, "more": more, "titles": titles})


def decide_plan(asked: PageRequest) -> Redirect:
    """Apply the accepted pieces of a plan, and discard the rejected ones."""
    from familiar_cli.base.text import counted

    familiar, plan_id = asked.familiar, asked.path["plan"]
    memory = familiar.memory
    try:
        plan = read_pending(memory, plan_id)
    except BadInputError:
        if asked.sent("all") != "reject":
            raise
        drop_damaged(memory, plan_id)
        return Redirect(asked.to("review"), ("The damaged plan was discarded.",))
    take: set[PieceRef] = set()
    drop: set[PieceRef] = set()
    for number in range(1, len(plan.hunks) + 1):
        said = asked.sent("all") or asked.sent(f"piece-{number}")
        if said == "take":
            take.add(number)
        elif said == "reject":
            drop.add(number)
    if not take and not drop:
        raise UsageError("No piece was taken or rejected; nothing was changed")
    history, numbering = familiar.history, familiar.numbering
    done = decide_on(memory, plan, apply=take, reject=drop, history=history, numbering=numbering)
    told = [f"Wrote {path}." for path in done.changed]
    told += [f"Withdrew {counted(len(done.withdrawn), 'turn')}."] if done.withdrawn else []
    told += [f"{counted(len(drop), 'piece')} rejected."] if drop else []
    if done.rest:
        told.append(f"{counted(len(done.rest.hunks), 'piece')} of the plan still waits.")
        return Redirect(asked.to("review", plan_id), tuple(told))
    return Redirect(asked.to("review"), (*told, "The plan is complete."))


def show_desk(asked: PageRequest) -> Shown:
    """Return the reminders and tasks."""
    from familiar_cli.actions.memory.desk import read_todos

    every = "all" in asked.query
    lists = [
        ("reminder", "Reminders", read_todos(asked.familiar, REMINDERS)),
        ("task", "Tasks", read_todos(asked.familiar, TASKS)),
    ]
    return Shown("desk", {"lists": lists, "every": every})


def add_item(asked: PageRequest) -> Redirect:
    """Add an item."""
    at = asked.sent("at").strip()
    rel_path = REMINDERS if asked.path["kind"] == "reminder" else TASKS
    when = at if at or rel_path == REMINDERS else None
    done = desk.add_todo(asked.familiar, rel_path, asked.sent("text"), when)
    return Redirect(asked.to("desk"), (f"Added: {done.item.text}",))


def mark_item(asked: PageRequest) -> Redirect:
    """Tick an item off, drop it, or open it again."""
    from familiar_cli.store.memory.desk import ItemStatus

    if asked.sent("mark") not in ItemStatus.__members__:
        raise UsageError(f"Unknown mark: {asked.sent('mark')[:40]!r}; nothing was changed")
    rel_path = REMINDERS if asked.path["kind"] == "reminder" else TASKS
    number = to_number(asked.path["number"], "The item")
    done = desk.mark_todo(asked.familiar, rel_path, number, ItemStatus[asked.sent("mark")])
    comes_again = asked.sent("mark") == "done" and done.item.mark == "open"
    told = "Done" if comes_again else done.item.mark.capitalize()
    after = f", due again {done.item.due}" if comes_again else ""
    return Redirect(asked.to("desk"), (f"{told}: {done.item.text}{after}",))


_FORM: Final = "page"
"""A field that only our own forms have."""


def show_digests(asked: PageRequest) -> Shown:
    """Return the status of digests and periods."""
    from familiar_cli.writing.consolidation.periods import TIERS

    familiar = asked.familiar
    work, settings = Consolidating(familiar), familiar.config
    digests = [
        {
            "name": stands.name,
            "rel_path": digest_path(stands.name),
            "status": stands,
            "state": writing_pages.digest_state(stands),
            "at": getattr(settings.distill, f"{stands.name}_at") if stands.scheduled else "",
        }
        for stands in work.distiller().status()
    ]
    return Shown(
        "distill",
        {
            "digests": digests,
            "tiers": TIERS,
            "yours": work.rewritten(),
            "auto": {
                "distill": settings.distill.auto,
                "consolidate": settings.consolidation.auto,
                "write-memory": settings.memory_writer.auto,
            },
        },
    )


def send_status(asked: PageRequest) -> Data:
    """Return the status of digests as data."""
    tiers = Consolidating(asked.familiar).distiller().status()
    return _json_data({"tiers": [tier.to_json() for tier in tiers]})


def make_digest(name: Name, asked: PageRequest) -> Redirect | Data:
    """Make one digest."""
    made, problem = asked.run(Consolidating(asked.familiar).distill(name, ConsolidationOptions()))
    if _FORM not in asked.form:
        return _json_data({**made.to_json(), "notification": problem or None})
    told = (writing_pages.digest_text(made).strip(), *writing_pages.digest_notes(made), problem)
    return Redirect(asked.to("distill"), tuple(filter(None, told)))


def make_periods(asked: PageRequest) -> Redirect:
    """Make the days, weeks, months and years that are due."""
    report = asked.run(Consolidating(asked.familiar).consolidate(ConsolidationOptions()))
    told = (
        *writing_pages.consolidation_text(report).splitlines(),
        *writing_pages.consolidation_notices(report),
        *map(str, report.failed),
    )
    return Redirect(asked.to("distill"), told)


def search_days(asked: PageRequest) -> Data:
    """Return matching turns grouped by day, with highlights."""
    from familiar_cli.actions.memory.search import search_sessions

    query, user = asked.query.get("q", ""), asked.query.get("user", "")
    found = search_sessions(asked.familiar, query, user=user, viewer=asked.viewer)
    days = [{"date": day, "turns": [hit.to_json() for hit in hits]} for day, hits in found.items()]
    return _json_data({"query": query, "persona": asked.familiar.paths.id, "days": days})


def _json_data(data: dict[str, Any]) -> Data:
    return Data(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), "application/json")


_CHOICES: Final = ("ours", "theirs", "merged")
_MOST_CONFLICTS: Final = 50
_WAIT_S: Final = 10.0
"""How long a browser waits for another sync of the same familiar."""


def show_sync(asked: PageRequest) -> Shown:
    """Return each machine's sync status and all conflicts, without contacting remotes."""
    merges = []
    with suppress(NotFoundError):
        merges = asked.familiar.past.log(source="sync", limit=20)
    found = open_conflicts(asked.familiar)
    return Shown(
        "sync",
        {
            "status": status(asked.familiar),
            "conflicts": found[:_MOST_CONFLICTS],
            "more": max(len(found) - _MOST_CONFLICTS, 0),
            "merges": merges,
        },
    )


def settle_conflict(asked: PageRequest) -> Redirect:
    """Settle one conflict."""
    choice, path = asked.sent("choice"), asked.sent("path")
    if choice not in _CHOICES:
        raise UsageError(f"Unknown way to resolve a conflict: {choice[:40]!r}")
    resolve(asked.familiar, path, cast("Choice", choice))
    return Redirect(asked.to("sync"), (f"Resolved: {path}. The journal can undo it.",))


def sync_now(asked: PageRequest) -> Redirect:
    """Sync with every remote without asking for passwords; failures are shown on the page."""
    from familiar_cli.actions.share.sync import sync
    from familiar_cli.pages.status_pages import report_text
    from familiar_cli.sync.engine import SyncOptions

    report = asyncio.run(sync(asked.familiar, None, SyncOptions(), wait_s=_WAIT_S))
    failed = [f"{name} was not synced: {error}" for name, (_, error) in report.failed.items()]
    told = (*report_text(report).splitlines(), *report.notes, *(failed if report.done else ()))
    return Redirect(asked.to("sync"), told)


_GENERAL: Final = "general"


def show_settings(asked: PageRequest) -> Shown:
    """Return all settings, by section."""
    from familiar_cli.actions.talk.effective_settings import with_effective

    path = asked.familiar.paths.config
    rows = sorted(with_effective(asked.familiar, effective_settings(path)), key=_section_of)
    sections = [(name, list(found)) for name, found in groupby(rows, key=_section_of)]
    return Shown("settings", {"sections": sections, "path": path})


def _section_of(row: Effective) -> str:
    section, dot, _ = row.setting.key.rpartition(".")
    return section if dot else _GENERAL


def show_doctor(asked: PageRequest) -> Shown:
    """Return the page that starts the checks."""
    del asked
    return Shown("doctor", {"found": None})


def show_findings(asked: PageRequest) -> Shown:
    """Return the findings of the doctor."""
    from familiar_cli.actions.health.doctor import examine as examine_all

    paths = asked.familiar.paths
    return Shown("doctor", {"found": examine_all(str(paths.root.parent), paths.id)})


PAGES: Final = (
    WebPage("/review", show_plans),
    WebPage("/review/{plan}", show_plan),
    WebPage("/review/{plan}", decide_plan, "POST"),
    WebPage("/desk", show_desk),
    WebPage("/desk/{kind}", add_item, "POST"),
    WebPage("/desk/{kind}/{number}", mark_item, "POST"),
    WebPage("/distill", show_digests),
    WebPage("/distill/status", send_status),
    *(
        WebPage(f"/distill/{name}", partial(make_digest, name), "POST", is_long=True)
        for name in ("short", "mid", "long")
    ),
    WebPage("/consolidate", make_periods, "POST", is_long=True),
    WebPage("/sessions/search", search_days),
    WebPage("/sync", show_sync),
    WebPage("/sync/settle", settle_conflict, "POST"),
    WebPage("/sync/now", sync_now, "POST", is_long=True),
    WebPage("/settings", show_settings),
    WebPage("/doctor", show_doctor),
    WebPage("/doctor", show_findings, "POST", is_long=True),
)
