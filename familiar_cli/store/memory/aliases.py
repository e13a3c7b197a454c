"""People's names: in each person's file, in `people/_aliases.json`, and in an index."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.files import stamp_of, status_of
from familiar_cli.base.languages import ENGLISH, Phrases, heading_in
from familiar_cli.base.markdown import (
    Section,
    TextLine,
    bullet,
    newline_of,
    replace_spans,
    sections,
    title_of,
    without_marker,
)
from familiar_cli.base.text import fold, harmless, is_visible, whole_line, without_accents
from familiar_cli.base.times.clock import wall_ns
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.memory.layout import ALIASES_JSON, PEOPLE_DIR, people_path
from familiar_cli.store.memory.mentions import (
    BARE,
    MOST_NAME_CHARS,
    MOST_WORDS,
    NamePrefix,
    find_mentions,
    head_of,
    key_of,
)
from familiar_cli.store.memory.page_index import PageIndex, page_signature
from familiar_cli.store.memory.pages.front_matter import listed_aliases
from familiar_cli.store.memory.pages.visible_lines import private_spans, visible_in
from familiar_cli.store.memory.store.files import unreadable_name

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.store.memory.store.store import MemoryStore

TITLE: Final = ENGLISH.heading("aliases")

_CODE: Final = re.compile(r"(`+)(?!`)\s*(.+?)\s*(?<!`)\1(?!`)")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NOTE: Final = re.compile(r"\s+(?:[(（\[].*|[—–]\s.*|-\s.*)$")
_COMMAS: Final = re.compile(r"[,;،、，；]")
_MOST_CHARS: Final = 1000  # generous limit for a name with a note
_WRAPPERS: Final = "*_\"“”„«»'‘’ \t"


def names_of(markdown: str) -> tuple[str, ...]:
    """Return the person's unique names: the H1 and each alias.

    An H1 such as `Anna (the baker)` also gives `Anna`. Aliases come from the section and from the
    front matter.
    """
    title = harmless(title_of(visible_in(markdown, NOBODY)))
    bare = _NOTE.sub("", title[:_MOST_CHARS])
    given = [title, bare, *aliases_of(markdown), *listed_aliases(markdown)]
    by_key: dict[str, str] = {}
    for name in given:
        by_key.setdefault(key_of(name), name)
    by_key.pop("", None)
    return tuple(by_key.values())


def aliases_of(markdown: str) -> tuple[str, ...]:
    """Return the names below `## Aliases`, as written."""
    said = (_names_in(line.text) for line in _alias_lines(markdown))
    return tuple(dict.fromkeys(name for names in said for name in names if name))


def with_alias(markdown: str, name: str, title: str = TITLE) -> str:
    """Return `markdown` with an alias added, unless it has it already.

    If there is no aliases section in any language, one is added below `title`.

    Raises:
        UsageError: `name` is not a valid name.
    """
    shown = check_alias(name)
    if key_of(shown) in {key_of(aliase) for aliase in aliases_of(markdown)}:
        return markdown
    section = _alias_section(markdown)
    newline = newline_of(markdown)
    item = f"- {_quoted_name(shown)}{newline}"
    if section is None:
        return _on_new_line(markdown, newline) + f"{title}{newline}{newline}{item}"
    said = [line for line in section.below if line.text.strip()]
    items = [n for n, line in enumerate(said) if line.is_item]
    listed = items[-1] + 1 if items else len(said)
    below = next((n for n in range(listed, len(said)) if not _goes_on(said[n].text)), len(said))
    end = said[below - 1].end if said else section.lines[0].end
    above = markdown[:end] if markdown[:end].endswith("\n") else markdown[:end] + newline
    return above + ("" if said else newline) + item + markdown[end:]


def without_alias(markdown: str, name: str) -> str:
    """Return `markdown` without the lines below `## Aliases` that contain only `name`.

    Raises:
        UsageError: `name` is invalid, or a line lists it with others, which needs an edit by hand.
    """
    key, gone = key_of(check_alias(name)), list[tuple[int, int, str]]()
    for line in _alias_lines(markdown):
        keys = {key_of(known) for known in _names_in(line.text)}
        if key in keys and len(keys) > 1:
            raise UsageError(
                f"The line {line.text.strip()!r} contains more than {name!r}; nothing was changed",
                hint="Edit the file, and put each name on its own line.",
            )
        if key in keys:
            gone.append((line.start, line.end, ""))
    return replace_spans(markdown, gone)


def check_alias(name: str) -> str:
    """Return `name` as a single line.

    Raises:
        UsageError: Not a valid name.
    """
    text = whole_line(name)
    if not key_of(text) or not is_visible(text):
        raise UsageError(
            f"{text[:MOST_NAME_CHARS]!r} cannot be a name: a name has a letter, a digit or a "
            f"sign, at most {MOST_WORDS} words and {MOST_NAME_CHARS} characters",
            hint='Use the name as people say it: `familiar people alias discord:42 "Anna Bell"`.',
        )
    return text


def _quoted_name(name: str) -> str:
    """Quote `name` so that it is parsed back unchanged."""
    if _names_in(f"- {name}\n") == (name,):
        return name
    fence = "`" * (1 + max(map(len, re.findall("`+", name)), default=0))
    pad = " " if "`" in (name[0], name[-1]) else ""
    return f"{fence}{pad}{name}{pad}{fence}"


def _names_in(line: str) -> tuple[str, ...]:
    if bullet(line):
        return (_clean_name(without_marker(line).rstrip("\r\n")),)
    return tuple(_clean_name(part) for part in _COMMAS.split(line) if part.strip())


def _clean_name(text: str) -> str:
    item = text[:_MOST_CHARS]
    exact = _CODE.match(item)
    if exact:
        return harmless(exact[2])
    plain = _NOTE.sub("", _LINK.sub(r"\1", item).strip())
    name = whole_line(plain).strip(_WRAPPERS)
    return name if key_of(name) else ""


def _alias_section(markdown: str) -> Section | None:
    """Return the public part of the section `## Aliases`, or None."""
    hidden = {start for start, _ in private_spans(markdown, NOBODY)}
    for section in sections(markdown, 2):
        shown = tuple(line for line in section.lines if line.start not in hidden)
        is_it = section.level == 2 and heading_in(section.title) == "aliases"  # noqa: PLR2004
        if is_it and shown[:1] == section.lines[:1]:
            return replace(section, lines=shown)
    return None


def _alias_lines(markdown: str) -> Iterator[TextLine]:
    """Yield the lines below `## Aliases` that list names, skipping a paragraph below a list."""
    section = _alias_section(markdown)
    is_list = is_over = False
    for line in section.below if section else ():
        item = line.is_item
        if line.level:
            is_list = is_over = False
        elif not line.text.strip():
            is_over = is_list
        elif item or not (is_over or line.in_code or (is_list and _goes_on(line.text))):
            is_list, is_over = is_list or item, is_over and not item
            yield line


def _goes_on(line: str) -> bool:
    """Tell whether an indented line continues the item above it."""
    return line.startswith((" ", "\t")) and bool(line.strip()) and bullet(line) is None


def _on_new_line(markdown: str, newline: str) -> str:
    if not markdown:
        return ""
    end = "" if markdown.endswith("\n") else newline
    blank = "" if (markdown + end).endswith(newline * 2) else newline
    return markdown + end + blank


_SAME: Final = re.compile(r"<!-- same person as ([^\s<>]{1,255}) -->")


def main_account(text: str) -> str | None:
    """Return the slug of the main account if this file is a secondary account's, or None."""
    match = _SAME.search(text)
    return match[1] if match else None


