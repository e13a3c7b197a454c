"""Lorebook entries that were in the prompts of turns: a source of names, never evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import cut_to, framed, sentence_ends, unfenced
from familiar_cli.store.memory.pages.front_matter import is_expression, parse_lore
from familiar_cli.store.memory.pages.lines import KnownTexts
from familiar_cli.store.memory.pages.links import way_to
from familiar_cli.store.memory.store.store import MemoryStore

RULE: Final = """\
- Lore is what a book tells of the world that the turns are about. It is no evidence: keep nothing \
that only the lore says. Where a line is about something that it names, use that name."""
_MOST_ENTRIES: Final = 8
_ENTRY_TOKENS: Final = 80
_LEAST_NAME_CHARS: Final = 3
_LINK: Final = re.compile(r"\[[^\[\]]*\]\([^()]*\)|\[\[[^\[\]]*\]\]|`[^`]*`")


class ShownLore(Struct, frozen=True):
    """An entry that was in the prompt of one of the turns.

    Args:
        names: Its title and plain keys, longest first.
    """

    rel_path: str
    title: str
    names: tuple[str, ...]
    text: str


def read_lore(store: MemoryStore, rel_paths: Iterable[str]) -> tuple[ShownLore, ...]:
    """Read the entries at these paths, skipping those that no longer exist."""
    items: list[ShownLore] = []
    for rel_path in rel_paths:
        try:
            page = parse_lore(store.read_file(rel_path))
        except FamiliarError:
            continue
        names = [name for name in (page.title or "", *page.keys) if not is_expression(name)]
        names = sorted({name.strip() for name in names}, key=lambda name: (-len(name), name))
        long = tuple(n for n in names if len(n) >= _LEAST_NAME_CHARS or (not n.isascii() and n))
        items.append(ShownLore(rel_path, page.title or "", long, page.body))
    return tuple(items)


def lore_section(entries: Sequence[ShownLore], count: Callable[[str], int]) -> str:
    """Return the part of a prompt that shows entries, each shortened."""
    parts = []
    for entry in entries[:_MOST_ENTRIES]:
        text = unfenced(entry.text).strip()
        text = text if count(text) <= _ENTRY_TOKENS else cut_to(text, _ENTRY_TOKENS, count)
        parts.append(f'<lore name="{framed(entry.title)}">\n{text}\n</lore>')
    return "\n\n".join(["## Lore that was shown", *parts]) if parts else ""


class LoreRail(Struct, frozen=True, dict=True):
    """Separates what only lorebook entries say from what people said.

    Args:
        stems: Returns the stems of a text's content words.
        said: The stems of what people said, and of what every line may hold.
    """

    entries: tuple[ShownLore, ...]
    stems: Callable[[str], frozenset[str]]
    said: frozenset[str]

    @cached_property
    def _known(self) -> KnownTexts:
        return KnownTexts(entry.text for entry in self.entries)

    @cached_property
    def _entry_stems(self) -> frozenset[str]:
        return self.stems(" ".join(entry.text for entry in self.entries))

    @cached_property
    def _name_stems(self) -> frozenset[str]:
        return self.stems(" ".join(name for entry in self.entries for name in entry.names))

    def split(self, text: str) -> tuple[str, str]:
        """Split a text into sentences people may have said and sentences only lore says."""
        kept, lore = "", ""
        for sentence in _sentences(text) if self.entries else [text]:
            if self._is_lore(sentence):
                lore += sentence
            else:
                kept += sentence
        return (kept.strip(), lore.strip()) if lore else (text, "")

    def _is_lore(self, sentence: str) -> bool:
        if not self.entries:
            return False
        words = self.stems(sentence) - self._name_stems
        new = (words - self.said) & self._entry_stems
        return self._known.has(sentence) or (bool(new) and 2 * len(new) >= len(words))

    def link(self, text: str, rel_path: str) -> str:
        """Link the first mention of each entry in a line of the file `rel_path`."""
        for entry in self.entries:
            way = way_to(entry.rel_path, rel_path)
            if f"]({way})" in text:
                continue
            taken = [found.span() for found in _LINK.finditer(text)]
            mentions = (found for name in entry.names for found in _mentions(name, text))
            free = (
                mention
                for mention in mentions
                if not any(start < mention.end() and mention.start() < end for start, end in taken)
            )
            if match := next(free, None):
                text = f"{text[: match.start()]}[{match[0]}]({way}){text[match.end() :]}"
        return text


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for end in (*sentence_ends(text), len(text)):
        if text[start:end]:
            yield text[start:end]
        start = max(start, end)


def _mentions(name: str, text: str) -> Iterator[re.Match[str]]:
    edge = r"\b" if name[0].isascii() and name[0].isalnum() else ""
    last = r"\b" if name[-1].isascii() and name[-1].isalnum() else ""
    return re.finditer(rf"{edge}{re.escape(name)}{last}", text, re.IGNORECASE)
