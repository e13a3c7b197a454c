"""All checks, run over one reading of the memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError
from familiar_cli.housekeeping.beliefs import CONTRADICTIONS_CHECK as CONTRADICTIONS
from familiar_cli.housekeeping.beliefs import STALE_CHECK as STALE
from familiar_cli.housekeeping.duplicates import DOUBLES_CHECK as DOUBLES
from familiar_cli.housekeeping.duplicates import DUPLICATES_CHECK as DUPLICATES
from familiar_cli.housekeeping.duplicates import TWINS_CHECK as TWINS
from familiar_cli.housekeeping.hazards import ORDERS_CHECK as ORDERS
from familiar_cli.housekeeping.hazards import SECRETS_CHECK as SECRETS
from familiar_cli.housekeeping.hazards import masked
from familiar_cli.housekeeping.lines import MOST_QUOTES, read_corpus
from familiar_cli.housekeeping.links import LINKS_CHECK as LINKS
from familiar_cli.housekeeping.links import ORPHANS_CHECK as ORPHANS
from familiar_cli.housekeeping.links import SIZE_CHECK as SIZE
from familiar_cli.housekeeping.links import TOPICS_CHECK as TOPICS
from familiar_cli.housekeeping.relations import CHECK as RELATIONS
from familiar_cli.housekeeping.withdrawn import CHECK as WITHDRAWN
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from familiar_cli.housekeeping.lines import Check, Finding, Options
    from familiar_cli.memory.store.files import Skipped
    from familiar_cli.memory.store.store import MemoryStore

CHECKS: Final = (
    SECRETS,
    ORDERS,
    TWINS,
    CONTRADICTIONS,
    STALE,
    WITHDRAWN,
    DOUBLES,
    DUPLICATES,
    LINKS,
    RELATIONS,
    ORPHANS,
    TOPICS,
    SIZE,
)
"""Every check, the most urgent first."""

TITLES: Final = {check.name: check.title for check in CHECKS}

_MOST_CHARS: Final = 400
_MOST_MASKED: Final = 4_000


@dataclass(frozen=True, slots=True)
class CheckResults:
    """What the checks found.

    Args:
        findings: In the order of the checks, then of the paths.
        checks: Which checks were made.
        files: How many files they looked at.
        skipped: What could not be read.
    """

    findings: tuple[Finding, ...]
    checks: tuple[str, ...]
    files: int
    skipped: tuple[Skipped, ...]


def look_through(
    store: MemoryStore,
    options: Options,
    names: Sequence[str] = (),
    *,
    since: datetime | None = None,
    on_step: Callable[[str, int], None] = lambda _step, _done: None,
) -> CheckResults:
    """Return what the checks find. Nothing is changed, and no model is asked.

    Args:
        store: The memory.
        options: What the checks go by.
        names: Which checks; none: all of them.
        since: Only findings about a file that was changed then or later.
        on_step: Told what is being done, and how many files are read.

    Raises:
        NotFoundError: There is no such check.
    """
    wanted = [_named(name) for name in dict.fromkeys(names)] or list(CHECKS)
    words = frozenset[str]().union(*(check.words for check in wanted))
    corpus = read_corpus(store, words, lambda done: on_step("reading", done))
    notes = (*corpus.notes, *corpus.hidden)
    changed = {n.rel_path for n in notes if since is None or n.modified >= since}
    found: list[Finding] = []
    for check in wanted:
        on_step(check.name, len(notes))
        of_it = (
            f
            for f in check.run(corpus, options)
            if since is None or not changed.isdisjoint(f.paths)
        )
        found += map(_tidied, sorted(of_it, key=lambda f: (f.paths, f.message)))
    return CheckResults(tuple(found), tuple(c.name for c in wanted), len(notes), corpus.skipped)


def _named(name: str) -> Check:
    for check in CHECKS:
        if check.name == name:
            return check
    known = [check.name for check in CHECKS]
    raise NotFoundError(
        f"No such check: {name!r}; available: {', '.join(known)}",
        hint=f"Did you mean `familiar housekeep {nearest(name, known) or known[0]}`?",
    )


def _tidied(finding: Finding) -> Finding:
    """Return a finding whose quotes are few and short, with every secret in them masked."""
    shown = tuple(
        replace(quote, text=masked(quote.text.strip()[:_MOST_MASKED])[:_MOST_CHARS])
        for quote in finding.evidence[:MOST_QUOTES]
    )
    return replace(finding, evidence=shown)
