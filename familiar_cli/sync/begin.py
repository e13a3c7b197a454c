"""Open remotes, and set up a familiar from one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct, field

from familiar_cli.base import errors
from familiar_cli.base.config.environment import offline
from familiar_cli.base.config.home import Instance, begin_instance, is_instance_id
from familiar_cli.base.files import Disk, remove
from familiar_cli.base.text import fold
from familiar_cli.store.journal.edits import CANNOT_BE_HERE, note_absent
from familiar_cli.store.journal.exchange import INCOMING, IncomingObjects, JournalExchange
from familiar_cli.store.journal.repository import Repository, translate_errors, walk_ancestors
from familiar_cli.store.memory.layout import ALIASES_JSON, SYNC, is_synced
from familiar_cli.store.memory.store.files import (
    MOST_RECORDED_BYTES,
    NOT_MEMORY,
    AbsentVersion,
    IncomingCommits,
    is_of_repository,
    parse_new_path,
)
from familiar_cli.store.memory.store.store import MemoryStore, hold_lock
from familiar_cli.sync import remotes, sealing
from familiar_cli.sync.joining import is_pointer, newest_commits
from familiar_cli.sync.journal_epochs import (
    first_commit,
    keep_reachable,
    memory_orders,
    turn_orders,
)
from familiar_cli.sync.journal_past import JournalPast

SEEN: Final = "familiar-folders"
"""Directory in the journal that records what was seen in folders."""


class Sender(Struct, frozen=True):
    """Encryption of outgoing data.

    Args:
        encrypt: `sync.encrypt`; empty for no encryption.
        key: Returns the decryption secret; see `FileCipher`.
        old_keys: Returns former secrets.
        tell: Callback for user-facing messages.
        trust: Which encrypted bundles to accept without proof.
    """

    encrypt: tuple[str, ...] = ()
    key: Callable[[], str] = sealing.no_key
    old_keys: Callable[[], Sequence[str]] = tuple
    tell: Callable[[str], None] = lambda _: None
    trust: sealing.SignatureTrust = field(default_factory=sealing.SignatureTrust)


def open_transport(
    address: remotes.Address,
    exchange: JournalExchange,
    sender: Sender | None = None,
    *,
    name: str = "origin",
    ask: bool = False,
) -> remotes.Transport:
    """Open the transport to a remote. The caller closes it.

    Args:
        address: The remote's address.
        exchange: The journal.
        sender: Encryption; None for none.
        name: Local name of the remote.
        ask: Whether a user may be asked for a password.

    Raises:
        RemoteUnreachableError: It does not exist, or `FAMILIAR_OFFLINE` forbids access.
        RemoteKeyError: Encryption is required, and this kind of remote does not support it.
    """
    if address.kind == "folder":
        return _open_folder(address, exchange, sender or Sender(), name)
    if sender and sender.encrypt:
        raise errors.RemoteKeyError(
            f"sync.encrypt is set, but {address.text!r} is a git remote, which would hold plain "
            "text; nothing was sent",
            hint="Only a folder can be encrypted: `familiar sync remote add NAME dir:PATH`. For "
            "plain git, run `familiar config unset sync.encrypt`.",
        )
    if address.kind == "path":
        from familiar_cli.sync.git_remotes import PathRemote

        return PathRemote(address, exchange)
    if offline() and not _is_here(address):
        raise errors.RemoteUnreachableError(
            f"FAMILIAR_OFFLINE is set, so {address.text!r} was not contacted",
            hint="Unset it to sync.",
        )
    from familiar_cli.sync.git_remotes import GitRemote

    return GitRemote(address, exchange, ask=ask)


def forget_folder(journal: str, name: str) -> None:
    """Forget what was seen in a folder, so that it may start afresh. May raise OSError.

    Args:
        journal: The journal's directory.
        name: Local name of the remote.
    """
    remove(_seen_path(journal, name))


def refused_bundles(journal: str, name: str) -> dict[str, str]:
    """Map each bundle that the last sync with a folder skipped to its problem."""
    rows = sealing.read_seen(_seen_path(journal, name))
    return {file: one.refused for file, one in sorted(rows.items()) if one.refused}


def _seen_path(journal: str, name: str) -> str:
    return os.path.join(journal, SEEN, f"{name}.json")


def _open_folder(
    address: remotes.Address, exchange: JournalExchange, sender: Sender, name: str
) -> remotes.Transport:
    from familiar_cli.sync.folder import BundleFolder, FolderTransport

    journal = exchange.repository.path
    folder = BundleFolder(
        address.path,
        os.path.join(journal, INCOMING),
        _seen_path(journal, name),
        sealing.SigningKey(Path(journal).with_name(sealing.KEY_FILE), sender.trust),
        sealing=sealing.FileCipher(sender.encrypt, sender.key, sender.old_keys),
        tell=sender.tell,
    )
    return FolderTransport(folder, exchange)


def _is_here(address: remotes.Address) -> bool:
    scp = address.text.partition(":")[0].rpartition("@")[2]
    return (urlsplit(address.text).hostname if "://" in address.text else scp) in remotes.LOOPBACK


BEGAN: Final = "Began"
"""Trailer in an instance's first commit: the original instance."""


