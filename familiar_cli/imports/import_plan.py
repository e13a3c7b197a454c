"""Plan, report and ledger of an import; and building a familiar in a staging directory."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from msgspec import Struct

from familiar_cli.base.config.edit import write_new
from familiar_cli.base.config.home import FamiliarPaths, ensure_instance, is_abandoned
from familiar_cli.base.errors import BadInputError, ConflictError, FamiliarError, PartialError
from familiar_cli.base.files import is_directory, patiently, remove, temp_in
from familiar_cli.base.text import counted, shorten_list
from familiar_cli.imports.foreign_files import no_constant, parse_finite
from familiar_cli.store.memory.layout import new_run_id, pass_trailers
from familiar_cli.store.memory.store.files import MISSING

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.memory.store.transactions import Transaction

EXPORT_MANIFEST: Final = "familiar-export.json"
"""What lies in the root of an export of familiars, for programs."""

MEMORY_DIR: Final = "memory"
"""Where the memory of each familiar lies in an export."""


def export_of(directory: Path) -> Path | None:
    """Return the export that a directory is, or that it is a familiar's directory of."""
    above = directory.absolute().parent
    if not (directory / EXPORT_MANIFEST).is_file() and (directory / MEMORY_DIR).is_dir():
        return above if (above / EXPORT_MANIFEST).is_file() else None
    return directory if (directory / EXPORT_MANIFEST).is_file() else None


_SHOWN: Final = 12


class Effects(Struct, frozen=True):
    """Effect of each field and setting of a card or book, in words.

    Args:
        in_every_prompt: Text included in every prompt.
        found_when_it_fits: Text included in relevant prompts.
        kept_unmapped: Settings kept for export, without effect here.
    """

    in_every_prompt: tuple[str, ...] = ()
    found_when_it_fits: tuple[str, ...] = ()
    kept_unmapped: tuple[str, ...] = ()


class ImportReport(Struct, frozen=True, kw_only=True):
    """Outcome for each file, actual or planned.

    Args:
        written: New or rewritten files, below `memory/`.
        unchanged: Files that are already up to date.
        overwritten: Those of `written` that had other contents.
        edited: Files edited or deleted here since the last import, left as they are.
        deleted: Those of `edited` that were deleted or moved.
        removed: Deleted files of another card.
        in_every_prompt: Fields and settings that put text into every prompt.
        found_when_it_fits: Fields and settings that put text into relevant prompts.
        kept_unmapped: Fields and settings that are stored without effect on prompts or search.
        left_out: Unreadable files.
        warnings: Oddities.
    """

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    in_every_prompt: tuple[str, ...] = ()
    found_when_it_fits: tuple[str, ...] = ()
    kept_unmapped: tuple[str, ...] = ()
    left_out: tuple[UnreadFile, ...] = ()
    warnings: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        """Return its fields, as the start of a larger report."""
        return {name: getattr(self, name) for name in ImportReport.__struct_fields__}

    def headline(self, *, dry_run: bool) -> str:
        """Return what was done, or would be, in a line."""
        deed = "Would import" if dry_run else "Imported"
        return f"{deed} {counted(len(self.written), 'file')}"

    def problem(self, of: str = "") -> PartialError | None:
        """Return the error for an incomplete import, or None.

        Args:
            of: The name of the source, if there may be several.
        """
        left = [f"{one.file}: {one.reason}" for one in self.left_out]
        mend = "Replace the links with the files themselves and run the same command again."
        return incomplete_import(left, mend, of)


class FamiliarReport(ImportReport, frozen=True, kw_only=True):
    """Result of creating a familiar, actual or planned.

    Args:
        id: The familiar's id.
        path: Its directory.
        is_new: Whether it did not exist before.
    """

    id: str
    name: str
    path: Path
    is_new: bool

    def headline(self, *, dry_run: bool) -> str:
        """Return which familiar was made or changed."""
        deed = "Nothing to change in"
        if self.is_new or self.written or self.removed:
            verb = "make" if self.is_new else "change"
            deed = f"Would {verb}" if dry_run else {"make": "Made", "change": "Changed"}[verb]
        return f"{deed} {self.name} ({self.id})"


