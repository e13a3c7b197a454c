"""Conversations as ShareGPT and data sets in its form have them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.imports import conversation
from familiar_cli.imports.foreign_files import objects_at, text_at

_LISTS: Final = ("conversations", "conversation", "items")


def _listed_messages(value: dict[str, Any]) -> list[dict[str, Any]]:
    lists = (objects_at(value, name) for name in _LISTS)
    return next((items for items in lists if any("value" in one for one in items)), [])


def _parse(value: dict[str, Any]) -> Iterator[conversation.SourceChat]:
    yield conversation.SourceChat(
        partial(map, _line, _listed_messages(value)),
        name=text_at(value, "title"),
        id=str(value["id"]) if value.get("id") is not None else "",
    )


def _line(message: dict[str, Any]) -> conversation.SourceMessage:
    role = conversation.role_of(message.get("from"))
    return conversation.SourceMessage(
        conversation.plain_text(message.get("value")), role, raw=message
    )


FORMAT: Final = conversation.conversation_format(
    "sharegpt",
    "ShareGPT",
    lambda first: any("from" in one for one in _listed_messages(first)),
    _parse,
)
