"""Make a familiar out of a card: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from familiar_cli.bootstrap.unpack_character import plan_unpack
from familiar_cli.config.edit import write_new
from familiar_cli.config.home import FamiliarPaths
from familiar_cli.errors import ConflictError, FamiliarError, UsageError
from familiar_cli.identity import check_familiar_id
from familiar_cli.memory.apply import patiently
from familiar_cli.text import one_line, slugify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.bootstrap.unpack_character import UnpackPlan
    from familiar_cli.memory.store import MemoryStore

_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Created:
    """What making a familiar did, or would do.

    Args:
        id: The familiar's id.
        name: What it is called.
        path: Its directory.
        is_new: It did not exist before.
        written: Files that are new or have new content, below `memory/`.
        unchanged: Files that were already as they should be.
        overwritten: Those of `written` that held something else.
        removed: Files of another card that are gone.
        kept_unmapped: What the card has that is kept, but is in no Markdown file.
        warnings: What was odd about the card.
    """

    id: str
    name: str
    path: Path
    is_new: bool
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    overwritten: tuple[str, ...]
    removed: tuple[str, ...]
    kept_unmapped: tuple[str, ...]
    warnings: tuple[str, ...]


def create_familiar(
    home: Path,
    card: Card,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    *,
    familiar_id: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
) -> Created:
    """Make a familiar out of `card`, or bring an existing one up to it.

    Args:
        home: Where the familiars live; it is made when it is not there.
        card: What it is made of.
        open_store: Opens the memory of a familiar.
        familiar_id: Its id; else the card's name, else the name of the card's file.
        overwrite: Text that differs from the card's may be overwritten.
        dry_run: Check everything, and leave nothing on disk.

    Raises:
        UsageError: `familiar_id` could not be an id.
        RefusedError: The familiar exists with other text and `overwrite` is not set.
        FamiliarError: The disk refused; what was there before is as it was.
    """
    paths = FamiliarPaths(home / (check_familiar_id(familiar_id) if familiar_id else id_for(card)))
    if paths.root.exists() and not paths.root.is_dir():
        raise ConflictError(
            f"{str(paths.root)!r} is a file and was left alone",
            hint="Move it away, or give the familiar another ID.",
        )
    if paths.root.exists():
        return _created(paths, card, _fill(paths, card, open_store, overwrite, dry_run), new=False)
    with _workshop(home, paths, dry_run=dry_run) as staging:
        plan = _fill(staging, card, open_store, overwrite=True, dry_run=False)
    return _created(paths, card, plan, new=True)


def id_for(card: Card) -> str:
    """Return the id that a familiar made of `card` gets when none is given."""
    for name in (card.name, PurePath(card.origin).stem):
        try:
            return check_familiar_id(slugify(name))
        except UsageError:
            continue
    return "familiar"


def called(card: Card) -> str:
    """Return what the character is called: the nickname, else the name."""
    return one_line(card.text("nickname"), _MAX_NAME_CHARS) or one_line(card.name, _MAX_NAME_CHARS)


def _fill(
    paths: FamiliarPaths,
    card: Card,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    overwrite: bool,  # noqa: FBT001
    dry_run: bool,  # noqa: FBT001
) -> UnpackPlan:
    """Unpack the card into the familiar at `paths`, and write its settings if it has none."""
    store = open_store(paths)
    plan = plan_unpack(card, store, overwrite=overwrite)
    if dry_run:
        return plan
    has_settings = paths.config.exists()
    try:
        if not has_settings:
            write_new(paths.config, {"name": called(card)})
        if not plan.is_noop:
            with store.transaction("init", f"unpack {one_line(card.name, 60)}") as tx:
                plan.stage(tx)
    except BaseException:
        if not has_settings:
            paths.config.unlink(missing_ok=True)
        raise
    return plan


@contextmanager
def _workshop(home: Path, paths: FamiliarPaths, *, dry_run: bool) -> Iterator[FamiliarPaths]:
    """Give a directory to build a familiar in, and move it into place when that went well."""
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="familiar-", ignore_cleanup_errors=True) as scratch:
            yield FamiliarPaths(Path(scratch) / paths.id)
        return
    made = _make_home(home)
    staging = home / f".new-{paths.id}-{os.getpid()}"
    try:
        _make_directory(staging)
        yield FamiliarPaths(staging)
        _move(staging, paths.root)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        for directory in made:
            _remove_empty(directory)
        raise


def _make_home(home: Path) -> list[Path]:
    """Make `home`, and return the directories that were made for it, innermost first."""
    missing = [path for path in (home, *home.parents) if not path.exists()]
    _make_directory(home)
    return missing


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FamiliarError(
            f"{str(path)!r} cannot be made: {error.strerror or error}; nothing was written",
            hint="Choose another place with `--home DIR`.",
        ) from error


def _move(staging: Path, place: Path) -> None:
    try:
        patiently(os.rename, str(staging), str(place))
    except OSError as error:
        raise ConflictError(
            f"{str(place)!r} could not be put in place: {error.strerror or error};"
            " nothing was written",
            hint="Run the command again.",
        ) from error


def _remove_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        return


def _created(paths: FamiliarPaths, card: Card, plan: UnpackPlan, *, new: bool) -> Created:
    book = plan.book
    return Created(
        id=paths.id,
        name=called(card) or paths.id,
        path=paths.root,
        is_new=new,
        written=tuple(sorted((*plan.files, *(book.written if book else ())))),
        unchanged=tuple(sorted((*plan.unchanged, *(book.unchanged if book else ())))),
        overwritten=plan.overwritten,
        removed=plan.removed,
        kept_unmapped=plan.kept_unmapped,
        warnings=plan.warnings,
    )
