"""Pages of all that is looked after: plans, reminders, digests, sync, settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from familiar_cli.actions.health.start import ModelTest
from familiar_cli.actions.memory import desk
from familiar_cli.actions.memory.consolidate import Consolidation, ConsolidationOptions
from familiar_cli.actions.share.sync import status, sync
from familiar_cli.actions.share.sync_decisions import Choice, open_conflicts, resolve
from familiar_cli.base.config.edit import set_values
from familiar_cli.base.config.settings import Effective, effective_settings
from familiar_cli.base.errors import BadInputError, FamiliarError, NotFoundError, UsageError
from familiar_cli.base.markdown import bullet, without_marker
from familiar_cli.base.text import bare_lines, counted
from familiar_cli.pages import writing_pages
from familiar_cli.servers.web import setup_pages
from familiar_cli.servers.web.asking import (
    Data,
    PageRequest,
    PageView,
    Redirect,
    WebPage,
    http_status,
    to_number,
    with_speakers,
)
from familiar_cli.servers.web.fact_rows import evidence_of_lines
from familiar_cli.store.memory.layout import REMINDERS, TASKS, digest_path, told_path
from familiar_cli.store.memory.pages.lines import readable_text, turn_ids
from familiar_cli.writing.pending import decide_plan as decide_on
from familiar_cli.writing.pending import drop_damaged, edit_plan, read_pending

if TYPE_CHECKING:
    from familiar_cli.servers.web.html.elements import Html
    from familiar_cli.writing.consolidation.digests import Name
    from familiar_cli.writing.pending import Hunk, PieceRef, ReviewPlan


_MOST_PLANS: Final = 100
_MOST_TURNS: Final = 30


def show_plans(request: PageRequest) -> PageView:
    """Return the pending plans."""
    plans, damaged = [], []
    ids = request.familiar.memory.plan_ids()
    for plan_id in ids[:_MOST_PLANS]:
        try:
            plans.append(read_pending(request.familiar.memory, plan_id))
        except BadInputError as error:
            damaged.append((plan_id, str(error)))
    titles = _page_titles(request, plans)
    more = len(ids) - _MOST_PLANS
    return PageView("review", {"plans": plans, "damaged": damaged, "more": more, "titles": titles})


def _page_titles(request: PageRequest, plans: Iterable[ReviewPlan]) -> dict[str, str]:
    """Return the titles of pages that plans change, by path."""
    from familiar_cli.actions.memory.facts import page_title

    paths = {file.rel_path for plan in plans for file in plan.files}
    return {path: page_title(request.familiar.memory, path) for path in paths}


def show_plan(request: PageRequest) -> PageView:
    """Return one plan: its pieces as sentences, and the turns that they rest on."""
    from familiar_cli.store.history.selection import kept_turns

    familiar = request.familiar
    plan = read_pending(familiar.memory, request.path["plan"])
    added = [line for _, hunk in plan.hunks for line in hunk.added]
    numbers = {number for line in added for number in turn_ids(line, familiar.numbering)}
    first, last = plan.turns
    target = sorted(numbers) or (range(first, last + 1) if any(plan.turns) else ())
    selections = kept_turns(familiar.history, target[:_MOST_TURNS])
    turns = with_speakers(familiar, (selections[n].turn for n in sorted(selections)))
    more, titles = max(len(target) - _MOST_TURNS, 0), _page_titles(request, [plan])
    pieces = [(file, hunk, *_piece_lines(request, hunk)) for file, hunk in plan.hunks]
    values = {"plan": plan, "pieces": pieces, "turns": turns, "more": more, "titles": titles}
    return PageView("plan", values)


def _piece_lines(
    request: PageRequest, hunk: Hunk
) -> tuple[list[str], list[tuple[int, str, bool, Html]]]:
    """Return a piece as a person reads it: words that go, and words that come.

    What comes has its number, words, whether it is a sentence that can be edited, and evidence.
    """
    gone = [words for line in hunk.removed if (words := _line_words(line))]
    evidence = evidence_of_lines(request, hunk.added)
    new = [
        (at, words, bullet(line) is not None, links)
        for at, (line, links) in enumerate(zip(hunk.added, evidence, strict=True), 1)
        if (words := _line_words(line))
    ]
    return gone, new


def _line_words(line: str) -> str:
    return readable_text(without_marker(line.strip())).lstrip("#").strip()


def decide_plan(request: PageRequest) -> Redirect:
    """Apply the accepted pieces of a plan, and discard the rejected ones."""
    familiar, plan_id = request.familiar, request.path["plan"]
    memory = familiar.memory
    try:
        plan = read_pending(memory, plan_id)
    except BadInputError:
        if request.sent("all") != "reject":
            raise
        drop_damaged(memory, plan_id)
        return Redirect(request.to("review"), ("The damaged plan was discarded.",))
    take: set[PieceRef] = set()
    drop: set[PieceRef] = set()
    for number in range(1, len(plan.hunks) + 1):
        said = request.sent("all") or request.sent(f"piece-{number}")
        if said == "take":
            take.add(number)
        elif said == "reject":
            drop.add(number)
    if not take and not drop:
        raise UsageError("No piece was taken or rejected; nothing was changed")
    history, numbering = familiar.history, familiar.numbering
    plan = edit_plan(plan, _read_edits(request, plan, take))
    decisions = decide_on(
        memory, plan, apply=take, reject=drop, history=history, numbering=numbering
    )
    parts = [f"Wrote {path}." for path in decisions.changed]
    parts += (
        [f"Withdrew {counted(len(decisions.withdrawn), 'turn')}."] if decisions.withdrawn else []
    )
    parts += [f"{counted(len(drop), 'piece')} rejected."] if drop else []
    if decisions.rest:
        parts.append(f"{counted(len(decisions.rest.hunks), 'piece')} of the plan still waits.")
        return Redirect(request.to("review", plan_id), tuple(parts))
    return Redirect(request.to("review"), (*parts, "The plan is complete."))


def _read_edits(
    request: PageRequest, plan: ReviewPlan, take: Collection[PieceRef]
) -> dict[tuple[int, int], str]:
    """Return the lines that a person reworded in the pieces that they take."""
    edits = {}
    for number, (_, hunk) in enumerate(plan.hunks, 1):
        for at, line in enumerate(hunk.added, 1):
            words = request.sent(f"words-{number}-{at}").strip()
            if number in take and words and words != _line_words(line):
                edits[number, at] = words
    return edits


def show_desk(request: PageRequest) -> PageView:
    """Return the reminders and tasks."""
    from familiar_cli.actions.memory.desk import read_todos

    every = "all" in request.query
    lists = [
        ("reminder", "Reminders", read_todos(request.familiar, REMINDERS)),
        ("task", "Tasks", read_todos(request.familiar, TASKS)),
    ]
    there = [path for path in (REMINDERS, TASKS) if request.familiar.memory.exists(path)]
    return PageView("desk", {"lists": lists, "every": every, "files": there})


def add_item(request: PageRequest) -> Redirect:
    """Add an item."""
    at = request.sent("at").strip()
    rel_path = REMINDERS if request.path["kind"] == "reminder" else TASKS
    when = at if at or rel_path == REMINDERS else None
    change = desk.add_todo(request.familiar, rel_path, request.sent("text"), when)
    return Redirect(request.to("desk"), (f"Added: {change.item.text}",))


def mark_item(request: PageRequest) -> Redirect:
    """Tick an item off, drop it, or open it again."""
    from familiar_cli.store.memory.desk import ItemStatus

    if request.sent("mark") not in ItemStatus.__members__:
        raise UsageError(f"Unknown mark: {request.sent('mark')[:40]!r}; nothing was changed")
    rel_path = REMINDERS if request.path["kind"] == "reminder" else TASKS
    number = to_number(request.path["number"], "The item")
    change = desk.mark_todo(request.familiar, rel_path, number, ItemStatus[request.sent("mark")])
    comes_again = request.sent("mark") == "done" and change.item.mark == "open"
    told = "Done" if comes_again else change.item.mark.capitalize()
    after = f", due again {change.item.due}" if comes_again else ""
    return Redirect(request.to("desk"), (f"{told}: {change.item.text}{after}",))


_FORM: Final = "page"  # a field that only our own forms have


def show_digests(request: PageRequest) -> PageView:
    """Return the status of digests and periods."""
    from familiar_cli.writing.consolidation.periods import TIERS

    familiar = request.familiar
    work, settings = Consolidation(familiar), familiar.config
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
    return PageView(
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


def send_status(request: PageRequest) -> Data:
    """Return the status of digests as data."""
    tiers = Consolidation.for_viewer(request.familiar, request.viewer).distiller().status()
    return _json_data({"tiers": [tier.to_json() for tier in tiers]})


def make_digest(name: Name, request: PageRequest) -> Redirect | Data:
    """Make one digest."""
    work = Consolidation.for_viewer(request.familiar, request.viewer)
    digest, problem = request.run(work.distill(name, ConsolidationOptions()))
    if _FORM not in request.form:
        digest = replace(digest, rel_path=told_path(digest.rel_path))
        return _json_data({**digest.to_json(), "notification": problem or None})
    told = (writing_pages.digest_text(digest).strip(), *writing_pages.digest_notes(digest), problem)
    return Redirect(request.to("distill"), tuple(filter(None, told)))


def make_periods(request: PageRequest) -> Redirect:
    """Make the days, weeks, months and years that are due."""
    report = request.run(Consolidation(request.familiar).consolidate(ConsolidationOptions()))
    told = (
        *bare_lines(writing_pages.consolidation_text(report)),
        *writing_pages.consolidation_notices(report),
        *map(str, report.failed),
    )
    return Redirect(request.to("distill"), told)


def search_days(request: PageRequest) -> Data:
    """Return matching turns grouped by day, with highlights."""
    from familiar_cli.actions.memory.search import search_sessions

    query, user = request.query.get("q", ""), request.query.get("user", "")
    result = search_sessions(request.familiar, query, user=user, viewer=request.viewer)
    days = [{"date": day, "turns": [hit.to_json() for hit in hits]} for day, hits in result.items()]
    return _json_data({"query": query, "persona": request.familiar.paths.id, "days": days})


def _json_data(data: dict[str, Any]) -> Data:
    return Data(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), "application/json")


_CHOICES: Final = ("file", "copy", "merged")
_MOST_CONFLICTS: Final = 50
_WAIT_S: Final = 10.0  # how long a browser waits for another sync of the same familiar


def show_sync(request: PageRequest) -> PageView:
    """Return each machine's sync status and all conflicts, without contacting remotes."""
    merges = []
    with suppress(NotFoundError):
        merges = request.familiar.past.log(source="sync", limit=20)
    conflicts = open_conflicts(request.familiar)
    return PageView(
        "sync",
        {
            "status": status(request.familiar),
            "conflicts": conflicts[:_MOST_CONFLICTS],
            "more": max(len(conflicts) - _MOST_CONFLICTS, 0),
            "merges": merges,
        },
    )


