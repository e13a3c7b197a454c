"""Pages of all that is looked after: plans, reminders, digests, sync, settings."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from familiar_cli.actions.health.start import ModelTest
from familiar_cli.actions.memory import desk
from familiar_cli.actions.memory.consolidate import Consolidating, ConsolidationOptions
from familiar_cli.actions.share.sync import status
from familiar_cli.actions.share.sync_decisions import Choice, open_conflicts, resolve
from familiar_cli.base.config.edit import set_values
from familiar_cli.base.config.settings import Effective, effective_settings
from familiar_cli.base.errors import BadInputError, FamiliarError, NotFoundError, UsageError
from familiar_cli.base.markdown import bullet, without_marker
from familiar_cli.base.text import bare_lines
from familiar_cli.pages import writing_pages
from familiar_cli.servers.web.asking import (
    Data,
    PageRequest,
    Redirect,
    Shown,
    WebPage,
    http_status,
    to_number,
    with_speakers,
)
from familiar_cli.servers.web.drawing import evidence_links
from familiar_cli.servers.web.model_form import (
    KEY,
    SETTINGS,
    embedder_values,
    keep_choice,
    keep_embedder,
    missing_model,
    model_values,
    read_model_fields,
    try_choice,
)
from familiar_cli.store.memory.layout import REMINDERS, TASKS, digest_path
from familiar_cli.store.memory.pages.lines import citations_in, readable_text, turn_ids
from familiar_cli.writing.review.pending import decide_plan as decide_on
from familiar_cli.writing.review.pending import drop_damaged, edit_plan, read_pending
from familiar_cli.writing.review.waiting import pending_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from familiar_cli.servers.web.html.elements import Html
    from familiar_cli.writing.consolidation.digests import Name
    from familiar_cli.writing.review.pending import Hunk, PieceRef, ReviewPlan


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
    """Return one plan: its pieces as sentences, and the turns that they rest on."""
    from familiar_cli.store.history.selection import kept_turns

    familiar = asked.familiar
    plan = read_pending(familiar.memory, asked.path["plan"])
    added = [line for _, hunk in plan.hunks for line in hunk.added]
    cited = {number for line in added for number in turn_ids(line, familiar.numbering)}
    first, last = plan.turns
    wanted = sorted(cited) or (range(first, last + 1) if any(plan.turns) else ())
    kept = kept_turns(familiar.history, wanted[:_MOST_TURNS])
    turns = with_speakers(familiar, (kept[n].turn for n in sorted(kept)))
    more, titles = max(len(wanted) - _MOST_TURNS, 0), _page_titles(asked, [plan])
    pieces = [(file, hunk, *_piece_lines(asked, hunk)) for file, hunk in plan.hunks]
    values = {"plan": plan, "pieces": pieces, "turns": turns, "more": more, "titles": titles}
    return Shown("plan", values)


def _piece_lines(
    asked: PageRequest, hunk: Hunk
) -> tuple[list[str], list[tuple[int, str, bool, Html]]]:
    """Return a piece as a person reads it: words that go, and words that come.

    What comes has its number, words, whether it is a sentence that can be edited, and evidence.
    """
    gone = [words for line in hunk.removed if (words := _line_words(line))]
    days = asked.familiar.numbering.cited_days(hunk.added, asked.viewer)
    new = [
        (
            at,
            words,
            bullet(line) is not None,
            evidence_links(of_line if citations_in(line) else None, asked.base),
        )
        for at, (line, of_line) in enumerate(zip(hunk.added, days, strict=True), 1)
        if (words := _line_words(line))
    ]
    return gone, new


def _line_words(line: str) -> str:
    return readable_text(without_marker(line.strip())).lstrip("#").strip()


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
    plan = edit_plan(plan, _read_edits(asked, plan, take))
    done = decide_on(memory, plan, apply=take, reject=drop, history=history, numbering=numbering)
    told = [f"Wrote {path}." for path in done.changed]
    told += [f"Withdrew {counted(len(done.withdrawn), 'turn')}."] if done.withdrawn else []
    told += [f"{counted(len(drop), 'piece')} rejected."] if drop else []
    if done.rest:
        told.append(f"{counted(len(done.rest.hunks), 'piece')} of the plan still waits.")
        return Redirect(asked.to("review", plan_id), tuple(told))
    return Redirect(asked.to("review"), (*told, "The plan is complete."))


def _read_edits(
    asked: PageRequest, plan: ReviewPlan, take: Collection[PieceRef]
) -> dict[tuple[int, int], str]:
    """Return the lines that a person reworded in the pieces that they take."""
    edits = {}
    for number, (_, hunk) in enumerate(plan.hunks, 1):
        for at, line in enumerate(hunk.added, 1):
            words = asked.sent(f"words-{number}-{at}").strip()
            if number in take and words and words != _line_words(line):
                edits[number, at] = words
    return edits


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
        *bare_lines(writing_pages.consolidation_text(report)),
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
    told = (*bare_lines(report_text(report)), *report.notes, *(failed if report.done else ()))
    return Redirect(asked.to("sync"), told)


_GENERAL: Final = "general"
_CONTROLS: Final = {
    "language": "Language of its memory and headings",
    "timezone": "Timezone",
    "memory_writer.auto": "Write memory by itself",
    "memory_writer.apply": "What the writer wrote",
    "consolidation.auto": "Make days, weeks and months by itself",
    "distill.auto": "Make digests by itself",
    "embedding.model": "Search by meaning with",
    "sync.auto": "Sync by itself",
}
"""The settings that people change, each with its meaning."""


def show_settings(asked: PageRequest) -> Shown:
    """Return the settings that people change as controls, and all of them by section."""
    return _settings_page(asked, {}, None)


def _settings_page(
    asked: PageRequest, typed: Mapping[str, str], tested: ModelTest | None, status: int = 200
) -> Shown:
    from familiar_cli.actions.talk.effective_settings import with_effective

    path, llm = asked.familiar.paths.config, asked.familiar.config.llm
    rows = sorted(with_effective(asked.familiar, effective_settings(path)), key=_section_of)
    sections = [(name, list(found)) for name, found in groupby(rows, key=_section_of)]
    known = {row.setting.key: row for row in rows}
    fields = typed or {name: str(getattr(llm, name)) for name in SETTINGS}
    return Shown(
        "settings",
        {
            "sections": sections,
            "path": path,
            "controls": [(label, known[key]) for key, label in _CONTROLS.items() if key in known],
            "missing": missing_model(asked.familiar),
            **embedder_values(asked.familiar),
            **model_values(fields, tested),
        },
        status,
    )


def change_settings(asked: PageRequest) -> Shown | Redirect:
    """Try or keep a model, or change the settings that have controls."""
    fields = {name: values[-1] for name, values in asked.form.items()}
    try:
        return _change_settings(asked, fields)
    except FamiliarError as error:
        failed = ModelTest(False, str(error), error.hint or "")  # noqa: FBT003
        typed = {name: fields.get(name, "") for name in SETTINGS}
        return _settings_page(asked, typed, failed, http_status(error))


def _change_settings(asked: PageRequest, fields: Mapping[str, str]) -> Shown | Redirect:
    config = asked.familiar.paths.config
    if asked.sent("do") == "controls":
        known = {row.setting.key: str(row.value) for row in effective_settings(config)}
        typed = {key: fields[key].strip() for key in _CONTROLS if key in fields}
        set_values(config, {key: text for key, text in typed.items() if text != known.get(key)})
        return Redirect(asked.to("settings"), ("Saved.",))
    if asked.sent("embed"):
        return Redirect(asked.to("settings"), (keep_embedder(config, asked.sent("embed")),))
    chosen, key = read_model_fields(fields), asked.sent(KEY)
    if asked.sent("do") == "keep":
        return Redirect(asked.to("settings"), tuple(keep_choice(config, chosen, key)))
    return _settings_page(asked, chosen, try_choice(chosen, key))


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
    WebPage("/settings", change_settings, "POST", is_long=True),
    WebPage("/doctor", show_doctor),
    WebPage("/doctor", show_findings, "POST", is_long=True),
)
