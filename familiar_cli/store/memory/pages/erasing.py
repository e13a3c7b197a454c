"""Remove a person from memory files: their page, and every line based on them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Container, Iterator
from functools import cached_property
from itertools import accumulate, chain, count
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.markdown import body_start, split_lines
from familiar_cli.base.text import fold
from familiar_cli.base.who.visibility import person_scope
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.lines import citations_in, normal_line, without_references
from familiar_cli.store.memory.pages.visible_lines import owned_lines

_ARCHIVES: Final = frozenset(
    {layout.SESSIONS_DIR, layout.DIGEST_DIR, layout.SIGNIFICANT_DIR, *layout.PERIOD_DIRS}
)
# Names there are only examples.
_OF_THE_FAMILIAR: Final = frozenset({layout.SELF_DIR, layout.LORE_DIR})
_WITH_TITLE: Final = _OF_THE_FAMILIAR | {layout.PEOPLE_DIR}  # whose title tells something itself
_MADE_AGAIN: Final = frozenset({layout.PEOPLE_DIR, layout.SESSIONS_DIR, layout.CONFLICTS_DIR})
# What a plan tells of its origin, as it reads without a name.
_PLAN_WORDS: Final = {"source": layout.MEMORY_WRITER, "model": "", "rests_on": ""}
_HEADING: Final = re.compile(r"#{1,6}(?:\s|$)")  # a word such as `#tag` is none
_BEGINS: Final = re.compile(r"\s*(?:[-*+]\s|\d+[.)]\s|#{1,6}\s|>|<!--|---)")


def free_path(rel_path: str, taken: Container[str]) -> str:
    """Return a path, with a number if something else has it; `taken` is folded."""
    directory, slash, name = rel_path.rpartition("/")
    stem, dot, ending = name.rpartition(".") if "." in name else (name, "", "")
    numbered = (f"{directory}{slash}{stem}-{number}{dot}{ending}" for number in count(2))
    return next(path for path in chain((rel_path,), numbered) if fold(path) not in taken)


class PageEraser(Struct, frozen=True, dict=True):
    """Decides which files and lines are about a person; deterministic on every machine.

    Args:
        slugs: Slugs of all their accounts.
        cites: Tells whether an instance and number cite an erased turn.
        names: Tells whether a text names or quotes them.
        resembles: Tells whether a text names or quotes them, or uses a word only they used.
        bare_name: Returns the name of a file or directory without theirs.
        ordered: Tells whether a normalized line is to be forgotten, whomever it names.
        channels: Channels in which nobody else spoke.
    """

    slugs: frozenset[str]
    cites: Callable[[str, int], bool]
    names: Callable[[str], bool]
    resembles: Callable[[str], bool]
    bare_name: Callable[[str], str] = str
    ordered: Callable[[str], bool] = bool
    channels: Collection[str] = ()

    @cached_property
    def _private(self) -> frozenset[str]:
        return frozenset(map(person_scope, self.slugs))

    def drops(self, rel_path: str) -> bool:
        """Tell whether a whole file is about them."""
        directory, _, rest = rel_path.partition("/")
        path = layout.path_without_scope(rel_path.removeprefix(f"{layout.CONFLICTS_DIR}/"))
        if path in {layout.people_path(slug) for slug in self.slugs}:
            return True
        folder = rest.partition("/")[0]
        return bool(directory) and folder in {layout.scope_folder(scope) for scope in self._private}

    def renamed(self, rel_path: str) -> str:
        """Return a path without their names; another person's page is named after an account."""
        if layout.path_without_scope(rel_path).startswith(f"{layout.PEOPLE_DIR}/"):
            return rel_path
        return "/".join(map(self.bare_name, rel_path.split("/")))

    def cleaned(self, rel_path: str, content: bytes) -> bytes | None:
        """Return a file without their data: unchanged if there is none, None if nothing is left."""
        if self.drops(rel_path):
            return None
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        if rel_path.lower().endswith(layout.SUFFIXES):
            kept = "".join(self._kept_blocks(rel_path, text))
            is_fixed = rel_path in layout.STANDARD_NAMES or _directory(rel_path) in _WITH_TITLE
            if kept != text and not (is_fixed or _has_words(kept)):
                return None
            return content if kept == text else kept.encode()
        if rel_path.startswith(f"{layout.PENDING_DIR}/"):
            return self._cleaned_plan(text)
        # Such files are regenerated.
        is_made = rel_path.partition("/")[0] in _MADE_AGAIN
        return None if is_made and self.mentions(text) else content

    def _cleaned_plan(self, text: str) -> bytes | None:
        """Return a plan without the pieces about them, None if it is left with none.

        Its files are cleaned as the pages are that they are to be applied to.
        """
        try:
            plan = json.loads(text)
            files = [kept for file in plan["files"] if (kept := self._cleaned_file(file))]
            told = {key: bare for key, bare in _PLAN_WORDS.items() if self._is_in(plan.get(key))}
            if not told and files == plan["files"]:
                return text.encode()
            cleaned = {**plan, **told, "files": files, "grounds": ""}  # a hash of their words
            made = json.dumps(cleaned, ensure_ascii=False, indent=1) + "\n"
            return made.encode() if files else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # damaged
            return None if self.mentions(text) else text.encode()

    def _is_in(self, value: object) -> bool:
        return isinstance(value, str) and value not in _PLAN_WORDS.values() and self.mentions(value)

    def _cleaned_file(self, file: dict[str, Any]) -> dict[str, Any] | None:
        """Return a planned file without the lines about them, None if these are all it changes."""
        path = file["rel_path"]
        if self.drops(path):
            return None
        if not path.lower().endswith(layout.SUFFIXES):
            return None if self.mentions(f"{file['before']}{file['after']}") else file
        texts = {side: file[side] for side in ("before", "after") if file[side] is not None}
        kept = {side: "".join(self._kept_blocks(path, text)) for side, text in texts.items()}
        cleaned = {**file, **kept, "rel_path": self.renamed(path)}
        return cleaned if kept == texts or _changes_words(**kept) else None

    def mentions(self, text: str) -> bool:
        """Tell whether other text, such as a commit message, is about them."""
        return any(slug in text for slug in self.slugs) or self.resembles(text)

    def items(self, rel_path: str, text: str) -> Iterator[tuple[int, str, bool]]:
        """Yield each item of a page with the number of its first line, and whether it stays."""
        owners = {line.start: scopes for line, scopes in owned_lines(text, rel_path)}
        start, number = 0, 1
        for lines in page_items(text):
            *starts, end = accumulate(map(len, lines), initial=start)
            is_private = any(not self._private.isdisjoint(owners.get(at, ())) for at in starts)
            item = "".join(lines)
            yield number, item, not (is_private or self._is_theirs(rel_path, item))
            start, number = end, number + len(lines)

    def _kept_blocks(self, rel_path: str, text: str) -> Iterator[str]:
        return (item for _, item, is_kept in self.items(rel_path, text) if is_kept)

    def _is_theirs(self, rel_path: str, block: str) -> bool:
        """Tell whether an item is based on them, or names or quotes them."""
        if not block.strip() or self.ordered(normal_line(block)):
            return bool(block.strip())
        citations = citations_in(block)
        if citations and all(self.cites(one.instance, n) for one in citations for n in one.ids):
            return True
        directory = _directory(rel_path)
        if any(re.search(rf"(?<![\w-]){re.escape(slug)}(?![\w-])", block) for slug in self.slugs):
            return True
        if directory in _OF_THE_FAMILIAR:
            return False
        if citations or directory in _ARCHIVES:
            return self.resembles(block)
        return self.names(block)


def _directory(rel_path: str) -> str:
    """Return the first directory of a path, or of the one whose other version it is."""
    return rel_path.removeprefix(f"{layout.CONFLICTS_DIR}/").partition("/")[0]


def page_items(text: str) -> Iterator[list[str]]:
    """Yield the lines of each item of a page, which stay or go together."""
    start, body = 0, body_start(text)
    item: list[str] = []
    for line in split_lines(text):
        is_new = start <= body or _BEGINS.match(line) or not line.strip()
        if item and (is_new or not item[-1].strip()):
            yield item
            item = []
        item.append(line)
        start += len(line)
    if item:
        yield item


def _has_words(text: str) -> bool:
    """Tell whether a page has anything but its record, headings and citations."""
    lines = split_lines(without_references(text[body_start(text) :]))
    return any(line.strip() and not _HEADING.match(line) for line in lines)


def _changes_words(after: str, before: str = "") -> bool:
    """Tell whether two versions of a page differ in more than headings and its record."""
    was, new = (
        {line.strip() for line in split_lines(text[body_start(text) :])} for text in (before, after)
    )
    return any(line and not _HEADING.match(line) for line in was ^ new)
