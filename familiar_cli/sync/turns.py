"""Conversations as files that grow: what is sent, and what others sent.

Every instance adds lines to files of its own below `turns/`, in commits that hold nothing else but
which channels are private, and what a machine that begins must know of the familiar.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from familiar_cli import clock
from familiar_cli.config.channel_kinds import PRIVATE_KINDS
from familiar_cli.errors import BadInputError
from familiar_cli.history.forgetting import orders_of
from familiar_cli.history.incoming import (
    FactScope,
    Taken,
    count_held,
    release_facts,
    take_lines,
    taken_through,
    unrestricted,
)
from familiar_cli.history.lines import BadLineError, ThroughLine, encode_line, parse_line
from familiar_cli.history.outgoing import outgoing_lines
from familiar_cli.memory.journal.objects import git_object
from familiar_cli.memory.journal.repository import (
    INSTANCE,
    encode_commit,
    rewrite_tree,
    translate_errors,
)
from familiar_cli.memory.layout import SYNC
from familiar_cli.sync.epochs import orders_path
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.sync.remotes import TURNS_REFS, local_ref, set_local_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from familiar_cli.config.channel import ChannelConfigs
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.memory.journal.repository import Repository

_TURN: Final = re.compile(rb'^\{"v":\d+,"kind":"turn",', re.MULTILINE)
_TAKEN: Final = "refs/familiar/turns/"
"""Before an instance, in the journal: the commit whose turns are all in the history."""


def take_turns(
    repository: Repository, turns: HistoryConversations, own: str, instance: str, commit: str
) -> int:
    """Import what is new in the conversations of another instance, and return how many turns.

    Raises:
        FamiliarError: Something in them makes no sense, or the disk refused; it is tried again.
    """
    ref = _TAKEN + instance
    before = local_ref(repository, ref)
    if before == commit:
        return 0
    past = JournalPast(repository, "")
    known = past.tree(before).items() if before else set()
    files = past.tree(commit)
    channels = files.get(_channels_path(instance))
    if channels is not None:  # before the first turn of a private channel is here
        turns.take_channels(past.read(channels))
    count = 0
    for path, id_ in sorted(files.items() - known):
        if path.startswith(f"turns/{instance}/"):
            count += turns.take_in(own, path, past.read(id_))
    with translate_errors(repository.path):
        set_local_ref(repository, ref, commit)
    return count


def turns_commit(
    repository: Repository,
    turns: HistoryConversations,
    own: str,
    *,
    lock: Callable[[], AbstractContextManager[None]],
    dry_run: bool,
) -> tuple[str | None, int]:
    """Commit what is new in the conversations here.

    Returns:
        The newest commit, or None when there is none; and how many turns are not in it (yet).
    """
    ref = TURNS_REFS + own
    head = local_ref(repository, ref)
    past = JournalPast(repository, "")
    files = past.tree(head) if head else {}
    newest = max((path for path in files if path.startswith(f"turns/{own}/")), default="")
    data = past.read(files[newest]) if newest else b""
    rel_path, lines = new_lines(turns.history, own, newest, data)
    blobs = {rel_path: git_object("blob", (data if rel_path == newest else b"") + lines)}
    if not lines:
        blobs.clear()
    channels = git_object("blob", turns.channels())
    if files.get(_channels_path(own)) != channels.id and (channels.content or head):
        blobs[_channels_path(own)] = channels
    orders = git_object("blob", turns.orders())
    if files.get(orders_path(own)) != orders.id and orders.content:
        blobs[orders_path(own)] = orders
    about = git_object("blob", turns.about)
    if files.get(_about_path(own)) != about.id and about.content and (blobs or head):
        blobs[_about_path(own)] = about
    if dry_run or not blobs:
        return head, turn_count(lines)
    ids = {path: blob.id for path, blob in blobs.items()}
    tree, made = rewrite_tree(repository.tree, repository.tree_of(head), ids)
    commit = encode_commit(
        tree,
        head,
        SYNC,
        f"turns of {own}",
        at=clock.now().astimezone(),
        trailers=[(INSTANCE, own)],
    )
    with lock(), translate_errors(repository.path):
        repository.objects.write([*blobs.values(), *made, commit])
        repository.objects.keep()
        set_local_ref(repository, ref, commit.id)
    return commit.id, 0


def read_abouts(repository: Repository, refs: Mapping[str, str]) -> list[bytes]:
    """Read what each instance states about the familiar.

    Args:
        repository: The journal.
        refs: The refs of a remote; see `SeenRefs`.
    """
    past = JournalPast(repository, "")
    found = (
        (past.tree(id_), _about_path(ref.removeprefix(TURNS_REFS)))
        for ref, id_ in sorted(refs.items())
        if ref.startswith(TURNS_REFS)
    )
    return [past.read(files[path]) for files, path in found if path in files]


def _about_path(instance: str) -> str:
    return f"familiar/{instance}.json"


def _channels_path(instance: str) -> str:
    return f"channels/{instance}.json"


def turns_since(repository: Repository, own: str, before: str | None, commit: str) -> int:
    """Return how many turns of this instance a commit has beyond an earlier one."""
    past = JournalPast(repository, "")
    old = past.tree(before) if before else {}
    count = 0
    for path, id_ in past.tree(commit).items():
        if path.startswith(f"turns/{own}/") and old.get(path) != id_:
            begun = len(past.read(old[path])) if path in old else 0  # files only grow
            count += turn_count(past.read(id_)[begun:])
    return count


def turn_count(lines: bytes) -> int:
    """Return how many of the lines are turns, rather than marks and other facts."""
    return len(_TURN.findall(lines))


MOST_LINE_BYTES: Final = 64 * 1024 * 1024
"""A longer line is no turn of this program's."""

