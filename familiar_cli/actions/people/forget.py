"""`familiar people export` and `forget`: a person's data, exported for them and erased."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import MutableMapping, MutableSequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

import tomlkit
from msgspec import Struct

from familiar_cli.actions.people.people import find_person
from familiar_cli.base.config.settings import all_settings, parse, read_text
from familiar_cli.base.errors import ConflictError, FamiliarError, NotFoundError, RefusedError
from familiar_cli.base.files import read_plain, read_record, remove, write_own, write_whole
from familiar_cli.base.text import bare_lines, fold, sha256_of
from familiar_cli.base.times.clock import iso
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.attachments import remove_unmentioned
from familiar_cli.store.history.forgetting import (
    ForgetOrder,
    Forgotten,
    accounts_covered,
    bury_turns,
    find_forgotten,
    orders_of,
    words_of,
)
from familiar_cli.store.history.lines import TurnName
from familiar_cli.store.journal.repository import HUMAN, translate_errors
from familiar_cli.store.memory.aliases import main_account, names_of, slug_in
from familiar_cli.store.memory.layout import (
    INDEX_DIR,
    LORE_DIR,
    PEOPLE_DIR,
    SELF_DIR,
    STANDARD_NAMES,
)
from familiar_cli.store.memory.pages.erasing import PageEraser, free_path
from familiar_cli.store.memory.store.files import MISSING
from familiar_cli.store.memory.store.store import hold_lock
from familiar_cli.sync.journal_epochs import EpochWriter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from familiar_cli.familiar import Familiar

ORDERS_FILE: Final = ".forgotten.json"
"""In the home: the orders of each familiar, so that they outlive a restored backup."""

NOT_COVERED: Final = (
    (
        "backups (`familiar backup`): a restored one forgets again, but the backup itself keeps "
        "everything; remove old ones with `--keep`"
    ),
    "objects that a git host keeps after a push: run `git gc --prune=now` there, or ask the host",
    "copies elsewhere: exports, logs of programs that send messages, and clones of other people",
)
"""What forgetting cannot reach."""

_KNOWN_FILE: Final = "served.sqlite"  # of the server
_DERIVED: Final = ("recall", "replying", ".backups", f"memory/{INDEX_DIR}")
_RECORDS: Final = ("traces", "runs", "quarantine")
_TRIES: Final = 5


class ForgetReport(Struct, frozen=True):
    """What forgetting a person erased, or would erase.

    Args:
        turns: Their turns, which lose their text.
        replies: The familiar's turns that lose their text, too.
        to_others: Those among them that reply to others, but name or quote them.
        files: Memory files that are deleted.
        changed: Memory files that lose lines, with the bytes removed from each.
        records: Traces, records of passes and the like that are deleted.
        quoting: Other people's turns that name or quote them, for a person to decide on.
        order: The order that is synced with the memory; empty for a dry run.
        dry_run: Nothing was changed.
        not_covered: What forgetting cannot reach.
    """

    turns: int
    replies: int
    files: tuple[str, ...]
    changed: dict[str, int]
    records: int
    quoting: tuple[int, ...]
    to_others: tuple[int, ...] = ()
    order: str = ""
    dry_run: bool = False
    not_covered: tuple[str, ...] = NOT_COVERED


def _accounts(familiar: Familiar, person: str) -> list[Author]:
    """Return all accounts of a person, including merged ones.

    Raises:
        NotFoundError: Nobody has this name.
        UsageError: Several people have it.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        slug = find_person(familiar, names, person, loosely=True)
    pages = dict(_people(familiar))
    main = (main_account(pages[slug]) if slug in pages else None) or slug
    slugs = {main, slug} | {s for s, text in pages.items() if main_account(text) == main}
    return [Author.from_slug(one) for one in sorted(slugs)]


def _people(familiar: Familiar) -> Iterator[tuple[str, str]]:
    for entry in familiar.memory.walk(PEOPLE_DIR, missing_ok=True).files:
        slug = slug_in(entry.rel_path)
        if slug:
            with suppress(FamiliarError):
                yield slug, familiar.memory.read_file(entry.rel_path)