def settle_conflict(request: PageRequest) -> Redirect:
    """Settle one conflict."""
    choice, path = request.sent("choice"), request.sent("path")
    if choice not in _CHOICES:
        raise UsageError(f"Unknown way to resolve a conflict: {choice[:40]!r}")
    resolve(request.familiar, path, cast("Choice", choice))
    return Redirect(request.to("sync"), (f"Resolved: {path}. The journal can undo it.",))


def sync_now(request: PageRequest) -> Redirect:
    """Sync with every remote without asking for passwords; failures are shown on the page."""
    from familiar_cli.pages.status_pages import report_text
    from familiar_cli.sync.engine import SyncOptions

    report = asyncio.run(sync(request.familiar, None, SyncOptions(), wait_s=_WAIT_S))
    failed = [f"{name} was not synced: {error}" for name, (_, error) in report.failed.items()]
    told = (*bare_lines(report_text(report)), *report.notes, *(failed if report.done else ()))
    return Redirect(request.to("sync"), told)


_GENERAL: Final = "general"
# The settings that people change, each with its meaning.
_CONTROLS: Final = {
    "language": "Language of its memory and headings",
    "timezone": "Timezone",
    "memory_writer.auto": "Write memory automatically",
    "memory_writer.apply": "What the writer wrote",
    "consolidation.auto": "Make days, weeks and months automatically",
    "distill.auto": "Make digests automatically",
    "embedding.model": "Search by meaning with",
    "sync.auto": "Sync by itself",
}


