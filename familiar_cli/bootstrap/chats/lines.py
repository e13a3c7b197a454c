"""The lines of a text file, whatever its line ends, and whatever letters are not UTF-8 in it."""

from __future__ import annotations

import codecs
import io
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.outside import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.bootstrap.chats.sources import ChatFile

MAX_LINE_CHARS: Final = 16 * MIB
"""Longest line that is read."""

_LENIENT: Final = "familiar-windows-1252"


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Read the bytes that are not UTF-8 as Windows-1252, as old programs wrote them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    raw = error.object[error.start : error.end]
    return "".join(_letter(byte) for byte in raw), error.end


def _letter(byte: int) -> str:
    try:
        return bytes((byte,)).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


codecs.register_error(_LENIENT, _as_windows)


def text_lines(source: ChatFile) -> Iterator[tuple[int, str | None]]:
    """Yield number and text of each line, without its end; None stands for one that is too long."""
    with source.open() as stream:
        reader = io.TextIOWrapper(stream, "utf-8", errors=_LENIENT, newline=None)
        try:
            number = 0
            while line := reader.readline(MAX_LINE_CHARS):
                number += 1
                if line.endswith("\n") or len(line) < MAX_LINE_CHARS:
                    yield number, line.removesuffix("\n")
                    continue
                while line and not line.endswith("\n"):
                    line = reader.readline(MAX_LINE_CHARS)
                yield number, None
        finally:
            reader.detach()


def is_utf8(source: ChatFile) -> bool:
    """Tell whether all of a file is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with source.open() as stream:
        try:
            while block := stream.read(MIB):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True
