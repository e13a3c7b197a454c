"""Conversations as append-only files, sent to and received from other instances.

Every instance appends to its own files below `turns/`, in commits that otherwise hold only the list
of private channels and what a new machine must know of the familiar.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.config.channel_kinds import PRIVATE_KINDS
from familiar_cli.base.errors import BadInputError
from familiar_cli.base.files import read_plain
from familiar_cli.base.times import clock
from familiar_cli.store.history.attachments import (
    DIRECTORY,
    FILE,
    is_mentioned,
    put_picture,
    stored_pictures,
)
from familiar_cli.store.history.forgetting import orders_of
from familiar_cli.store.history.lines import BadLineError, ThroughLine, encode_line, parse_line
from familiar_cli.store.journal.objects import git_object
from familiar_cli.store.journal.repository import (
    INSTANCE,
    Repository,
    encode_commit,
    rewrite_tree,
    translate_errors,
)
from familiar_cli.store.memory.layout import SYNC
from familiar_cli.store.memory.store.files import MOST_RECORDED_BYTES
from familiar_cli.sync import turns_incoming as incoming
from familiar_cli.sync.journal_epochs import orders_path
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.sync.remotes import TURNS_REFS, heads_in, local_ref, set_local_ref
from familiar_cli.sync.turns_outgoing import outgoing_lines

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from familiar_cli.base.config.channel import ChannelConfigs
    from familiar_cli.store.history.store import HistoryStore

_TURN: Final = re.compile(rb'^\{"v":\d+,"kind":"turn",', re.MULTILINE)
TAKEN: Final = "refs/familiar/turns/"
"""Ref prefix, in the journal: the commit whose turns are all imported."""


def take_turns(
    repository: Repository, turns: HistoryConversations, own: str, instance: str, commit: str
) -> int:
    """Import new conversations of another instance, and return the number of turns.

    Raises:
        FamiliarError: They are invalid, or a write failed; it is retried.
    """
    ref = TAKEN + instance
    before = local_ref(repository, ref)
    past = JournalPast(repository, "")
    if before == commit:
        turns.take_pictures(past, commit)
        return 0
    known = past.tree(before).items() if before else set()
    files = past.tree(commit)
    channels = files.get(_channels_path(instance))
    if channels is not None:  # before the first turn of a private channel is imported
        turns.take_channels(past.read(channels))
    count = 0
    for path, id_ in sorted(files.items() - known):
        if path.startswith(f"turns/{instance}/"):
            count += turns.take_in(own, path, past.read(id_))
    turns.take_pictures(past, commit)
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
    """Commit new local conversations.

    Returns:
        The newest commit or None, and the number of turns not in it yet.
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
    pictures = turns.new_pictures({*files, *_elsewhere(repository, past)})
    if dry_run or not (blobs or pictures):
        return head, turn_count(lines)
    ids = {path: blob.id for path, blob in blobs.items()}
    with lock(), translate_errors(repository.path):
        for path, picture in pictures.items():  # one at a time: together they may fill the memory
            ids[path] = (blob := git_object("blob", read_plain(picture))).id
            repository.objects.write([blob])
    tree, made = rewrite_tree(repository.tree, repository.tree_of(head), ids)
    commit = encode_commit(
        tree, head, SYNC, f"turns of {own}", at=clock.now().astimezone(), trailers=[(INSTANCE, own)]
    )
    with lock(), translate_errors(repository.path):
        repository.objects.write([*blobs.values(), *made, commit])
        repository.objects.keep()
        set_local_ref(repository, ref, commit.id)
    return commit.id, 0


def _elsewhere(repository: Repository, past: JournalPast) -> Iterator[str]:
    """Yield the paths of what other instances have sent."""
    directory = os.path.join(repository.path, *TAKEN.split("/"))
    for instance in os.listdir(directory) if os.path.isdir(directory) else ():
        if commit := local_ref(repository, TAKEN + instance):
            yield from past.tree(commit)