def begin_from(
    store: MemoryStore,
    repository: Repository,
    instance_path: Path,
    address: remotes.Address,
    *,
    sender: Sender = Sender(),  # noqa: B008  # frozen
    name: str = "hub",
    ask: bool = False,
) -> Instance:
    """Fill an empty memory with a remote's memory and its whole history.

    Changes that no instance has merged yet are left to the first sync.

    Args:
        store: The memory, whose journal signs as the instance in `instance_path`.
        repository: Its journal. The caller closes it.
        instance_path: File for the new instance.
        address: The remote.
        sender: Decryption of an encrypted remote.
        name: Local name of the remote.
        ask: Whether a user may be asked for a password.

    Returns:
        The new instance.

    Raises:
        NotFoundError: The remote holds no memory yet.
        RefusedError: The journal has a history of its own, or the remote holds two familiars.
        FamiliarError: The remote cannot be reached, or is damaged; nothing is left here.
    """
    if repository.exists and repository.head() is not None:
        raise errors.RefusedError("The memory here already has a history; nothing was changed")
    with translate_errors(repository.path):
        if not repository.exists:
            store.lock_path.parent.mkdir(parents=True, exist_ok=True)
            repository.create()
    exchange = JournalExchange(repository, lambda: hold_lock(store.lock_path, store.lock_timeout_s))
    with closing(open_transport(address, exchange, sender, name=name, ask=ask)) as transport:
        refs = _FirstFetch(transport, exchange, sender.tell).fetch()
    heads = remotes.heads_in(refs)
    past = JournalPast(repository, "")
    began = _first_instance(past, heads)
    instance = begin_instance(instance_path, began)
    head = min(newest_commits(past.parents, heads.values()))
    _put_files(store, repository, past, head)
    message = f"begin on {instance.id}"
    with store.transaction(
        SYNC, message, trailers={BEGAN: began}, joined=IncomingCommits(head, ())
    ):
        pass
    with translate_errors(repository.path):
        remotes.SeenRefs(repository, name).note(refs)
        if memory_orders(repository.objects.read, head):
            keep_reachable(repository, (*refs.values(), str(repository.head())))
    return instance


class _FirstFetch(Struct):
    """Fetches all branches of a familiar into an empty journal, in one connection if all are well.

    Raises:
        NotFoundError: The remote holds no memory yet.
        RefusedError: It holds more than one familiar.
        RemoteDamagedError: No memory can be fetched.
    """

    transport: remotes.Transport
    exchange: JournalExchange
    tell: Callable[[str], None]
    _refs: dict[str, str] = field(default_factory=dict)

    def fetch(self) -> dict[str, str]:
        """Return the branches that were fetched; others are reported."""
        outdated = set[str]()
        with suppress(errors.RemoteDamagedError), self.exchange.incoming() as incoming:
            self.transport.fetch_chosen(self._choose, incoming)
            outdated = self._outdated(_orders(incoming, self._refs))
            if not outdated:
                self._accept(incoming, self._refs)
                return self._refs
        return self._fetch_apart(outdated)

    def _choose(self, refs: Mapping[str, str]) -> Collection[str]:
        self._refs = remotes.refs_of_familiars(refs)
        if not remotes.heads_in(self._refs):
            raise errors.NotFoundError(
                f"The remote {self.transport.address!r} holds no memory yet",
                hint="Run `familiar sync` on the first machine, then try again.",
            )
        return set(self._refs.values())

    def _fetch_apart(self, outdated: Collection[str]) -> dict[str, str]:
        """Fetch the branches one by one, without those known to be outdated."""
        if not outdated:
            result: dict[str, set[str]] = {}
            for ref, id_ in sorted(self._refs.items()):
                with suppress(errors.RemoteDamagedError), self.exchange.incoming() as incoming:
                    self.transport.fetch([id_], [], incoming)
                    result |= _orders(incoming, {ref: id_})
            outdated = self._outdated(result)
        taken = dict[str, str]()
        problem = (
            f"No branch with a memory at {self.transport.address!r} can be used: their machines "
            "must forget a person first"
        )
        for ref, id_ in sorted(self._refs.items()):
            if ref in outdated:
                continue
            try:
                with self.exchange.incoming() as incoming:
                    self.transport.fetch([id_], [*taken.values()], incoming)
                    self._accept(incoming, {**taken, ref: id_})
            except errors.RemoteDamagedError as error:
                name = ref.removeprefix("refs/heads/")
                problem = (
                    f"The branch {name!r} at {self.transport.address!r} was not taken: {error}"
                )
                self.tell(problem)
            else:
                taken[ref] = id_
        if not remotes.heads_in(taken):
            raise errors.RemoteDamagedError(
                problem, hint="Sync from a machine that has the memory, into a new repository."
            )
        return taken

    def _outdated(self, result: Mapping[str, set[str]]) -> set[str]:
        """Return and report the branches of machines that lag behind another's forget order.

        Their contents are not added to the journal.
        """
        every = set().union(*result.values())
        outdated = {ref for ref, orders in result.items() if every - orders}
        for ref in sorted(outdated):
            name = ref.removeprefix("refs/heads/")
            self.tell(f"The branch {name!r} was not merged: its machine must forget a person first")
        return outdated

    def _accept(self, incoming: IncomingObjects, refs: Mapping[str, str]) -> None:
        read = cache(incoming.read)
        if len({first_commit(read, head) for head in remotes.heads_in(refs).values()}) > 1:
            raise errors.RefusedError(
                f"The remote {self.transport.address!r} holds more than one familiar;"
                " nothing was changed",
                hint="Give each familiar a remote of its own.",
            )
        incoming.accept(sorted(set(refs.values())))


