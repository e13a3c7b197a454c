"""The page of `familiar housekeep`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from familiar_cli.housekeeping.run import TITLES
from familiar_cli.text import counted, one_line
from familiar_cli.ui.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from familiar_cli.actions.housekeep import FindingWithPlan, Tidied

_MOST_OF_A_CHECK: Final = 20
_MOST_QUOTES: Final = 4
_CHARS: Final = 160
_VERDICTS: Final = {"real": "the model agrees", "not": "the model disagrees", "unsure": "unsure"}


def housekeeping_page(done: Tidied) -> RenderableType:
    """Return the findings, by check, each with the lines that it rests on."""
    return Group(*_parts(done))


def summary_line(done: Tidied) -> str:
    """Return how much was looked at and found, in one line."""
    looked = f"{counted(len(done.checks), 'check')} of {counted(done.files, 'file')}"
    if not done.found:
        return f"Nothing to tidy up: {looked} found nothing."
    mendable = sum(
        bool(one.finding.repair) and not one.plan_id and not one.rejected for one in done.found
    )
    more = f" `--propose` makes plans for {mendable} of them." if mendable else ""
    new = (
        f" {len(done.proposed)} new plans await review: `familiar review list`."
        if done.proposed
        else ""
    )
    return f"{looked}: {counted(len(done.found), 'finding')}.{new or ' Nothing was changed.'}{more}"


def _parts(done: Tidied) -> Iterator[RenderableType]:
    first = True
    for check, group in groupby(done.found, key=lambda one: one.finding.check):
        found = list(group)
        if not first:
            yield Text("")
        first = False
        yield plain(f"{TITLES[check]} ({len(found)})", "bold")
        for one in found[:_MOST_OF_A_CHECK]:
            yield from _finding(one)
        if len(found) > _MOST_OF_A_CHECK:
            left = len(found) - _MOST_OF_A_CHECK
            yield plain(f"  … {left} more: `familiar housekeep {check} --json`", "dim")


def _finding(one: FindingWithPlan) -> Iterator[RenderableType]:
    finding = one.finding
    where = ", ".join(one_line(path, _CHARS) for path in finding.paths[:_MOST_QUOTES])
    if len(finding.paths) > _MOST_QUOTES:
        where += f" and {len(finding.paths) - _MOST_QUOTES} more"
    yield plain(f"  {where}: ", "cyan") + plain(one_line(finding.message, _CHARS))
    for quote in finding.evidence[:_MOST_QUOTES]:
        place = f"{one_line(quote.rel_path, _CHARS)}:{quote.line}"
        yield plain(f"    {place}: ", "dim") + plain(one_line(quote.text, _CHARS))
    if len(finding.evidence) > _MOST_QUOTES:
        yield plain(f"    … {len(finding.evidence) - _MOST_QUOTES} more lines", "dim")
    if one.judgement:
        told = f"{_VERDICTS[one.judgement.verdict]}: {one.judgement.reason}"
        yield plain(f"    {one_line(told, _CHARS)}", "magenta")
    if one.plan_id:
        yield plain(f"    plan: familiar review show {one.plan_id}", "green")
    elif one.rejected:
        yield plain("    you rejected its plan; --propose --redo makes it again", "dim")
    elif finding.hint:
        yield plain(f"    {one_line(finding.hint, 240)}", "dim")
