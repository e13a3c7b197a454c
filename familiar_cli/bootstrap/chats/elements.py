"""The elements of a large JSON array, one at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from familiar_cli.bootstrap.bounds import MIB
from familiar_cli.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.bootstrap.chats.sources import ChatFile

MAX_ELEMENT_BYTES: Final = 64 * MIB
"""Largest element, that is, one conversation with all its branches."""

_BLOCK_BYTES: Final = MIB
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)
_DEPTH: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Where an element stands in its file, in bytes."""

    start: int
    end: int

    def read(self, stream: BinaryIO) -> bytes:
        """Return the element."""
        stream.seek(self.start)
        return stream.read(self.end - self.start)


def spans(source: ChatFile, *, inside: int | None = None) -> Iterator[ByteSpan]:
    """Yield where each object of the array in `source` stands.

    Args:
        source: The file.
        inside: Where the array begins, in bytes, that is a member of the one object in the file;
            None: the file is the array.

    Raises:
        BadInputError: The array does not end, or an element is too large.
    """
    with source.open() as stream:
        if inside is not None:
            stream.seek(inside)
        yield from _Scan(stream, source.name, outside=inside is not None).elements()


class _Scan:
    """Finds brackets outside of strings, block by block."""

    def __init__(self, stream: BinaryIO, name: str, *, outside: int) -> None:
        self._stream = stream
        self._name = name
        self._depth = outside
        self._wanted = outside + 2
        self._start = stream.tell()

    def elements(self) -> Iterator[ByteSpan]:
        offset = self._stream.tell()
        rest = b""
        while block := self._stream.read(_BLOCK_BYTES):
            rest += block
            if len(rest) > MAX_ELEMENT_BYTES or offset - self._start > MAX_ELEMENT_BYTES:
                self._refuse()
            done = 0
            for token in _TOKEN.finditer(rest):
                mark = token.group()
                if mark == b'"':  # a string that goes on in the next block
                    done = token.start()
                    break
                done = token.end()
                if mark in _DEPTH:
                    yield from self._step(_DEPTH[mark], offset + token.start())
            else:
                done = len(rest)
            offset += done
            rest = rest[done:]
        if self._depth:
            raise BadInputError(f"{self._name!r} is incomplete: its JSON ends too early")

    def _step(self, change: int, place: int) -> Iterator[ByteSpan]:
        self._depth += change
        if change > 0 and self._depth == self._wanted:
            self._start = place
        elif change < 0 and self._depth == self._wanted - 1:
            yield ByteSpan(self._start, place + 1)
            self._start = place + 1

    def _refuse(self) -> None:
        raise BadInputError(
            f"A conversation in {self._name!r} is larger than {MAX_ELEMENT_BYTES // MIB} MiB"
        )
