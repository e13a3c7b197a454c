"""How an entry looks on its page, and which of a person's edits to the page change the entry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.lorebooks.decorators import split
from familiar_cli.memory.pages.lore_page import Page, parse
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from familiar_cli.bootstrap.lorebooks.types import LoreEntry

_MAX_TITLE_CHARS: Final = 200
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"  # stands on the page where UTF-8 can hold nothing


def page_of(entry: LoreEntry, entry_id: str) -> Page:
    """Return the page of `entry`: its text without decorators, and a title in any case."""
    _, body = split(entry.content)
    return Page(
        title=heading(entry),
        keys=entry.keys,
        enabled=entry.enabled,
        entry_id=entry_id,
        body=_LONE_SURROGATE.sub(_REPLACEMENT, body),
    )


def heading(entry: LoreEntry) -> str:
    """Return the title in one line; where it is empty the first key, else the number, stands in."""
    for name in (entry.title, *entry.keys[:1]):
        line = one_line(name, _MAX_TITLE_CHARS)
        if line:
            return line
    return one_line(f"Entry {entry.uid}", _MAX_TITLE_CHARS)


def edits_of(text: str, entry: LoreEntry, entry_id: str) -> dict[str, Any]:
    """Return what a person changed on the page of `entry`: some of title, keys, enabled, content.

    Line ends alone, which an editor may change, are no edit.
    """
    now, then = parse(text), page_of(entry, entry_id)
    edits: dict[str, Any] = {}
    if now.title is not None and now.title != then.title:
        edits["title"] = now.title
    if now.keys != then.keys:
        edits["keys"] = now.keys
    if now.enabled != then.enabled:
        edits["enabled"] = now.enabled
    if _unix(_ended(now.body)) != _unix(_ended(then.body)):
        edits["content"] = split(entry.content)[0] + _as_before(now.body, then.body)
    return edits


def _as_before(body: str, before: str) -> str:
    """Return the edited `body` with the line ends and the end that the entry had before."""
    if "\r\n" not in before:
        body = _unix(body)
    return body if before.endswith("\n") else body.removesuffix("\n").removesuffix("\r")


def _ended(body: str) -> str:
    return body if not body or body.endswith("\n") else body + "\n"


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")
