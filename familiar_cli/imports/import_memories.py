"""`familiar import-memories`: a tree of days, weeks, months, years and significant moments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import BadInputError, NotFoundError
from familiar_cli.files import is_directory
from familiar_cli.imports.folders import (
    FolderPage,
    is_plain,
    kept_paths,
    plan_folder,
    read_folder,
    require_there,
)
from familiar_cli.imports.staging import ImportReport
from familiar_cli.memory.layout import (
    DAILY_DIR,
    MONTHLY_DIR,
    SIGNIFICANT_DIR,
    WEEKLY_DIR,
    YEARLY_DIR,
    new_run_id,
    noting,
)
from familiar_cli.memory.pages import bullets
from familiar_cli.text import fold, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from familiar_cli.imports.folders import FolderContents, FolderImportOptions
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import MemoryEntry

SOURCE: Final = "import-memories"
KEPT_DIR: Final = ".imported/memories"
LEDGER: Final = f"{KEPT_DIR}/.ledger.json"
_DAY: Final = r"(\d{4}-\d{2}-\d{2})"
_FORMS: Final = {
    DAILY_DIR: re.compile(rf"{DAILY_DIR}/{_DAY}(?:_[^/]+)?\.md"),
    WEEKLY_DIR: re.compile(rf"{WEEKLY_DIR}/(\d{{4}}-W\d{{2}})\.md"),
    MONTHLY_DIR: re.compile(rf"{MONTHLY_DIR}/(\d{{4}}-\d{{2}})\.md"),
    YEARLY_DIR: re.compile(rf"{YEARLY_DIR}/(\d{{4}})\.md"),
    SIGNIFICANT_DIR: re.compile(rf"{SIGNIFICANT_DIR}/{_DAY}_[^/]+\.md"),
}
TIERS: Final = tuple(_FORMS)
_COMPLETE: Final = {
    DAILY_DIR: "",
    SIGNIFICANT_DIR: "",
    WEEKLY_DIR: "-1",
    MONTHLY_DIR: "-01",
    YEARLY_DIR: "-01-01",
}
_MERGED: Final = (DAILY_DIR, SIGNIFICANT_DIR)
# Where the tree stands, seen from a folder above it.
_BELOW: Final = ("", "memories", "data/memories")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMemories(ImportReport):
    """What an import did, or would do.

    Args:
        tiers: How many files of each kind the tree holds.
    """

    tiers: dict[str, int]


def import_memories(
    store: MemoryStore, folder: FolderContents, wish: FolderImportOptions, *, dry_run: bool = False
) -> ImportedMemories:
    """Take a tree of memories into `store`, in one transaction.

    A day that is there already is added to, bullet by bullet; anything else that is there with
    other text is a conflict.

    Args:
        store: The memory.
        folder: The tree's files; see `read_tree`.
        wish: How far to go.
        dry_run: Check everything, and change nothing.

    Raises:
        ConflictError: Files that are not the import's own would change.
        RefusedError: The tree has changed.
        FamiliarError: The disk refused; everything is as it was.
    """
    warnings = list(folder.notes)
    there = [file.rel_path for tier in TIERS for file in _files_in(store, tier)]
    pieces = map_tree(folder.files, there, warnings)
    plan = plan_folder(
        store,
        pieces,
        LEDGER,
        wish,
        sources=folder.files,
        left_out=folder.left_out,
        warnings=warnings,
        merge=_merge,
    )
    with store.transaction(
        SOURCE, f"import {len(folder.files)} files", dry_run=dry_run, trailers=noting(new_run_id())
    ) as tx:
        plan.stage(tx)
    tiers = [tier_of(source) for source in folder.files]
    counts = {tier: tiers.count(tier) for tier in TIERS}
    return ImportedMemories(tiers=counts, **plan.report.values())


def read_tree(directory: Path) -> FolderContents:
    """Return the files of a tree of memories at `directory`, or just below it.

    Raises:
        NotFoundError: There is no such directory.
        BadInputError: It is a file, or no such tree is there.
    """
    require_there(directory)
    for below in _BELOW:
        root = directory / below
        if any(is_directory(root / tier) for tier in TIERS):
            return read_folder(root)
    raise BadInputError(
        f"{str(directory)!r} contains no memories: none of {', '.join(TIERS)} exists; "
        "nothing was imported",
        hint="Give the directory that contains them.",
    )


def map_tree(
    files: Mapping[str, bytes], there: Iterable[str], warnings: list[str]
) -> list[FolderPage]:
    """Return what the files become: those of a tier stand where they stood, the rest is kept.

    Args:
        files: The bytes of each, by its path in the tree.
        there: The files of the tiers that memory has already.
        warnings: Gets what is odd.
    """
    kept = kept_paths(files, KEPT_DIR)
    pieces: list[FolderPage] = []
    taken = {fold(path): path for path in there}
    for source, content in sorted(files.items()):
        tier = tier_of(source)
        problem = _problem(source, content) if tier else ""
        if tier and not problem and taken.setdefault(fold(source), source) != source:
            problem = f"and {one_line(taken[fold(source)])} are the same file on some systems"
        if problem:
            warnings.append(f"{one_line(source)} {problem}; it is kept unchanged")
        if tier and not problem:
            aside = kept[source] if tier in _MERGED else ""
            pieces.append(FolderPage(source, source, content, is_original=True, aside=aside))
        else:
            pieces.append(
                FolderPage(source, kept[source], content, is_original=True, is_hidden=True)
            )
    return pieces


def _files_in(store: MemoryStore, directory: str) -> Sequence[MemoryEntry]:
    try:
        return store.walk(directory).files
    except NotFoundError:
        return ()


def tier_of(source: str) -> str:
    """Return which tier a file of the tree belongs to, or an empty string."""
    for tier, form in _FORMS.items():
        found = form.fullmatch(source)
        if found and _is_period(found[1] + _COMPLETE[tier]):
            return tier
    return ""


def _is_period(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _problem(source: str, content: bytes) -> str:
    """Return why a file cannot stand in memory as it is, or an empty string."""
    if not is_plain(source):
        return "has a name that is not valid on every system"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"is not UTF-8 ({error.reason})"
    return ""


def _merge(there: bytes, new: bytes) -> bytes | None:
    """Return what is there with the bullets it lacks, or None when it is no text."""
    try:
        return bullets.merged(there.decode("utf-8"), new.decode("utf-8")).encode()
    except UnicodeDecodeError:
        return None