def _orders(incoming: IncomingObjects, refs: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the forget orders that each branch complies with."""
    read, result = cache(incoming.read), dict[str, set[str]]()
    for ref, id_ in refs.items():
        if ref.startswith(remotes.TURNS_REFS):
            orders = turn_orders(read, id_, ref.removeprefix(remotes.TURNS_REFS))
        else:
            orders = memory_orders(read, id_)
        result[ref] = {order.id for order in orders}
    return result


def _put_files(store: MemoryStore, repository: Repository, past: JournalPast, head: str) -> None:
    """Write a commit's files into an empty memory, and make it the journal's head.

    Machine-local files, and files that cannot be stored here, are recorded as absent; the list of
    names is derived from the local files. Nothing is durable yet: an incomplete setup is discarded
    as a whole.
    """
    root, most = str(store.root), max(store.limits.max_file_bytes, MOST_RECORDED_BYTES)
    whole, names = past.whole_tree(head), _Names()
    files = dict(past.tree(head))
    files |= {ALIASES_JSON: whole[ALIASES_JSON]} if ALIASES_JSON in whole else {}
    lines: set[str] = set()
    make_directory = cache(partial(os.makedirs, exist_ok=True))
    with translate_errors(repository.path):
        for rel_path in sorted(files):
            is_wanted = not is_of_repository(rel_path) and names.take(rel_path)
            content = past.read(files[rel_path]) if is_wanted else None
            if content is not None and len(content) <= most and not is_pointer(rel_path, content):
                path = os.path.join(root, *rel_path.split("/"))
                make_directory(os.path.dirname(path))
                Disk().create(path, content, durable=False)
                lines.add(rel_path)
        absent = {
            path: AbsentVersion(id_, "", NOT_MEMORY if is_of_repository(path) else CANNOT_BE_HERE)
            for path, id_ in whole.items()
            if path not in lines and is_synced(path)
        }
        note_absent(repository, absent)
        repository.set_head(head)


class _Names:
    """Names per directory, to detect collisions on some systems."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, bool]] = {}

    def take(self, rel_path: str) -> bool:
        """Tell whether a file may be written, and reserve its name and directories."""
        try:
            if parse_new_path(rel_path) != rel_path:
                return False
        except errors.UnsafePathError:
            return False
        at, parts = "", rel_path.split("/")
        for depth, part in enumerate(parts, 1):
            is_dir = depth < len(parts)
            if self._known.setdefault((at, fold(part)), (part, is_dir)) != (part, is_dir):
                return False
            at = f"{at}/{part}"
        return True


def _first_instance(past: JournalPast, heads: Mapping[str, str]) -> str:
    """Return the original instance.

    Later instances name it in their first commit; its own commits do not.
    """
    if len(heads) == 1:
        (only,) = heads
        name = past.commit(heads[only]).trailers.get(BEGAN, "")
        return name if is_instance_id(name) else only
    others: set[str] = set()
    for id_ in walk_ancestors(heads.values(), past.parents):
        commit = past.commit(id_)
        began = commit.trailers.get(BEGAN, "")
        if is_instance_id(began):
            return began
        others.add(commit.instance)
    return min(heads.keys() - others, default=min(heads))