class _Forgetting:
    """Carries out one order in one familiar."""

    def __init__(self, familiar: Familiar, order: ForgetOrder) -> None:
        self._familiar = familiar
        self._order = order
        self._root = familiar.paths.root
        pages = dict(_people(familiar))
        known = accounts_covered(familiar.history, order)
        covered = {s for s in pages if order.covers(Author.from_slug(s))}
        self.slugs = frozenset(covered | {author.slug for author in known})
        self.names = self._distinct_names(pages, known)
        self.found = self._find()
        self._traced = {str(number) for number in self.found.turns}
        traces = self.found.traces
        self.eraser = PageEraser(
            self.slugs, self._is_cited, self._is_quoted, traces.are_in, self._bare_name
        )

    def _distinct_names(self, pages: dict[str, str], known: Sequence[Author]) -> set[str]:
        """Return the names that only this person has, the familiar included."""
        own = [name for slug in self.slugs if slug in pages for name in names_of(pages[slug])]
        for author in known:
            own += filter(None, (author.username, author.display_name, author.user_id))
        others = [n for s, text in pages.items() if s not in self.slugs for n in names_of(text)]
        others += [self._familiar.name, self._familiar.paths.id, "user", "char"]
        for me in self._familiar.me().owners:
            others += filter(None, (me.account.user_id, me.account.username, me.name))
        taken = {tuple(words_of(name)) for name in others}
        own += list(self.slugs)
        return {n for n in own if tuple(words_of(n)) not in taken}

    def _find(self) -> Forgotten:
        memory = self._familiar.memory
        common = [
            memory.read_file(entry.rel_path)
            for directory in (SELF_DIR, LORE_DIR)
            if memory.exists(directory)
            for entry in memory.walk(directory).files
            if entry.rel_path.endswith(".md")
        ]
        instance = self._familiar.instance.id
        return find_forgotten(self._familiar.history, self._order, instance, self.names, common)

    def _is_cited(self, instance: str, number: int) -> bool:
        return TurnName(instance or self._familiar.instance.began, number) in self.found.names

    def _is_quoted(self, text: str) -> bool:
        words = words_of(text)
        return self.found.traces.is_named_in(words) or self.found.traces.is_quoted_in(words)

    def _bare_name(self, name: str) -> str:
        return name if name in STANDARD_NAMES else self.found.traces.without_name(name)

    def changes(self) -> dict[str, tuple[bytes, bytes | None]]:
        """Return the memory files that change, before and after."""
        memory = self._familiar.memory
        found: dict[str, tuple[bytes, bytes | None]] = {}
        if not memory.root.is_dir():
            return found
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
                    found[renamed] = (b"", after)
                    after = None
                if after != before:
                    found[entry.rel_path] = (before, after)
        return found

    def settings(self) -> dict[Path, str]:
        """Return the settings and jobs that name the person, without these.

        Raises:
            ConfigError: One of the files is damaged.
        """
        found: dict[Path, str] = {}
        for path in (self._familiar.paths.jobs, self._familiar.paths.config):
            before = read_text(path)
            parse(before, path)
            document = tomlkit.parse(before)
            self._clear(document)
            if (after := tomlkit.dumps(document)) != before:
                found[path] = after
        return found

    def _clear(self, table: MutableMapping[str, object]) -> None:
        known = {part for key in all_settings() for part in key.split(".")}
        for key, value in list(table.items()):
            is_named = key not in known and self.eraser.renamed(key) != key
            if is_named or (isinstance(value, str) and self.eraser.mentions(value)):
                del table[key]
            elif isinstance(value, MutableMapping):
                self._clear(value)
            elif isinstance(value, MutableSequence):
                for item in [item for item in value if self._is_named_in(item)]:
                    value.remove(item)

    def _is_named_in(self, item: object) -> bool:
        """Tell whether a text in a list, or a job, names the person: without it, it is none."""
        texts = item.values() if isinstance(item, MutableMapping) else [item]
        return any(isinstance(text, str) and self.eraser.mentions(text) for text in texts)

    def records(self) -> list[Path]:
        """List the derived files that name or quote the person, or are rebuilt anyway."""
        found = [self._root / name for name in _DERIVED]
        found += self._root.glob(f"{_KNOWN_FILE}*")
        for directory in _RECORDS:
            found += filter(self._is_theirs, (self._root / directory).rglob("*"))
        found += filter(self._is_theirs, self._root.glob("*.json"))
        found += filter(self._is_theirs, self._root.glob(".consolidation*"))
        found += filter(self._is_theirs, (self._root / ".consolidation-parts").rglob("*"))
        channels = self._root / "channels"
        found += filter(self._is_theirs, channels.rglob("*"))
        found += [channels / f"{channel}.toml" for channel in self.found.channels]
        return [path for path in found if path.exists()]

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
        return self.eraser.mentions(f"{path.name}\n{text}".replace("\\n", "\n"))

    def report(self, *, dry_run: bool) -> ForgetReport:
        """Report what is erased."""
        changes, settings = self.changes(), self.settings()
        return ForgetReport(
            len(self.found.said),
            len(self.found.replies),
            tuple(path for path, (_, after) in changes.items() if after is None),
            {p: len(b) - len(a) for p, (b, a) in changes.items() if a is not None and b}
            | {path.name: len(read_text(path)) - len(s) for path, s in settings.items()},
            len(self.records()),
            self.found.quoted,
            tuple(sorted(self.found.quotes)),
            "" if dry_run else self._order.id,
            dry_run,
        )

    def carry_out(self, built_on: Collection[str]) -> None:
        """Erase the person: derived data first, the turns themselves last."""
        settings = self.settings()  # a damaged file ends it before anything is removed
        self._remove_records()
        for path, text in settings.items():
            write_own(path, text.encode())
        self._rewrite_memory(built_on)
        bury_turns(self._familiar.history, self._order, self.found)
        self._remove_records()  # content indexed again meanwhile
        remove_unmentioned(self._familiar.paths.root, self._familiar.history)
        _note_order(self._familiar, self._order)
        with suppress(OSError):
            os.utime(self._familiar.paths.config)  # makes servers open the familiar again

    def _remove_records(self) -> None:
        for path in self.records():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                remove(path)

    def _rewrite_memory(self, built_on: Collection[str]) -> None:
        memory, repository = self._familiar.memory, self._familiar.journal.repository
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
                    signature = self._familiar.instance
                    with translate_errors(repository.path):
                        EpochWriter(repository, self.eraser).begin(
                            self._order.to_line(),
                            instance="" if signature.is_first else signature.id,
                            built_on=built_on,
                        )
                return
        raise ConflictError(
            "The memory kept changing, so not everything was forgotten",
            hint="Run the same command again while nobody is talking to the familiar.",
        )