def show_settings(request: PageRequest) -> PageView:
    """Return the settings that people change as controls, and all of them by section."""
    return _settings_page(request, {}, None)


def _settings_page(
    request: PageRequest, typed: Mapping[str, str], tested: ModelTest | None, status: int = 200
) -> PageView:
    from familiar_cli.actions.talk.turn_setup import with_effective

    path, llm = request.familiar.paths.config, request.familiar.config.llm
    rows = sorted(with_effective(request.familiar, effective_settings(path)), key=_section_of)
    sections = [(name, list(found)) for name, found in groupby(rows, key=_section_of)]
    values = {row.setting.key: row for row in rows}
    fields = typed or {name: str(getattr(llm, name)) for name in setup_pages.SETTINGS}
    return PageView(
        "settings",
        {
            "sections": sections,
            "path": path,
            "controls": [(label, values[key]) for key, label in _CONTROLS.items() if key in values],
            "missing": setup_pages.missing_model(request.familiar),
            **setup_pages.embedder_values(request.familiar),
            **setup_pages.model_values(fields, tested),
        },
        status,
    )


def change_settings(request: PageRequest) -> PageView | Redirect:
    """Try or keep a model, or change the settings that have controls."""
    fields = {name: values[-1] for name, values in request.form.items()}
    try:
        return _change_settings(request, fields)
    except FamiliarError as error:
        failed = ModelTest(False, str(error), error.hint or "")  # noqa: FBT003
        typed = {name: fields.get(name, "") for name in setup_pages.SETTINGS}
        return _settings_page(request, typed, failed, http_status(error))


