"""Chat histories of text-generation-webui: pairs of messages, without names."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.conversation import SourceChat, SourceMessage, conversation_format
from familiar_cli.imports.foreign_files import as_object, object_at, objects_at, text_at

if TYPE_CHECKING:
    from familiar_cli.store.history.rows import Role

_OPENING: Final = "<|BEGIN-VISIBLE-CHAT|>"
_SIDES: Final[tuple[Role, Role]] = ("user", "assistant")


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    yield SourceChat(lambda: _lines(value))


def _lines(value: dict[str, Any]) -> Iterator[SourceMessage]:
    pairs, shown = (_list(value.get(name)) for name in ("internal", "visible"))
    for number, pair in enumerate(pairs):
        seen = shown[number] if number < len(shown) else []
        for side, role in enumerate(_SIDES):
            text = _at(pair, side) or html.unescape(_at(seen, side))
            about = as_object(object_at(value, "metadata").get(f"{role}_{number}"))
            if text and text != _OPENING:
                versions = objects_at(about, "versions")
                others = tuple(text_at(one, "content") for one in versions)
                raw = {"pair": number, "role": role, "text": text, "metadata": about}
                yield SourceMessage(text, role, time=about.get("timestamp"), raw=raw, others=others)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(pair: object, side: int) -> str:
    return str_or_empty(pair[side]) if isinstance(pair, list) and side < len(pair) else ""


FORMAT: Final = conversation_format(
    "textgen",
    "text-generation-webui",
    lambda first: first.keys() >= {"internal", "visible"} and isinstance(first["internal"], list),
    _parse,
)
