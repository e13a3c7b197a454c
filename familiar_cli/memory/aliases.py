"""The names in a person's file, and files that say whose other account they are."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from familiar_cli.clock import wall_ns
from familiar_cli.errors import FamiliarError, LockedError, NotFoundError, UsageError
from familiar_cli.files import FileStamp, remove, stamp_of
from familiar_cli.languages import ENGLISH, heading_in
from familiar_cli.markdown import (
    bullet,
    newline_of,
    sections,
    title_of,
    without_marker,
)
from familiar_cli.memory.layout import ALIASES_JSON, INDEX_DIR, PEOPLE_DIR, people_path
from familiar_cli.memory.mentions import (
    MOST_NAME_CHARS,
    MOST_WORDS,
    NamePrefix,
    find_mentions,
    head_of,
    key_of,
)
from familiar_cli.memory.pages.front_matter import listed_aliases
from familiar_cli.memory.pages.lines import private_spans, visible_in
from familiar_cli.memory.store.files import unreadable_name
from familiar_cli.sqlite import (
    Fault,
    connect,
    connect_derived,
    fault_of,
    is_useless,
    renew,
    rows_among,
    transaction,
)
from familiar_cli.text import fold, harmless, is_visible
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

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
    shown = check_alias(name)
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
    key, kept, at = key_of(check_alias(name)), list[str](), 0
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


def check_alias(name: str) -> str:
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


def main_account(text: str) -> str | None:
    """Return the slug of the person whose other account a file is about, or None."""
    found = _SAME.search(text)
    return found[1] if found else None


def stub_page(
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
    return main_account(text) or slug


SOURCE: Final = "aliases"
MOST_STATS: Final = 250

_INDEX: Final = "aliases.sqlite"
_SUFFIX: Final = ".md"
_BATCH: Final = 500
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Named:
    """A name, folded, and everyone who is called so, by slug."""

    name: str
    slugs: tuple[str, ...]


def slug_in(rel_path: str) -> str | None:
    """Return whose file `rel_path` is, or None when it is no person's."""
    directory, _, name = rel_path.rpartition("/")
    is_person = directory == PEOPLE_DIR and name.endswith(_SUFFIX) and not name.startswith(".")
    return name.removesuffix(_SUFFIX) if is_person else None


