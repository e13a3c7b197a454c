"""Carry out orders to forget people: here, from another machine, or cut off before.

An order is recorded in `.forgetting.json` until it is carried out: whoever opens the familiar after
a crash finishes it. The record holds names, since the pages that have them are the first to go.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, MutableMapping, MutableSequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import tomlkit
from msgspec import Struct, to_builtins

from familiar_cli.base.config.home import FamiliarPaths, Instance, is_abandoned
from familiar_cli.base.config.schema import ChannelConfig, CharacterConfig
from familiar_cli.base.config.settings import all_settings, parse, read_text
from familiar_cli.base.errors import BadInputError, ConflictError, FamiliarError, LockedError
from familiar_cli.base.files import (
    TEMP_PREFIX,
    locked,
    read_plain,
    read_record,
    remove,
    why,
    write_hint,
    write_own,
)
from familiar_cli.base.markdown import body_start, split_lines
from familiar_cli.base.text import fold, sha256_of, words_of
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.attachments import DIRECTORY, remove_unmentioned
from familiar_cli.store.history.forgetting import ForgetOrder, orders_of
from familiar_cli.store.history.likeness import RUN_WORDS, NameForms
from familiar_cli.store.history.lines import TurnName
from familiar_cli.store.history.tombstones import Forgotten, accounts_of, bury_turns, find_forgotten
from familiar_cli.store.journal.repository import HUMAN, Repository, translate_errors
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.aliases import names_of, slug_in
from familiar_cli.store.memory.pages.erasing import PageEraser, free_path, page_items
from familiar_cli.store.memory.pages.lines import normal_line
from familiar_cli.store.memory.store.files import MISSING
from familiar_cli.store.memory.store.store import MemoryStore, hold_lock
from familiar_cli.sync.journal_epochs import EpochWriter, memory_orders

if TYPE_CHECKING:
    from familiar_cli.base.config.channel import ChannelConfigs
    from familiar_cli.base.config.values import Setting
    from familiar_cli.store.history.store import HistoryStore

ORDERS_FILE: Final = ".forgotten.json"
"""In the home: the orders of each familiar, so that they outlive a restored backup."""

_KNOWN_FILE: Final = "served.sqlite"  # of the server
_DERIVED: Final = ("recall", "replying", ".backups", f"memory/{layout.INDEX_DIR}")
_COPIES: Final = ("history.db.damaged-*", "history.db.salvaged*", f"{_KNOWN_FILE}*")
_RECORDS: Final = ("traces", "runs", "quarantine")
_OWN: Final = re.compile(
    rf"memory|journal\.git|channels|history\.(db|db-.*|cursor)|instance\..*|moved\.txt|.*\.lock.*"
    rf"|(subscriptions|sync)\.toml|{DIRECTORY}|{'|'.join(_RECORDS)}"
)
_OF_OTHERS: Final = (".trash", ".obsidian")  # in the memory, where this program reads nothing
_TRIES: Final = 5
_NOT_ABOUT_PEOPLE: Final = frozenset({"llm", "embedding"})  # names of models and servers


class ForgetPlace(Struct, frozen=True):
    """The parts of a familiar in which somebody is forgotten.

    Args:
        others: What the familiar and its owners are called.
    """

    paths: FamiliarPaths
    memory: MemoryStore
    history: HistoryStore
    channels: ChannelConfigs
    repository: Repository
    instance: Instance
    others: tuple[str, ...]


class UnfinishedOrder(Struct, frozen=True):
    """An order that is being carried out.

    Args:
        order: The order, in one line.
        slugs: The person's accounts.
        names: What they are called.
        channels: Files of channels that lose their name.
        built_on: Versions of the memory in which it was carried out elsewhere.
    """

    order: str
    slugs: tuple[str, ...]
    names: tuple[str, ...]
    channels: tuple[str, ...] = ()
    built_on: tuple[str, ...] = ()


def people_pages(memory: MemoryStore) -> Iterator[tuple[str, str]]:
    """Yield the slug and the text of each person's file."""
    for entry in memory.walk(layout.PEOPLE_DIR, missing_ok=True).files:
        slug = slug_in(entry.rel_path)
        if slug:
            with suppress(FamiliarError):
                yield slug, memory.read_file(entry.rel_path)


