"""Build a familiar aside, and move it into place when all of it went well."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.config.edit import write_new
from familiar_cli.config.home import FamiliarPaths
from familiar_cli.errors import ConflictError, FamiliarError
from familiar_cli.memory.disk import patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.memory.store import MemoryStore
    from familiar_cli.memory.transactions import Transaction


def check_place(paths: FamiliarPaths) -> None:
    """Raise `ConflictError` when a familiar cannot be at `paths` because a file is there."""
    if paths.root.exists() and not paths.root.is_dir():
        raise ConflictError(
            f"{str(paths.root)!r} is a file and was left alone",
            hint="Move it away, or give the familiar another ID.",
        )


def fill(
    paths: FamiliarPaths,
    store: MemoryStore,
    name: str,
    message: str,
    stage: Callable[[Transaction], None] | None,
) -> None:
    """Write the settings of a familiar if it has none, and what `stage` puts into its memory.

    Args:
        paths: Where the familiar is.
        store: Its memory.
        name: What it is called.
        message: What for, in one line.
        stage: Puts all changes into one transaction; None: there are none.
    """
    has_settings = paths.config.exists()
    try:
        if not has_settings:
            write_new(paths.config, {"name": name})
        if stage:
            with store.transaction("init", message) as tx:
                stage(tx)
    except BaseException:
        if not has_settings:
            paths.config.unlink(missing_ok=True)
        raise


@contextmanager
def workshop(home: Path, paths: FamiliarPaths, *, dry_run: bool) -> Iterator[FamiliarPaths]:
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
