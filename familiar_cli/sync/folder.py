"""A folder of bundles as a remote.

There is one git bundle per push of an instance:

    laptop-7f3a.000012.9f86d081884c7d65.bundle[.age]

The name consists of the instance, an increasing number, and the start of the file's SHA-256, by
which anyone can verify that it is complete without a key. Existing names are never overwritten.

Each instance's bundles form an independent chain: the first has no prerequisites, and each builds
on the one before. Only the instance itself removes its bundles, once a new one, written and
verified, holds all their contents.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import BinaryIO, Final

from msgspec import Struct, field

from familiar_cli.base import errors, files
from familiar_cli.base.text import shorten_list
from familiar_cli.store.journal.exchange import IncomingObjects, JournalExchange
from familiar_cli.store.journal.repository import translate_errors
from familiar_cli.sync import sealing
from familiar_cli.sync.journal_epochs import dead_commits
from familiar_cli.sync.remotes import (
    MAIN_REF,
    MEMORY_REFS,
    TURNS_REFS,
    PushedRef,
    newest_seen,
    ref_objection,
)
from familiar_cli.sync.sealing import (
    PASSPHRASE,
    SEALED,
    UNSIGNED_HEAD,
    BundleFile,
    FileCipher,
    Header,
    SigningKey,
    fingerprint,
    read_seen,
    read_signature,
    sign_bundle,
    write_seen,
)

_NAME: Final = re.compile(
    r"(?P<instance>[a-z0-9-]+)\.(?P<number>[0-9]{6,9})\.(?P<digest>[0-9a-f]{16})"
    r"\.bundle(?P<age>\.age)?",
    re.IGNORECASE,  # some file systems return names in upper case
)
_LAST_NUMBER: Final = 900_000_000  # what is above was given by nobody who counts
_DIGEST_CHARS: Final = 16
_CHUNK_BYTES: Final = 1024 * 1024
_MOST_NAMED: Final = 3


class BundleFolder(Struct):
    """The bundles in a folder. Close it: decrypted copies are kept until then.

    Args:
        path: The folder.
        room: Local directory for temporary files, created on demand.
        seen_path: File, created on demand, that records what was seen in the folder; losing it only
            costs time.
        signing: The familiar's signing key.
        sealing: Encrypts and decrypts; None for plain bundles.
        tell: Callback for user-facing messages.
        disk: The file system of the folder.

    Attributes:
        refused: Bundles that `look` skipped because anyone could have written them.
    """

    path: str
    room: str
    seen_path: str
    signing: SigningKey
    sealing: FileCipher | None = None
    tell: Callable[[str], None] = lambda _: None
    disk: files.Disk = files.SharedDisk()
    _told: set[str] = field(default_factory=set)
    _locked: dict[str, errors.RemoteKeyError] = field(default_factory=dict)
    _proven: set[str] = field(default_factory=set)
    refused: list[BundleFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room += os.urandom(6).hex()

    @property
    def seals(self) -> bool:
        """Whether new bundles are encrypted."""
        return self.sealing is not None and self.sealing.seals

    @property
    def signs(self) -> bool:
        """Whether new bundles are signed."""
        return self.sealing is not None and self.sealing.needs_signature

    def is_outdated(self, one: BundleFile) -> bool:
        """Tell whether a bundle lacks the signature that new ones get."""
        return self.signs and one.proof != (self.signing.fingerprint() or None)

    def look(self, is_vouched_for: Callable[[BundleFile], bool]) -> list[BundleFile]:
        """Return the complete, readable bundles by number, and report the others.

        Args:
            is_vouched_for: Tells whether a bundle may introduce the signing key if there is none.

        Raises:
            RemoteUnreachableError: The folder is missing, or unexpectedly empty.
            RemoteKeyError: One cannot be decrypted, or the signing key is ambiguous.
        """
        before = read_seen(self.seen_path)
        known = {name: one for name, one in before.items() if not one.refused}
        bundles: list[BundleFile] = []
        foreign: list[str] = []
        self._locked = {}
        for name in self._names():
            parts = _NAME.fullmatch(name)
            one = self._bundle(name, parts["digest"], known.get(name)) if parts else None
            bundles += [one] if one else []
            foreign += [] if parts or name.startswith(files.TEMP_PREFIX) else [name]
        self.say("files that are not bundles were ignored", foreign)
        if self._locked and not any(one.is_sealed for one in bundles):
            raise next(iter(self._locked.values()))
        self.say("a bundle cannot be opened with the key, and was skipped", list(self._locked))
        self._check_gone(known, bundles)
        bundles.sort(key=lambda b: (b.number, b.instance, b.name))
        reasons = self._objections(bundles, known, is_vouched_for)
        for reason in dict.fromkeys(reasons.values()):
            names = [name for name, value in reasons.items() if value == reason]
            self.say(f"a bundle is {reason}, and was skipped", names)
        now = {b.name: replace(b, refused=reasons.get(b.name, "")) for b in bundles}
        if now != before:
            write_seen(self.seen_path, now)
        self.refused = [one for one in now.values() if one.refused]
        return [one for one in now.values() if not one.refused]

    def _objections(
        self,
        bundles: list[BundleFile],
        known: Mapping[str, BundleFile],
        is_vouched_for: Callable[[BundleFile], bool],
    ) -> dict[str, str]:
        """Map each bundle that anyone could have written to its problem."""
        is_sealed = self.seals or any(one.is_sealed for one in bundles)
        reasons = {one.name: "not encrypted" for one in bundles if is_sealed and not one.is_sealed}
        sealed = [one for one in bundles if one.is_sealed]
        unknown = [one for one in sealed if one.name not in known]
        doubtful = [one for one in unknown if one.proof != PASSPHRASE]

        if self.signing.choose(doubtful, is_vouched_for):
            self.tell(
                f"'dir:{self.path}': from now on, bundles have to be signed with the key"
                f" {self.signing.fingerprint()}; compare it with `familiar sync status` elsewhere"
            )
        reasons |= {one.name: self.signing.objection(one.signer) for one in doubtful}
        return {name: reason for name, reason in reasons.items() if reason}

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Open a git bundle, decrypting it if needed."""
        with self._decrypted(name) as file:
            read_signature(file, _bundle_place(name))
            yield file

    @contextmanager
    def _decrypted(self, name: str) -> Iterator[BinaryIO]:
        with self._reading(name):
            path = os.path.join(self.path, name)
            with files.open_patiently(path) as file:
                if file.read(len(SEALED)) == SEALED:
                    file.seek(0)
                    path = self._unsealed(file, name)
            with files.open_patiently(path) as file:
                yield file

    def bring(self, instance: str, content: Iterator[bytes], header: Header) -> BundleFile:
        """Add a bundle durably, renaming it into place once verified.

        Args:
            instance: The writing instance.
            content: The unencrypted bundle.

        Raises:
            RemoteRefusedError: The folder rejects it; existing files are unchanged.
            FamiliarError: This machine lacks space for it.
        """
        try:
            place = f"{instance}.{self._next_number(instance):06}"
            with translate_errors(os.path.dirname(self.room)):
                local = self._made(content, place)
            name = _name_for(place, local)
            self._copy(local, name, f"{files.TEMP_PREFIX}{instance}")
            size = os.stat(local).st_size
            files.Disk().unlink(local)
        except OSError as error:
            raise errors.RemoteRefusedError(
                f"'dir:{self.path}' could not be written: {files.why(error)}; its contents are "
                "unchanged",
                hint=f"{files.write_hint(error.errno)} Nothing is lost: the next `familiar sync` "
                "sends everything.",
            ) from error
        proof = self.signing.fingerprint() if self.signs else ""
        bundle = BundleFile(name, size, header, self.seals, proof)
        write_seen(self.seen_path, {**read_seen(self.seen_path), name: bundle})
        return bundle

    def remove(self, name: str) -> None:
        """Remove a bundle, if possible."""
        with suppress(OSError):
            self.disk.unlink(os.path.join(self.path, name))

    def close(self) -> None:
        """Delete decrypted copies."""
        shutil.rmtree(self.room, ignore_errors=True)

    def say(self, what: str, names: list[str]) -> None:
        """Report files, each once."""
        new = [name for name in names if name not in self._told]
        self._told |= set(new)
        if new:
            text = shorten_list(map(repr, new), _MOST_NAMED)
            self.tell(f"'dir:{self.path}': {what}: {text}")

    def _names(self) -> list[str]:
        with self._reading():
            return sorted(os.listdir(self.path))

    def _check_gone(self, known: Mapping[str, BundleFile], bundles: list[BundleFile]) -> None:
        """Refuse the empty mount point of a removed drive."""
        if known and not bundles:
            raise errors.RemoteUnreachableError(
                f"'dir:{self.path}' held bundles before and holds none now; nothing was changed",
                hint="Is the drive mounted? To start over in this folder: "
                "`familiar sync remote rm NAME`, then `familiar sync remote add NAME dir:PATH`.",
            )

    def _bundle(self, name: str, digest: str, before: BundleFile | None) -> BundleFile | None:
        path = os.path.join(self.path, name)
        try:
            size = os.stat(path).st_size
            if before and before.size_bytes == size:
                return before
            with files.open_patiently(path) as file:
                if _file_digest(file) != digest.lower():
                    self.say("a bundle has not arrived completely, and was skipped", [name])
                    return None
                file.seek(0)
                is_sealed = file.read(len(SEALED)) == SEALED
            with self._decrypted(name) as file:
                signer = read_signature(file, _bundle_place(name))
                header = sealing.read_header(file)
            proof = PASSPHRASE if name in self._proven else ""
            proof = fingerprint(signer) if signer else proof
            one = BundleFile(name, size, header, is_sealed, proof, signer)
            self._check_refs(one)
        except FileNotFoundError:  # removed since the folder was listed
            return None
        except errors.RemoteKeyError as error:
            self._locked[name] = error
            return None
        except (OSError, errors.RemoteError) as error:
            reason = files.why(error) if isinstance(error, OSError) else str(error)
            self.say(f"a bundle was skipped ({reason})", [name])
            return None
        else:
            return one

    @staticmethod
    def _check_refs(one: BundleFile) -> None:
        """Refuse a bundle with refs of another instance than its name says."""
        own = {MEMORY_REFS + one.instance, TURNS_REFS + one.instance, MAIN_REF, "HEAD"}
        if not own.issuperset(one.header.refs):
            raise errors.RemoteDamagedError("It holds branches of another machine")

    def _unsealed(self, file: BinaryIO, name: str) -> str:
        """Return the path of a decrypted local copy."""
        if self.sealing is None:
            raise errors.RemoteKeyError(
                f"'dir:{self.path}' is encrypted; nothing was read from it",
                hint="Set the file with its key: `familiar config set sync.key_file PATH`.",
            )
        path = self._here(name)
        if not os.path.exists(path):
            with open(f"{path}.part", "wb") as target:
                if self.sealing.open(file, target):
                    self._proven.add(name)
            files.Disk().replace(f"{path}.part", path)
        return path

    def _made(self, content: Iterator[bytes], place: str) -> str:
        """Write a bundle locally in its final form."""
        plain = self._here("new.bundle")
        with suppress(FileNotFoundError):
            files.Disk().unlink(plain)
        head = [UNSIGNED_HEAD] if self.signs else []
        files.Disk().create(plain, chain(head, content), durable=False)
        if self.sealing is None or not self.seals:
            return plain
        if self.signs:
            with open(plain, "r+b") as file:
                sign_bundle(file, self.signing.make(), place)
        sealed = f"{plain}.age"
        with open(plain, "rb") as source, open(sealed, "wb") as target:
            self.sealing.seal(source, target)
        files.Disk().unlink(plain)
        return sealed

    def _next_number(self, instance: str) -> int:
        parts = [m for m in map(_NAME.fullmatch, os.listdir(self.path)) if m]
        taken = (int(m["number"]) for m in parts if m["instance"].lower() == instance)
        return max((number for number in taken if number < _LAST_NUMBER), default=0) + 1

    def _copy(self, local: str, name: str, temporary: str) -> None:
        """Copy a file into the folder. A crash leaves at most one temporary file."""
        unfinished = os.path.join(self.path, temporary)
        with suppress(FileNotFoundError):
            self.disk.unlink(unfinished)
        try:
            with open(local, "rb") as file:
                self.disk.create(unfinished, _file_chunks(file))
            self._check_written(unfinished, name)
            self.disk.replace(unfinished, os.path.join(self.path, name))
        except BaseException:
            with suppress(OSError):
                files.Disk().unlink(unfinished)
            raise
        self.disk.sync_dir(self.path)

    def _check_written(self, path: str, name: str) -> None:
        with open(path, "rb") as file:
            is_good = f".{_file_digest(file)}." in name
        if not is_good:
            raise errors.RemoteRefusedError(
                f"A file written to 'dir:{self.path}' reads back differently, and was removed",
                hint="The drive may be failing: try another one.",
            )

    def _here(self, name: str) -> str:
        os.makedirs(self.room, mode=0o700, exist_ok=True)
        return os.path.join(self.room, name)

    @contextmanager
    def _reading(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if name and os.path.isdir(self.path):
                raise errors.RemoteDamagedError(
                    f"{name!r} was removed from 'dir:{self.path}' while it was being read",
                    hint="Run `familiar sync` again.",
                ) from error
            raise errors.RemoteUnreachableError(
                f"'dir:{self.path}' does not exist; nothing was changed",
                hint="Plug in the drive, or start the program that syncs the folder.",
            ) from error
        except OSError as error:
            if files.is_disk_full(error):  # copies are decrypted locally
                with translate_errors(os.path.dirname(self.room)):
                    raise
            raise errors.RemoteUnreachableError(
                f"'dir:{self.path}' cannot be read: {files.why(error)}; nothing was changed",
                hint="Check the drive and its permissions, then run `familiar sync` again.",
            ) from error


def _bundle_place(name: str) -> str:
    """Return the machine that wrote a bundle, and its number."""
    return ".".join(name.lower().split(".")[:2])


def _name_for(place: str, local: str) -> str:
    with open(local, "rb") as file:
        digest = _file_digest(file)
    return f"{place}.{digest}.bundle{'.age' if local.endswith('.age') else ''}"


def _file_digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    for chunk in _file_chunks(file):
        digest.update(chunk)
    return digest.hexdigest()[:_DIGEST_CHARS]


def _file_chunks(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK_BYTES), b"")


