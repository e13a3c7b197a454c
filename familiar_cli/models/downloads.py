"""What downloads share: how far one is, whether its file is right, what its archive holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from familiar_cli.errors import FetchError

if TYPE_CHECKING:
    from pathlib import Path


_BLOCK_BYTES = 1024 * 1024
# The largest archive inside a wheel; the one there is has 84 MB.
_MAX_ARCHIVE_BYTES = 512 * 1024 * 1024


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the file at `path`, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_sha1_of(path: Path) -> str:
    """Return git's name for the content of `path`, which the hub announces for small files."""
    digest = hashlib.sha1(b"blob %d\x00" % path.stat().st_size, usedforsecurity=False)
    digest.update(path.read_bytes())
    return digest.hexdigest()


def check_sha256(path: Path, expected: str, origin: str) -> None:
    """Make sure that `path` is the file with that checksum.

    Raises:
        FetchError: It is another one.
    """
    found = sha256_of(path)
    if found != expected:
        raise FetchError(
            f"{path.name!r} from {origin} is not the expected file: its SHA-256 is {found}, "
            f"not {expected}; it was deleted"
        )


def extract(archive: Path, member: str, target: Path, max_bytes: int | None = None) -> None:
    """Write one member of a zip file to `target`; its name in the archive decides nothing.

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
        while block := source.read(_BLOCK_BYTES):
            left -= len(block)
            if left < 0:
                raise FetchError(
                    f"{target.name!r} is larger than the {limit:,} bytes it should have"
                )
            file.write(block)


@dataclass(frozen=True, slots=True)
class Progress:
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
