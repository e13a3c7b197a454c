"""Weeks, months and years that the program made and a person rewrote: they are the person's now.

A file whose record is gone is never made again, however much of what it was made of changes. That
must not happen in silence.
"""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.clock import iso
from familiar_cli.consolidation.library import entries_in
from familiar_cli.consolidation.naming import period_in
from familiar_cli.consolidation.pages import read_page
from familiar_cli.consolidation.periods import TIERS
from familiar_cli.errors import FamiliarError
from familiar_cli.memory.journal.history import SHORT, History
from familiar_cli.memory.journal.repository import Repository

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.store.store import MemoryStore


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One such file.

    Args:
        rel_path: Which.
        since: When the journal first saw it without its record, else when it was last changed.
        give_back: What to type so that the program makes it again: its last version with a record.
    """

    rel_path: str
    since: str
    give_back: str


def rewritten(store: MemoryStore, journal: Path) -> tuple[Rewritten, ...]:
    """Return the files that the program made and no longer makes, sorted by path.

    What was never the program's, such as an imported week, is none of them.

    Args:
        store: The memory.
        journal: Where the journal is; it is only read.
    """
    modified = _without_record(store)
    without = set(modified)
    repository = Repository(journal)
    if not without or not repository.exists:
        return ()
    found: list[Rewritten] = []
    later: dict[str, Commit] = {}
    with closing(repository):
        history = History(repository)
        for commit in history.commits():
            for rel_path in sorted(
                without.intersection(t.rel_path for t in history.touched(commit))
            ):
                if not _has_record(repository.file_at(commit.id, rel_path)):
                    later[rel_path] = commit
                    continue
                without.discard(rel_path)
                since = iso(later[rel_path].time if rel_path in later else modified[rel_path])
                back = f"familiar memory restore {shlex.quote(rel_path)} --at {commit.id[:SHORT]}"
                found.append(Rewritten(rel_path, since, back))
            if not without:
                break
    return tuple(sorted(found, key=lambda one: one.rel_path))


def _without_record(store: MemoryStore) -> dict[str, datetime]:
    """Return the weeks, months and years that have no record, and when each was last changed."""
    found: dict[str, datetime] = {}
    for tier in TIERS[1:]:
        for entry in entries_in(store, tier, []):
            if period_in(entry.rel_path) is None:
                continue
            try:
                page = read_page(store.read_file(entry.rel_path))
            except FamiliarError:
                continue  # `consolidate` names it
            if page.record is None and page.body.strip():
                found[entry.rel_path] = entry.modified
    return found


def _has_record(content: bytes | None) -> bool:
    return content is not None and read_page(content.decode("utf-8", "replace")).record is not None
