"""Fetch models: try their sources in order, check every file, and only then put it in place."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.config import environment
from familiar_cli.errors import FetchError, UsageError
from familiar_cli.files import locked, patiently, write_whole
from familiar_cli.models import hub, index, store
from familiar_cli.models.catalog import Hub
from familiar_cli.models.downloads import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from familiar_cli.models.catalog import File, Model, Part, Source
    from familiar_cli.models.downloads import Progress


_STAGING = ".staging"


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that is on disk now.

    Args:
        name: Its name.
        path: Its file, or its directory when it has several.
        source: Where it came from: `hub`, `index`, both, or empty when it was there already.
        size_bytes: How much room it takes.
    """

    name: str
    path: Path
    source: str
    size_bytes: int


def pull(
    name: str,
    cache_dir: Path,
    progress: Callable[[Progress], None] | None = None,
    *,
    source: str | None = None,
) -> Pulled:
    """Make sure that a model is on disk, whole and checked. What is there already stays.

    Args:
        name: A name in the catalog.
        cache_dir: Where model files are kept.
        progress: Told how far each download is.
        source: `hub` or `index`, to try that one only.

    Raises:
        NotFoundError: No model has that name.
        FetchError: No source gave it; what was on disk is as before.
    """
    model = store.find(name)
    if environment.offline() and store.path_of(name, cache_dir) is None:
        raise FetchError(
            f"{model.name!r} was not downloaded, because {environment.OFFLINE} is set",
            hint=f"Unset {environment.OFFLINE}, and try again.",
        )
    try:
        with _only_one(model, cache_dir) as staging:
            came_from = _fetch_missing(model, cache_dir, staging, progress or _silent, source)
    except OSError as error:
        raise FetchError(
            f"The files of {model.name!r} cannot be written below {str(cache_dir)!r}: "
            f"{error.strerror or error}",
            hint="Free some space, or set FAMILIAR_CACHE to another directory.",
        ) from error
    path = store.path_of(model.name, cache_dir)
    if path is None:
        raise FetchError(f"The files of {model.name!r} were downloaded but have disappeared")
    size_bytes = store.bytes_on_disk(model, cache_dir)
    return Pulled(model.name, path, ", ".join(came_from), size_bytes)


def _silent(_: Progress) -> None: ...


@contextmanager
def _only_one(model: Model, cache_dir: Path) -> Iterator[Path]:
    """Keep other pulls of `model` waiting, and give a directory that does not outlive the block.

    It is on the same disk as the model's place, so that moving a file there is one step.
    """
    base = store.models_dir(cache_dir)
    staging = base / _STAGING
    staging.mkdir(parents=True, exist_ok=True)
    with locked(staging / f"{model.name}.lock"):
        for left_behind in staging.glob(f"{model.name}-*"):  # by a process that was killed
            shutil.rmtree(left_behind, ignore_errors=True)
        directory = Path(tempfile.mkdtemp(prefix=f"{model.name}-", dir=staging))
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _fetch_missing(
    model: Model,
    cache_dir: Path,
    staging: Path,
    progress: Callable[[Progress], None],
    source: str | None,
) -> list[str]:
    """Fetch every part that is not whole on disk; return the names of the sources used."""
    directory = store.folder(model, cache_dir)
    broken = store.broken_files(model, cache_dir)
    received = store.receipt(directory)
    used = []
    for part in model.parts:
        whole = all(store.is_here(file, directory, received) for file in part.files)
        if whole and not any(file.name in broken for file in part.files):
            continue
        used.append(_fetch_part(model, part, staging, progress, source))
        _put_in_place(part.files, staging, directory)
    return sorted(set(used))


def _fetch_part(
    model: Model,
    part: Part,
    staging: Path,
    progress: Callable[[Progress], None],
    wanted: str | None,
) -> str:
    """Fetch one part into `staging` from the first source that has it; return that one's name."""
    failures = []
    for source in part.sources:
        if wanted and source.name != wanted:
            continue
        try:
            _fetch_files(source, part.files, staging, progress)
        except FetchError as error:
            failures.append(str(error))
        else:
            return source.name
    if not failures:
        raise FetchError(
            f"{model.name!r} does not come from {wanted!r}, but from: "
            + ", ".join(sorted({source.name for source in part.sources})),
            hint=f"Run `familiar model pull {model.name}`.",
        )
    raise FetchError(
        f"{model.name!r} could not be downloaded; nothing was changed. " + "; ".join(failures),
        hint="Check the network and try again; docs/how-to/choose-a-model.md explains how to "
        "install a file by hand.",
    )


def _put_in_place(files: tuple[File, ...], staging: Path, directory: Path) -> None:
    """Move checked files to where they are looked for, each in one step that survives a crash."""
    directory.mkdir(parents=True, exist_ok=True)
    received = store.receipt(directory)
    for file in files:
        if not file.sha256:
            path = staging / file.name
            received[file.name] = type(file)(file.name, path.stat().st_size, sha256_of(path))
    for file in files:
        _sync(staging / file.name)
        patiently(os.replace, str(staging / file.name), str(directory / file.name))
    if received:
        write_whole(directory / store.RECEIPT, json.dumps(_note(received), indent=2) + "\n")


def _note(received: dict[str, File]) -> dict[str, dict[str, object]]:
    return {
        name: {"size_bytes": file.size_bytes, "sha256": file.sha256}
        for name, file in received.items()
    }


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _fetch_files(
    source: Source, files: tuple[File, ...], into: Path, report: Callable[[Progress], None]
) -> None:
    """Put `files` from `source` into the directory `into`, each one whole and checked.

    Raises:
        FetchError: The source cannot be reached, lacks a file, or has another one by that name.
    """
    if environment.offline():
        raise FetchError(f"{environment.OFFLINE} is set, so nothing is downloaded")
    if isinstance(source, Hub):
        for file in files:
            hub.fetch_file(source, file, into, report)
    else:
        index.fetch_files(source, files, into, report)


SOURCES = ("hub", "index")


def pull_all(
    names: Sequence[str],
    cache_dir: Path,
    progress: Callable[[Progress], None],
    *,
    source: str | None = None,
) -> tuple[list[Pulled], list[FetchError]]:
    """Fetch models one after another; return what is here now, and what could not be fetched.

    Raises:
        NotFoundError: A name is unknown; nothing was fetched.
        UsageError: There is no such source.
        FetchError: Not one could be fetched.
    """
    if source is not None and source not in SOURCES:
        raise UsageError(f"No such source: {source!r}", hint="Sources: hub, index.")
    wanted = list(dict.fromkeys(store.find(name).name for name in names))
    pulled: list[Pulled] = []
    errors: list[FetchError] = []
    for name in wanted:
        try:
            pulled.append(pull(name, cache_dir, progress, source=source))
        except FetchError as error:
            errors.append(error)
    if not pulled:
        raise errors[0]
    return pulled, errors