class Aliases:
    """The names of everyone in `people/`. One object is for one thread at a time.

    Args:
        store: The memory.
    """

    def __init__(self, store: MemoryStore) -> None:

        self._store = store
        self._root = os.path.realpath(store.root)
        self._directory = os.path.join(self._root, PEOPLE_DIR)
        self._index: AliasIndex = AliasIndex(os.path.join(self._root, INDEX_DIR, _INDEX))

    def close(self) -> None:
        """Let go of the index."""
        self._index.close()

    def find(self, text: str) -> list[Named]:
        """Return who is named in `text`, in that order, each name once; see `memory.mentions`."""
        index = self._index
        found = find_mentions(text, index.heads, index.known) if index.exists() else []
        keys = dict.fromkeys(mention.key for mention in found)
        slugs = index.slugs(keys)
        return [Named(key, slugs[key]) for key in keys]

    def called(self, name: str) -> tuple[str, ...]:
        """Return the slugs of everyone who is called `name`."""
        key = key_of(name)
        return self._index.slugs([key]).get(key, ())

    def people(self) -> list[NamedPerson]:
        """Return everyone who has a file, sorted by slug."""
        return self._index.people()

    def collisions(self) -> list[Named]:
        """Return each name that several people share."""
        return [Named(key, slugs) for key, slugs in self._index.shared().items()]

    def refresh(self, *, thorough: bool = False) -> None:
        """Read what has changed in `people/`. What is done is kept, also when this is broken off.

        Args:
            thorough: Look at every file, also where the directory says that nothing has changed.

        Raises:
            FamiliarError: The directory or the index cannot be used.
        """
        signature = self._signature_of_directory()
        if signature is None and not self._index.exists():
            return
        state = self._index.state()
        if thorough or not _is_fresh(state, signature):
            self._read_changed(signature, state)

    def publish(self) -> tuple[str, ...]:
        """Make `_aliases.json` say what the files say; return what is to be told of the old one.

        Raises:
            FamiliarError: It cannot be written; nothing was changed.
        """
        self.refresh(thorough=True)
        state, signature = self._index.state(), self._signature_of_json()
        if state.get("changed") != "1" and state.get("published", "") == signature:
            return ()
        notices, wanted = self.looks_wrong(), self._as_json()
        if (self._published() or b"{}\n") != wanted:
            with self._store.transaction(SOURCE, f"the names in {PEOPLE_DIR}/") as tx:
                tx.write(ALIASES_JSON, wanted, any_size=True)
        self._index.keep({"changed": "0", "published": self._signature_of_json()})
        return notices

    def looks_wrong(self) -> tuple[str, ...]:
        """Return what is to be told of an `_aliases.json` that someone else wrote."""
        signature = self._signature_of_json()
        if not signature or signature == self._index.state().get("published"):
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
        """Return the names that only `_aliases.json` has; None when it is damaged."""
        try:
            found = json.loads(self._published() or b"{}")
        except (ValueError, RecursionError, FamiliarError):
            return None
        if not isinstance(found, dict):
            return None
        pairs = {(name, slug) for name, slugs in found.items() for slug in _listed(slugs)}
        known = self._index.slugs({key_of(name) for name, _ in pairs})
        there = self._index.there({slug for _, slug in pairs})
        return sorted({n for n, slug in pairs if slug in there - set(known.get(key_of(n), ()))})

    def _as_json(self) -> bytes:
        """Return what `_aliases.json` shall hold.

        Two spellings of one name (`mary-jane`, `mary jane`) both stand there, each with everyone.
        """
        spelled = {fold(name) for person in self.people() for name in person.names}
        slugs = self._index.slugs({key_of(name) for name in spelled})
        named = {name: slugs[key_of(name)] for name in sorted(spelled) if key_of(name) in slugs}
        plain = {name: found[0] if len(found) == 1 else found for name, found in named.items()}
        return (json.dumps(plain, ensure_ascii=False, indent=1) + "\n").encode()

    def _published(self) -> bytes | None:
        try:
            return self._store.read_bytes(ALIASES_JSON)
        except NotFoundError:
            return None

    def _signature_of_json(self) -> str:
        try:
            status = os.stat(os.path.join(self._root, *ALIASES_JSON.split("/")))
        except OSError:
            return ""
        return _words(stamp_of(status, wall_ns()))

    def _signature_of_directory(self) -> str | None:
        """Return what shows that entries of the directory came or went; None: there is none."""
        looked_ns = wall_ns()
        try:
            status = os.stat(self._directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(error) from error
        return _signature(status, looked_ns)

    def _read_changed(self, signature: str | None, state: Mapping[str, str]) -> None:
        there = self._scan() if signature else {}
        known = self._index.signatures()
        gone = [slug for slug in known if slug not in there]
        changed = [slug for slug, signature in there.items() if known.get(slug) != signature]
        if gone:
            self._index.replace(gone, ())
        for at in range(0, len(changed), _BATCH):
            batch = changed[at : at + _BATCH]
            self._index.replace(batch, [self._person(slug, there[slug]) for slug in batch])
        seen = {"directory": signature or "", "count": str(len(there))}
        if any(state.get(name) != value for name, value in seen.items()):
            self._index.keep(seen)

    def _scan(self) -> dict[str, str]:
        """Return the signature of each person's file."""
        found, looked_ns = {}, wall_ns()
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    slug = slug_in(f"{PEOPLE_DIR}/{entry.name}")
                    if slug and not unreadable_name(entry.name) and entry.is_file():
                        found[slug] = _signature(entry.stat(), looked_ns)
        except OSError as error:
            raise _unreadable(error) from error
        return found

    def _person(self, slug: str, signature: str) -> NamedPerson:

        try:
            head = self._store.read_head(people_path(slug), self._store.limits.max_file_bytes)
        except FamiliarError as error:
            return NamedPerson(slug, (), str(error), signature)
        # Another account of somebody goes by no name of its own: names mean the one file.
        names = () if main_account(head.text) else names_of(head.text)
        return NamedPerson(slug, names, "", signature)


def _is_fresh(state: Mapping[str, str], signature: str | None) -> bool:
    """Return whether it is enough to have looked at the directory."""
    is_large = int(state.get("count", 0)) > MOST_STATS
    return is_large and signature is not None and state.get("directory") == signature


def _signature(status: os.stat_result, looked_ns: int) -> str:
    """Return what is the same at every look until there is a change.

    What is so young that it may change again and look the same is never the same.
    """
    stamp = stamp_of(status, looked_ns)
    return _words(stamp) if stamp.settled else f"{_words(stamp)} {looked_ns}"


def _words(stamp: FileStamp) -> str:
    return f"{stamp.size_bytes} {stamp.mtime_ns} {stamp.ctime_ns}"


def _listed(slugs: object) -> list[str]:
    listed = slugs if isinstance(slugs, list) else [slugs]
    return [slug for slug in listed if isinstance(slug, str)]


def _unreadable(error: OSError) -> FamiliarError:
    return FamiliarError(
        f"{PEOPLE_DIR!r} cannot be read: {error.strerror}", hint="Check its permissions."
    )


VERSION: Final = 2
_BUSY_S: Final = 0.5
_TABLES: Final = (
    "CREATE TABLE people (slug TEXT PRIMARY KEY, signature TEXT, names TEXT, problem TEXT)",
    "CREATE TABLE names (key TEXT, slug TEXT, PRIMARY KEY (key, slug)) WITHOUT ROWID",
    "CREATE INDEX names_of_slug ON names (slug)",
    "CREATE TABLE heads (head TEXT PRIMARY KEY, words INTEGER, chars INTEGER) WITHOUT ROWID",
    "CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT)",
    f"PRAGMA user_version = {VERSION}",
)


@dataclass(frozen=True, slots=True)
class NamedPerson:
    """Someone with a file in `people/`.

    Args:
        slug: Whose file it is.
        names: What they are called.
        problem: Why the file could not be read; empty when it could.
        signature: What shows that the file is still the same.
    """

    slug: str
    names: tuple[str, ...]
    problem: str = ""
    signature: str = ""


class AliasIndex:
    """Names and who is called so.

    Args:
        path: The SQLite file; made when first written to.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def exists(self) -> bool:
        """Tell whether anything was ever kept."""
        return self._database is not None or os.path.exists(self._path)

    def heads(self, heads: Collection[str]) -> dict[str, NamePrefix]:
        """Return those of `heads` with which a name begins, and how long such names are."""
        rows = self._among("SELECT head, words, chars FROM heads WHERE head IN", heads)
        return {head: NamePrefix(words, chars) for head, words, chars in rows}

    def known(self, keys: Collection[str]) -> set[str]:
        """Return those of `keys` that are names."""
        return {key for (key,) in self._among("SELECT key FROM names WHERE key IN", keys)}

    def slugs(self, keys: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return everyone who is called so, by key; sorted."""
        found: dict[str, list[str]] = {}
        for key, slug in self._among("SELECT key, slug FROM names WHERE key IN", keys):
            found.setdefault(key, []).append(slug)
        return {key: tuple(sorted(slugs)) for key, slugs in found.items()}

    def there(self, slugs: Collection[str]) -> set[str]:
        """Return those of `slugs` who have a file."""
        return {slug for (slug,) in self._among("SELECT slug FROM people WHERE slug IN", slugs)}

    def people(self) -> list[NamedPerson]:
        """Return everyone who has a file, sorted by slug."""
        rows = self._rows("SELECT slug, names, problem, signature FROM people ORDER BY slug")
        with self._translated():
            return [
                NamedPerson(slug, tuple(json.loads(names)), *more) for slug, names, *more in rows
            ]

    def shared(self) -> dict[str, tuple[str, ...]]:
        """Return every name that several people share, sorted."""
        rows = self._rows("SELECT key FROM names GROUP BY key HAVING count(*) > 1 ORDER BY key")
        found = self.slugs([key for (key,) in rows])
        return {key: found[key] for (key,) in rows}

    def signatures(self) -> dict[str, str]:
        """Return everyone's signature by slug."""
        return dict(self._rows("SELECT slug, signature FROM people"))

    def state(self) -> dict[str, str]:
        """Return what `keep` kept."""
        return dict(self._rows("SELECT name, value FROM state"))

    def keep(self, state: Mapping[str, str]) -> None:
        """Keep values by name."""
        with self._writing() as database:
            database.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", state.items())

    def replace(self, slugs: Iterable[str], people: Iterable[NamedPerson]) -> None:
        """Forget all that is known of `slugs`, and take `people` in; all or nothing."""
        listed = [(slug,) for slug in slugs]
        with self._writing() as database:
            database.executemany("DELETE FROM people WHERE slug = ?", listed)
            database.executemany("DELETE FROM names WHERE slug = ?", listed)
            for person in people:
                _insert(database, person)
            database.execute("INSERT OR REPLACE INTO state VALUES ('changed', '1')")

    def _among(self, select: str, values: Collection[str]) -> list[tuple[Any, ...]]:
        if not self.exists():
            return []
        with self._translated():
            return list(rows_among(self._opened(), select, values))

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        if not self.exists():
            return []
        with self._translated():
            return self._opened().execute(sql).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._translated(), transaction(self._opened()) as database:
            yield database

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            try:
                self._database = self._open(self._path)
            except sqlite3.DatabaseError as error:
                if fault_of(error) is Fault.locked:
                    raise
                self._database = self._made_anew()
        return self._database

    def _made_anew(self) -> sqlite3.Connection:
        """Return a new index: in place of the damaged one, else in this process only."""
        with suppress(OSError, sqlite3.DatabaseError):
            self._remove()
            return self._open(self._path)
        return self._open(":memory:")

    def _open(self, path: str) -> sqlite3.Connection:
        database = (connect if path == ":memory:" else connect_derived)(path, _BUSY_S)
        try:
            renew(database, VERSION, _TABLES)
        except BaseException:
            database.close()
            raise
        return database

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm", "-journal"):
            remove(self._path + end)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            if fault_of(error) is Fault.locked:
                raise LockedError(
                    "The name index is locked by another process; nothing was changed",
                    hint="Wait for that process and try again.",
                ) from error
            if is_useless(error) or not isinstance(error, sqlite3.DatabaseError):
                self.close()
                with suppress(OSError):
                    self._remove()  # the next use makes it anew
            raise FamiliarError(
                f"The name index {self._path!r} could not be used: {error}",
                hint="Try again; it is rebuilt. It can be deleted without loss.",
            ) from error


def _insert(database: sqlite3.Connection, person: NamedPerson) -> None:
    names = json.dumps(person.names, ensure_ascii=True)
    database.execute(
        "INSERT INTO people VALUES (?, ?, ?, ?)",
        (person.slug, person.signature, names, person.problem),
    )
    for key in {key_of(name) for name in person.names} - {""}:
        head, length = head_of(key)
        database.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (key, person.slug))
        database.execute(
            "INSERT INTO heads VALUES (?, ?, ?) ON CONFLICT (head) DO UPDATE SET"
            " words = max(words, excluded.words), chars = max(chars, excluded.chars)",
            (head, *length),
        )
