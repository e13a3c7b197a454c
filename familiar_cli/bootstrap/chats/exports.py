"""What the exports of chat services share: one large array with all conversations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from familiar_cli.bootstrap.chats.elements import ByteSpan, spans
from familiar_cli.bootstrap.chats.sources import read_object
from familiar_cli.bootstrap.chats.types import Chat, Skip
from familiar_cli.bootstrap.json_text import dump_json
from familiar_cli.text import slugify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from familiar_cli.bootstrap.chats.sources import ChatFile
    from familiar_cli.bootstrap.chats.types import Message, Reading

_ID_CHARS = 8  # of an id, to tell apart conversations of one title


@dataclass(frozen=True, slots=True)
class Parts:
    """One conversation, taken apart.

    Args:
        id: What it is known by.
        title: What it is called.
        began: When.
        shown: The messages of the branch that is shown.
        rest: All else that it says, other branches included.
        aside: How many messages of other branches are in `rest`.
    """

    id: str
    title: str
    began: datetime | None
    shown: tuple[Message, ...]
    rest: dict[str, Any]
    aside: int


class Service(Protocol):
    """A service whose exports are read."""

    @property
    def format(self) -> str:
        """The name of the format."""

    def take_apart(self, value: dict[str, Any], reading: Reading) -> Parts:
        """Return the parts of a conversation."""


def read_chats(
    source: ChatFile, reading: Reading, service: Service, *, is_array: bool
) -> Iterator[Chat | Skip]:
    """Yield the conversations in `source`, in its order; what is none is a `Skip`."""
    with source.open() as stream:
        start = stream.tell()
        found = spans(source) if is_array else iter([ByteSpan(start, source.size_bytes)])
        for number, span in enumerate(found, start=1):
            read = read_object(number, span.read(stream))
            yield read if isinstance(read, Skip) else _chat(source, span, read[2], reading, service)


def _chat(
    source: ChatFile, span: ByteSpan, value: dict[str, Any], reading: Reading, service: Service
) -> Chat:
    parts = service.take_apart(value, reading)

    def again() -> Parts:
        with source.open() as stream:
            return service.take_apart(json.loads(span.read(stream)), reading)

    return Chat(
        format=service.format,
        name=parts.title or parts.id,
        channels=(_channel(parts),),
        began=parts.began,
        head=lambda: dump_json(again().rest, indent=None),
        messages=lambda: iter(again().shown),
        key=f"{service.format}:{parts.id}" if parts.id else "",
        aside=parts.aside,
        is_apart=True,
    )


def _channel(parts: Parts) -> str:
    short = slugify(parts.id)[:_ID_CHARS].strip("-")
    return "-".join(filter(None, chain([slugify(parts.title, max_chars=40)], [short]))) or "chat"


def raw_json(value: object) -> str:
    """Return a part of a conversation as it is kept."""
    return dump_json(value, indent=None)
