"""How an entry looks on its page, what the page leaves out, and which edits change the entry."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.lorebooks.types import DEFAULTS
from familiar_cli.memory.pages.lore_page import LorePage, parse
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry


_MAX_TITLE_CHARS: Final = 200
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"  # stands on the page where UTF-8 can hold nothing


def page_of(entry: LoreEntry, entry_id: str) -> LorePage:
    """Return the page of `entry`: its text without decorators, and a title in any case."""
    _, body = split_decorators(entry.content)
    return LorePage(
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
        edits["content"] = split_decorators(entry.content)[0] + _as_before(now.body, then.body)
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


# `@@@` is a fallback: it counts where the one before it is not understood.
_LINE: Final = re.compile(r"@@@?([A-Za-z_]\w*)(?:[ \t][^\r\n]*)?(?:\r?\n|\Z)")
_BLANK: Final = re.compile(r"(?:[ \t]*\r?\n)+")


def split_decorators(content: str) -> tuple[str, str]:
    """Return the decorators that `content` begins with, as they stand, and the text below them.

    The two joined are `content`. Blank lines between decorators and text go with the decorators.
    """
    end = 0
    while line := _LINE.match(content, end):
        end = line.end()
    if end and (blank := _BLANK.match(content, end)):
        end = blank.end()
    return content[:end], content[end:]


def decorators_of(content: str) -> tuple[str, ...]:
    """Return the names of the decorators that `content` begins with."""
    head, _ = split_decorators(content)
    return tuple(line[1] for line in _LINE.finditer(head))


_SHOWN: Final = frozenset(("key", "keys", "content", "comment", "name", "disable", "enabled"))
_COUNTERS: Final = frozenset(("uid", "id", "displayIndex", "addMemo"))
# What a card's book has where it says nothing.
_BOOK_DEFAULTS: Final = {
    **DEFAULTS,
    "insertion_order": 100,
    "secondary_keys": [],
    "use_regex": False,
    "extensions": {},
}


def unmapped(book: Lorebook) -> tuple[str, ...]:
    """Return each setting that differs from its default, with how many entries have it."""
    settings = [
        name for name in book.frame if name != "name" and book.frame[name] not in ({}, None)
    ]
    of_book = [f"the book's {name}" for name in settings]
    counts = Counter(name for entry in book.entries for name in _kept(entry))
    return (
        *of_book,
        *(
            f"{name} of {n} {'entry' if n == 1 else 'entries'}"
            for name, n in sorted(counts.items())
        ),
    )


def _kept(entry: LoreEntry) -> Iterator[str]:
    for name, value in entry.raw.items():
        if name == "extensions" and isinstance(value, dict):
            yield from (f"extensions.{inner}" for inner in value)
        elif name not in _SHOWN | _COUNTERS and not _is_default(name, value):
            yield name
    yield from {f"@@{name}" for name in decorators_of(entry.content)}


def _is_default(name: str, value: Any) -> bool:  # noqa: ANN401
    return value is None or (name in _BOOK_DEFAULTS and bool(_BOOK_DEFAULTS[name] == value))