def stub_page(
    title: str, slug: str, name: str, aliases: tuple[str, ...], phrases: Phrases = ENGLISH
) -> str:
    """Return the file of a secondary account, which refers to the main one."""
    listed = "".join(f"- {alias}\n" for alias in aliases)
    names = f"\n{phrases.heading('aliases')}\n\n{listed}" if listed else ""
    link = f"[{name}]({quote(slug + '.md')})"
    text = phrases.same_person.format(link)
    return f"# {title}\n\n{text} <!-- same person as {slug} -->\n{names}"


def main_slug(store: MemoryStore, slug: str) -> str:
    """Return the slug whose file holds this person's memory: their own, or the merged one.

    An unreadable file counts as their own.
    """
    try:
        rel_path = people_path(slug)
        text = store.read_file(rel_path) if store.exists(rel_path) else ""
    except FamiliarError:
        return slug
    return main_account(text) or slug


SOURCE: Final = "aliases"

_SUFFIX: Final = ".md"
_MOST_NAMED: Final = 3


class SharedName(Struct, frozen=True):
    """A case-folded name and the slugs of everyone who has it."""

    name: str
    slugs: tuple[str, ...]


class NamedPerson(Struct, frozen=True):
    """A person with a file in `people/`.

    Args:
        slug: The person's slug.
        problem: Why the file could not be read; empty if it was.
        signature: Detects changes to the file.
    """

    slug: str
    names: tuple[str, ...]
    problem: str = ""
    signature: str = ""

    @property
    def size_bytes(self) -> int:
        """The size of their file when it was read."""
        return int(self.signature.partition(" ")[0])


