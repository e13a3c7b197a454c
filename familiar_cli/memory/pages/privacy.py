"""Private sections, who may see them, and a page as other programs receive it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from familiar_cli.errors import RefusedError
from familiar_cli.languages import ENGLISH, tables
from familiar_cli.markdown import body_start, scan
from familiar_cli.text import one_line
from familiar_cli.visibility import channel_scope, person_scope, split_scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.languages import Phrases
    from familiar_cli.markdown import TextLine
    from familiar_cli.visibility import Viewer


_PRIVATE: Final = re.compile(r"<!-- private ([^\s<>]+) -->")
_MEANT_MARK: Final = re.compile(r"<!--[ \t]*priv")
_USUAL_LEVEL: Final = 2
_HASHES: Final = re.compile(r"(?:^\ufeff?|\r)[ \t>*_+-]*(#{1,6})(?!#)")
_PERSON: Final = "@"  # before the slug in a mark; a channel id is encoded
_NOBODY: Final = channel_scope("\0")  # no channel is called so
_LABEL_CHARS: Final = 80


@cache
def _beginnings() -> tuple[str, ...]:
    """Return what such a heading begins with, in each language."""
    return tuple(f"{table.in_private}{table.colon.rstrip()}" for table in tables())


@cache
def _meant() -> re.Pattern[str]:
    """Return a pattern for lines that resemble the start of a private section.

    It accepts damaged headings and marks, also quoted, indented or in a list.
    """
    begin = f"(?:{'|'.join(map(re.escape, _beginnings()))})"
    # Some programs end lines with a carriage return alone.
    return re.compile(rf"<!--[ \t]*priv|(?:^\ufeff?|\r)[ \t>#*_]*(?:[-+][ \t>]*#+[ \t]*)?{begin}")


def private_heading(label: str, scope: str, phrases: Phrases = ENGLISH) -> str:
    """Return the H2 of a scope's private section."""
    shown = one_line(label, _LABEL_CHARS).replace("<", "").replace(">", "")
    kind, name = split_scope(scope)
    marked = quote(name, safe="", errors="surrogatepass").replace("-", "%2D")
    sign = _PERSON if kind == "person" else ""
    return f"## {phrases.in_private}{phrases.colon}{shown} <!-- private {sign}{marked} -->"


def private_scope(heading: str) -> str | None:
    """Return the private scope of a heading's section, or None."""
    found = _PRIVATE.search(heading)
    return _scope(found[1]) if found else None


def visible_in(text: str, viewer: Viewer) -> str:
    """Remove the sections hidden from a viewer from Markdown `text`."""
    if viewer.sees_everything or not may_hide(text):
        return text
    return "".join(line.text for line, scopes in owned(text) if viewer.sees(scopes))


def may_hide(text: str) -> bool:
    """Return whether a text could hold a private section; quick, and in doubt it could."""
    marked = "<!--" in text and _MEANT_MARK.search(text)
    return bool(marked) or any(begin in text for begin in _beginnings())


def private_spans(text: str, viewer: Viewer) -> list[tuple[int, int]]:
    """Return where `visible_in` leaves something out, a line at a time, as characters from … to."""
    if viewer.sees_everything or not may_hide(text):
        return []
    return [(line.start, line.end) for line, scopes in owned(text) if not viewer.sees(scopes)]


def is_damaged(line: str) -> bool:
    """Tell whether a line resembles the start of a private section but has no valid mark."""
    return _meant().search(line) is not None and not _PRIVATE.search(line)


def owned(text: str) -> Iterator[tuple[TextLine, frozenset[str]]]:
    """Yield each line with the private scopes it belongs to; a viewer needs all of them.

    Where the structure is in doubt, a line stays private: a heading whose mark is damaged keeps its
    section from everybody, only a heading without indent ends a section, and one that is opened
    inside a code block goes on to the end.
    """
    opened: list[tuple[int, frozenset[str]]] = []
    for line in scan(text):
        if line.text.startswith("#") and line.level:
            opened = [
                (level, scopes)
                for level, scopes in opened
                if level < line.level or (line.level == 1 and level > 1)
            ]
        if "<!-- private " in line.text and (marks := _PRIVATE.findall(line.text)):
            opened.append((_level(line), frozenset(map(_scope, marks))))
        elif is_damaged(line.text):
            opened.append((_level(line), frozenset({_NOBODY})))
        yield line, frozenset().union(*(scopes for _, scopes in opened))


def _level(line: TextLine) -> int:
    """Return the intended heading level of a line."""
    if line.in_code:
        return 0
    levels = [len(hashes) for hashes in _HASHES.findall(line.text)]
    return line.level or min(levels, default=_USUAL_LEVEL)


def _scope(mark: str) -> str:
    if mark.startswith(_PERSON):
        return person_scope(unquote(mark[1:], errors="surrogatepass"))
    return channel_scope(unquote(mark, errors="surrogatepass"))


def outward(text: str, viewer: Viewer) -> str:
    """Return what of a page another program is given.

    Args:
        text: The page.
        viewer: Who will see it.
    """
    shown = visible_in(text[_start(text) :], viewer).strip("\n")
    return f"{shown}\n" if shown else ""


def holds_back(text: str, viewer: Viewer) -> bool:
    """Return whether a page has something private that `outward` leaves out."""
    return bool(private_spans(text, viewer))


def put_back(text: str, new: str, viewer: Viewer) -> str:
    """Return a page that says `new` to other programs; what was kept from them stays in it.

    What is private then stands at the end, where it cannot swallow what follows.

    Args:
        text: The page as it is; empty where there is none.
        new: What `outward` gave, changed.
        viewer: As it was given to `outward`.

    Raises:
        RefusedError: What is private could not be kept so.
    """
    if outward(text, viewer) == new:
        return text
    start = _start(text)
    body = text[start:]
    kept = "".join(line.text for line, scopes in owned(body) if not viewer.sees(scopes))
    gap = "" if not kept or new.endswith("\n\n") else "\n" if new.endswith("\n") else "\n\n"
    made = text[:start] + new + gap + kept
    if kept and outward(made, viewer) != outward(new, viewer):
        raise RefusedError(
            "What the file holds in private could not be kept apart; nothing was changed",
            hint="A person can edit the file itself.",
        )
    return made


def _start(text: str) -> int:
    """Return where the words of a page begin: below its front matter, and the empty line there."""
    start = body_start(text)
    return len(text) - len(text[start:].lstrip("\n"))