def _change_settings(request: PageRequest, fields: Mapping[str, str]) -> PageView | Redirect:
    config = request.familiar.paths.config
    if request.sent("do") == "controls":
        known = {row.setting.key: str(row.value) for row in effective_settings(config)}
        typed = {key: fields[key].strip() for key in _CONTROLS if key in fields}
        set_values(config, {key: text for key, text in typed.items() if text != known.get(key)})
        return Redirect(request.to("settings"), ("Saved.",))
    if request.sent("embed"):
        return Redirect(
            request.to("settings"), (setup_pages.keep_embedder(config, request.sent("embed")),)
        )
    chosen, key = setup_pages.read_model_fields(fields), request.sent(setup_pages.KEY)
    if request.sent("do") == "keep":
        return Redirect(request.to("settings"), tuple(setup_pages.keep_choice(config, chosen, key)))
    return _settings_page(request, chosen, setup_pages.try_choice(chosen, key))


def _section_of(row: Effective) -> str:
    section, dot, _ = row.setting.key.rpartition(".")
    return section if dot else _GENERAL


def show_doctor(request: PageRequest) -> PageView:
    """Return the page that starts the checks."""
    del request
    return PageView("doctor", {"found": None})


def show_findings(request: PageRequest) -> PageView:
    """Return the findings of the doctor."""
    from familiar_cli.actions.health.doctor import examine as examine_all

    paths = request.familiar.paths
    return PageView("doctor", {"found": examine_all(str(paths.root.parent), paths.id)})


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
    WebPage("/settings", change_settings, "POST", is_long=True),
    WebPage("/doctor", show_doctor),
    WebPage("/doctor", show_findings, "POST", is_long=True),
)