def forget_person(
    familiar: Familiar, person: str, *, turns: Sequence[str] = (), dry_run: bool = False
) -> ForgetReport:
    """Forget a person on this machine, and order it on all others.

    Args:
        person: The person: a slug, `PLATFORM:ID` or a name.
        turns: Other people's turns that lose their text as well, by number or `INSTANCE:NUMBER`.
        dry_run: Report what would be erased, and change nothing.

    Raises:
        NotFoundError: Nobody has this name, or there is no such turn.
        RefusedError: It is an owner.
        FamiliarError: Something cannot be written; running the command again continues.
    """
    accounts = _accounts(familiar, person)
    me = familiar.me()
    owner = next(filter(None, map(me.owner, accounts)), None)
    if owner:
        who = "you, whose familiar this is" if owner == me else f"{owner.name}, an owner of it"
        raise RefusedError(
            f"That is {who}; nothing was changed",
            hint=f"To remove all of it, delete {str(familiar.paths.root)!r}.",
        )
    numbering = familiar.numbering
    others = [numbering.turn_number(name) for name in turns]
    named = [
        name if ":" in name else f"{familiar.instance.id}:{number}"
        for number, name in numbering.turn_names(others).items()
    ]
    forgetting = _Forgetting(familiar, ForgetOrder.for_accounts(accounts, named))
    is_known = any(o.covers(a) for o in orders_of(familiar.history) for a in accounts)
    if not (forgetting.found.turns or forgetting.changes() or is_known):
        raise NotFoundError(
            f"Nothing is known about {person!r}; nothing was changed",
            hint="Run `familiar people list`.",
        )
    report = forgetting.report(dry_run=dry_run)
    if not dry_run:
        forgetting.carry_out(())
    return report


