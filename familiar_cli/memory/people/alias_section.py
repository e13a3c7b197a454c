"""The names in a person's file: its H1, and the list below `## Aliases`. Reading and changing them.

A change touches the lines of that list and nothing else; every other byte stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import UsageError
from familiar_cli.memory.people.mentions import MOST_NAME_CHARS, MOST_WORDS, key_of
from familiar_cli.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE: Final = "## Aliases"

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_MARKS: Final = ("#", "`", "~")  # with which a heading or a fence begins
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])[ \t]+(\S.*)$")
_CODE: Final = re.compile(r"(`+)\s*(.+?)\s*\1")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NOTE: Final = re.compile(r"\s+(?:[(（\[].*|[—–]\s.*|-\s.*)$")
_COMMAS: Final = re.compile(r"[,;،、，；]")
_MOST_CHARS: Final = 1000  # far more than a name and a note of it take
_WRAPPERS: Final = "*_\"“”„«»'‘’ \t"


@dataclass(frozen=True, slots=True)
class _Line:
    """One line with its end; `level` and `title` are of a heading, 0 and empty of other lines."""

    text: str
    level: int = 0
    title: str = ""


def title_of(markdown: str) -> str:
    """Return the words of the first H1; empty when there is none."""
    return _title(_lines(markdown))


def names_of(markdown: str) -> tuple[str, ...]:
    """Return what the person is called: the H1, and each alias, none twice.

    An H1 such as `Anna (the baker)` also gives `Anna`.
    """
    lines = _lines(markdown)
    title = harmless(_title(lines))
    given = [title, _bare(title), *_aliases(lines)]
    by_key: dict[str, str] = {}
    for name in given:
        by_key.setdefault(key_of(name), name)
    by_key.pop("", None)
    return tuple(by_key.values())


def aliases_of(markdown: str) -> tuple[str, ...]:
    """Return the names below `## Aliases`, as they are written."""
    return _aliases(_lines(markdown))


def with_alias(markdown: str, name: str) -> str:
    """Return `markdown` with one more alias; unchanged when it has it. The section is made.

    Raises:
        UsageError: `name` can be no name.
    """
    shown = checked(name)
    if key_of(shown) in {key_of(known) for known in aliases_of(markdown)}:
        return markdown
    lines = _lines(markdown)
    start, end = _section(lines)
    newline = "\r\n" if "\r\n" in markdown else "\n"
    item = f"- {_written(shown)}{newline}"
    if not start:
        return _on_new_line(markdown, newline) + f"{TITLE}{newline}{newline}{item}"
    while end > start and not lines[end - 1].text.strip():
        end -= 1
    above = "".join(line.text for line in lines[:end])
    if not above.endswith(("\n", "\r")):
        above += newline
    gap = newline if end == start else ""
    return above + gap + item + "".join(line.text for line in lines[end:])


def without_alias(markdown: str, name: str) -> str:
    """Return `markdown` without the lines below `## Aliases` that say `name`, and only that.

    Raises:
        UsageError: `name` can be none; or a line says it among others, which a person must change.
    """
    lines, key = _lines(markdown), key_of(checked(name))
    start, end = _section(lines)
    kept = []
    for at, line in enumerate(lines):
        said = {key_of(known) for known in _names_in(line.text)} if start <= at < end else set()
        if key in said and len(said) > 1:
            raise UsageError(
                f"The line {line.text.strip()!r} names more than {name!r}; nothing was changed",
                hint="Change it with an editor, and give each name a line of its own.",
            )
        if key not in said:
            kept.append(line.text)
    return "".join(kept)


def checked(name: str) -> str:
    """Return `name` as one line.

    Raises:
        UsageError: It can be no name.
    """
    shown = " ".join(harmless(name).split())
    if not key_of(shown):
        raise UsageError(
            f"{shown[:MOST_NAME_CHARS]!r} can be no name: one has a letter, a digit or a sign, at "
            f"most {MOST_WORDS} words and {MOST_NAME_CHARS} characters",
            hint='Write it as people say it: `familiar people alias discord:42 "Anna Bell"`.',
        )
    return shown


def _title(lines: list[_Line]) -> str:
    return next((line.title for line in lines if line.level == 1 and line.title), "").strip()


def _aliases(lines: list[_Line]) -> tuple[str, ...]:
    start, end = _section(lines)
    said = (line.text for line in lines[start:end] if not line.level)
    return tuple(dict.fromkeys(name for text in said for name in _names_in(text) if name))


def _bare(title: str) -> str:
    return _NOTE.sub("", title[:_MOST_CHARS]) if title else ""


def _written(name: str) -> str:
    """Return `name` so that it is read again as it is."""
    return name if _names_in(f"- {name}\n") == (name,) else f"`{name}`"


def _names_in(line: str) -> tuple[str, ...]:
    found = _ITEM.match(line.rstrip("\r\n"))
    if found:
        return (_name(found[1]),)
    return tuple(_name(part) for part in _COMMAS.split(line) if part.strip())


def _name(written: str) -> str:
    item = written[:_MOST_CHARS]
    exact = _CODE.match(item)
    if exact:
        return harmless(exact[2])
    plain = _NOTE.sub("", _LINK.sub(r"\1", item).strip())
    name = " ".join(harmless(plain).split()).strip(_WRAPPERS)
    return name if key_of(name) else ""


def _section(lines: list[_Line]) -> tuple[int, int]:
    """Return where the list below `## Aliases` begins and ends; (0, 0): there is none."""
    for at, line in enumerate(lines):
        if line.level == 2 and line.title.strip(" :*_").casefold() == "aliases":  # noqa: PLR2004
            below = range(at + 1, len(lines))
            return at + 1, next((n for n in below if 0 < lines[n].level <= line.level), len(lines))
    return 0, 0


def _lines(markdown: str) -> list[_Line]:
    return list(_read(markdown))


def _read(markdown: str) -> Iterator[_Line]:
    """Yield the lines; what looks like a heading inside a code block is none."""
    fence = ""
    for text in re.findall(r"[^\n]*\n|[^\n]+$", markdown):
        if text.lstrip(" \ufeff")[:1] not in _MARKS:
            yield _Line(text)
            continue
        found = _FENCE.match(text)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and not text.strip().strip(fence[0]):
            fence = ""
        heading = None if fence or found else _HEADING.match(text.lstrip("\ufeff").rstrip("\r\n"))
        yield _Line(text, len(heading[1]), _words(heading[2] or "")) if heading else _Line(text)


def _words(heading: str) -> str:
    """Return what a heading says, without the marks that may close it."""
    bare = heading.rstrip(" \t")
    shown = bare.rstrip("#")
    return shown.rstrip(" \t") if shown[-1:] in ("", " ", "\t") else bare


def _on_new_line(markdown: str, newline: str) -> str:
    if not markdown:
        return ""
    end = "" if markdown.endswith("\n") else newline
    blank = "" if (markdown + end).endswith(newline * 2) else newline
    return markdown + end + blank