_FOLD_FROM: Final = 8  # number of bundles of an instance before they are folded


class FolderTransport:
    """A folder as a remote. See `Transport`.

    Args:
        folder: The bundles in it.
        exchange: The journal.
    """

    def __init__(self, folder: BundleFolder, exchange: JournalExchange) -> None:
        self.address = f"dir:{folder.path}"
        self.shared_refs: tuple[str, ...] = ()
        self._folder = folder
        self._exchange = exchange
        self._bundles: list[BundleFile] = []

    def refs(self) -> Mapping[str, str]:
        """See `Transport`. Incomplete bundles are ignored."""
        self._bundles = self._usable(self._folder.look(self._is_vouched_for))
        if not self._bundles and self._folder.refused and self._exchange.repository.head() is None:
            raise errors.RemoteKeyError(
                f"No bundle in {self.address!r} is signed, so anybody could have written them;"
                " nothing was accepted",
                hint="Update `familiar` on a machine that has the memory, and run `familiar sync`"
                " there. If there is none left, add `--unsigned` to the command.",
            )
        refs = dict.fromkeys(ref for b in self._bundles for ref in b.header.refs if ref != "HEAD")
        return {ref: self._main() if ref == MAIN_REF else self._named_by(ref) for ref in refs}

    def fetch(
        self, wants: Collection[str], haves: Collection[str], incoming: IncomingObjects
    ) -> None:
        """See `Transport`. Of a bundle that names more, only what is wanted is received."""
        del haves  # the journal knows what is missing
        bundles = self._leading_to(wants)
        newest = {one.instance: one.header.refs.values() for one in bundles}
        if all(id_ in wants or self._exchange.has(id_) for id_ in chain(*newest.values())):
            self._receive(bundles, incoming)
            return
        with self._exchange.incoming() as whole:
            self._receive(bundles, whole)
            incoming.add_objects(whole.reachable(wants))

    def _receive(self, bundles: Iterable[BundleFile], incoming: IncomingObjects) -> None:
        for one in bundles:
            with self._folder.opened(one.name) as file:
                sealing.read_header(file)
                incoming.add_pack(file)

    def fetch_chosen(
        self, choose: Callable[[Mapping[str, str]], Collection[str]], incoming: IncomingObjects
    ) -> None:
        """See `Transport`."""
        self.fetch(choose(self.refs()), (), incoming)

    def push(self, refs: Mapping[str, str]) -> list[PushedRef]:
        """See `Transport`. All new objects go into one bundle of one instance.

        Raises:
            RemoteRefusedError: The folder cannot be written.
            RemoteKeyError: It is encrypted, and the new bundle would not be.
            UsageError: The refs are not those of one instance.
        """
        instance = _instance_of(refs)
        there = self._known_refs()
        self._check_open()
        outcome = [
            PushedRef(ref, id_, ref_objection(self._exchange, there.get(ref), id_))
            for ref, id_ in refs.items()
        ]
        taken = {one.ref: one.id for one in outcome if not one.refused}
        is_new = any(there.get(ref) != id_ for ref, id_ in taken.items())
        if is_new or self._replaceable(instance, taken):
            own = {MEMORY_REFS + instance, TURNS_REFS + instance, MAIN_REF}
            dead = dead_commits(self._exchange.repository)
            kept = {ref: id_ for ref, id_ in there.items() if ref in own and id_ not in dead}
            is_replaced = any(
                not dead.isdisjoint(b.header.refs.values()) for b in self._of(instance)
            )
            self._write(instance, {**kept, **taken}, is_whole=is_replaced)
        return outcome

    def rewrite(self, instance: str) -> bool:
        """Rewrite all bundles of an instance as one, with the current encryption.

        Returns:
            Whether there was anything.

        Raises:
            RemoteRefusedError: The folder cannot be written; existing files are unchanged.
        """
        there = self._known_refs()
        own = {MEMORY_REFS + instance, TURNS_REFS + instance, MAIN_REF}
        names = {ref for one in self._of(instance) for ref in one.header.refs}
        refs = {ref: id_ for ref, id_ in there.items() if ref in own & names}
        if refs:
            self._write(instance, refs, is_whole=True)
        return bool(refs)

    def _known_refs(self) -> dict[str, str]:
        """Return the refs, without a `main` that is not part of the memory here."""
        there, exchange = dict(self.refs()), self._exchange
        main = there.get(MAIN_REF, "")
        if not (exchange.has(main) and exchange.leads_to(main, str(exchange.repository.head()))):
            there.pop(MAIN_REF, None)
        return there

    def close(self) -> None:
        """See `Transport`."""
        self._folder.close()

    def _usable(self, bundles: list[BundleFile]) -> list[BundleFile]:
        """Return the bundles whose prerequisites exist, in reading order."""
        usable: list[BundleFile] = []
        reached: set[str] = set()
        waiting = bundles
        while ready := [b for b in waiting if self._can_be_read(b, reached)]:
            usable += ready
            reached |= {id_ for b in ready for id_ in b.header.refs.values()}
            waiting = [b for b in waiting if b not in ready]
        usable.sort(key=lambda b: (b.number, b.instance, b.name))
        newest = {b.instance: b.number for b in usable}
        self._folder.say(
            "an earlier bundle has not arrived yet, so this one waits",
            [b.name for b in waiting if b.number > newest.get(b.instance, 0)],
        )
        return usable

    def _can_be_read(self, one: BundleFile, reached: set[str]) -> bool:
        return all(id_ in reached or self._exchange.has(id_) for id_ in one.header.needs)

    def _named_by(self, ref: str) -> str:
        """Return the commit of an instance's ref.

        After restoring a backup under the same id, two may be unrelated. Then the one missing here
        is returned, so that it is noticed.
        """
        tips = list(
            dict.fromkeys(b.header.refs[ref] for b in self._bundles if ref in b.header.refs)
        )
        top = tips[-1]
        if not self._exchange.has(top):
            return top
        return next((id_ for id_ in tips if not self._exchange.has(id_)), top)

    def _main(self) -> str:
        """Return the commit of `main`: of everything pushed, one without successors."""
        pushed = [b for b in self._bundles if MAIN_REF in b.header.refs]
        last = {b.instance: b.header.refs[MAIN_REF] for b in pushed}
        tips = list(dict.fromkeys(last.values()))
        missing = [id_ for id_ in tips if not self._exchange.has(id_)]
        if missing:
            return missing[0]
        leads_to = self._exchange.leads_to
        return next((t for t in tips if not any(o != t and leads_to(t, o) for o in tips)), tips[0])

    def _leading_to(self, wants: Collection[str]) -> list[BundleFile]:
        """Return the bundles that hold commits, and their prerequisites, in reading order."""
        needed = set(wants)
        bundles: list[BundleFile] = []
        for one in reversed(self._bundles):
            if needed & set(one.header.refs.values()):
                bundles.append(one)
                needed |= {id_ for id_ in one.header.needs if not self._exchange.has(id_)}
        return bundles[::-1]

    def _check_open(self) -> None:
        """Refuse plain text in a folder where others encrypt."""
        if not self._folder.seals and any(b.is_sealed for b in self._bundles):
            raise errors.RemoteKeyError(
                f"{self.address!r} is encrypted, and sync.encrypt is not set here;"
                " nothing was sent",
                hint="Run `familiar config set sync.encrypt passphrase`, or set the recipients.",
            )

    def _of(self, instance: str) -> list[BundleFile]:
        return [b for b in self._bundles if b.instance == instance]

    def _is_vouched_for(self, one: BundleFile) -> bool:
        """Tell whether a bundle may introduce the signing key to a machine without one.

        On first use any may. Once other machines are known, as from another remote, it must hold
        the newest known commit of its machine, whose id only ever left it encrypted.
        """
        known = newest_seen(self._exchange.repository)
        try:
            with self._exchange.incoming() as incoming, self._folder.opened(one.name) as file:
                sealing.read_header(file)
                incoming.add_pack(file)
                return not known or any(map(incoming.came, known.get(one.instance, ())))
        except errors.RemoteDamagedError:
            return False

    def _replaceable(self, instance: str, refs: Mapping[str, str]) -> list[BundleFile]:
        """Return our bundles that others no longer accept and the new one covers."""
        old = [one for one in self._of(instance) if self._folder.is_outdated(one)]
        refused = [one for one in self._folder.refused if one.instance == instance]
        return old + [one for one in refused if self._are_in(one, refs)]

    def _write(self, instance: str, refs: Mapping[str, str], *, is_whole: bool = False) -> None:
        """Add a bundle, and remove those it replaces."""
        own = self._of(instance)
        replaceable = self._replaceable(instance, refs)
        bundles, folded = ([], own) if is_whole or replaceable else self._folding(own)
        folded = [*folded, *(one for one in replaceable if one not in folded)]
        needs = tuple(sorted(set(bundles[-1].header.refs.values()))) if bundles else ()
        new = self._exchange.new_ids(set(refs.values()), needs)
        count, objects = self._exchange.packed(new)
        # With a HEAD, `git clone` of the first bundle checks out files.
        named = {**refs, "HEAD": refs[MAIN_REF]} if MAIN_REF in refs else dict(refs)
        header = Header(named, needs)
        content = sealing.encode_bundle(header, count, objects)
        self._bundles.append(self._folder.bring(instance, content, header))
        for one in folded:
            if self._are_in(one, refs):
                self._folder.remove(one.name)

    def _folding(self, own: list[BundleFile]) -> tuple[list[BundleFile], list[BundleFile]]:
        """Return which of our bundles to keep, and which to fold into the next one.

        Once there are many, those are folded whose successors together are nearly as large; so they
        stay few, and each commit is rewritten only a few times.
        """
        at = len(own)
        if len(own) >= _FOLD_FROM:
            after_bytes = own[-1].size_bytes
            while at and own[at - 1].size_bytes <= 2 * after_bytes:
                at -= 1
                after_bytes += own[at].size_bytes
        return own[:at], own[at:]

    def _are_in(self, one: BundleFile, refs: Mapping[str, str]) -> bool:
        has, leads_to = self._exchange.has, self._exchange.leads_to
        dead = dead_commits(self._exchange.repository)
        return all(
            id_ in dead or (has(id_) and any(leads_to(id_, tip) for tip in set(refs.values())))
            for id_ in one.header.refs.values()
        )


def _instance_of(refs: Mapping[str, str]) -> str:
    """Return the one instance whose refs these are."""
    items = {
        ref.removeprefix(prefix)
        for ref in refs
        for prefix in (MEMORY_REFS, TURNS_REFS)
        if ref.startswith(prefix)
    }
    if len(items) != 1:
        raise errors.UsageError(
            "A folder takes the refs of one instance at a time; nothing was written"
        )
    return items.pop()