def slug_in(rel_path: str) -> str | None:
    """Return the slug of the person whose file `rel_path` is, or None."""
    directory, _, name = rel_path.rpartition("/")
    is_person = directory == PEOPLE_DIR and name.endswith(_SUFFIX) and not name.startswith(".")
    return name.removesuffix(_SUFFIX) if is_person else None


class Aliases(PageIndex[NamedPerson]):
    """The names of everyone in `people/`. Not thread-safe."""

    WHAT = "The name index"
    FILE = "aliases.sqlite"
    SIGNATURES = "SELECT slug, signature FROM people"
    VERSION = 4
    TABLES = (
        # `names` is an object: each name with its key.
        "CREATE TABLE people (slug TEXT PRIMARY KEY, signature TEXT, names TEXT, problem TEXT)",
        "CREATE TABLE names (key TEXT, slug TEXT, PRIMARY KEY (key, slug)) WITHOUT ROWID",
        "CREATE INDEX names_of_slug ON names (slug)",
        "CREATE TABLE heads (head TEXT PRIMARY KEY, words INTEGER, chars INTEGER) WITHOUT ROWID",
        "CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT)",
    )

    def find(self, text: str) -> list[SharedName]:
        """Return the people named in `text`, in order, each name once; see `memory.mentions`."""
        mentions = find_mentions(text, self._heads, self._known) if self._exists() else []
        keys = dict.fromkeys(mention.key for mention in mentions)
        slugs = self._slugs(keys)
        return [SharedName(key, slugs[key]) for key in keys]

    def called(self, name: str) -> tuple[str, ...]:
        """Return the slugs of everyone with the name `name`."""
        key = key_of(name)
        bare = without_accents(key)
        result = self._slugs([key, bare])
        return result.get(key) or result.get(bare, ())

    def people(self) -> list[NamedPerson]:
        """Return everyone who has a file, sorted by slug."""
        rows = self._rows("SELECT slug, names, problem, signature FROM people ORDER BY slug")
        with self._translated():
            return [
                NamedPerson(slug, tuple(json.loads(names)), *more) for slug, names, *more in rows
            ]

    def slugs(self) -> set[str]:
        """Return the slugs of everyone who has a file."""
        return {slug for (slug,) in self._rows("SELECT slug FROM people")}

    def collisions(self) -> list[SharedName]:
        """Return each name that several people share."""
        shared = "SELECT key FROM names GROUP BY key HAVING count(*) > 1 ORDER BY key"
        rows = [row for row in self._rows(shared) if not row[0].startswith(BARE)]
        result = self._slugs([key for (key,) in rows])
        return [SharedName(key, result[key]) for (key,) in rows]

    def publish(self) -> tuple[str, ...]:
        """Write `_aliases.json` from the files; return notices about the old one.

        Raises:
            FamiliarError: It cannot be written; nothing is changed.
        """
        self.refresh(thorough=True)
        state, signature = self._state(), self._signature_of_json()
        if state.get("changed") != "1" and state.get("published", "") == signature:
            return ()
        notices, wanted = self.looks_wrong(), self._as_json()
        if (self._published() or b"{}\n") != wanted:
            with self._store.transaction(SOURCE, f"update the names in {PEOPLE_DIR}/") as tx:
                tx.write(ALIASES_JSON, wanted, any_size=True)
        self._keep({"changed": "0", "published": self._signature_of_json()})
        return notices

    def looks_wrong(self) -> tuple[str, ...]:
        """Return notices about an `_aliases.json` that someone else wrote."""
        signature = self._signature_of_json()
        if not signature or signature == self._state().get("published"):
            return ()
        lost = self._lost()
        if lost is None:
            return (
                f"{ALIASES_JSON}: it is damaged, and is rebuilt from the files in its directory",
            )
        if not lost:
            return ()
        names = ", ".join(map(repr, lost[:_MOST_NAMED])) + (", …" * (len(lost) > _MOST_NAMED))
        mend = f'`familiar people alias PERSON "{lost[0]}"` keeps a name'
        return (f"{ALIASES_JSON}: the files it is made from do not say {names}; {mend}",)

    def _lost(self) -> list[str] | None:
        """Return the names that only `_aliases.json` has, or None if it is damaged."""
        try:
            value = json.loads(self._published() or b"{}")
        except (ValueError, RecursionError, FamiliarError):
            return None
        if not isinstance(value, dict):
            return None
        keys = {name: key_of(name) for name in value}
        known = self._slugs(set(keys.values()))
        pairs = ((name, slug) for name, slugs in value.items() for slug in _slugs_of(slugs))
        lost = [(name, slug) for name, slug in pairs if slug not in known.get(keys[name], ())]
        select = "SELECT slug FROM people WHERE slug IN"
        there = {slug for (slug,) in self._among(select, {slug for _, slug in lost})}
        return sorted({name for name, slug in lost if slug in there})

    def _as_json(self) -> bytes:
        """Return the content of `_aliases.json`.

        Both spellings of a name (`mary-jane`, `mary jane`) are listed, each with everyone.
        """
        rows = self._rows("SELECT names FROM people")
        spelled = {fold(name): key for (names,) in rows for name, key in json.loads(names).items()}
        keys = dict(sorted(spelled.items()))
        slugs = self._slugs(set(keys.values()))
        named = {name: slugs[key] for name, key in keys.items() if key in slugs}
        plain = {
            name: matches[0] if len(matches) == 1 else matches for name, matches in named.items()
        }
        return (json.dumps(plain, ensure_ascii=False, indent=1) + "\n").encode()

    def _published(self) -> bytes | None:
        try:
            return self._store.read_bytes(ALIASES_JSON)
        except NotFoundError:
            return None

    def _signature_of_json(self) -> str:
        status = status_of(os.path.join(self._root, *ALIASES_JSON.split("/")))
        if status is None:
            return ""
        stamp = stamp_of(status, wall_ns())
        return f"{stamp.size_bytes} {stamp.mtime_ns} {stamp.ctime_ns}"

    def _scan(self) -> tuple[dict[str, str], dict[str, str]]:
        result: dict[str, str] = {}
        looked_ns, path = wall_ns(), os.path.join(self._root, PEOPLE_DIR)
        try:
            folder = page_signature(os.stat(path), looked_ns)
            with os.scandir(path) as entries:
                for entry in entries:
                    slug = slug_in(f"{PEOPLE_DIR}/{entry.name}")
                    if slug and not unreadable_name(entry.name) and entry.is_file():
                        result[slug] = page_signature(entry.stat(), looked_ns)
        except FileNotFoundError:
            return {}, {}
        except OSError as error:
            raise FamiliarError(
                f"{PEOPLE_DIR!r} cannot be read: {error.strerror}", hint="Check its permissions."
            ) from error
        return result, {PEOPLE_DIR: folder}

    def _read_page(self, page: str, signature: str) -> NamedPerson:
        try:
            head = self._read_head(people_path(page), self._store.limits.max_file_bytes)
        except FamiliarError as error:
            return NamedPerson(page, (), str(error), signature)
        # A secondary account has no names of its own; they refer to the main file.
        names = () if main_account(head.text) else names_of(head.text)
        return NamedPerson(page, names, "", signature)

    def _replace(self, names: Collection[str], pages: Iterable[NamedPerson]) -> None:
        listed = [(slug,) for slug in names]
        with self._writing() as database:
            database.executemany("DELETE FROM people WHERE slug = ?", listed)
            database.executemany("DELETE FROM names WHERE slug = ?", listed)
            _insert_people(database, [*pages])
            database.execute("INSERT OR REPLACE INTO state VALUES ('changed', '1')")

    def _heads(self, heads: Collection[str]) -> dict[str, NamePrefix]:
        """Return those of `heads` that start a name, with the length of such names."""
        rows = self._among("SELECT head, words, chars FROM heads WHERE head IN", heads)
        return {head: NamePrefix(words, chars) for head, words, chars in rows}

    def _known(self, keys: Collection[str]) -> set[str]:
        """Return which of `keys` are names, or names without their accents."""
        asked = {*keys, *(f"{BARE}{key}" for key in keys)}
        items = self._among("SELECT key FROM names WHERE key IN", asked)
        return {key.removeprefix(BARE) for (key,) in items}

    def _slugs(self, keys: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the sorted slugs of everyone with a name, by key.

        Where nobody has a name, whoever has it with accents is meant.
        """
        asked = {*keys, *(f"{BARE}{key}" for key in keys)}
        result: dict[str, list[str]] = {}
        for key, slug in self._among("SELECT key, slug FROM names WHERE key IN", asked):
            result.setdefault(key, []).append(slug)
        either = {key: result.get(key) or result.get(f"{BARE}{key}") for key in keys}
        return {key: tuple(sorted(slugs)) for key, slugs in either.items() if slugs}


def _slugs_of(slugs: object) -> list[str]:
    listed = slugs if isinstance(slugs, list) else [slugs]
    return [slug for slug in listed if isinstance(slug, str)]


def _bare_keys(keys: Iterable[str]) -> Iterator[str]:
    """Yield the keys of names that have accents, without those, as their own kind of key."""
    for key in keys:
        bare = without_accents(key)
        if bare != key:
            yield f"{BARE}{bare}"


def _insert_people(database: sqlite3.Connection, people: Sequence[NamedPerson]) -> None:
    keys = [{name: key_of(name) for name in person.names} for person in people]
    database.executemany(
        "INSERT INTO people VALUES (?, ?, ?, ?)",
        [
            (person.slug, person.signature, json.dumps(own, ensure_ascii=True), person.problem)
            for person, own in zip(people, keys, strict=True)
        ],
    )
    named = [
        (key, person.slug)
        for person, own in zip(people, keys, strict=True)
        for key in {*own.values(), *_bare_keys(own.values())} - {""}
    ]
    database.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", named)
    heads: dict[str, NamePrefix] = {}
    for head, length in (head_of(key.removeprefix(BARE)) for key, _ in named):
        prefix = heads.get(head, length)
        heads[head] = NamePrefix(max(prefix.words, length.words), max(prefix.chars, length.chars))
    database.executemany(
        "INSERT INTO heads VALUES (?, ?, ?) ON CONFLICT (head) DO UPDATE SET"
        " words = max(words, excluded.words), chars = max(chars, excluded.chars)",
        [(head, prefix.words, prefix.chars) for head, prefix in heads.items()],
    )