def carry_out_order(familiar: Familiar, order: ForgetOrder, built_on: Collection[str] = ()) -> None:
    """Carry out an order from another machine, or one that a restored backup lacks.

    Args:
        built_on: Versions of the memory in which it was carried out.
    """
    _Forgetting(familiar, order).carry_out(built_on)


def _orders_path(familiar: Familiar) -> Path:
    return familiar.paths.root.parent / ORDERS_FILE


def _read_orders(path: Path) -> dict[str, list[str]]:
    return read_record(path, dict[str, list[str]]) or {}


def _note_order(familiar: Familiar, order: ForgetOrder) -> None:
    """Record an order in the home as well."""
    path = _orders_path(familiar)
    known = _read_orders(path)
    lines = known.setdefault(familiar.paths.id, [])
    if order.to_line() not in lines:
        lines.append(order.to_line())
        write_own(path, (json.dumps(known, indent=1) + "\n").encode())


def carry_out_known_orders(familiar: Familiar) -> int:
    """Carry out the home's orders that a restored familiar lacks; return their number.

    Raises:
        BadInputError: An order is invalid.
    """
    done = {order.id for order in orders_of(familiar.history)}
    lines = _read_orders(_orders_path(familiar)).get(familiar.paths.id, [])
    orders = [order for order in map(ForgetOrder.from_line, lines) if order.id not in done]
    for order in orders:
        carry_out_order(familiar, order)
    return len(orders)


def export_person(familiar: Familiar, person: str, target: Path) -> dict[str, int]:
    """Write everything by and about a person to a new directory, for them.

    Args:
        person: The person: a slug, `PLATFORM:ID` or a name.
        target: The directory; it must be empty or missing.

    Returns:
        The numbers of turns, replies, lines of memory and files written.

    Raises:
        NotFoundError: Nobody has this name.
        ConflictError: The directory is not empty.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConflictError(
            f"{str(target)!r} is not empty; nothing was written", hint="Choose a new directory."
        )
    accounts = _accounts(familiar, person)
    forgetting = _Forgetting(familiar, ForgetOrder.for_accounts(accounts))
    changes = forgetting.changes()
    if not (forgetting.found.turns or changes):
        raise NotFoundError(
            f"Nothing is known about {person!r}", hint="Run `familiar people list`."
        )
    target.mkdir(parents=True, exist_ok=True)
    wanted = sorted(forgetting.found.turns)
    turns = (familiar.history.turn(number) for number in wanted)
    rows = [
        {
            "turn": turn.id,
            "at": iso(turn.at),
            "channel": turn.channel_id,
            "author": turn.author.label if turn.author else familiar.name,
            "role": turn.role,
            "content": turn.content,
        }
        for turn in turns
        if turn
    ]
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    write_whole(target / "turns.jsonl", text)
    lines: list[str] = []
    files = 0
    for rel_path, (before, after) in changes.items():
        content = before.decode(errors="replace")
        if after is None:
            files += 1
            place = target / "memory" / rel_path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, content)
            continue
        kept = bare_lines(after.decode(errors="replace"))
        gone = [line for line in bare_lines(content) if line.strip() and line not in kept]
        lines += [f"## {rel_path}", "", *gone, ""]
    about = f"# What {familiar.name} has noted\n\nLines of files about others and of days.\n\n"
    write_whole(target / "about.md", about + "\n".join(lines))
    return {
        "turns": len(forgetting.found.said),
        "replies": len(forgetting.found.replies),
        "lines": sum(1 for line in lines if line and not line.startswith("## ")),
        "files": files,
    }
