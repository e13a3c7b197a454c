"""The commits of conversations, with files below `turns/<instance>/`, apart from the memory's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli import clock
from familiar_cli.memory.journal import commits, trees
from familiar_cli.memory.journal.objects import git_object
from familiar_cli.memory.journal.repository import translated
from familiar_cli.memory.layout import SYNC
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.sync.remote_refs import local_ref, set_local_ref
from familiar_cli.sync.transport import TURNS_REFS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.sync.conversations import HistoryConversations

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
    with translated(repository.path):
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
    rel_path, lines = turns.new_lines(own, newest, data)
    blobs = {rel_path: git_object("blob", (data if rel_path == newest else b"") + lines)}
    if not lines:
        blobs.clear()
    channels = git_object("blob", turns.channels())
    if files.get(_channels_path(own)) != channels.id and (channels.content or head):
        blobs[_channels_path(own)] = channels
    about = git_object("blob", turns.about())
    if files.get(_about_path(own)) != about.id and about.content and (blobs or head):
        blobs[_about_path(own)] = about
    if dry_run or not blobs:
        return head, turn_count(lines)
    ids = {path: blob.id for path, blob in blobs.items()}
    tree, made = trees.rewrite(repository.tree, repository.tree_of(head), ids)
    commit = commits.encode(
        tree,
        head,
        SYNC,
        f"turns of {own}",
        at=clock.now().astimezone(),
        trailers=[(commits.INSTANCE, own)],
    )
    with lock(), translated(repository.path):
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
