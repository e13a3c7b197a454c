"""Files that chats are read from, several times if need be, without holding them in memory."""

from __future__ import annotations

import codecs
import json
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from familiar_cli.bootstrap.chats.types import Skip
from familiar_cli.bootstrap.outside import MIB
from familiar_cli.clock import since_1970, to_ms
from familiar_cli.errors import BadInputError, FamiliarError, NotFoundError
from familiar_cli.files import open_patiently

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from datetime import datetime

MAX_LINE_BYTES: Final = 16 * MIB
"""Longest line, that is, one message with all its swipes."""

_WIDE: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLOCK_BYTES: Final = MIB
_START_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A file in UTF-8.

    Args:
        path: Where it can be read.
        name: What it is called in messages.
    """

    path: Path
    name: str

    @property
    def stem(self) -> str:
        """Its name without suffix."""
        return Path(self.name).stem

    @property
    def changed(self) -> datetime:
        """When it was last changed."""
        return to_ms(since_1970(self._stat().st_mtime))

    @property
    def size_bytes(self) -> int:
        """How large it is."""
        return self._stat().st_size

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open it, after its byte order mark.

        Raises:
            NotFoundError: No file is there.
            BadInputError: It is a directory.
            FamiliarError: The system would not let it be read.
        """
        with _readable(self.name), open_patiently(self.path) as stream:
            if stream.read(3) != codecs.BOM_UTF8:
                stream.seek(0)
            yield stream

    def _stat(self) -> os.stat_result:
        with _readable(self.name):
            return self.path.stat()


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"No such file: {name!r}", hint="Check the path.") from error
    except IsADirectoryError as error:
        raise BadInputError(f"{name!r} is a directory, not a file") from error
    except OSError as error:
        raise FamiliarError(f"{name!r} cannot be read: {error.strerror or error}") from error


@contextmanager
def as_source(file: Path | None) -> Iterator[ChatFile]:
    """Lend a file, or all of standard input when it is None, as a source.

    Raises:
        FamiliarError: It cannot be read.
    """
    with ExitStack() as stack:
        plain = (
            ChatFile(file, str(file))
            if file
            else ChatFile(stack.enter_context(_spooled()), "stdin")
        )
        with plain.open() as stream:
            start = stream.read(_START_BYTES)
        wide = next((name for mark, name in _WIDE if start.startswith(mark)), None)
        wide = wide or _unmarked(start)
        if wide:
            narrow = stack.enter_context(_scratch()) / "utf-8"
            _transcode(plain, narrow, wide)
            plain = ChatFile(narrow, plain.name)
        yield plain


def _unmarked(start: bytes) -> str | None:
    """Return which UTF-16 a text without a byte order mark is in, by where its zeros are."""
    zeros = [start[place::2].count(0) for place in (0, 1)]
    most = len(start) // 4
    if zeros[0] > most and not zeros[1]:
        return "utf-16-be"
    return "utf-16-le" if zeros[1] > most and not zeros[0] else None


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="familiar-") as directory:
        yield Path(directory)


@contextmanager
def _spooled() -> Iterator[Path]:
    with _scratch() as directory:
        with _readable("stdin"), (directory / "stdin").open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield directory / "stdin"


def _transcode(source: ChatFile, target: Path, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)(errors="surrogatepass")
    with source.open() as stream, target.open("wb") as out:
        try:
            while block := stream.read(_BLOCK_BYTES):
                out.write(decoder.decode(block).encode("utf-8", errors="surrogatepass"))
            out.write(decoder.decode(b"", final=True).encode("utf-8", errors="surrogatepass"))
        except UnicodeError as error:
            raise BadInputError(
                f"{source.name!r} looks like {encoding.upper()}, but is not valid: {error}"
            ) from error


def json_lines(source: ChatFile) -> Iterator[tuple[int, str, dict[str, Any]] | Skip]:
    """Yield number, text and value of each line that holds an object; blank lines are passed over.

    Every other line is a `Skip`.
    """
    with source.open() as stream:
        number = 0
        while raw := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(raw) > MAX_LINE_BYTES:
                _skip_line(stream, raw)
                yield Skip(number, f"it is longer than {MAX_LINE_BYTES // MIB} MiB")
            elif raw.strip():
                yield read_object(number, raw)


def read_object(number: int, raw: bytes) -> tuple[int, str, dict[str, Any]] | Skip:
    """Return number, text and value of the JSON object in `raw`, or why it is left out."""
    try:
        text = raw.decode("utf-8").strip()
        value = _DECODER.decode(text)
    except UnicodeDecodeError:
        return Skip(number, "it is not UTF-8")
    except RecursionError:
        return Skip(number, "it nests too deeply")
    except ValueError as error:
        return Skip(number, f"it is not JSON ({error})")
    if not isinstance(value, dict):
        return Skip(number, "it is JSON, but not an object")
    return number, text, value


def _skip_line(stream: BinaryIO, raw: bytes) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = stream.readline(MAX_LINE_BYTES)


def _no_constant(name: str) -> Any:  # noqa: ANN401  # it never returns
    raise ValueError(f"{name} is not a JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