class ImportedLines(ImportReport, frozen=True, kw_only=True):
    """Result of an import of memories.

    Args:
        program: The program they come from.
        lines: Number of new lines.
        known: Number of lines that were imported before.
        plan: The plan that awaits review; empty if none does.
        refused: Lines that are not imported, and why.
    """

    program: str
    lines: int = 0
    known: int = 0
    plan: str = ""
    refused: tuple[str, ...] = ()


class UnreadFile(Struct, frozen=True):
    """A file of a folder that was not read, and the reason."""

    file: str
    reason: str


class FileToWrite(NamedTuple):
    """A file to write or delete.

    Args:
        path: Its path below the memory root.
        content: Its new bytes; None: delete it.
        expect: Its current SHA-256, or `MISSING`.
        any_size: Whether it may exceed the size limit for pages: it is readable, and can be
            shortened later.
    """

    path: str
    content: bytes | None
    expect: str
    any_size: bool = True


class ImportPlan(Struct, frozen=True):
    """Plan of an import; nothing is changed before `stage`.

    Args:
        report: The planned outcome, for people.
        changes: Every file to write or delete.
    """

    report: ImportReport
    changes: tuple[FileToWrite, ...] = ()

    @property
    def is_noop(self) -> bool:
        """Whether everything is already up to date."""
        return not self.changes

    def carry_out(
        self, store: MemoryStore, source: str, message: str, *, dry_run: bool = False
    ) -> None:
        """Make all changes in one transaction; in a dry run only check them."""
        trailers = pass_trailers(new_run_id())
        with store.transaction(source, message, dry_run=dry_run, trailers=trailers) as tx:
            self.stage(tx)

    def stage(self, tx: Transaction) -> None:
        """Add all changes to a transaction."""
        for path, content, expect, any_size in self.changes:
            if content is None:
                tx.delete(path, expect=expect)
            else:
                tx.write(path, content, expect=expect, any_size=any_size)


