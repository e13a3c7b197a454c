"""A package index that is a directory: wheels made on the spot, found offline by pip."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path


def make_wheel(
    directory: Path, package: str, members: dict[str, bytes], version: str = "1.0"
) -> Path:
    """Write a wheel that holds `members`, and return its path."""
    stem = f"{package.replace('-', '_')}-{version}"
    about = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = members | {
        f"{stem}.dist-info/METADATA": about.encode(),
        f"{stem}.dist-info/WHEEL": tags.encode(),
        f"{stem}.dist-info/RECORD": b"",
    }
    path = directory / f"{stem}-py3-none-any.whl"
    path.write_bytes(zipped(files))
    return path


def copied_from(index: Path, command: list[str]) -> Iterator[str]:
    """Do what pip does for a command, which takes it more than half a second."""
    requirement = command[command.index("download") + 1]
    stem = requirement.replace("==", "-").replace("-", "_", requirement.count("-"))
    for wheel in index.glob(f"{stem}-*.whl"):
        shutil.copy(wheel, command[command.index("--dest") + 1])
        return
    yield f"ERROR: No matching distribution found for {requirement}"


def zipped(members: dict[str, bytes]) -> bytes:
    """Return a zip file that holds `members`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()
