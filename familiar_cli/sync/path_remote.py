"""`PathRemote`: a git repository on a disk of this machine, or one that is mounted here."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import (
    FamiliarError,
    RemoteDamagedError,
    RemoteRefusedError,
    RemoteUnreachableError,
)
from familiar_cli.files import Disk, SharedDisk, open_patiently, why
from familiar_cli.memory.journal.objects import PACK_FROM, Objects, is_id
from familiar_cli.memory.journal.reachable import new_objects
from familiar_cli.memory.journal.repository import packed_refs, read_text
from familiar_cli.sync.transport import MAIN_REF, PushedRef, objection, shared_refs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from familiar_cli.memory.journal.exchange import IncomingObjects, JournalExchange
    from familiar_cli.sync.transport import Address

_HEADS: Final = "refs/heads/"
_DAMAGED: Final = "familiar-damaged"
_BARE: Final = re.compile(r"^\s*bare\s*=\s*true", re.MULTILINE | re.IGNORECASE)
_SHA256: Final = re.compile(r"^\s*objectformat\s*=\s*sha256", re.MULTILINE | re.IGNORECASE)
_REFTABLE: Final = re.compile(r"^\s*refstorage\s*=\s*reftable", re.MULTILINE | re.IGNORECASE)
_LOCKED_WAITS_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


class PathRemote:
    """A `Transport` to a repository that can be read and written as files.

    Args:
        address: Where it is.
        exchange: The journal.
        disk: The file system of the remote.
    """

    def __init__(
        self, address: Address, exchange: JournalExchange, disk: Disk | None = None
    ) -> None:
        self.address = address.text
        self.shared_refs: tuple[str, ...] = (MAIN_REF,)
        self._exchange = exchange
        self._disk = disk or SharedDisk()
        self._path = _repository_at(address.path)
        self._objects = Objects(os.path.join(self._path, "objects"), self._disk, is_foreign=True)

    def refs(self) -> dict[str, str]:
        """See `Transport`."""
        try:
            self._check_format()
            loose = dict(self._loose())  # before the packed ones: git packs, then deletes
            found, head = {**self._packed(), **loose}, self._head()
        except OSError as error:
            raise self._unreadable(error) from error
        self.shared_refs = shared_refs(head if head in found else None)
        return found

    def fetch(
        self, wants: Collection[str], haves: Collection[str], incoming: IncomingObjects
    ) -> None:
        """See `Transport`."""
        try:
            is_whole = not haves and set(wants).issuperset(self.refs().values())
            if is_whole and not self._objects.alternates():
                return self._fetch_all(incoming)
            new = new_objects(self._objects, wants, self._exchange.has)
            incoming.add_objects(map(self._objects.get, new))
        except OSError as error:
            raise self._unreadable(error) from error
        finally:
            self._objects.close()

    def _fetch_all(self, incoming: IncomingObjects) -> None:
        """Take whole packs, as they are, and all loose objects: there is nothing here yet."""
        directory = os.path.join(self._objects.directory, "pack")
        for name in sorted(os.listdir(directory) if os.path.isdir(directory) else ()):
            if name.endswith(".pack") and os.path.isfile(os.path.join(directory, name)):
                with open_patiently(os.path.join(directory, name)) as file:
                    incoming.add_pack(file)
        incoming.add_objects(map(self._objects.get, self._objects.loose()))

    def push(self, refs: Mapping[str, str]) -> list[PushedRef]:
        """See `Transport`."""
        there = self.refs()
        outcome = {ref: self._objection(ref, id_, there) for ref, id_ in refs.items()}
        allowed = {ref: id_ for ref, id_ in refs.items() if not outcome[ref]}
        try:
            self._send([id_ for ref, id_ in allowed.items() if there.get(ref) != id_], there)
            for ref, id_ in allowed.items():
                if there.get(ref) != id_:
                    outcome[ref] = self._set(ref, there.get(ref), id_)
            self._show_main()
        except OSError as error:
            raise RemoteRefusedError(
                f"The remote {self.address!r} cannot be written to: {why(error)}",
                hint="Free some space there, or check its permissions.",
            ) from error
        finally:
            self._objects.close()
        return [PushedRef(ref, id_, outcome[ref]) for ref, id_ in refs.items()]

    def report_damage(self, *, is_damaged: bool = True) -> None:
        """Leave a note for the machines that have what is missing here, or take it away."""
        note = os.path.join(self._path, _DAMAGED)
        with suppress(OSError):
            if is_damaged:
                self._disk.put(note, b"objects are missing or damaged\n")
            elif os.path.exists(note):
                self._disk.unlink(note)

    def repair(self, heads: Collection[str]) -> int:
        """Write again what commits lead to and the remote lost, if somebody noticed a loss.

        Args:
            heads: Commits that the journal has.

        Returns:
            How many objects were written.
        """
        note = os.path.join(self._path, _DAMAGED)
        if not os.path.exists(note):
            return 0
        journal, count = self._exchange.repository.objects, 0
        try:
            for id_ in self._exchange.new_ids(heads, ()):
                try:
                    self._objects.get(id_)
                except FamiliarError:
                    with suppress(OSError):
                        self._objects.forget_loose(id_)
                    self._objects.write([journal.get(id_)])
                    count += 1
            if count:
                self._disk.unlink(note)
        except OSError as error:
            raise self._unreadable(error) from error
        finally:
            self._objects.close()
        return count

    def close(self) -> None:
        """See `Transport`."""
        self._objects.close()

    def _check_format(self) -> None:
        config = _text(os.path.join(self._path, "config"))
        if _SHA256.search(config):
            raise RemoteDamagedError(
                f"The remote {self.address!r} uses SHA-256, the journal SHA-1; nothing was changed",
                hint="Create it with `git init --bare --object-format=sha1`.",
            )
        if _REFTABLE.search(config):
            raise RemoteDamagedError(
                f"The remote {self.address!r} keeps its refs in a reftable, which is not supported;"
                " nothing was changed",
                hint="Create it with `git init --bare --ref-format=files`.",
            )
        self._is_bare = bool(_BARE.search(config))

    def _loose(self) -> list[tuple[str, str]]:
        found = []
        top = os.path.join(self._path, *_HEADS.strip("/").split("/"))
        for directory, _, names in os.walk(top):
            for name in names:
                path = os.path.join(directory, name)
                ref = _HEADS + os.path.relpath(path, top).replace(os.sep, "/")
                if not name.endswith(".lock") and is_id(id_ := _text(path).strip()):
                    found.append((ref, id_))
        return found

    def _packed(self) -> dict[str, str]:
        found = packed_refs(self._path).items()
        return {ref: id_ for ref, id_ in found if ref.startswith(_HEADS) and is_id(id_)}

    def _objection(self, ref: str, id_: str, there: Mapping[str, str]) -> str:
        """Return why a ref may not name a commit now; empty: it may."""
        now = there.get(ref)
        if ref in self.shared_refs and not self._is_bare:
            return "it is not a bare repository, so the branch is left to whoever works in it"
        return objection(self._exchange, now, id_)

    def _send(self, wants: Collection[str], there: Mapping[str, str]) -> None:
        """Put there, durably, what commits lead to and the remote lacks. May raise OSError."""
        if not wants:
            return
        journal = self._exchange.repository.objects
        ids = self._exchange.new_ids(wants, there.values())
        if len(ids) < PACK_FROM:
            self._objects.write(map(journal.get, ids))
        else:
            self._objects.add_pack(*self._exchange.packed(ids))
        self._objects.close()
        missing = next((id_ for id_ in ids if not self._objects.has(id_)), None)
        if missing:
            raise RemoteRefusedError(
                f"Object {missing} was sent to {self.address!r} but is missing; no ref was updated",
                hint="Check the disk of the remote, then sync again.",
            )

    def _set(self, ref: str, old: str | None, new: str) -> str:
        """Make a ref name `new` if it names `old`; return why not, or an empty string."""
        path = os.path.join(self._path, *ref.split("/"))
        lock = f"{path}.lock"
        try:
            self._disk.make_dirs(os.path.dirname(path))
            self._lock(lock, new)
        except FileExistsError:
            return "another process is changing it"
        try:
            now = _text(path).strip() or self._packed().get(ref)
            if now != old:
                return f"another process has just set it to {str(now)[:10]}"
            self._disk.replace(lock, path)
            self._disk.sync_dir(os.path.dirname(path))
        finally:
            with suppress(OSError):
                Disk().unlink(lock)
        return "" if _text(path).strip() == new else "it was not updated"

    def _lock(self, lock: str, new: str) -> None:
        """Make git's own lock file of a ref, with its new content. May raise FileExistsError."""
        for wait_s in _LOCKED_WAITS_S:
            try:
                return self._disk.create(lock, f"{new}\n".encode())
            except FileExistsError:
                time.sleep(wait_s)
        return self._disk.create(lock, f"{new}\n".encode())

    def _show_main(self) -> None:
        """Let an unborn HEAD mean `main`, so that a plain clone shows the memory."""
        branch = self._head()
        if not branch or branch == MAIN_REF or not self._is_bare:
            return
        there = self.refs()
        if branch not in there and MAIN_REF in there:
            self._disk.put(os.path.join(self._path, "HEAD"), f"ref: {MAIN_REF}\n".encode())

    def _head(self) -> str:
        """Return the branch that HEAD names; empty: it names none."""
        head = _text(os.path.join(self._path, "HEAD")).strip()
        return head.removeprefix("ref:").strip() if head.startswith("ref:") else ""

    def _unreadable(self, error: OSError) -> FamiliarError:
        return RemoteUnreachableError(
            f"The remote {self.address!r} cannot be read: {why(error)}",
            hint="Check its permissions, and whether its disk is mounted.",
        )


def _repository_at(path: str) -> str:
    """Return the directory that holds the objects and refs of the repository at `path`."""
    for at in (path, os.path.join(path, ".git")):
        if os.path.isdir(os.path.join(at, "objects")) and os.path.isfile(os.path.join(at, "HEAD")):
            return at
    if os.path.exists(path):
        raise RemoteUnreachableError(
            f"There is no git repository in {path!r}",
            hint="Create one there with `git init --bare`, or give another path.",
        )
    raise RemoteUnreachableError(
        f"There is nothing at {path!r}",
        hint=f"Mount its disk, or create a repository: `git init --bare {path}`.",
    )


def _text(path: str) -> str:
    """Return a small file's text; empty when it is not there, or a directory."""
    try:
        return read_text(path) or ""
    except IsADirectoryError:
        return ""
