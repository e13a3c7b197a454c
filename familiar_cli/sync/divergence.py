"""Take a new instance id where numbers of turns could be used twice, and keep what they name.

A familiar's directory that was copied or restored, and a history that was replaced by an older one,
would number new turns as the original did. Such a copy becomes an instance of its own. Turns that
the original has sent keep its name; the others get the new one, and are found under both.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from familiar_cli.base.config import home
from familiar_cli.base.errors import BadInputError, NotFoundError
from familiar_cli.base.files import locked
from familiar_cli.base.text import counted
from familiar_cli.store.history import lines
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.journal.repository import Repository
from familiar_cli.store.memory.layout import SYNC
from familiar_cli.store.memory.pages.lines import rename_turns
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.sync.remotes import TURNS_REFS, local_ref
from familiar_cli.sync.turns import TAKEN, take_in
from familiar_cli.sync.turns_incoming import read_there, rename_instance
from familiar_cli.sync.turns_outgoing import forget_read_turns

_LOCK: Final = ".settling.lock"
_LOST: Final = "lost:"


class LostTurns(Struct, frozen=True):
    """Turns that were written here, and that neither the history nor the journal has.

    Args:
        instance: The instance under whose id they were written.
        first: The first number.
        last: The last number; those between may have come from elsewhere.
    """

    instance: str
    first: int
    last: int


def settle_instance(
    paths: home.FamiliarPaths,
    history: HistoryStore,
    repository: Repository,
    tell: Callable[[str], None],
    *,
    is_restored: bool = False,
) -> home.Instance:
    """Take a new id if a familiar was copied or its history was replaced, or finish doing so.

    Args:
        paths: The familiar.
        history: Its history.
        repository: Its journal.
        tell: Callback for user-facing messages.
        is_restored: Whether it was just restored from a backup.

    Raises:
        FamiliarError: A file is damaged or cannot be written.
    """
    with locked(paths.root / _LOCK, what=str(paths.root)):
        instance = home.ensure_instance(paths.instance)
        cursor, newest = home.read_cursor(paths.root, instance.id), history.newest_own()
        is_behind = newest < cursor
        if is_restored or is_behind or home.is_copy(paths.root):
            has_turns = bool(newest or cursor)
            instance = home.replace_id(paths.instance, instance.id, has_turns=has_turns)
            home.note_place(paths.root)
        old = instance.former
        through = history.newest_id()
        if not old or not rename_instance(history, old, instance.id, through, is_gone=True):
            return instance
        brought = _take_own_turns(history, repository, old, instance.id)
        forget_read_turns(history, old, read_there(history, old), through)
        why = "this copy was made or restored from the directory of another"
        if is_behind:
            shutil.rmtree(os.path.join(repository.path, TAKEN), ignore_errors=True)
            _note_lost(history, LostTurns(old, newest + 1, cursor), tell)
            why = "its history was replaced by an older copy"
        back = f"; {counted(brought, 'turn')} came back from the journal" if brought else ""
        tell(f"This instance was {old!r} and is now {instance.id!r}, because {why}{back}")
        return instance


def _take_own_turns(history: HistoryStore, repository: Repository, old: str, own: str) -> int:
    """Take the turns that an instance had committed; those here keep that name."""
    head = local_ref(repository, TURNS_REFS + old)
    if head is None:
        return 0
    past, count = JournalPast(repository, ""), 0
    for path, id_ in sorted(past.tree(head).items()):
        if path.startswith(f"turns/{old}/"):
            count += take_in(history, own, path, past.read(id_)).turns
    return count


def _note_lost(history: HistoryStore, losses: LostTurns, tell: Callable[[str], None]) -> None:
    with history.change() as connection:
        sql = "SELECT coalesce(max(id_there), 0) FROM elsewhere WHERE instance = ?"
        (known,) = connection.execute(sql, (losses.instance,)).fetchone()
        first = max(losses.first, int(known) + 1)
        if first > losses.last:
            return
        lines.write_state(connection, f"{_LOST}{losses.instance}", f"{first}-{losses.last}")
    tell(f"Turns {losses.instance}:{first}-{losses.last} are lost; restore a newer `history.db`")


def rename_citations(
    store: MemoryStore, history: HistoryStore, instance: home.Instance, old: str
) -> int:
    """Let memory cite turns written since a former id by the present one.

    Nothing may have been merged since of what another machine with the former id wrote.

    Args:
        store: The memory.
        history: The history; turns that both machines know have their names already.
        instance: The instance with its new id.
        old: The former id.

    Returns:
        The number of files changed, in one commit.
    """
    with history.use(create=False) as connection:
        through = lines.own_former_names(connection).get(old, 0)
    own, count = {number for number in history.own_ids() if number > through}, 0
    former = {old, ""} if old == instance.began else {old}
    with store.transaction(SYNC, f"cite turns of {old} as {instance.id}") as tx:
        for file in store.walk().files if own else ():
            with suppress(BadInputError, NotFoundError):
                found = store.read(file.rel_path)
                text = rename_turns(found.text, former, instance.id, own)
                if text != found.text:
                    tx.write(file.rel_path, text, expect=found.sha256, any_size=True)
                    count += 1
    return count


def parted_names(history: HistoryStore) -> list[str]:
    """Return the former ids since which nothing was merged."""
    sql = "SELECT name FROM sync_state WHERE name GLOB ?"
    rows = history.rows(sql, (f"{lines.PARTED}*",))
    return [name.removeprefix(lines.PARTED) for (name,) in rows]


def end_parting(history: HistoryStore) -> None:
    """Record that others' changes were merged. May raise as `HistoryStore.append`."""
    if parted_names(history):
        with history.change() as connection:
            connection.execute("DELETE FROM sync_state WHERE name GLOB ?", (f"{lines.PARTED}*",))


def lost_turns(history: HistoryStore) -> list[LostTurns]:
    """Return the turns that were lost and have not come back from another machine."""
    sql = (
        "SELECT name, value FROM sync_state WHERE name GLOB ? AND NOT EXISTS (SELECT 1 FROM "
        "elsewhere WHERE instance = substr(name, ?) AND id_there >= "
        "CAST(substr(value, instr(value, '-') + 1) AS INTEGER))"
    )
    losses = []
    for name, value in history.rows(sql, (f"{_LOST}*", len(_LOST) + 1)):
        first, _, last = value.partition("-")
        losses.append(LostTurns(name.removeprefix(_LOST), int(first), int(last)))
    return losses


def forget_lost_turns(history: HistoryStore) -> bool:
    """Stop reporting lost turns; tell whether there were any."""
    if not lost_turns(history):
        return False
    with history.change() as connection:
        connection.execute("DELETE FROM sync_state WHERE name GLOB ?", (f"{_LOST}*",))
    return True