def read_abouts(repository: Repository, refs: Mapping[str, str]) -> list[bytes]:
    """Read what each instance states about the familiar.

    Args:
        repository: The journal.
        refs: The refs of a remote; see `SeenRefs`.
    """
    past = JournalPast(repository, "")
    trees = (
        (past.tree(id_), _about_path(instance))
        for instance, id_ in sorted(heads_in(refs, TURNS_REFS).items())
    )
    return [past.read(files[path]) for files, path in trees if path in files]


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
            begun = len(past.read(old[path])) if path in old else 0  # files are append-only
            count += turn_count(past.read(id_)[begun:])
    return count


def turn_count(lines: bytes) -> int:
    """Count the lines that are turns rather than other facts."""
    return len(_TURN.findall(lines))


MOST_LINE_BYTES: Final = 64 * 1024 * 1024
"""Maximum length of a line."""

_AT_ONCE: Final = 20_000  # lines per transaction
_LARGE_BYTES: Final = 1024 * 1024
_MOST_PARTS: Final = 999  # names with more digits would not sort correctly
_FILE: Final = re.compile(
    r"turns/([a-z0-9]+(?:-[a-z0-9]+)*)/([0-9]{4}-(?:0[1-9]|1[0-2]))(?:_([0-9]{3}))?\.jsonl"
)


def last_through(rel_path: str, data: bytes) -> ThroughLine:
    """Read how far a series of files extends, from its last file.

    Args:
        data: Its content, or an end including at least the last line.

    Raises:
        BadLineError: Its last line does not state it.
    """
    line = parse_line(data.rstrip(b"\n").rpartition(b"\n")[2])
    if not isinstance(line, ThroughLine):
        raise BadLineError(f"{rel_path!r} does not end with a `through` line")
    return line


def file_of(rel_path: str) -> tuple[str, str, int] | None:
    """Return instance, month and part of a turn file's name, or None."""
    match = _FILE.fullmatch(rel_path)
    return (match[1], match[2], int(match[3] or 1)) if match else None


def new_lines(
    history: HistoryStore,
    own: str,
    rel_path: str = "",
    data: bytes = b"",
    *,
    at: datetime | None = None,
) -> tuple[str, bytes]:
    """Return the file to append to and the new lines; empty if nothing is new.

    Args:
        own: This instance.
        rel_path: Newest file of this instance; empty if there is none.
        data: Its content.
        at: The present; None for now.

    Raises:
        FamiliarError: As for `HistoryStore.append`.
    """
    through = last_through(rel_path, data) if rel_path else ThroughLine()
    file = file_of(rel_path)
    if file and len(data) >= _LARGE_BYTES:
        _, month, part = file
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
    scope_of: Callable[[str], incoming.FactScope] = incoming.unrestricted,
) -> incoming.ReceivedCounts:
    """Import a turn file; importing it again changes nothing.

    An incomplete last line is left for later. Lines before an invalid one are kept.

    Args:
        own: This instance.
        rel_path: The file's path.
        data: Its content from `offset` on.
        offset: Start of `data`, at the beginning of a line.
        scope_of: Returns which facts of an instance are accepted.

    Raises:
        BadLineError: The file name or a line is invalid.
        InstanceTwiceError: Another turn with the same name exists here.
        FamiliarError: As for `HistoryStore.append`.
    """
    file = file_of(rel_path)
    if file is None:
        raise BadLineError(f"{rel_path!r} is not a turn file; nothing of it was read")
    counts, start = incoming.ReceivedCounts(), 0
    while start < len(data):
        end, problem = start, None
        with incoming.take_lines(history, own, scope_of) as taking:
            for _ in range(_AT_ONCE):
                stop = data.find(b"\n", end)
                if stop < 0:
                    break
                try:
                    taking.take(file[0], _decode_line(data[end:stop]))
                except BadLineError as error:
                    problem = error
                    break
                end = stop + 1
            if end > start:
                taking.note_through(file[0], rel_path, offset + start, offset + end)
        counts = counts.plus(taking.taken)
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
    return counts


def _decode_line(line: bytes) -> str:
    if len(line) > MOST_LINE_BYTES:
        raise BadLineError("it is too long")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadLineError("it is not UTF-8") from error


