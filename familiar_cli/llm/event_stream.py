"""Split a model server's response into JSON events by its content, whatever its label.

Servers and gateways mislabel their replies, so the first bytes decide: server-sent events, JSON
objects on lines, or one JSON object. A bare object inside a stream of events is an event, too.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE: Final = "[DONE]"
_LINE_END: Final = re.compile(rb"\r\n?|\n")  # and no other: JSON strings may hold U+2028
_FIELDS: Final = frozenset({"data", "event", "id", "retry"})
_HEAD_BYTES: Final = 64  # of a line, to know whether it begins an object
_MOST_PARSED_BYTES: Final = 16 * 1024 * 1024  # of an object that has no end yet


class ServerEvent(Struct, frozen=True):
    """One event of a response.

    Args:
        text: Its data, as the server sent it.
        value: The parsed data; None if it is not JSON.
        name: Its name, such as `error`; usually empty.
        is_bare: It is an object of its own, not the data of a server-sent event.
    """

    text: str
    value: Any
    name: str = ""
    is_bare: bool = False


class EventSplitter:
    """Splits the bytes of a response into events as they arrive.

    Attributes:
        foreign_line: The first line that belongs to none of the known forms; empty if there is
            none.
        has_events: Whether anything of a known form has come.
        pending_bytes: Bytes since the last event.
    """

    def __init__(self) -> None:
        self.foreign_line = ""
        self.has_events = False
        self.pending_bytes = 0
        self._line = bytearray()  # not ended yet
        self._data: list[str] = []
        self._name = ""
        self._object: list[str] = []  # lines of an object that spans several
        self._parsed_bytes = 0
        self._skips_lf = False

    def feed(self, block: bytes) -> Iterator[ServerEvent]:
        """Take some bytes; yield the events that they complete."""
        self.pending_bytes += len(block)
        if self._skips_lf and block.startswith(b"\n"):
            block = block[1:]
        self._skips_lf = block.endswith(b"\r") or (self._skips_lf and not block)
        *ended, rest = _LINE_END.split(block)
        for part in ended:
            line = (bytes(self._line) + part).decode("utf-8", "replace")
            self._line.clear()
            yield from self._take_line(line.removeprefix("\ufeff"))
        self._line += rest
        if rest.rstrip().endswith(b"}"):
            yield from self._take_open_object()

    def close(self) -> Iterator[ServerEvent]:
        """Yield what the end of the response completes."""
        last = self._line.decode("utf-8", "replace").removeprefix("\ufeff")
        self._line.clear()
        yield from self._take_line(last)
        yield from self._flush_data()
        if self._object:
            text, self._object = "\n".join(self._object), []
            yield from self._bare_events(text, _parse_first(text))

    def _take_line(self, line: str) -> Iterator[ServerEvent]:
        if self._object:
            self._object.append(line)
            if line.rstrip().endswith("}"):
                yield from self._take_open_object()
            return
        field, _, value = line.partition(":")
        if not line.strip():
            yield from self._flush_data()
        elif not field or field in _FIELDS:
            self.has_events = True
            yield from self._take_field(field, value.removeprefix(" "))
        elif line.lstrip()[:1] in {"{", "["}:
            self.has_events = True
            parsed = _parse(line)
            if parsed is None:
                self._object = [line]
            else:
                yield from self._bare_events(line, parsed)
        elif not self.foreign_line:
            self.foreign_line = line.strip()

    def _take_field(self, field: str, value: str) -> Iterator[ServerEvent]:
        if field == "event":
            self._name = value.strip()
        elif field == "data":
            self._data.append(value)
            # Some servers leave out the empty line after an event.
            if len(self._data) == 1 and (value.strip() == DONE or _parse(value) is not None):
                yield from self._flush_data()

    def _flush_data(self) -> Iterator[ServerEvent]:
        text, name = "\n".join(self._data), self._name
        if self._data:
            self._data, self._name = [], ""
            if text.strip():
                self.pending_bytes = 0
                yield ServerEvent(text, _parse(text), name)

    def _take_open_object(self) -> Iterator[ServerEvent]:
        """Yield an object that is complete although no line end follows it."""
        if self._parsed_bytes > _MOST_PARSED_BYTES:
            return
        begin = (
            self._object[0] if self._object else self._line[:_HEAD_BYTES].decode("utf-8", "replace")
        )
        if begin.lstrip()[:1] not in {"{", "\ufeff"}:
            return
        text = "\n".join([*self._object, self._line.decode("utf-8", "replace")])
        self._parsed_bytes += len(text)
        parsed = _parse(text.removeprefix("\ufeff"))
        if parsed is not None:
            self.has_events = True
            self._object = []
            self._line.clear()
            yield from self._bare_events(text, parsed)

    def _bare_events(self, text: str, parsed: object) -> Iterator[ServerEvent]:
        self.pending_bytes = 0
        if isinstance(parsed, list) and parsed and all(isinstance(item, dict) for item in parsed):
            for item in parsed:
                yield ServerEvent(json.dumps(item), item, is_bare=True)
        else:
            yield ServerEvent(text, parsed, is_bare=True)


def _parse(text: str) -> Any:  # noqa: ANN401  # JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parse_first(text: str) -> Any:  # noqa: ANN401  # JSON
    """Parse the value at the beginning of a text, whatever follows it."""
    try:
        return json.JSONDecoder().raw_decode(text.lstrip())[0]
    except (ValueError, RecursionError):
        return None
