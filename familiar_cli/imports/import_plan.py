"""What an import changes: its plan, report and ledger; and building a familiar aside."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from familiar_cli.config.edit import write_new
from familiar_cli.config.home import FamiliarPaths, ensure_instance, is_alive
from familiar_cli.errors import BadInputError, ConflictError, FamiliarError, PartialError
from familiar_cli.files import is_directory, patiently, remove
from familiar_cli.imports.foreign_files import no_constant, parse_finite
from familiar_cli.memory.layout import new_run_id, pass_trailers
from familiar_cli.memory.store.files import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction

_SHOWN: Final = 12


class Effects(NamedTuple):
    """What became of each field and setting of a card or a book, in words.

    Args:
        in_every_prompt: What prompts always include.
        found_when_it_fits: What prompts include when it fits what is said.
        kept_unmapped: What is kept for an export and has no effect here.
    """

    in_every_prompt: tuple[str, ...] = ()
    found_when_it_fits: tuple[str, ...] = ()
    kept_unmapped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What became of each file, or would.

    Args:
        written: Files that are new or get new text, below `memory/`.
        unchanged: Files that hold already what they should.
        overwritten: Those of `written` that held something else.
        edited: Files that were changed or deleted here since the last import; they stay so.
        removed: Files of another card that are gone.
        in_every_prompt: Which fields and settings put text into every prompt.
        found_when_it_fits: Which put text into prompts that it fits.
        kept_unmapped: What is kept, but no prompt and no search sees it.
        left_out: What could not be read.
        warnings: What was odd.
    """

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    in_every_prompt: tuple[str, ...] = ()
    found_when_it_fits: tuple[str, ...] = ()
    kept_unmapped: tuple[str, ...] = ()
    left_out: tuple[UnreadFile, ...] = ()
    warnings: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        """Return its fields, for a larger report to begin with."""
        return {field.name: getattr(self, field.name) for field in fields(ImportReport)}

    def problem(self, of: str = "") -> PartialError | None:
        """Return the error that not everything was taken in; None: it was.

        Args:
            of: What was brought in, where there may be several.
        """
        if not self.left_out:
            return None
        listed = "; ".join(f"{one.file}: {one.reason}" for one in self.left_out[:_SHOWN])
        more = len(self.left_out) - _SHOWN
        return PartialError(
            f"Not everything{f' of {of!r}' if of else ''} was imported: {listed}"
            + (f"; and {more} more" if more > 0 else ""),
            hint="Replace the links with the files themselves and run the same command again.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FamiliarReport(ImportReport):
    """What making a familiar did, or would do.

    Args:
        id: The familiar's id.
        name: What it is called.
        path: Its directory.
        is_new: It did not exist before.
    """

    id: str
    name: str
    path: Path
    is_new: bool


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """Something in a folder that was not read, and why."""

    file: str
    reason: str


class FileToWrite(NamedTuple):
    """One file to write, or to delete.

    Args:
        path: The file, below the memory root.
        content: Its new bytes; None: it is deleted.
        expect: The SHA-256 it has now, or `MISSING`.
        any_size: It may be larger than a file for people: it can be read, and shortened later.
    """

    path: str
    content: bytes | None
    expect: str
    any_size: bool = True


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import will do; nothing is done before `stage`.

    Args:
        report: What it does, for a person to read.
        changes: Every file to write or delete.
    """

    report: ImportReport
    changes: tuple[FileToWrite, ...] = ()

    @property
    def is_noop(self) -> bool:
        """Whether everything is already as it should be."""
        return not self.changes

    def stage(self, tx: Transaction) -> None:
        """Put all changes into a transaction, which makes them together or not at all."""
        for path, content, expect, any_size in self.changes:
            if content is None:
                tx.delete(path, expect=expect)
            else:
                tx.write(path, content, expect=expect, any_size=any_size)


T = TypeVar("T")

_SHOWN_PATHS: Final = 12


def load_ledger(
    store: MemoryStore, rel_path: str, parse: Callable[[Any], T], *, keeps: str, hint: str
) -> T | None:
    """Load the ledger at `rel_path` with `parse`; None when there is none.

    Args:
        store: The memory.
        rel_path: Where the ledger is.
        parse: May raise whatever a value of the wrong shape raises.
        keeps: What it keeps, for the error.
        hint: What to do about a damaged one.

    Raises:
        BadInputError: It is damaged, so nobody can tell what a person has edited since.
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
    """Return the first few of `paths`, sorted, and how many more there are."""
    found = sorted(set(paths))
    more = len(found) - _SHOWN_PATHS
    return ", ".join(found[:_SHOWN_PATHS]) + (f" and {more} more" if more > 0 else "")


_STAGING: Final = re.compile(r"\.new-.+-([0-9]{1,10})")


def build_familiar(
    paths: FamiliarPaths,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    plan: Callable[[MemoryStore], ImportPlan],
    *,
    name: str,
    message: str,
    dry_run: bool,
) -> FamiliarReport:
    """Make a familiar, or change the one that is there.

    Args:
        paths: Where the familiar is to be; the home is made when it is not there.
        open_store: Opens the memory of a familiar.
        plan: Says what goes into its memory.
        name: What it is called, if it has no settings yet.
        message: What for, in one line.
        dry_run: Check everything, and leave nothing on disk.

    Raises:
        ConflictError: A file is in the familiar's place.
        FamiliarError: The disk refused; what was there before is as it was.
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
            hint="Move it away, or give the familiar another ID.",
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
    """Write the settings of a familiar if it has none, and what is planned into its memory."""
    has_settings = paths.config.exists()
    try:
        if not has_settings:
            write_new(paths.config, {"name": name})
        if not plan.is_noop:
            with store.transaction("init", message, trailers=pass_trailers(new_run_id())) as tx:
                plan.stage(tx)
    except BaseException:
        if not has_settings:
            remove(paths.config)
        raise


def new_familiar(home: Path, fill: Callable[[FamiliarPaths], str], hint: str) -> FamiliarPaths:
    """Make a familiar that is not there yet, all of it or nothing.

    Args:
        home: Where the familiars live; it is made when it is not there.
        fill: Puts everything into a directory, and returns the familiar's id.
        hint: What it may be called, for the name of that directory.

    Raises:
        ConflictError: There is one of that id already.
        FamiliarError: The disk refused, or `fill` failed; nothing is left.
    """
    with _staging_in(home, hint) as staging:
        place = home / fill(FamiliarPaths(staging))
        _check_free(place)
        _make_durable()
        _move_into_place(staging, place)
    return FamiliarPaths(place)


def _check_free(place: Path) -> None:
    if os.path.lexists(place):
        raise ConflictError(
            f"There is a familiar {place.name!r} already; it was not changed",
            hint="Give the new one another ID.",
        )


def _make_durable() -> None:
    """Have the system write all files out, where it can be told to."""
    if hasattr(os, "sync"):
        os.sync()


@contextmanager
def _staging_directory(paths: FamiliarPaths, *, dry_run: bool) -> Iterator[FamiliarPaths]:
    """Give a directory to build a familiar in, and move it into place when that went well."""
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="familiar-", ignore_cleanup_errors=True) as scratch:
            yield FamiliarPaths(Path(scratch) / paths.id)
        return
    with _staging_in(paths.root.parent, paths.id) as staging:
        yield FamiliarPaths(staging)
        _move_into_place(staging, paths.root)


@contextmanager
def _staging_in(home: Path, hint: str) -> Iterator[Path]:
    """Give a directory in `home` to build in; after a failure, nothing is left that was made."""
    made = _make_home(home)
    remove_abandoned(home)
    staging = home / f".new-{hint}-{os.getpid()}"
    try:
        _make_directory(staging)
        yield staging
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        for directory in made:
            _remove_empty(directory)
        raise


def remove_abandoned(home: Path) -> list[str]:
    """Delete what killed processes were building in `home`; return the names."""
    try:
        found = [entry.name for entry in home.iterdir()]
    except OSError:
        return []
    named = [(name, match) for name in found if (match := _STAGING.fullmatch(name))]
    gone = [name for name, match in named if not is_alive(int(match[1]))]
    for name in gone:
        shutil.rmtree(home / name, ignore_errors=True)
    return sorted(name for name in gone if not os.path.lexists(home / name))


def _make_home(home: Path) -> list[Path]:
    """Make `home`, and return the directories that were made for it, innermost first."""
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


def _remove_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        return
