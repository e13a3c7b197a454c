"""Read files from outside within bounds, and write results there."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from familiar_cli.errors import (
    BadInputError,
    ConflictError,
    FamiliarError,
    NotFoundError,
    RefusedError,
)
from familiar_cli.files import Disk, open_patiently
from familiar_cli.memory.store.files import MAX_READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


MIB: Final = 1024 * 1024
MAX_FILE_BYTES: Final = MAX_READ_BYTES  # a card with many pictures and voices
MAX_CARD_BYTES: Final = 32 * MIB  # the card's JSON, after inflating
MAX_YAML_BYTES: Final = MIB // 2  # YAML is read slowly
MAX_MEMBERS: Final = 10_000  # files in one archive
MAX_TOTAL_BYTES: Final = 512 * MIB  # all files of one archive, after inflating


def read_foreign(path: Path) -> bytes:
    """Return the bytes of a file from outside.

    Raises:
        NotFoundError: No file is there.
        BadInputError: It is larger than `MAX_FILE_BYTES`.
        FamiliarError: The system would not let it be read.
    """
    try:
        with open_patiently(path) as stream:
            return read_stream(stream, origin=path.name)
    except FileNotFoundError as error:
        raise NotFoundError(f"No such file: {str(path)!r}", hint="Check the path.") from error
    except IsADirectoryError as error:
        raise BadInputError(
            f"{str(path)!r} is a directory, not a file", hint="Give a file inside it."
        ) from error
    except OSError as error:
        raise FamiliarError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error


def read_stream(stream: BinaryIO, *, origin: str) -> bytes:
    """Return all of `stream`.

    Raises:
        BadInputError: It gives more than `MAX_FILE_BYTES`.
    """
    raw = stream.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise BadInputError(
            f"{origin!r} is larger than {MAX_FILE_BYTES // MIB} MiB; nothing was written"
        )
    return raw


def write_result(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write `content` atomically to a file outside the memory, readable by its owner only.

    Args:
        path: Where.
        content: What.
        force: A file that is there already may be overwritten.

    Raises:
        ConflictError: Something is there already; it stays as it is.
        RefusedError: A link is there.
        FamiliarError: The system would not let it be written.
    """
    _write(path, content, force=force)


def write_lines(path: Path, lines: Iterable[str], *, force: bool = False) -> int:
    """Make `lines` a file in UTF-8, as `write_result` does, without holding all of them.

    Returns:
        How many there were.
    """
    count = 0

    def encoded() -> Iterator[bytes]:
        nonlocal count
        for line in lines:
            count += 1
            yield line.encode("utf-8", errors="surrogatepass") + b"\n"

    _write(path, encoded(), force=force)
    return count


def _write(path: Path, content: bytes | Iterable[bytes], *, force: bool) -> None:
    if path.is_symlink():
        raise RefusedError(
            f"{str(path)!r} is a link, and links are not followed; nothing was changed",
            hint="Name the file itself, or delete the link.",
        )
    if path.is_dir() or (path.exists() and not force):
        raise ConflictError(
            f"{str(path)!r} already exists; it was not changed",
            hint="Add `--force` to overwrite it, or choose another name."
            if path.is_file()
            else "Give a file inside it.",
        )
    try:
        Disk().put(str(path.absolute()), content)
    except OSError as error:
        raise FamiliarError(
            f"{str(path)!r} cannot be written: {error.strerror or error}",
            hint="Check that its directory exists and is writable.",
        ) from error