class HistoryConversations(Struct, eq=False):
    """Converts the history to turn files, and others' files to turns.

    Args:
        history: The turns.
        configs: Settings of channels, including their privacy.
        about: JSON that tells a new machine about the familiar.
        pictures: The familiar's directory if pictures of turns are synced, too; else None.
    """

    history: HistoryStore
    configs: ChannelConfigs
    about: bytes = b""
    pictures: Path | None = None
    _untrusted: Collection[str] = ()
    _existing_through: int | None = None

    def restrict(self, own: str, untrusted: Collection[str]) -> None:
        """Accept facts about others from trusted instances only, from now on.

        Facts that waited for trust are applied.

        Args:
            own: This instance.
            untrusted: Instances that may only state facts about their own turns and channels.
        """
        self._untrusted = untrusted
        self._existing_through = self.history.newest_id()
        for instance in incoming.count_held(self.history).keys() - set(untrusted):
            incoming.release_facts(self.history, own, instance)

    def take_in(self, own: str, rel_path: str, data: bytes) -> int:
        """Import new lines of another instance's file; return the number of turns.

        Raises:
            FamiliarError: A line is invalid; earlier lines were imported.
        """
        instance = rel_path.split("/")[1]
        through = incoming.taken_through(self.history, instance, rel_path)
        if through >= len(data):
            return 0
        counts = take_in(
            self.history, own, rel_path, data[through:], through, scope_of=self._scope_of
        )
        return counts.turns

    def new_pictures(self, known: Collection[str]) -> dict[str, Path]:
        """Return the pictures to send, by path; see `stored_pictures`.

        Args:
            known: Paths of what this instance and others have sent.
        """
        paths = stored_pictures(self.pictures) if self.pictures else {}
        return {
            path: file
            for path, file in paths.items()
            if path not in known
            and file.stat().st_size <= MOST_RECORDED_BYTES
            and is_mentioned(file.stem, self.history)
        }

    def take_pictures(self, past: JournalPast, commit: str) -> None:
        """Store the pictures that another instance has sent and a turn here mentions.

        Raises:
            FamiliarError: They cannot be written.
        """
        if self.pictures is None:
            return
        paths = stored_pictures(self.pictures)
        for path, id_ in past.tree(commit).items():
            directory, _, name = path.rpartition("/")
            is_new = directory == DIRECTORY and FILE.fullmatch(name) and path not in paths
            if is_new and is_mentioned(name.partition(".")[0], self.history):
                put_picture(self.pictures / path, past.read(id_))

    def orders(self) -> bytes:
        """Encode the forget orders that these turns comply with."""
        lines = (f"{order.to_line()}\n" for order in orders_of(self.history))
        return "".join(lines).encode()

    def channels(self) -> bytes:
        """Encode the private channels, sorted so that equal settings give equal bytes.

        Raises:
            ConfigError: A channel's file cannot be read.
        """
        kinds = {}
        private = self.configs.private()
        for channel_id in sorted(private):
            kind = self.configs.read(channel_id).settings.kind
            kinds[channel_id] = kind if kind in PRIVATE_KINDS else min(PRIVATE_KINDS)
        if not kinds:
            return b""
        return (json.dumps(kinds, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()

    def take_channels(self, data: bytes) -> None:
        """Mark channels private that are private elsewhere, unless a person decided otherwise.

        Raises:
            BadInputError: It is invalid, so it is unknown what is private.
            ConfigError: A channel's file cannot be read or written.
        """
        try:
            told = json.loads(data or b"{}")
            rows = {str(channel): str(kind) for channel, kind in told.items()}
        except (ValueError, AttributeError, RecursionError) as error:
            raise BadInputError("What it states about its channels is inconsistent") from error
        for channel_id, kind in rows.items():
            is_set = channel_id.strip() and "kind" in self.configs.read(channel_id).tables
            if channel_id.strip() and not is_set and kind in PRIVATE_KINDS:
                self.configs.set_values(channel_id, {"kind": kind})

    def _scope_of(self, instance: str) -> incoming.FactScope:
        return incoming.FactScope(instance not in self._untrusted, self._existing_through)
