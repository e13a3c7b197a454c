"""CHARX archives: a zip, perhaps behind a picture or a program, with `card.json` at its root."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections import Counter
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.bounds import MAX_CARD_BYTES, MAX_MEMBERS, MAX_TOTAL_BYTES, MIB
from familiar_cli.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CARD_NAME: Final = "card.json"
SCHEMES: Final = ("embeded://", "embedded://")  # the specification's spelling comes first
# The other methods may ask for a dictionary of gigabytes.
_READ_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MEMBER_MARK: Final = b"PK\x01\x02"  # how each entry of the directory begins
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)  # the same archive for the same content
_FOREIGN_ERRORS: Final = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,  # an encrypted member
    ValueError,
)


def is_zip(raw: bytes) -> bool:
    """Return whether `raw` is a zip archive, perhaps with something before it."""
    return zipfile.is_zipfile(io.BytesIO(raw))


def list_members(raw: bytes, *, origin: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return path and inflated size of each file in the archive, and the paths that repeat.

    Raises:
        BadInputError: It is damaged, holds too much, or names a path that leads outside.
    """
    with _opened(raw, origin) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
    times = Counter(info.filename for info in infos)
    twice = tuple(name for name, count in times.items() if count > 1)
    return {info.filename: info.file_size for info in infos}, twice


def read_member(raw: bytes, path: str, *, origin: str, limit_bytes: int = MAX_TOTAL_BYTES) -> bytes:
    """Return one file of the archive.

    Raises:
        BadInputError: It is not there, is damaged, or inflates to more than `limit_bytes`.
    """
    with _opened(raw, origin) as archive:
        if path not in archive.namelist():
            raise BadInputError(f"{origin!r} is a zip archive without {path!r}")
        if archive.getinfo(path).compress_type not in _READ_METHODS:
            raise BadInputError(
                f"{path!r} in {origin!r} uses a compression method that CHARX files do not use",
                hint="Unpack it, and zip it again with standard compression.",
            )
        with archive.open(path) as member:
            content = member.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise BadInputError(f"{path!r} in {origin!r} is larger than {limit_bytes // MIB} MiB")
    return content


def read_card_json(raw: bytes, *, origin: str) -> bytes:
    """Return `card.json` of the archive.

    Raises:
        BadInputError: As `read_member`.
    """
    return read_member(raw, CARD_NAME, origin=origin, limit_bytes=MAX_CARD_BYTES)


def write_charx(card_json: str, members: Mapping[str, bytes]) -> bytes:
    """Return an archive of the card and of `members`; equal input gives equal bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in {CARD_NAME: card_json.encode("utf-8"), **members}.items():
            info = zipfile.ZipInfo(path, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return packed.getvalue()


@contextmanager
def _opened(raw: bytes, origin: str) -> Iterator[zipfile.ZipFile]:
    # Opening builds an object for each file, so they are counted before; archives that lie inside
    # this one count, too.
    if raw.count(_MEMBER_MARK) > 10 * MAX_MEMBERS:
        raise BadInputError(f"{origin!r} holds more than {MAX_MEMBERS} files")
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            _check(archive, origin)
            yield archive
    except BadInputError:
        raise
    except _FOREIGN_ERRORS as error:
        raise BadInputError(
            f"{origin!r} is a zip archive that cannot be read: {error}", hint="Download it again."
        ) from error


def _check(archive: zipfile.ZipFile, origin: str) -> None:
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise BadInputError(f"{origin!r} holds more than {MAX_MEMBERS} files")
    if sum(info.file_size for info in infos) > MAX_TOTAL_BYTES:
        raise BadInputError(
            f"{origin!r} unpacks to more than {MAX_TOTAL_BYTES // MIB} MiB; it was not unpacked"
        )
    for info in infos:
        if _climbs(info.orig_filename):
            raise BadInputError(f"{origin!r} contains a path that leads outside: {info.filename!r}")


def _climbs(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    drive = name[1:2] == ":"
    return path.is_absolute() or ".." in path.parts or drive or "\0" in name
