"""The names in a person's file, and files that say whose other account they are."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from familiar_cli.errors import FamiliarError, UsageError
from familiar_cli.languages import ENGLISH, heading_in
from familiar_cli.markdown import (
    bullet,
    newline_of,
    sections,
    title_of,
    without_marker,
)
from familiar_cli.memory.layout import people_path
from familiar_cli.memory.pages.front_matter import listed_aliases
from familiar_cli.memory.pages.privacy import private_spans, visible_in
from familiar_cli.memory.people.mentions import MOST_NAME_CHARS, MOST_WORDS, key_of
from familiar_cli.text import harmless, is_visible
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.languages import Phrases
    from familiar_cli.markdown import Section, TextLine
    from familiar_cli.memory.store.store import MemoryStore


TITLE: Final = ENGLISH.heading("aliases")

_CODE: Final = re.compile(r"(`+)(?!`)\s*(.+?)\s*(?<!`)\1(?!`)")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NOTE: Final = re.compile(r"\s+(?:[(（\[].*|[—–]\s.*|-\s.*)$")
_COMMAS: Final = re.compile(r"[,;،、，；]")
_MOST_CHARS: Final = 1000  # far more than a name and a note of it take
_WRAPPERS: Final = "*_\"“”„«»'‘’ \t"


def names_of(markdown: str) -> tuple[str, ...]:
    """Return what the person is called: the H1, and each alias, none twice.

    An H1 such as `Anna (the baker)` also gives `Anna`. Aliases are those of the section, and those
    that the front matter lists.
    """
    title = harmless(title_of(visible_in(markdown, NOBODY)))
    given = [title, _bare(title), *aliases_of(markdown), *listed_aliases(markdown)]
    by_key: dict[str, str] = {}
    for name in given:
        by_key.setdefault(key_of(name), name)
    by_key.pop("", None)
    return tuple(by_key.values())


def aliases_of(markdown: str) -> tuple[str, ...]:
    """Return the names below `## Aliases`, as they are written."""
    said = (_names_in(line.text) for line in _naming(markdown))
    return tuple(dict.fromkeys(name for names in said for name in names if name))


def with_alias(markdown: str, name: str, title: str = TITLE) -> str:
    """Return `markdown` with one more alias; unchanged when it has it.

    Where there is no section of aliases, in whatever language, one is made below `title`.

    Raises:
        UsageError: `name` can be no name.
    """
    shown = checked(name)
    if key_of(shown) in {key_of(known) for known in aliases_of(markdown)}:
        return markdown
    section = _section(markdown)
    newline = newline_of(markdown)
    item = f"- {_written(shown)}{newline}"
    if section is None:
        return _on_new_line(markdown, newline) + f"{title}{newline}{newline}{item}"
    said = [line for line in section.below if line.text.strip()]
    items = [n for n, line in enumerate(said) if _item(line)]
    listed = items[-1] + 1 if items else len(said)
    below = next((n for n in range(listed, len(said)) if not _goes_on(said[n].text)), len(said))
    end = said[below - 1].end if said else section.lines[0].end
    above = markdown[:end] if markdown[:end].endswith("\n") else markdown[:end] + newline
    return above + ("" if said else newline) + item + markdown[end:]


def without_alias(markdown: str, name: str) -> str:
    """Return `markdown` without the lines below `## Aliases` that say `name`, and only that.

    Raises:
        UsageError: `name` can be none; or a line says it among others, which a person must change.
    """
    key, kept, at = key_of(checked(name)), list[str](), 0
    for line in _naming(markdown):
        said = {key_of(known) for known in _names_in(line.text)}
        if key in said and len(said) > 1:
            raise UsageError(
                f"The line {line.text.strip()!r} contains more than {name!r}; nothing was changed",
                hint="Edit the file, and put each name on its own line.",
            )
        if key in said:
            kept.append(markdown[at : line.start])
            at = line.end
    return "".join((*kept, markdown[at:]))


def checked(name: str) -> str:
    """Return `name` as one line.

    Raises:
        UsageError: It can be no name.
    """
    shown = " ".join(harmless(name).split())
    if not key_of(shown) or not is_visible(shown):
        raise UsageError(
            f"{shown[:MOST_NAME_CHARS]!r} cannot be a name: a name has a letter, a digit or a "
            f"sign, at most {MOST_WORDS} words and {MOST_NAME_CHARS} characters",
            hint='Use the name as people say it: `familiar people alias discord:42 "Anna Bell"`.',
        )
    return shown


def _bare(title: str) -> str:
    return _NOTE.sub("", title[:_MOST_CHARS]) if title else ""


def _written(name: str) -> str:
    """Return `name` so that it is read again as it is."""
    if _names_in(f"- {name}\n") == (name,):
        return name
    fence = "`" * (1 + max(map(len, re.findall("`+", name)), default=0))
    pad = " " if "`" in (name[0], name[-1]) else ""
    return f"{fence}{pad}{name}{pad}{fence}"


def _names_in(line: str) -> tuple[str, ...]:
    if bullet(line):
        return (_name(without_marker(line).rstrip("\r\n")),)
    return tuple(_name(part) for part in _COMMAS.split(line) if part.strip())


def _name(written: str) -> str:
    item = written[:_MOST_CHARS]
    exact = _CODE.match(item)
    if exact:
        return harmless(exact[2])
    plain = _NOTE.sub("", _LINK.sub(r"\1", item).strip())
    name = " ".join(harmless(plain).split()).strip(_WRAPPERS)
    return name if key_of(name) else ""


def _section(markdown: str) -> Section | None:
    """Return what is public of the section `## Aliases`; None: there is no such section."""
    hidden = {start for start, _ in private_spans(markdown, NOBODY)}
    for section in sections(markdown, 2):
        shown = tuple(line for line in section.lines if line.start not in hidden)
        is_it = section.level == 2 and heading_in(section.title) == "aliases"  # noqa: PLR2004
        if is_it and shown[:1] == section.lines[:1]:
            return replace(section, lines=shown)
    return None


def _naming(markdown: str) -> Iterator[TextLine]:
    """Yield the lines below `## Aliases` that name somebody; a paragraph below a list does not."""
    section = _section(markdown)
    is_list = is_over = False
    for line in section.below if section else ():
        item = _item(line)
        if line.level:
            is_list = is_over = False
        elif not line.text.strip():
            is_over = is_list
        elif item or not (is_over or line.in_code or (is_list and _goes_on(line.text))):
            is_list, is_over = is_list or item, is_over and not item
            yield line


def _item(line: TextLine) -> bool:
    return not line.in_code and bullet(line.text) is not None


def _goes_on(line: str) -> bool:
    """Return whether a line that is indented goes on with the item above it."""
    return line.startswith((" ", "\t")) and bool(line.strip()) and bullet(line) is None


def _on_new_line(markdown: str, newline: str) -> str:
    if not markdown:
        return ""
    end = "" if markdown.endswith("\n") else newline
    blank = "" if (markdown + end).endswith(newline * 2) else newline
    return markdown + end + blank


_SAME: Final = re.compile(r"<!-- same person as ([^\s<>]{1,255}) -->")


def same_as(text: str) -> str | None:
    """Return the slug of the person whose other account a file is about, or None."""
    found = _SAME.search(text)
    return found[1] if found else None


def stub(
    title: str, slug: str, name: str, aliases: tuple[str, ...], phrases: Phrases = ENGLISH
) -> str:
    """Return the file of an account that belongs to somebody else's file."""
    listed = "".join(f"- {alias}\n" for alias in aliases)
    names = f"\n{phrases.heading('aliases')}\n\n{listed}" if listed else ""
    link = f"[{name}]({quote(slug + '.md')})"
    said = phrases.same_person.format(link)
    return f"# {title}\n\n{said} <!-- same person as {slug} -->\n{names}"


def main_slug(store: MemoryStore, slug: str) -> str:
    """Return whose file holds what is known of `slug`: their own, or the one it was merged into.

    A file that cannot be read is its own.
    """
    try:
        rel_path = people_path(slug)
        text = store.read_file(rel_path) if store.exists(rel_path) else ""
    except FamiliarError:
        return slug
    return same_as(text) or slug