class ForgetRun:
    """Carries out one order in one familiar."""

    def __init__(
        self, place: ForgetPlace, order: ForgetOrder, begun: UnfinishedOrder | None = None
    ) -> None:
        self._place = place
        self.order = order
        self._root = place.paths.root
        pages = dict(people_pages(place.memory))
        accounts = accounts_of(place.history)
        self._speakers = frozenset(author.slug for author in accounts)
        covered = {s for s in pages if order.covers(Author.from_slug(s))}
        covered |= {a.slug for a in accounts if order.covers(a)}
        self.slugs = frozenset(covered.union(begun.slugs if begun else ()))
        self._names = [Author.from_slug(slug).user_id for slug in sorted(covered)]
        self._names += begun.names if begun else ()
        self.new_names: dict[str, str] = {}  # of memory files, once `changes` has found them
        self._old_files = begun.channels if begun else ()
        others = ["user", "char", *place.others]
        for slug, text in pages.items():
            (self._names if slug in self.slugs else others).extend(names_of(text))
        for author in accounts:
            known = filter(None, (author.username, author.display_name, author.user_id))
            (self._names if author.slug in self.slugs else others).extend(known)
            others.append(author.platform)
        self.found = self._find(NameForms.of(self._names, others, self.slugs))
        self._traced = {str(number) for number in self.found.changed}
        self._lines: tuple[str, ...] = ()  # lines that the order names, and others may repeat
        self.eraser = PageEraser(
            self.slugs,
            self._is_cited,
            self._is_quoted,
            self._resembles,
            self._bare_name,
            order.names_line,
        )
        if order.lines:
            items = (item for path, text in self._pages() for item in page_items(text))
            lines = filter(order.names_line, (normal_line("".join(item)) for item in items))
            # Few words stand in texts about something else, too.
            self._lines = tuple(line for line in lines if len(words_of(line)) >= RUN_WORDS)

    def _find(self, names: NameForms) -> Forgotten:
        memory = self._place.memory
        common = [
            memory.read_file(entry.rel_path)
            for directory in (layout.SELF_DIR, layout.LORE_DIR)
            for entry in memory.walk(directory, missing_ok=True).files
            if entry.rel_path.endswith((".md", ".json"))  # a card has more greetings
        ]
        instance = self._place.instance.id
        return find_forgotten(self._place.history, self.order, instance, names, common)

    def _is_cited(self, instance: str, number: int) -> bool:
        return TurnName(instance or self._place.instance.began, number) in self.found.names

    def _pages(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the text of each page."""
        for entry in self._place.memory.walk("", missing_ok=True).files:
            with suppress(FamiliarError):
                if entry.rel_path.lower().endswith(layout.SUFFIXES):
                    content = self._place.memory.read_bytes(entry.rel_path)
                    yield entry.rel_path, content.decode(errors="replace")

    def _resembles(self, text: str) -> bool:
        if self.found.traces.are_in(text):
            return True
        words = f" {normal_line(text)} " if self._lines else ""
        return any(f" {line} " in words for line in self._lines)

    def _is_quoted(self, text: str) -> bool:
        return self.found.traces.is_named_in(text) or self.found.traces.is_quoted_in(text)

    def _bare_name(self, name: str) -> str:
        return name if name in layout.STANDARD_NAMES else self.found.traces.without_name(name)

    def changes(self) -> dict[str, tuple[bytes, bytes | None]]:
        """Return the memory files that change, before and after."""
        memory = self._place.memory
        result: dict[str, tuple[bytes, bytes | None]] = {}
        if not memory.root.is_dir():
            return result
        files = memory.walk("", hidden=True).files
        taken = {fold(entry.rel_path) for entry in files}
        for entry in files:
            with suppress(FamiliarError):
                before = memory.read_bytes(entry.rel_path)
                after = self.eraser.cleaned(entry.rel_path, before)
                renamed = self.eraser.renamed(entry.rel_path)
                if after is not None and renamed != entry.rel_path:
                    renamed = free_path(renamed, taken)
                    taken.add(fold(renamed))
                    result[renamed] = (b"", after)
                    self.new_names[entry.rel_path] = renamed
                    after = None
                if after != before:
                    result[entry.rel_path] = (before, after)
        return result

    def remaining(self, *, afterwards: bool) -> Iterator[str]:
        """Yield, as `path:line`, the lines that keep a word like their name.

        Args:
            afterwards: Give the place that a line has without the removed ones.
        """
        gone = {path for path, (_, after) in self.changes().items() if after is None}
        gone -= self.new_names.keys()
        for path, text in self._pages():
            if path in gone:
                continue
            place = self.new_names.get(path, path) if afterwards else path
            is_named = self.is_page_of_speaker(path)
            removed, start, body = 0, 0, body_start(text) if is_named else 0
            for number, item, is_kept in self.eraser.items(path, text):
                lines = split_lines(item)
                is_title = is_named and (start < body or item.startswith("# "))
                start += len(item)
                if not is_kept:
                    removed += len(lines)
                elif not is_title and self.may_name(item):
                    at = next((n for n, line in enumerate(lines) if self.may_name(line)), 0)
                    yield f"{place}:{number + at - removed * afterwards}"

    def is_page_of_speaker(self, path: str) -> bool:
        """Tell whether a page is that of an account that has spoken, whose title is expected."""
        return slug_in(path) in self._speakers

    def may_name(self, text: str) -> bool:
        """Tell whether a text has a word like a name of theirs, whoever is meant."""
        return self.found.traces.names.may_be_in(text)

    def settings(self) -> dict[Path, str]:
        """Return the settings and jobs that name the person, without these.

        Raises:
            ConfigError: One of the files is damaged.
        """
        renamed = self._renamed_channels()
        result: dict[Path, str] = {}
        for path in self.settings_files():
            before = read_text(path)
            parse(before, path)
            document = tomlkit.parse(before)
            self._clear(document)
            lines = tomlkit.dumps(document).split("\n")
            comments = {line for line in lines if line.startswith("#")}
            gone = {line for line in comments if path in renamed or self.eraser.mentions(line)}
            after = "\n".join(line for line in lines if line not in gone)
            if after != before or path in renamed:
                result[path] = after
        return result

    def settings_files(self) -> list[Path]:
        """List the files of settings and jobs."""
        paths = self._place.paths
        return [paths.jobs, paths.config, *sorted(paths.channels.glob("*.toml"))]

    def _renamed_channels(self) -> dict[Path, Path]:
        """Return the settings files of channels that lose their name, with their new paths."""
        channels = self._place.channels
        matches = ((channels.path(old), new) for old, new in self.found.channels.items() if old)
        return {old: channels.path(new) for old, new in matches if old.exists()}

    def _clear(self, table: MutableMapping[str, Any], prefix: str = "") -> None:
        """Remove what names the person from settings; the choices of a setting are not names."""
        parts = {part for key in _known_settings() for part in key.split(".")}
        for key, value in list(table.items()):
            setting = _known_settings().get(f"{prefix}{key}")
            if (not prefix and key in _NOT_ABOUT_PEOPLE) or (setting and value in setting.choices):
                continue
            if key not in parts and self.eraser.renamed(key) != key:
                del table[key]
            elif isinstance(value, str) and self.eraser.mentions(value):
                lines = [line for line in value.split("\n") if not self.eraser.mentions(line)]
                if any(line.strip() for line in lines):
                    table[key] = "\n".join(lines)
                else:
                    del table[key]
            elif isinstance(value, MutableMapping):
                self._clear(value, f"{prefix}{key}.")
            elif isinstance(value, MutableSequence):
                for item in [item for item in value if self._is_named_in(item)]:
                    value.remove(item)

    def _is_named_in(self, item: object) -> bool:
        """Tell whether an item of a list, a text or a job, names the person."""
        texts = item.values() if isinstance(item, MutableMapping) else [item]
        return any(isinstance(text, str) and self.eraser.mentions(text) for text in texts)

    def records(self) -> list[Path]:
        """List the derived files that name or quote the person, or are rebuilt anyway."""
        found = [self._root / name for name in _DERIVED]
        found += (path for pattern in _COPIES for path in self._root.glob(pattern))
        left = (*self._root.rglob(f"{TEMP_PREFIX}*"), *self._root.parent.glob(".*"))
        found += (path for path in left if is_abandoned(path.name))
        for directory in (*_RECORDS, ".consolidation-parts"):
            found += filter(self._is_theirs, (self._root / directory).rglob("*"))
        for pattern in ("*.json", ".consolidation*"):
            found += filter(self._is_theirs, self._root.glob(pattern))
        found += self._channel_files()
        return [path for path in found if path.exists() and path != self._place.paths.forgetting]

    def records_of_others(self) -> int:
        """Count the records of replies to others that name or quote the person."""
        traces = (path for path in self.records() if path.parent.name == "traces")
        return sum(path.stem not in self._traced for path in traces)

    def foreign_files(self) -> list[Path]:
        """List files in the familiar's directory that the program did not make, and that tell."""
        done = {*self.records(), *self.settings(), self._place.paths.forgetting}
        entries = [p for p in self._root.iterdir() if not _OWN.fullmatch(p.name) and p not in done]
        entries += [self._place.memory.root / name for name in _OF_OTHERS]
        files = [p for entry in entries for p in (entry, *entry.rglob("*"))]
        return sorted(path for path in files if self._is_theirs(path))

    def _channel_files(self) -> Iterator[Path]:
        """Yield what belongs to channels that lose their name, except their settings."""
        paths, names = self._place.paths, self.found.channels
        yield from map(paths.channel_lock, names)
        stems = {self._place.channels.path(old).stem for old in names if old}
        for path in paths.channels.rglob("*"):
            is_own = path.name.partition(".")[0] in stems
            if path.suffix != ".toml" and (is_own or self.eraser.mentions(unquote(path.name))):
                yield path

    def _is_theirs(self, path: Path) -> bool:
        if not path.is_file():
            return False
        if path.parent.name == "traces" and path.stem in self._traced:
            return True
        try:
            text = read_plain(path).decode(errors="replace")
        except OSError:
            return False
        with suppress(ValueError):
            text = json.dumps(json.loads(text), ensure_ascii=False)
        return self.eraser.mentions(f"{unquote(path.name)}\n{text}".replace("\\n", "\n"))

    def carry_out(self, built_on: Collection[str] = ()) -> None:
        """Erase the person: derived data first, the turns themselves last.

        If it is cut off, the next process that opens the familiar finishes it.

        Raises:
            LockedError: Another process is forgetting somebody here.
            FamiliarError: Something cannot be written.
        """
        with _only_one_order(self._place.paths):
            self.finish(built_on)

    def finish(self, built_on: Collection[str]) -> None:
        """Carry out the order from its beginning, also one that was cut off, under the lock."""
        paths = self._place.paths
        settings = self.settings()  # a damaged file ends it before anything is removed
        renamed = self._renamed_channels()
        begun = UnfinishedOrder(
            self.order.to_line(),
            tuple(sorted(self.slugs)),
            tuple(self._names),
            tuple({*self._old_files, *(path.name for path in renamed)}),
            tuple(built_on),
        )
        _note_order(paths, self.order)
        write_own(paths.forgetting, json.dumps(to_builtins(begun)).encode())
        self._announce()
        self._remove_records()
        for path, text in settings.items():
            write_own(renamed.get(path, path), text.encode())
        self._rewrite_memory(built_on)
        bury_turns(self._place.history, self.order, self.found)
        for name in begun.channels:  # which kept private channels so until they were renamed
            remove(paths.channels / name)
        self._remove_records()  # content indexed again meanwhile
        remove_unmentioned(self._root, self._place.history)
        remove(paths.forgetting)
        self._announce()

    def _announce(self) -> None:
        """Make servers open the familiar again."""
        with suppress(OSError):
            os.utime(self._place.paths.config)

    def _remove_records(self) -> None:
        for path in self.records():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                remove(path)

    def _rewrite_memory(self, built_on: Collection[str]) -> None:
        memory, repository = self._place.memory, self._place.repository
        for _ in range(_TRIES):
            memory.catch_up()
            changes = self.changes()
            if changes:
                with memory.transaction(HUMAN, "forget a person") as tx:
                    for path, (before, after) in changes.items():
                        if after is None:
                            tx.delete(path, expect=sha256_of(before))
                        else:
                            expect = sha256_of(before) if before else MISSING
                            tx.write(path, after, expect=expect, any_size=True)
            with hold_lock(memory.lock_path, memory.lock_timeout_s):
                if self.changes():  # they were written about meanwhile
                    continue
                if repository.exists:
                    signature = self._place.instance
                    with translate_errors(repository.path):
                        EpochWriter(repository, self.eraser).begin(
                            self.order.to_line(),
                            instance="" if signature.is_first else signature.id,
                            built_on=built_on,
                        )
                return
        raise ConflictError(
            "The memory kept changing, so not everything was forgotten",
            hint="Run the same command again while nobody is talking to the familiar.",
        )


@cache
def _known_settings() -> dict[str, Setting]:
    return {**all_settings(ChannelConfig), **all_settings(CharacterConfig)}


@contextmanager
def _only_one_order(paths: FamiliarPaths) -> Iterator[None]:
    try:
        with locked(paths.root / ".forgetting.lock", 0, what="what is known of people"):
            yield
    except OSError as error:
        raise FamiliarError(
            f"{str(paths.root)!r} cannot be written to: {why(error)}",
            hint=f"{write_hint(error.errno)} What was begun is completed by the next command.",
        ) from error


def finish_forgetting(place: Callable[[], ForgetPlace], paths: FamiliarPaths) -> bool:
    """Finish an order that was cut off; False if a process is still carrying it out.

    Raises:
        FamiliarError: It cannot be finished; the next opening tries again.
    """
    with ExitStack() as held:
        try:
            held.enter_context(_only_one_order(paths))
        except LockedError:
            return False
        begun = read_record(paths.forgetting, UnfinishedOrder)
        if begun is None and not paths.forgetting.exists():  # done meanwhile
            return True
        if begun is None:
            raise BadInputError(
                f"{str(paths.forgetting)!r} is damaged. Run `familiar people forget NAME` for the "
                "same person again"
            )
        order = ForgetOrder.from_line(begun.order)
        ForgetRun(place(), order, begun).finish(begun.built_on)
    return True


def known_orders(paths: FamiliarPaths) -> list[ForgetOrder]:
    """Return the orders that the home has for a familiar.

    Raises:
        BadInputError: An order is invalid, or their file is damaged.
    """
    return [ForgetOrder.from_line(line) for line in _read_orders(paths).get(paths.id, [])]


def is_order_missing(paths: FamiliarPaths, history: HistoryStore) -> bool:
    """Tell whether the history lacks an order of the home, as an older copy does.

    Raises:
        BadInputError: As `known_orders`.
    """
    known = {order.id for order in known_orders(paths)}
    return bool(known and known.difference(order.id for order in orders_of(history)))


def carry_out_known_orders(place: ForgetPlace, about: Collection[Author] = ()) -> int:
    """Carry out the orders of the home and the journal that the history lacks; count them.

    Args:
        about: Only those about one of these accounts; empty for all.

    Raises:
        BadInputError: An order is invalid.
        LockedError: Another process is forgetting somebody here.
        FamiliarError: Something cannot be written.
    """
    with closing(place.repository) as journal:
        head = journal.head() if journal.exists else None
        merged = memory_orders(journal.objects.read, head) if head else ()
    done = {order.id for order in orders_of(place.history)}
    known = {order.id: order for order in (*merged, *known_orders(place.paths))}
    orders = [
        order
        for order in known.values()
        if order.id not in done and (not about or any(map(order.covers, about)))
    ]
    for order in orders:
        ForgetRun(place, order).carry_out()
    return len(orders)


def _read_orders(paths: FamiliarPaths) -> dict[str, list[str]]:
    path = paths.root.parent / ORDERS_FILE
    return read_record(path, dict[str, list[str]], _damaged_orders) or {}


def _damaged_orders() -> BadInputError:
    return BadInputError(
        f"{ORDERS_FILE!r} in the home is damaged, so it is unknown who was forgotten; nothing was "
        "changed",
        hint="Restore it from a copy of the home, or delete it to go on without it.",
    )


def _note_order(paths: FamiliarPaths, order: ForgetOrder) -> None:
    """Record an order in the home as well."""
    known = _read_orders(paths)
    lines = known.setdefault(paths.id, [])
    if order.to_line() not in lines:
        lines.append(order.to_line())
        content = (json.dumps(known, indent=1) + "\n").encode()
        write_own(paths.root.parent / ORDERS_FILE, content)
