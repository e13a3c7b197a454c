"""Upkeep of memory: `write-memory`, `consolidate`, `distill`, `remember`, `housekeep`, `index`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.base.errors import PartialError, RefusedError, UsageError
from familiar_cli.base.text import hint_sentence
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.cli.commands import _base as base
from familiar_cli.cli.commands import _options
from familiar_cli.pages import writing_pages
from familiar_cli.pages.emit import Output, exact
from familiar_cli.pages.progress import FEW, show_steps, show_totals, spinner

if TYPE_CHECKING:
    from familiar_cli.actions.memory.consolidate import Consolidation
    from familiar_cli.writing.consolidation.calendar import ConsolidationReport, Rewritten
    from familiar_cli.writing.consolidation.digests import DigestResult, Name
    from familiar_cli.writing.writer.contract import WriterReport
    from familiar_cli.writing.writer.memory_writer import Mode

consolidate_app = base.App()


@consolidate_app.command()
def consolidate(
    ctx: typer.Context,
    tier: Annotated[str | None, typer.Argument()] = None,
    *,
    period: str | None = None,
    due: Annotated[bool, typer.Option("--due")] = False,
    redo: _options.Redo = False,
    dry_run: _options.DryRunUnasked = False,
    review: _options.Review = False,
) -> None:
    """Summarise sessions into days, days into weeks, weeks into months, months into years.

    A period is written once its last day is over and all its sources exist, and again when they
    change. Text that you added to its file is kept. Days need no model.

    \b
    familiar consolidate
    familiar consolidate --dry-run
    familiar consolidate weekly --period 2026-W15 --redo
    familiar consolidate monthly --json

    Args:
        tier ([PERIODS]): daily, weekly, monthly or yearly; default: all.
        period (PERIOD): Only this period, e.g. 2026-04-07, 2026-W15, 2026-04 or 2026.
        due: Only what is due; it is not an error if a period has to wait.
    """
    from familiar_cli.actions.memory.consolidate import Consolidation, ConsolidationOptions
    from familiar_cli.writing.consolidation.periods import TIERS, parse_period, parse_tier

    out = base.output(ctx)
    if dry_run and review:
        raise UsageError("--dry-run and --review cannot be combined", hint="Use only one.")
    target = parse_tier(tier) if tier else None
    only = parse_period(period, target) if period else None
    tiers = (only.tier,) if only else (target,) if target else TIERS
    how = ConsolidationOptions(dry_run=dry_run, review=review, on_wait=out.note)
    with base.with_models(base.familiar_of(ctx)) as familiar:
        work = Consolidation(familiar)
        tell = writing_pages.make_narrator(out)
        making = work.consolidate(how, tiers=tiers, only=only, again=redo, on_step=tell)
        report = base.run_async(making)
        yours = work.rewritten()
    out.note(*writing_pages.yours_told(yours, familiar.zone))
    _answer(out, report, yours, named="" if due or only is None else only.name, dry_run=dry_run)


def _answer(
    out: Output,
    report: ConsolidationReport,
    yours: tuple[Rewritten, ...],
    *,
    named: str,
    dry_run: bool,
) -> None:
    text = writing_pages.consolidation_text(report, dry_run=dry_run)
    render = partial(exact, text)
    data = {**report.to_json(), "rewritten": yours, "dry_run": dry_run}
    out.note(*writing_pages.consolidation_notices(report, dry_run=dry_run))
    if report.failed:
        out.report(data, render, report.failed, is_failure=not report.done)
    if named in report.waiting and named not in report.held:
        error = RefusedError(f"{named} was not made: {report.waiting[named]}")
        out.answer(data, render, [error], is_failure=True)
    out.report(data, render)


distill_app = base.group("Make the digests that every prompt includes, and show their state.")


@distill_app.command()
def short(
    ctx: typer.Context, *, redo: _options.Redo = False, dry_run: _options.DryRunUnasked = False
) -> None:
    """Make digest/short.md from the newest sessions that fit its budget. Needs no model.

    \b
    familiar distill short
    """
    _make(ctx, "short", redo=redo, dry_run=dry_run, review=False)


@distill_app.command()
def mid(
    ctx: typer.Context,
    *,
    redo: _options.Redo = False,
    dry_run: _options.DryRunUnasked = False,
    review: _options.Review = False,
) -> None:
    """Have a model summarise digest/short.md in digest/mid.md.

    \b
    familiar distill mid
    familiar distill mid --review
    """
    _make(ctx, "mid", redo=redo, dry_run=dry_run, review=review)


@distill_app.command()
def long(
    ctx: typer.Context,
    *,
    redo: _options.Redo = False,
    dry_run: _options.DryRunUnasked = False,
    review: _options.Review = False,
) -> None:
    """Have a model merge digest/mid.md into digest/long.md. A big loss waits for review.

    \b
    familiar distill long --review
    """
    _make(ctx, "long", redo=redo, dry_run=dry_run, review=review)


@distill_app.command()
def status(ctx: typer.Context) -> None:
    """Show the state of each digest: its length, when it was made, whether it is due.

    \b
    familiar distill status
    familiar distill status --json
    """
    from familiar_cli.actions.memory.consolidate import Consolidation

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        tiers, zone = Consolidation(familiar).distiller().status(), familiar.zone
    data = {"tiers": [tier.to_json() for tier in tiers]}
    out.answer(data, writing_pages.digests_page(tiers, zone))


def _make(ctx: typer.Context, name: Name, *, redo: bool, dry_run: bool, review: bool) -> None:
    from familiar_cli.actions.memory.consolidate import Consolidation, ConsolidationOptions

    out = base.output(ctx)
    if dry_run and review:
        raise UsageError("--dry-run and --review cannot be combined", hint="Use only one.")
    how = ConsolidationOptions(dry_run=dry_run, review=review, on_wait=out.note)

    async def run(work: Consolidation) -> tuple[DigestResult, str, list[DigestResult]]:
        made, problem = await work.distill(name, how, again=redo)
        private = [(await one.distill(name, how, again=redo))[0] for one in work.private()]
        return made, problem, private

    with base.with_models(base.familiar_of(ctx)) as familiar:
        digest, problem, private = base.run_async(run(Consolidation(familiar)))
    for one in (digest, *private):
        out.note(*writing_pages.digest_notes(one, dry_run=dry_run))
    if problem:
        out.warn(problem)
    data = {
        **digest.to_json(),
        "dry_run": dry_run,
        "notification": problem or None,
        "private": [one.to_json() for one in private],
    }
    out.report(data, lambda: exact(writing_pages.digest_text(digest, dry_run=dry_run)))


remember_app = base.App()


@remember_app.command()
def remember(
    ctx: typer.Context,
    text: str,
    *,
    date: str | None = None,
    title: str = "",
    dry_run: _options.DryRun = False,
) -> None:
    """Save a significant moment in a file of its own in significant/.

    \b
    familiar remember "We saw the sea for the first time."
    familiar remember --date 2026-04-07 --title "The sea" -

    Args:
        text (TEXT): Text; `-` reads standard input.
        date (DATE): Day it happened; default: today.
        title (TITLE): Title; default: its first words.
    """
    from familiar_cli.actions.memory.consolidate import day_named
    from familiar_cli.writing.consolidation.pages import remember_text as keep

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        day = day_named(familiar, date)
        kept = keep(familiar.memory, base.text_or_stdin(text), day, title, dry_run=dry_run)
    data = {"rel_path": kept.rel_path, "title": kept.title, "date": day.isoformat()}
    data |= {"written": not (dry_run or kept.unchanged)}  # type: ignore[dict-item]
    out.answer(data, lambda: exact(kept.text if dry_run else f"{kept.rel_path}\n"))
    if kept.unchanged:
        out.note("That file already holds the same text; nothing was changed.")
    elif dry_run:
        out.note(f"Nothing was changed (--dry-run); it would be saved as {kept.rel_path}.")


write_memory_app = base.App()
_SOON_S = 5.0  # a pass that takes longer reports its progress in a log


@write_memory_app.command("write-memory")
def write_memory(
    ctx: typer.Context,
    *,
    dry_run: _options.DryRunAsked = False,
    estimate: Annotated[bool, typer.Option("--estimate")] = False,
    review: _options.Review = False,
    again: Annotated[bool, typer.Option("--all")] = False,
    newest: Annotated[bool, typer.Option("--newest")] = False,
    since: _options.SinceTurns = None,
    channel: list[str] | None = None,
    steps: Annotated[int | None, typer.Option(min=1)] = None,
) -> None:
    """Write what matters from the turns since the last run into memory.

    The model is asked once per batch of turns. Exits with 0 if memory was written or there was
    nothing to write, with 6 if the model failed or its reply was unusable, and with 7 if some of it
    was written before that. Failed batches are retried on the next run; no turn is lost. Only this
    command reads imported chats; it then shows an estimate first. The newest exchange
    of a conversation is skipped until another one follows or it has been quiet for a while.

    \b
    familiar write-memory
    familiar write-memory --dry-run
    familiar write-memory --estimate --json
    familiar write-memory --review
    familiar write-memory --since 7d
    familiar write-memory --channel robin-and-yuzu

    Args:
        estimate: Estimate the cost; ask no model.
        again: Read all turns, even those already processed.
        newest: Read the newest exchange, too, before it is settled.
        channel (ID): Only this channel (can be repeated).
        steps (N): Stop after N steps; the rest is left for the next run.
    """
    from familiar_cli.actions.memory import write_memory as action
    from familiar_cli.pages import writing_pages as page

    out = base.output(ctx)
    if dry_run + estimate + review > 1:
        raise UsageError(
            "--dry-run, --estimate and --review cannot be combined", hint="Use only one."
        )
    with base.with_models(base.familiar_of(ctx)) as familiar:
        moment = base.moment_of(familiar, since)
        which = action.of_channels(familiar, channel or ())
        if estimate or (action.imported_turns(familiar, which) and not out.quiet):
            with spinner(out, "estimating …"):
                told = action.memory_writer(familiar).estimate(
                    which=which,
                    since=moment,
                    again=again,
                    newest=newest,
                    from_turns=0 if moment or again else action.SOME_TURNS,
                )
            if estimate:
                return out.answer(told, page.estimate_text(told))
            out.note(f"Estimate: {page.estimate_text(told).strip()}.")
        mode: Mode = "dry_run" if dry_run else "review" if review else "apply"
        interrupted: list[WriterReport] = []
        began_s = stopwatch_s()
        with spinner(out, "writing memory …") as show:

            def on_step(report: WriterReport) -> None:
                show(f"writing memory: {report.turns_covered:,} turns read …")
                is_long = report.turns_covered >= FEW or stopwatch_s() - began_s > _SOON_S
                if is_long and not sys.stderr.isatty():  # for a log
                    out.note(f"{report.turns_covered:,} turns read")

            writing = action.write_memory(
                familiar,
                mode,
                on_wait=out.note,
                on_interrupt=interrupted.append,
                on_step=on_step,
                which=which,
                since=moment,
                again=again,
                newest=newest,
                most_steps=steps,
            )
            try:
                report = base.run_async(writing)
            except KeyboardInterrupt:
                if not interrupted:
                    raise
                report = interrupted[0]
    return _answer_with_writing(out, report, dry_run=dry_run)


def _answer_with_writing(out: Output, report: WriterReport, *, dry_run: bool) -> None:
    render = partial(exact, report.diff if dry_run else writing_pages.pass_text(report))
    data = report.to_json()
    out.note(*writing_pages.pass_notices(report, dry_run=dry_run))
    if report.interrupted:
        told = PartialError(
            "Interrupted; what was written is kept, and the next run continues from there"
        )
        out.report(data, render, [told], exit_code=130)
    errors = [report.error] if report.error else []
    out.report(data, render, errors, is_failure=not report.turns_covered)


housekeep_app = base.App()


@housekeep_app.command()
def housekeep(
    ctx: typer.Context,
    checks: Annotated[list[str] | None, typer.Argument()] = None,
    *,
    since: Annotated[str | None, _options.since("files changed")] = None,
    propose: Annotated[bool, typer.Option("--propose")] = False,
    redo: Annotated[bool, typer.Option("--redo")] = False,
    judge: Annotated[bool, typer.Option("--judge")] = False,
) -> None:
    """Find things in memory that may need tidying up. Nothing is changed.

    Findings are not errors. No model is needed; `--judge` has one assess each finding.

    \b
    familiar housekeep
    familiar housekeep secrets orders
    familiar housekeep links duplicates --propose

    Args:
        checks ([CHECK…]): Checks: secrets, orders, twins, contradictions, stale, withdrawn,
            doubles, duplicates, links, relations, orphans, topics, size; default: all.
        propose: Make plans for `familiar review` where the repair is clear.
        redo: With --propose: include plans that you rejected before.
        judge: Ask the model of the slot `consolidation` about each finding.
    """
    from familiar_cli.actions.memory.housekeep import tidy_up
    from familiar_cli.pages.memory_pages import housekeeping_page, summary_line

    out = base.output(ctx)
    if redo and not propose:
        raise UsageError(
            "--redo requires --propose", hint="Run `familiar housekeep --propose --redo`."
        )
    with base.with_models(base.familiar_of(ctx)) as familiar, show_steps(out) as on_step:
        looking = tidy_up(
            familiar,
            checks or [],
            since=base.moment_of(familiar, since),
            propose=propose,
            again=redo,
            ask_model=judge,
            on_wait=out.note,
            on_step=on_step,
        )
        tidying = base.run_async(looking)
    page = housekeeping_page(tidying)
    out.warn(*(f"{one.rel_path}: {one.reason}; not checked" for one in tidying.skipped))
    if tidying.problem:
        out.note(summary_line(tidying))
        out.answer(tidying.to_json(), page, [tidying.problem])
    out.answer(tidying.to_json(), page if tidying.found else None)
    out.note(summary_line(tidying))


index_app = base.group("Build, inspect and delete the search index.")


@index_app.command("build")
def build_index(ctx: typer.Context) -> None:
    """Index memory and turns: always by words, and by meaning if a model is on disk.

    It can be stopped at any time; the next run continues where it stopped. An index that is
    mostly empty, as after large files were deleted, is made smaller.

    \b
    familiar index build
    """
    from familiar_cli.actions.memory import search
    from familiar_cli.pages.memory_pages import built_text
    from familiar_cli.store.search.embedder import is_remote

    out, familiar = base.output(ctx), base.familiar_of(ctx)
    with familiar, show_totals(out) as report:
        built = search.build_index(familiar, report)
    embedder = familiar.finder.embedder.embedder
    if embedder and is_remote(embedder):
        out.note(f"Texts were sent to {embedder.model}.")
    if embedder is None:
        out.note(f"Words only: {familiar.finder.embedder.reason}.")
        if familiar.finder.embedder.hint:
            out.note(f"hint: {hint_sentence(familiar.finder.embedder.hint)}")
            out.note("Then run `familiar index build` again.")
    out.report(built, built_text(built))


@index_app.command("status")
def show_index(ctx: typer.Context) -> None:
    """Show what the index holds, and what is still to be indexed.

    \b
    familiar index status
    familiar index status --json
    """
    from familiar_cli.actions.memory import search
    from familiar_cli.pages.memory_pages import status_page

    with base.familiar_of(ctx) as familiar:
        found, turns = search.read_index_status(familiar)
        opened = familiar.finder.embedder
    data = {"status": found, "turns": turns, "model_on_disk": _model(opened)}
    base.output(ctx).answer(data, status_page(found, turns, opened))


@index_app.command("clear")
def clear_index(ctx: typer.Context) -> None:
    """Delete the index and the vectors of turns. Memory and history are untouched.

    The next search rebuilds the index; `familiar index build` rebuilds all of it.

    \b
    familiar index clear
    """
    from familiar_cli.actions.memory import search

    out = base.output(ctx)
    there = search.clear_index(base.familiar_of(ctx))
    out.answer({"cleared": there}, "deleted the index" if there else "there was no index")


def _model(opened: object) -> str:
    embedder = getattr(opened, "embedder", None)
    return embedder.model if embedder else ""
