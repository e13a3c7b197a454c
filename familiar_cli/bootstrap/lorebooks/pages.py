"""How an entry looks on its page, what the page leaves out, and which edits change the entry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.memory.pages.lore_page import LorePage, is_expression, parse
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.bootstrap.lorebooks.types import LoreEntry


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
        pinned=is_constant(entry),
    )


def is_constant(entry: LoreEntry) -> bool:
    """Tell whether an entry is meant for every prompt: it is constant, and says something."""
    head, body = split_decorators(entry.content)
    says_so = entry.raw.get("constant") in (True, "true") or "constant" in _names_in(head)
    return says_so and entry.enabled and bool(body.strip())


def heading(entry: LoreEntry) -> str:
    """Return the title in one line; where it says nothing a key or the number stands in.

    A regular expression is no title: it is not run, and reads like noise.
    """
    keys = [key for key in entry.keys if not is_expression(key)]
    return _first_line(entry, (entry.title, *keys[:1], *entry.other_titles), is_expression)


def _former_heading(entry: LoreEntry) -> str:
    """Return the title as files have it that were imported when expressions were titles."""
    return _first_line(entry, (entry.title, *entry.keys[:1]), lambda _: False)


def _first_line(entry: LoreEntry, names: Iterable[str], is_bad: Callable[[str], bool]) -> str:
    lines = (one_line(name, _MAX_TITLE_CHARS) for name in (*names, f"Entry {entry.uid}"))
    return next((line for line in lines if line and not is_bad(line)), "Entry")


def edits_of(text: str, entry: LoreEntry, entry_id: str) -> dict[str, Any]:
    """Return what a person changed on the page of `entry`: some of title, keys, enabled, content.

    Line ends alone, which an editor may change, are no edit.
    """
    now, then = parse(text), page_of(entry, entry_id)
    edits: dict[str, Any] = {}
    if now.title not in (None, then.title, _former_heading(entry)):
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
    return _names_in(split_decorators(content)[0])


def _names_in(head: str) -> tuple[str, ...]:
    return tuple(line[1] for line in _LINE.finditer(head))
