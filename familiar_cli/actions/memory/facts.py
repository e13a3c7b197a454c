"""Facts of memory: listed, confirmed, corrected, forgotten; and memory changes as sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.errors import ConflictError, FamiliarError
from familiar_cli.base.markdown import bullet, title_of, without_marker
from familiar_cli.base.text import counted, one_line, sha256_of
from familiar_cli.base.times.when import MONTHS
from familiar_cli.store.history.marks import restore_turns, withdraw_turns
from familiar_cli.store.memory.layout import DIGEST_DIR, LORE_DIR, SELF_DIR, is_page, people_path
from familiar_cli.store.memory.pages.facts import (
    as_confirmed,
    ended_on,
    fact_lines,
    with_line_changed,
)
from familiar_cli.store.memory.pages.lines import (
    as_line,
    citations_in,
    is_confirmed,
    normal_line,
    readable_text,
    turn_ids,
    without_confirmation,
)
from familiar_cli.store.search.build import find_pins, pins_in_files

if TYPE_CHECKING:
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.familiar import Familiar
    from familiar_cli.store.journal.history import FileDiff
    from familiar_cli.store.memory.store.files import MemoryHead
    from familiar_cli.store.memory.store.store import MemoryStore

_IMPORTED: Final = re.compile(r"<!-- from [^<>\n]+:\d+ [0-9a-f]{10} -->")
_DAY: Final = re.compile(r"\A(\d{4}-\d\d-\d\d): ")
_HEAD_BYTES: Final = 2_000
_SHOWN_CHARS: Final = 300
_MOST_OF_DAY: Final = 2
_KEY_CHARS: Final = 32
_REFRESH_S: Final = 0.1  # time for the index; files it has not read are read directly
_PINS_S: Final = 5.0  # thousands of files take a tenth of a second
_NOT_KNOWN: Final = (LORE_DIR, SELF_DIR)  # its character, not what it learned


class KnownFact(Struct, frozen=True, eq=False):
    """A line of a page that states a fact.

    Args:
        rel_path: The page.
        line: The whole line, without its end.
        theme: Its heading.
        days: Cited turns that a viewer may see, by day; None if it cites none.
        is_private: It is in a private section.
    """

    rel_path: str
    line: str
    theme: str
    days: Mapping[date, Sequence[int]] | None
    is_private: bool = False

    @property
    def words(self) -> str:
        """The text as a reader sees it; see `fact_words`."""
        return fact_words(self.line)

    @property
    def is_imported(self) -> bool:
        """Whether it was imported from another program."""
        return _IMPORTED.search(self.line) is not None

    @property
    def imported_day(self) -> date | None:
        """The day that the other program gave, if it is imported."""
        dated = _DAY.match(without_marker(self.line.strip())) if self.is_imported else None
        with suppress(ValueError):
            return date.fromisoformat(dated[1]) if dated else None
        return None

    @property
    def key(self) -> str:
        """Identifies the line in its current form for `find_fact`."""
        return sha256_of(self.line.encode())[:_KEY_CHARS]

    @property
    def is_confirmed(self) -> bool:
        """Whether a person confirmed it."""
        return is_confirmed(self.line)

    @property
    def day(self) -> int:
        """The newest day on which it was said, as an ordinal; 0 if unknown."""
        day = max(self.days) if self.days else self.imported_day
        return day.toordinal() if day else 0

    @property
    def times_said(self) -> int:
        """The number of turns it rests on."""
        return sum(map(len, (self.days or {}).values()))


def fact_words(line: str) -> str:
    """Return a fact as a reader sees it, without the day at the front of an imported one."""
    words = readable_text(without_marker(line.strip()))
    return _DAY.sub("", words, count=1) if _IMPORTED.search(line) else words


def facts_in(familiar: Familiar, rel_path: str, text: str, viewer: Viewer) -> list[KnownFact]:
    """List the facts of a page that a viewer may see, in order."""
    items = [one for one in fact_lines(text, rel_path) if viewer.sees(one[2])]
    lines = [line.text.rstrip("\r\n") for line, _, _ in items]
    citations = familiar.numbering.cited_days(lines, viewer)
    return [
        KnownFact(
            rel_path,
            line,
            section.title,
            days if citations_in(line) else None,
            is_private=bool(scopes),
        )
        for line, days, (_, section, scopes) in zip(lines, citations, items, strict=True)
    ]


def find_fact(familiar: Familiar, rel_path: str, key: str) -> str:
    """Find the line that a key identifies.

    Raises:
        ConflictError: The page no longer has it; nothing was changed.
    """
    lines = {
        one.text.rstrip("\r\n") for one, _, _ in fact_lines(familiar.memory.read_file(rel_path))
    }
    items = [line for line in lines if sha256_of(line.encode())[:_KEY_CHARS] == key]
    if len(items) != 1:
        raise _line_changed(rel_path)
    return items[0]


def known_people(familiar: Familiar, viewer: Viewer, most: int) -> list[tuple[str, str]]:
    """Return the pages of the people a familiar knows best: its owner's, or the latest speakers'.

    Returns:
        Path and text of each.
    """
    memory = familiar.memory
    mine = [people_path(slug) for slug in sorted(familiar.me().slugs)]
    paths = [path for path in mine if memory.exists(path)]
    if not paths:
        speakers = sorted(familiar.history.speakers(viewer), key=lambda one: one.last_at)
        latest = [people_path(one.author.slug) for one in speakers[: -most - 1 : -1]]
        paths = [path for path in latest if memory.exists(path)]
    return [(path, text) for path in paths[:most] if (text := memory.readable(path))]


def pinned_pages(familiar: Familiar) -> list[tuple[str, str]]:
    """Return the pinned pages that are neither lore nor character, with their texts."""
    index = familiar.index
    pins = (
        find_pins(index, refresh_s=_REFRESH_S, within_s=_PINS_S)
        if index.directory.is_dir()
        else pins_in_files(familiar.memory, within_s=_PINS_S)
    )
    own = [path for path in pins.rel_paths if path.partition("/")[0] not in _NOT_KNOWN]
    return [(path, text) for path in own if (text := familiar.memory.readable(path))]


def best_facts(facts: Sequence[KnownFact], most: int) -> list[KnownFact]:
    """Select the facts to show first: confirmed ones, then new and frequent ones in turns.

    No single day fills the list with new ones.
    """
    counts: Counter[int] = Counter()
    new, repeated = list[KnownFact](), list[KnownFact]()
    for fact in newest_facts(facts):
        counts[fact.day] += 1
        (new if counts[fact.day] <= _MOST_OF_DAY else repeated).append(fact)
    often = sorted((one for one in facts if one.times_said > 1), key=lambda one: -one.times_said)
    mixed = [one for pair in zip_longest(new, often) for one in pair if one]
    confirmed = [one for one in facts if one.is_confirmed]
    return list(dict.fromkeys((*confirmed[: most // 2], *mixed, *repeated)))[:most]


def newest_facts(facts: Iterable[KnownFact]) -> list[KnownFact]:
    """Sort facts, most recently said first."""
    return sorted(facts, key=lambda fact: fact.day, reverse=True)


def confirm_fact(familiar: Familiar, rel_path: str, line: str, day: date) -> None:
    """Mark a line as confirmed by a person.

    Raises:
        ConflictError: The page no longer has that line; nothing was changed.
    """
    _change_line(familiar, rel_path, line, as_confirmed(line, day), f"confirmed: {_short(line)}")


def correct_fact(familiar: Familiar, rel_path: str, line: str, words: str) -> None:
    """Replace a line by a person's words, or remove it if there are none.

    Raises:
        ConflictError: The page no longer has that line; nothing was changed.
    """
    marker = bullet(line)
    new = f"{line[: marker.text_at] if marker else '- '}{as_line(words)}" if words.strip() else ""
    text = f"corrected: {_short(line)}" if new else f"taken out: {_short(line)}"
    _change_line(familiar, rel_path, line, new, text)


def forget_fact(familiar: Familiar, rel_path: str, line: str) -> tuple[int, ...]:
    """Remove a line wherever memory says the same, and hide the turns it rests on from recall.

    Returns:
        The turns that are now hidden.

    Raises:
        ConflictError: The page no longer has that line; nothing was changed.
        RefusedError: A turn was replaced by another one; nothing was changed.
    """
    memory, said = familiar.memory, normal_line(line)
    held = [n for n in turn_ids(line, familiar.numbering) if familiar.history.turn(n)]
    same = {rel_path: [line]}
    for entry in memory.walk().files:
        if is_page(entry.rel_path) and entry.rel_path != rel_path and said:
            text = memory.readable(entry.rel_path)
            matches = [one.text.rstrip("\r\n") for one, _, _ in fact_lines(text)]
            same[entry.rel_path] = [one for one in matches if normal_line(one) == said]
    withdrawn = withdraw_turns(familiar.history, held)
    try:
        with memory.transaction("human", f"forgot a line of {rel_path}") as tx:
            for path, lines in same.items():
                if lines:
                    page = memory.read(path)
                    text = page.text
                    for one in lines:
                        text = _changed(text, path, one, "")
                    tx.write(path, text, expect=page.sha256)
    except BaseException:
        restore_turns(familiar.history, withdrawn)
        raise
    return withdrawn


def _change_line(familiar: Familiar, rel_path: str, old: str, new: str, message: str) -> None:
    memory = familiar.memory
    page = memory.read(rel_path)
    text = _changed(page.text, rel_path, old, new)
    with memory.transaction("human", message) as tx:
        tx.write(rel_path, text, expect=page.sha256)


def _changed(text: str, rel_path: str, old: str, new: str) -> str:
    changed = with_line_changed(text, old, new)
    if changed is None:
        raise _line_changed(rel_path)
    return changed


def _line_changed(rel_path: str) -> ConflictError:
    return ConflictError(
        f"{rel_path!r} no longer has that line, or has it twice; nothing was changed",
        hint="Look at the page again.",
    )


def _short(line: str) -> str:
    item = bullet(line.strip())
    words = line.strip()[item.words_at :] if item else line.strip()
    if _IMPORTED.search(line):
        words = fact_words(line)
    return one_line(readable_text(words), _SHOWN_CHARS)


_DATED: Final = re.compile(r"(?:^|/)(\d{4})(?:-(\d\d))?(?:-(\d\d))?(?:[-_][^/]*)?\.md$")
_PLACES: Final = {
    "sessions": "the talk of {}",
    "daily": "{}",
    "weekly": "the week {}",
    "monthly": "{}",
    "yearly": "{}",
    "significant": "{}",
}


def page_title(
    memory: MemoryStore, rel_path: str, read_head: Callable[[str, int], MemoryHead] | None = None
) -> str:
    """Return a page's title, or the day that it covers.

    Args:
        memory: The memory.
        rel_path: The page.
        read_head: `memory.head_reader()`, for many pages.
    """
    directory = rel_path.partition("/")[0]
    dated = _DATED.search(rel_path)
    if directory in _PLACES and dated:
        year, month, day = dated.groups()
        named = MONTHS[int(month) - 1 : int(month)] if month and month != "00" else ()
        said = " ".join([*named, year])
        part = rel_path.removesuffix(".md").rpartition("-")[2]
        tail = f", {part}" if directory == "sessions" and part.isalpha() else ""
        return _PLACES[directory].format((f"{int(day)} {said}" if day else said) + tail)
    if directory == DIGEST_DIR:
        return f"the {rel_path.removesuffix('.md').rpartition('/')[2]} digest"
    try:
        title = title_of((read_head or memory.read_head)(rel_path, _HEAD_BYTES).text)
    except FamiliarError:
        title = ""
    stem = rel_path.rpartition("/")[2].rpartition(".")[0]
    return one_line(title, 80) or stem.replace("-", " ").replace("_", " ").capitalize() or rel_path


_LEARNED: Final = {"memory_writer": "learned", "human": "written by you", "sync": "from elsewhere"}
_MADE: Final = ("consolidation", "distill")
# Kinds of changes that are listed after new facts.
_COUNTED: Final = frozenset({"summed up", "changed", "new page"})


class ChangeSentence(Struct, frozen=True):
    """A sentence about a change of memory.

    Args:
        kind: What happened, such as `learned`.
        words: The subject.
        rel_path: The page.
        line: The line added or removed; empty if the whole page changed.
    """

    kind: str
    words: str
    rel_path: str
    line: str = ""


def change_sentences(
    source: str, files: Sequence[FileDiff], title: Callable[[str], str]
) -> list[ChangeSentence]:
    """Describe a change of memory in sentences.

    Args:
        source: Source of the change.
        files: The changed files.
        title: Returns the title of a page.
    """
    pages = [file for file in files if is_page(file.rel_path)]
    begins = [file for file in pages if source not in _LEARNED and _is_character(file)]
    sentences = [one for file in pages if file not in begins
            for one in _sentences_of_file(source, file, title)]  # fmt: skip
    if begins:
        words = f"with a character of {counted(len(begins), 'page')}"
        sentences.insert(0, ChangeSentence("began", words, begins[0].rel_path))
    return sorted(sentences, key=lambda one: one.kind in _COUNTED)


def _is_character(file: FileDiff) -> bool:
    """Tell whether a page of the character was added, which reads as a card, not as sentences."""
    return file.kind == "added" and file.rel_path.startswith(f"{SELF_DIR}/")


def _sentences_of_file(
    source: str, file: FileDiff, title: Callable[[str], str]
) -> Iterator[ChangeSentence]:
    path = file.rel_path
    if file.kind == "deleted":
        yield ChangeSentence("removed", title(path), path)
        return
    if source.startswith(_MADE):
        yield ChangeSentence("summed up", title(path), path)
        return
    gone, new = _changed_lines(file.diff)
    known = {normal_line(line): line for line in gone}
    keys = [key for key in known if key not in {normal_line(line) for line in new}]
    for line in new:
        old = known.get(normal_line(line), "")
        if ended_on(line):
            yield ChangeSentence("no longer holds", _short(line), path, line)
        elif old and is_confirmed(line) and not is_confirmed(old):
            yield ChangeSentence("confirmed by you", _short(line), path, line)
        elif not old and keys and source == "human":
            words = f"{_short(known[keys.pop(0)])} → {_short(line)}"
            yield ChangeSentence("corrected by you", words, path, line)
        elif not old:
            yield ChangeSentence(_LEARNED.get(source, "added"), _short(line), path, line)
    # A summary that a newer one replaced is no loss.
    for key in keys if source == "human" or not new else ():
        yield ChangeSentence("taken out", _short(known[key]), path, known[key])
    if not (gone or new):
        yield ChangeSentence("new page" if file.kind == "added" else "changed", title(path), path)


def _changed_lines(diff: str) -> tuple[list[str], list[str]]:
    """Return the facts removed and added by a unified diff."""
    lines = diff.split("\n")
    gone, new = (
        [line[1:] for line in lines if line.startswith(sign) and not line.startswith(sign * 3)]
        for sign in "-+"
    )
    told: tuple[list[str], list[str]] = ([], [])
    for some, into in zip((gone, new), told, strict=True):
        for line in some:
            words = readable_text(without_confirmation(line)).strip()
            if normal_line(words) and not words.startswith(("#", "---")) and not _is_key(words):
                into.append(line)
    return told


def _is_key(words: str) -> bool:
    return re.match(r"[a-z_]+: ", words) is not None


def person_themes(facts: Iterable[KnownFact]) -> dict[str, list[KnownFact]]:
    """Group facts by heading, newest first."""
    themes: dict[str, list[KnownFact]] = {}
    for fact in facts:
        themes.setdefault(fact.theme, []).append(fact)
    return {theme: newest_facts(some) for theme, some in themes.items()}
