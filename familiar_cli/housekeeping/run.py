"""All checks, run over one reading of the memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError
from familiar_cli.housekeeping.broken_links import CHECK as LINKS
from familiar_cli.housekeeping.contradictions import CHECK as CONTRADICTIONS
from familiar_cli.housekeeping.duplicates import CHECK as DUPLICATES
from familiar_cli.housekeeping.orders import CHECK as ORDERS
from familiar_cli.housekeeping.orphans import CHECK as ORPHANS
from familiar_cli.housekeeping.reading import read_corpus
from familiar_cli.housekeeping.secrets import CHECK as SECRETS
from familiar_cli.housekeeping.secrets import masked
from familiar_cli.housekeeping.size import CHECK as SIZE
from familiar_cli.housekeeping.stale import CHECK as STALE
from familiar_cli.housekeeping.topics import CHECK as TOPICS
from familiar_cli.housekeeping.twins import CHECK as TWINS
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from familiar_cli.housekeeping.types import Check, Finding, Options
    from familiar_cli.memory.store import MemoryStore
    from familiar_cli.memory.types import Skipped

CHECKS: Final = (
    SECRETS,
    ORDERS,
    TWINS,
    CONTRADICTIONS,
    STALE,
    DUPLICATES,
    LINKS,
    ORPHANS,
    TOPICS,
    SIZE,
)
"""Every check, the most urgent first."""

_MOST_QUOTES: Final = 20
_MOST_CHARS: Final = 400


@dataclass(frozen=True, slots=True)
class Findings:
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
    since: date | None = None,
) -> Findings:
    """Return what the checks find. Nothing is changed, and no model is asked.

    Args:
        store: The memory.
        options: What the checks go by.
        names: Which checks; none: all of them.
        since: Only findings about a file that was changed on this day or later.

    Raises:
        NotFoundError: There is no such check.
    """
    wanted = [_named(name) for name in dict.fromkeys(names)] or list(CHECKS)
    corpus = read_corpus(store)
    notes = (*corpus.notes, *corpus.hidden)
    changed = {n.rel_path for n in notes if since is None or n.modified.date() >= since}
    found = [
        _tidied(finding)
        for check in wanted
        for finding in sorted(check.run(corpus, options), key=lambda f: (f.paths, f.message))
        if not changed.isdisjoint(finding.paths)
    ]
    return Findings(tuple(found), tuple(c.name for c in wanted), len(notes), corpus.skipped)


def _named(name: str) -> Check:
    for check in CHECKS:
        if check.name == name:
            return check
    known = [check.name for check in CHECKS]
    raise NotFoundError(
        f"There is no check {name!r}; there are: {', '.join(known)}",
        hint=f"Did you mean `familiar housekeep {nearest(name, known) or known[0]}`?",
    )


def _tidied(finding: Finding) -> Finding:
    """Return a finding whose quotes are few and short, with every secret in them masked."""
    quotes = finding.evidence[:_MOST_QUOTES]
    shown = tuple(replace(q, text=masked(q.text.strip())[:_MOST_CHARS]) for q in quotes)
    return replace(finding, evidence=shown)