def incomplete_import(left_out: Sequence[str], mend: str, of: str = "") -> PartialError | None:
    """Return the error that names what was left out, and why; None if it is nothing."""
    if not left_out:
        return None
    more = len(left_out) - _SHOWN
    listed = "; ".join(left_out[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    whole = f" of {of!r}" if of else ""
    return PartialError(f"Not everything{whole} was imported: {listed}", hint=mend)


T = TypeVar("T")

_SHOWN_PATHS: Final = 12


def load_ledger(
    store: MemoryStore, rel_path: str, parse: Callable[[Any], T], *, keeps: str, hint: str
) -> T | None:
    """Load the ledger at `rel_path` with `parse`; None when there is none.

    Args:
        rel_path: Path of the ledger.
        parse: May raise any error on a value of the wrong shape.
        keeps: What it records, for the error message.
        hint: Advice for a damaged one.

    Raises:
        BadInputError: It is damaged, so later edits cannot be detected.
    """
    if not store.exists(rel_path):
        return None
    try:
        raw = store.read_bytes(rel_path)
        return parse(json.loads(raw, parse_float=parse_finite, parse_constant=no_constant))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadInputError(
            f"{rel_path!r}, which keeps {keeps}, is damaged: {error or type(error).__name__}; "
            "nothing was changed",
            hint=hint,
        ) from error


def change_ledger(store: MemoryStore, rel_path: str, text: str) -> FileToWrite:
    """Return the change that writes a ledger."""
    return FileToWrite(rel_path, text.encode(), store.sha256(rel_path) or MISSING)


def list_paths(paths: Iterable[str]) -> str:
    """Format the first few of `paths`, sorted, and the number of the rest."""
    return shorten_list(sorted(set(paths)), _SHOWN_PATHS)


def build_familiar(
    paths: FamiliarPaths,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    plan: Callable[[MemoryStore], ImportPlan],
    *,
    name: str,
    message: str,
    dry_run: bool,
) -> FamiliarReport:
    """Create a familiar, or update an existing one.

    Args:
        paths: Its paths; the home is created if missing.
        open_store: Opens the memory of a familiar.
        plan: Plans the contents of its memory.
        name: Its name, if it has no settings yet.
        message: The purpose, in one line.
        dry_run: Check everything without leaving anything on disk.

    Raises:
        ConflictError: The familiar's path is a file.
        FamiliarError: A file cannot be written; everything is as before.
    """
    if is_directory(paths.root):
        store = open_store(paths)
        planned = plan(store)
        if not dry_run:
            _fill_familiar(paths, store, planned, name, message)
        return _familiar_report(paths, name, planned, is_new=False)
    if os.path.lexists(paths.root):
        raise ConflictError(
            f"{str(paths.root)!r} is a file; it was not changed",
            hint="Move it away, or add `--familiar ID` for another ID.",
        )
    with _staging_directory(paths, dry_run=dry_run) as staging:
        store = open_store(staging)
        planned = plan(store)
        _fill_familiar(staging, store, planned, name, message)
        ensure_instance(staging.instance)
    return _familiar_report(paths, name, planned, is_new=True)


def _familiar_report(
    paths: FamiliarPaths, name: str, plan: ImportPlan, *, is_new: bool
) -> FamiliarReport:
    return FamiliarReport(
        id=paths.id, name=name or paths.id, path=paths.root, is_new=is_new, **plan.report.values()
    )


def _fill_familiar(
    paths: FamiliarPaths, store: MemoryStore, plan: ImportPlan, name: str, message: str
) -> None:
    """Carry out the plan, writing the familiar's settings if it has none."""
    has_settings = paths.config.exists()
    try:
        if not has_settings:
            write_new(paths.config, {"name": name})
        if not plan.is_noop:
            plan.carry_out(store, "init", message)
    except BaseException:
        if not has_settings:
            remove(paths.config)
        raise


def new_familiar(home: Path, fill: Callable[[FamiliarPaths], str], hint: str) -> FamiliarPaths:
    """Create a new familiar, all or nothing.

    Args:
        home: The directory of all familiars; created if missing.
        fill: Fills a directory, and returns the familiar's id.
        hint: Likely name, for the staging directory.

    Raises:
        ConflictError: A familiar with that id exists.
        FamiliarError: A file cannot be written, or `fill` failed; nothing is left.
    """
    with _staging_in(home, hint) as staging:
        place = home / fill(FamiliarPaths(staging))
        if os.path.lexists(place):
            raise ConflictError(
                f"There is a familiar {place.name!r} already; it was not changed",
                hint="Add `--familiar ID` to give the new one another ID.",
            )
        if hasattr(os, "sync"):  # not on every system
            os.sync()
        _move_into_place(staging, place)
    return FamiliarPaths(place)


@contextmanager
def _staging_directory(paths: FamiliarPaths, *, dry_run: bool) -> Iterator[FamiliarPaths]:
    """Yield a staging directory for a familiar, and move it into place on success."""
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="familiar-", ignore_cleanup_errors=True) as scratch:
            yield FamiliarPaths(Path(scratch) / paths.id)
        return
    with _staging_in(paths.root.parent, paths.id) as staging:
        yield FamiliarPaths(staging)
        _move_into_place(staging, paths.root)


@contextmanager
def _staging_in(home: Path, hint: str) -> Iterator[Path]:
    """Yield a staging directory in `home`; after a failure, everything created is removed."""
    paths = _make_home(home)
    remove_abandoned(home)
    staging = Path(temp_in(str(home), f".{hint}"))
    try:
        _make_directory(staging)
        yield staging
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        for directory in paths:
            with suppress(OSError):
                directory.rmdir()
        raise


def remove_abandoned(home: Path) -> list[str]:
    """Delete what killed processes left unfinished in `home`; return the names."""
    try:
        names = [entry.name for entry in home.iterdir()]
    except OSError:
        return []
    gone = [name for name in names if is_abandoned(name)]
    for name in gone:
        shutil.rmtree(home / name, ignore_errors=True)
    return sorted(name for name in gone if not os.path.lexists(home / name))


def _make_home(home: Path) -> list[Path]:
    """Create `home`; return the directories created, innermost first."""
    missing = [path for path in (home, *home.parents) if not path.exists()]
    _make_directory(home)
    return missing


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FamiliarError(
            f"{str(path)!r} cannot be created: {error.strerror or error}; nothing was written",
            hint="Choose another directory with `--home DIR`.",
        ) from error


def _move_into_place(staging: Path, place: Path) -> None:
    try:
        patiently(os.rename, str(staging), str(place))
    except OSError as error:
        raise ConflictError(
            f"{str(place)!r} could not be moved into place: {error.strerror or error};"
            " nothing was written",
            hint="Run the command again.",
        ) from error
