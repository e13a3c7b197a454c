"""`BundleFolder`: the files in a folder that a stick or another program carries about.

It holds one git bundle for each time that an instance pushed something:

    laptop-7f3a.000012.9f86d081884c7d65.bundle[.age]

the instance, a number that grows, and the beginning of the SHA-256 of the file, by which anyone
sees, without a key, whether all of it has arrived. Nobody writes under a name that is taken.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, Final

from familiar_cli.errors import (
    RemoteDamagedError,
    RemoteError,
    RemoteKeyError,
    RemoteRefusedError,
    RemoteUnreachableError,
)
from familiar_cli.files import TEMP_PREFIX, Disk, SharedDisk, is_disk_full, open_patiently, why
from familiar_cli.memory.journal.repository import translated
from familiar_cli.sync import bundle
from familiar_cli.sync.bundle import SeenBundle, read_seen, write_seen
from familiar_cli.sync.sealing import PASSPHRASE, SEALED
from familiar_cli.sync.signing import UNSIGNED_HEAD, fingerprint, read_signature, sign
from familiar_cli.sync.transport import MAIN_REF, MEMORY_REFS, TURNS_REFS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from familiar_cli.sync.bundle import Header
    from familiar_cli.sync.sealing import Sealing
    from familiar_cli.sync.signing import SigningKey

from familiar_cli.sync.signing import BundleFile

_NAME: Final = re.compile(
    r"(?P<instance>[a-z0-9-]+)\.(?P<number>[0-9]{6,9})\.(?P<digest>[0-9a-f]{16})"
    r"\.bundle(?P<age>\.age)?",
    re.IGNORECASE,  # some file systems give names back in capitals
)
_LAST_NUMBER: Final = 900_000_000  # what is above was given by nobody who counts
_DIGEST_CHARS: Final = 16
_CHUNK_BYTES: Final = 1024 * 1024
_MOST_NAMED: Final = 3


class BundleFolder:
    """The bundles in a folder. Close it: what was decrypted is kept until then.

    Args:
        path: The folder.
        room: A directory on this machine for what is on its way, made when it is needed.
        seen_path: A file, made when it is missing, that remembers what was seen in the folder; to
            lose it costs time only.
        signing: The familiar's signing key.
        sealing: What encrypts and decrypts; None: nothing does.
        tell: Told in words what a person should look at.
        disk: The file system of the folder.

    Attributes:
        refused: The bundles that `look` skipped because anybody could have written them.
    """

    def __init__(
        self,
        path: str,
        room: str,
        seen_path: str,
        signing: SigningKey,
        *,
        sealing: Sealing | None = None,
        tell: Callable[[str], None] = lambda _: None,
        disk: Disk | None = None,
    ) -> None:
        self.path = path
        self._room = f"{room}{os.urandom(6).hex()}"
        self._seen_path = seen_path
        self._signing = signing
        self._sealing = sealing
        self._tell = tell
        self._disk = disk or SharedDisk()
        self._told: set[str] = set()
        self._locked: dict[str, RemoteKeyError] = {}
        self._proven: set[str] = set()
        self.refused: list[BundleFile] = []

    @property
    def seals(self) -> bool:
        """Whether what is brought is encrypted."""
        return self._sealing is not None and self._sealing.seals

    @property
    def signs(self) -> bool:
        """Whether what is brought is signed."""
        return self._sealing is not None and self._sealing.needs_signature

    def is_outdated(self, one: BundleFile) -> bool:
        """Tell whether a bundle is not signed as those that are written now."""
        return self.signs and one.proof != (self._signing.fingerprint() or None)

    def look(self, is_vouched_for: Callable[[BundleFile], bool]) -> list[BundleFile]:
        """Return the bundles that are whole and can be read, by number, and tell of the rest.

        Args:
            is_vouched_for: Tells whether a bundle may bring the signing key, if there is none.

        Raises:
            RemoteUnreachableError: The folder is not there, or empty though it was not.
            RemoteKeyError: One cannot be decrypted, or there is no one signing key.
        """
        before = read_seen(self._seen_path)
        known = {name: one for name, one in before.items() if not one.refused}
        found: list[BundleFile] = []
        foreign: list[str] = []
        self._locked = {}
        for name in self._names():
            parts = _NAME.fullmatch(name)
            one = self._bundle(name, parts["digest"], known.get(name)) if parts else None
            found += [one] if one else []
            foreign += [] if parts or name.startswith(TEMP_PREFIX) else [name]
        self.say("files that are not bundles were ignored", foreign)
        if self._locked and not any(one.is_sealed for one in found):
            raise next(iter(self._locked.values()))
        self.say("a bundle cannot be opened with the key, and was skipped", list(self._locked))
        self._check_gone(known, found)
        found.sort(key=lambda b: (b.number, b.instance, b.name))
        reasons = self._objections(found, known, is_vouched_for)
        for reason in dict.fromkeys(reasons.values()):
            names = [name for name, given in reasons.items() if given == reason]
            self.say(f"a bundle is {reason}, and was skipped", names)
        now = {b.name: _seen(b, reasons.get(b.name, "")) for b in found}
        if now != before:
            write_seen(self._seen_path, now)
        self.refused = [one for one in found if one.name in reasons]
        return [one for one in found if one.name not in reasons]

    def _objections(
        self,
        found: list[BundleFile],
        known: Mapping[str, SeenBundle],
        is_vouched_for: Callable[[BundleFile], bool],
    ) -> dict[str, str]:
        """Return what is wrong with bundles that anybody could have written, by name."""
        is_sealed = self.seals or any(one.is_sealed for one in found)
        reasons = {one.name: "not encrypted" for one in found if is_sealed and not one.is_sealed}
        sealed = [one for one in found if one.is_sealed]
        unknown = [one for one in sealed if one.name not in known]
        doubtful = [one for one in unknown if one.proof != PASSPHRASE]

        if self._signing.choose(doubtful, is_vouched_for):
            self._tell(
                f"'dir:{self.path}': from now on, bundles have to be signed with the key"
                f" {self._signing.fingerprint()}; compare it with `familiar sync status` elsewhere"
            )
        reasons |= {one.name: self._signing.objection(one.signer) for one in doubtful}
        return {name: reason for name, reason in reasons.items() if reason}

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Open a git bundle, decrypted when it is encrypted."""
        with self._decrypted(name) as file:
            read_signature(file, _place(name))
            yield file

    @contextmanager
    def _decrypted(self, name: str) -> Iterator[BinaryIO]:
        with self._reading(name):
            path = os.path.join(self.path, name)
            with open_patiently(path) as file:
                if file.read(len(SEALED)) == SEALED:
                    file.seek(0)
                    path = self._unsealed(file, name)
            with open_patiently(path) as file:
                yield file

    def bring(self, instance: str, content: Iterator[bytes], header: Header) -> BundleFile:
        """Add a bundle, durable, and under its name only when all of it is there and reads well.

        Args:
            instance: Who writes it.
            content: The bundle, before it is encrypted.
            header: What it says of itself.

        Raises:
            RemoteRefusedError: The folder does not take it; what was there is as it was.
            FamiliarError: There is no room for it on this machine.
        """
        try:
            place = f"{instance}.{self._next_number(instance):06}"
            with translated(os.path.dirname(self._room)):
                local = self._made(content, place)
            name = _name_for(place, local)
            self._copy(local, name, f"{TEMP_PREFIX}{instance}")
            size = os.stat(local).st_size
            Disk().unlink(local)
        except OSError as error:
            raise RemoteRefusedError(
                f"'dir:{self.path}' could not be written: {why(error)}; its contents are unchanged",
                hint="Free some space or check its permissions. Nothing is lost: the next "
                "`familiar sync` sends everything.",
            ) from error
        proof = self._signing.fingerprint() if self.signs else ""
        made = _bundle_file(name, size, header, proof, is_sealed=self.seals)
        write_seen(self._seen_path, {**read_seen(self._seen_path), name: _seen(made)})
        return made

    def remove(self, name: str) -> None:
        """Take a bundle away, if that is possible."""
        with suppress(OSError):
            self._disk.unlink(os.path.join(self.path, name))

    def close(self) -> None:
        """Drop what was decrypted."""
        shutil.rmtree(self._room, ignore_errors=True)

    def say(self, what: str, names: list[str]) -> None:
        """Tell of files, of each once."""
        new = [name for name in names if name not in self._told]
        self._told |= set(new)
        if new:
            more = f" and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
            shown = ", ".join(map(repr, new[:_MOST_NAMED]))
            self._tell(f"'dir:{self.path}': {what}: {shown}{more}")

    def _names(self) -> list[str]:
        with self._reading():
            return sorted(os.listdir(self.path))

    def _check_gone(self, known: Mapping[str, SeenBundle], found: list[BundleFile]) -> None:
        """Refuse the empty directory that is left where a stick was."""
        if known and not found:
            raise RemoteUnreachableError(
                f"'dir:{self.path}' held bundles before and holds none now; nothing was changed",
                hint="Is the drive mounted? To start over in this folder: "
                "`familiar sync remote rm NAME`, then `familiar sync remote add NAME dir:PATH`.",
            )

    def _bundle(self, name: str, digest: str, before: SeenBundle | None) -> BundleFile | None:
        path = os.path.join(self.path, name)
        try:
            size = os.stat(path).st_size
            if before and before.size_bytes == size:
                header, proof = before.header, before.proof
                return _bundle_file(name, size, header, proof, is_sealed=before.is_sealed)
            with open_patiently(path) as file:
                if _digest(file) != digest.lower():
                    self.say("a bundle has not arrived completely, and was skipped", [name])
                    return None
                file.seek(0)
                is_sealed = file.read(len(SEALED)) == SEALED
            with self._decrypted(name) as file:
                signer = read_signature(file, _place(name))
                header = bundle.read_header(file)
            proof = PASSPHRASE if name in self._proven else ""
            proof = fingerprint(signer) if signer else proof
            one = _bundle_file(name, size, header, proof, is_sealed=is_sealed, signer=signer)
            self._check_refs(one)
        except FileNotFoundError:  # taken away since the folder was listed
            return None
        except RemoteKeyError as error:
            self._locked[name] = error
            return None
        except (OSError, RemoteError) as error:
            reason = why(error) if isinstance(error, OSError) else str(error)
            self.say(f"a bundle was skipped ({reason})", [name])
            return None
        else:
            return one

    @staticmethod
    def _check_refs(one: BundleFile) -> None:
        """Refuse a bundle that speaks for another instance than its name says."""
        own = {MEMORY_REFS + one.instance, TURNS_REFS + one.instance, MAIN_REF, "HEAD"}
        if not own.issuperset(one.header.refs):
            raise RemoteDamagedError("It holds branches of another machine")

    def _unsealed(self, file: BinaryIO, name: str) -> str:
        """Return the path of a decrypted copy, here."""
        if self._sealing is None:
            raise RemoteKeyError(
                f"'dir:{self.path}' is encrypted; nothing was read from it",
                hint="Set the file with its key: `familiar config set sync.key_file PATH`.",
            )
        path = self._here(name)
        if not os.path.exists(path):
            with open(f"{path}.part", "wb") as target:
                if self._sealing.open(file, target):
                    self._proven.add(name)
            Disk().replace(f"{path}.part", path)
        return path

    def _made(self, content: Iterator[bytes], place: str) -> str:
        """Write a bundle here, as it is to be there."""
        plain = self._here("new.bundle")
        with suppress(FileNotFoundError):
            Disk().unlink(plain)
        head = [UNSIGNED_HEAD] if self.signs else []
        Disk().create(plain, chain(head, content), durable=False)
        if self._sealing is None or not self.seals:
            return plain
        if self.signs:
            with open(plain, "r+b") as file:
                sign(file, self._signing.make(), place)
        sealed = f"{plain}.age"
        with open(plain, "rb") as source, open(sealed, "wb") as target:
            self._sealing.seal(source, target)
        Disk().unlink(plain)
        return sealed

    def _next_number(self, instance: str) -> int:
        parts = [m for m in map(_NAME.fullmatch, os.listdir(self.path)) if m]
        taken = (int(m["number"]) for m in parts if m["instance"].lower() == instance)
        return max((number for number in taken if number < _LAST_NUMBER), default=0) + 1

    def _copy(self, local: str, name: str, temporary: str) -> None:
        """Copy a file into the folder. A crash leaves one temporary file there at most."""
        unfinished = os.path.join(self.path, temporary)
        with suppress(FileNotFoundError):
            self._disk.unlink(unfinished)
        try:
            with open(local, "rb") as file:
                self._disk.create(unfinished, _chunks(file))
            self._check_written(unfinished, name)
            self._disk.replace(unfinished, os.path.join(self.path, name))
        except BaseException:
            with suppress(OSError):
                Disk().unlink(unfinished)
            raise
        self._disk.sync_dir(self.path)

    def _check_written(self, path: str, name: str) -> None:
        with open(path, "rb") as file:
            is_good = f".{_digest(file)}." in name
        if not is_good:
            raise RemoteRefusedError(
                f"A file written to 'dir:{self.path}' reads back differently, and was removed",
                hint="The drive may be failing: try another one.",
            )

    def _here(self, name: str) -> str:
        os.makedirs(self._room, mode=0o700, exist_ok=True)
        return os.path.join(self._room, name)

    @contextmanager
    def _reading(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if name and os.path.isdir(self.path):
                raise RemoteDamagedError(
                    f"{name!r} was removed from 'dir:{self.path}' while it was being read",
                    hint="Run `familiar sync` again.",
                ) from error
            raise RemoteUnreachableError(
                f"'dir:{self.path}' does not exist; nothing was changed",
                hint="Plug in the drive, or start the program that syncs the folder.",
            ) from error
        except OSError as error:
            if is_disk_full(error):  # what is read there is decrypted here
                with translated(os.path.dirname(self._room)):
                    raise
            raise RemoteUnreachableError(
                f"'dir:{self.path}' cannot be read: {why(error)}; nothing was changed",
                hint="Check the drive and its permissions, then run `familiar sync` again.",
            ) from error


def _bundle_file(
    name: str,
    size: int,
    header: Header,
    proof: str,
    *,
    is_sealed: bool,
    signer: bytes | None = None,
) -> BundleFile:
    instance, number = _place(name).split(".")
    return BundleFile(name, instance, int(number), is_sealed, size, header, proof, signer)


def _seen(one: BundleFile, refused: str = "") -> SeenBundle:
    return SeenBundle(one.size_bytes, one.header, one.is_sealed, one.proof, refused)


def _place(name: str) -> str:
    """Return the machine that wrote a bundle, and its number."""
    return ".".join(name.lower().split(".")[:2])


def _name_for(place: str, local: str) -> str:
    with open(local, "rb") as file:
        digest = _digest(file)
    return f"{place}.{digest}.bundle{'.age' if local.endswith('.age') else ''}"


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        digest.update(chunk)
    return digest.hexdigest()[:_DIGEST_CHARS]


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK_BYTES), b"")