_AT_ONCE: Final = 20_000  # lines of one transaction
_LARGE_BYTES: Final = 1024 * 1024
_MOST_PARTS: Final = 999  # a name with more digits would not sort after the others
_FILE: Final = re.compile(
    r"turns/([a-z0-9]+(?:-[a-z0-9]+)*)/([0-9]{4}-(?:0[1-9]|1[0-2]))(?:_([0-9]{3}))?\.jsonl"
)


def last_through(rel_path: str, data: bytes) -> ThroughLine:
    """Read how far a series of files reaches that ends with `rel_path`.

    Args:
        rel_path: Its path.
        data: Its bytes, or their end with at least its last line.

    Raises:
        BadLineError: Its last line does not say.
    """
    line = parse_line(data.rstrip(b"\n").rpartition(b"\n")[2])
    if not isinstance(line, ThroughLine):
        raise BadLineError(f"{rel_path!r} does not end with a `through` line")
    return line


def file_of(rel_path: str) -> tuple[str, str, int] | None:
    """Return the instance, the month and the part of a file of turns; None: it is none."""
    found = _FILE.fullmatch(rel_path)
    return (found[1], found[2], int(found[3] or 1)) if found else None


def new_lines(
    history: HistoryStore,
    own: str,
    rel_path: str = "",
    data: bytes = b"",
    *,
    at: datetime | None = None,
) -> tuple[str, bytes]:
    """Return the file to which new lines are added, and those lines; empty: nothing is new.

    Args:
        history: The history.
        own: The instance that this is.
        rel_path: The newest file of this instance; empty: there is none yet.
        data: Its bytes.
        at: The present; None: now.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    through = last_through(rel_path, data) if rel_path else ThroughLine()
    named = file_of(rel_path)
    if named and len(data) >= _LARGE_BYTES:
        _, month, part = named
        rel_path = f"turns/{own}/{month}_{min(part + 1, _MOST_PARTS):03}.jsonl"
    this_month = f"turns/{own}/{at or clock.now():%Y-%m}.jsonl"
    lines = b"".join(map(encode_line, outgoing_lines(history, own, through)))
    return max(this_month, rel_path), lines


def take_in(
    history: HistoryStore,
    own: str,
    rel_path: str,
    data: bytes,
    offset: int = 0,
    *,
    scope_of: Callable[[str], FactScope] = unrestricted,
) -> Taken:
    """Take in what a file of turns says; the same again changes nothing.

    A line without an end is left for later. Lines that stand before a bad one are kept.

    Args:
        history: The history.
        own: The instance that this is.
        rel_path: The file's path.
        data: Its bytes from `offset` on.
        offset: Where `data` begins, which is the beginning of a line.
        scope_of: Returns which facts of an instance are accepted.

    Raises:
        BadLineError: The file has no right name, or a line says what cannot be.
        InstanceTwiceError: A turn with the same name is another one here.
        FamiliarError: As `HistoryStore.append`.
    """
    named = file_of(rel_path)
    if named is None:
        raise BadLineError(f"{rel_path!r} is not a turn file; nothing of it was read")
    taken, start = Taken(), 0
    while start < len(data):
        end, problem = start, None
        with take_lines(history, own, scope_of) as taking:
            for _ in range(_AT_ONCE):
                stop = data.find(b"\n", end)
                if stop < 0:
                    break
                try:
                    taking.take(named[0], _decode_line(data[end:stop]))
                except BadLineError as error:
                    problem = error
                    break
                end = stop + 1
            if end > start:
                taking.note_through(named[0], rel_path, offset + start, offset + end)
        taken = taken.plus(taking.taken)
        if problem is None and len(data) - end > MOST_LINE_BYTES and end == start:
            problem = BadLineError("it is unterminated")
        if problem is not None:
            at = data.count(b"\n", 0, end) + 1
            where = f"Line {at} of {rel_path!r}" + (f", from byte {offset} on," if offset else "")
            raise BadLineError(
                f"{where} cannot be read: {problem}; the lines before it were",
                hint="Sync again once the instance that wrote it has been repaired.",
            ) from problem
        if end == start:
            break
        start = end
    return taken


def _decode_line(line: bytes) -> str:
    if len(line) > MOST_LINE_BYTES:
        raise BadLineError("it is too long")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadLineError("it is not UTF-8") from error


class HistoryConversations:
    """Turns the history into files, and files of others into turns.

    Args:
        history: The turns.
        configs: What is set for each channel; among it, whether it is private.
        about: What a machine that begins must know of the familiar, as JSON.
    """

    def __init__(self, history: HistoryStore, configs: ChannelConfigs, about: bytes = b"") -> None:
        self.history = history
        self._configs = configs
        self.about = about
        self._untrusted: Collection[str] = ()
        self._existing_through: int | None = None

    def restrict(self, own: str, untrusted: Collection[str]) -> None:
        """From now on, accept facts about others from trusted instances only.

        What waited for trust is applied.

        Args:
            own: The instance that this is.
            untrusted: Those that may state facts about their own turns and channels only.
        """
        self._untrusted = untrusted
        self._existing_through = self.history.newest_id()
        for instance in count_held(self.history).keys() - set(untrusted):
            release_facts(self.history, own, instance)

    def take_in(self, own: str, rel_path: str, data: bytes) -> int:
        """Import what is new in a file of another instance; return how many turns it was.

        Raises:
            FamiliarError: Something in it makes no sense; what stands before it was imported.
        """
        instance = rel_path.split("/")[1]
        through = taken_through(self.history, instance, rel_path)
        if through >= len(data):
            return 0
        taken = take_in(
            self.history, own, rel_path, data[through:], through, scope_of=self._scope_of
        )
        return taken.turns

    def orders(self) -> bytes:
        """Encode the orders that these turns follow."""
        lines = (f"{order.to_line()}\n" for order in orders_of(self.history))
        return "".join(lines).encode()

    def channels(self) -> bytes:
        """Encode which channels are private here; sorted, so that equal settings give equal bytes.

        Raises:
            ConfigError: A channel's file cannot be read.
        """
        found = {}
        private = self._configs.private()
        for channel_id in sorted(private):
            kind = self._configs.read(channel_id).settings.kind
            found[channel_id] = kind if kind in PRIVATE_KINDS else min(PRIVATE_KINDS)
        if not found:
            return b""
        return (json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()

    def take_channels(self, data: bytes) -> None:
        """Make channels private here that are private elsewhere, unless a person said otherwise.

        Raises:
            BadInputError: It makes no sense, so nobody knows what may be private.
            ConfigError: A channel's file cannot be read or written.
        """
        try:
            told = json.loads(data or b"{}")
            rows = {str(channel): str(kind) for channel, kind in told.items()}
        except (ValueError, AttributeError, RecursionError) as error:
            raise BadInputError("What it tells of its channels makes no sense") from error
        for channel_id, kind in rows.items():
            is_set = channel_id.strip() and "kind" in self._configs.read(channel_id).tables
            if channel_id.strip() and not is_set and kind in PRIVATE_KINDS:
                self._configs.set_values(channel_id, {"kind": kind})

    def _scope_of(self, instance: str) -> FactScope:
        return FactScope(instance not in self._untrusted, self._existing_through)
