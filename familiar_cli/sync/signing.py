"""Signatures inside encrypted bundles, because age does not tell who encrypted one.

A bundle that is encrypted to recipients begins with two lines, before the git bundle:

    # familiar signed bundle
    KEY HMAC

`KEY` belongs to the familiar. It never leaves a machine but inside an encrypted bundle, so whoever
knows it could decrypt one. `HMAC` is HMAC-SHA256 under it, over the place of the bundle and the git
bundle. On each machine the key is in `bundle.key`, outside the memory.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from familiar_cli.errors import RemoteDamagedError, RemoteKeyError
from familiar_cli.files import ON_WINDOWS, read_plain, why, write_own

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from familiar_cli.sync.bundle import Header


KEY_FILE: Final = "bundle.key"
_FIRST_LINE: Final = b"# familiar signed bundle\n"
_KEY_BYTES: Final = 32
_HEX_CHARS: Final = 64
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_SIGNATURE: Final = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{64})\n")
UNSIGNED_HEAD: Final = _FIRST_LINE + b"0" * _HEX_CHARS + b" " + b"0" * _HEX_CHARS + b"\n"
"""What a bundle begins with until `sign` fills it in."""

_FINGERPRINT_CHARS: Final = 20
_MOST_FILE_BYTES: Final = 1_000
_CHUNK_BYTES: Final = 1024 * 1024
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def fingerprint(key: bytes) -> str:
    """Return what tells keys apart and may be shown."""
    return hashlib.sha256(key).hexdigest()[:_FINGERPRINT_CHARS]


@dataclass(frozen=True, slots=True)
class SignatureTrust:
    """What a person accepts without proof, for one command.

    Args:
        signing_key: The fingerprint of the key to take over, whatever is here; empty: none.
        unsigned: Bundles that are not signed are taken, too.
    """

    signing_key: str = ""
    unsigned: bool = False


class SigningKey:
    """The signing key of a familiar on this machine.

    Args:
        path: Its file, which need not be there yet.
        trust: What is accepted without proof.
    """

    def __init__(self, path: Path, trust: SignatureTrust = SignatureTrust()) -> None:
        self._path = path
        self._trust = trust

    def read(self) -> bytes | None:
        """Return the key; None: there is none yet.

        Raises:
            RemoteKeyError: The file is damaged, or others can read it.
        """
        try:
            mode = self._path.stat().st_mode
            text = read_plain(self._path, _MOST_FILE_BYTES).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(f"cannot be read: {why(error)}") from error
        if mode & _OTHERS and not ON_WINDOWS:
            raise self._unusable("can be read by other users")
        if not _KEY.fullmatch(text):
            raise self._unusable("is damaged")
        return bytes.fromhex(text)

    def make(self) -> bytes:
        """Return the key, made where there is none. May raise OSError, or what `read` raises."""
        return self.read() or self.replace()

    def replace(self, key: bytes | None = None) -> bytes:
        """Keep another key, or a new one, and return it. May raise OSError."""
        key = key or secrets.token_bytes(_KEY_BYTES)
        write_own(self._path, f"{key.hex()}\n".encode())
        return key

    def fingerprint(self) -> str:
        """Return what tells the key apart and may be shown; empty: there is none yet."""
        key = self.read()
        return fingerprint(key) if key else ""

    def choose(
        self, bundles: Sequence[BundleFile], is_vouched_for: Callable[[BundleFile], bool]
    ) -> bool:
        """Take over the key of other machines if there is none here, or one is wanted.

        Args:
            bundles: Those that were not taken before.
            is_vouched_for: Tells whether one may bring the key.

        Returns:
            Whether that was done.

        Raises:
            RemoteKeyError: They bring several, and nobody said which.
        """
        signers = {one.signer: one.name for one in bundles if one.signer}
        wanted = {key for key in signers if fingerprint(key) == self._trust.signing_key}
        if wanted:
            return bool(self.replace(wanted.pop()))
        if not signers or self.read() is not None:
            return False
        signers = {one.signer: one.name for one in bundles if one.signer and is_vouched_for(one)}
        if len(signers) > 1:
            shown = ", ".join(f"{fingerprint(key)} ({name})" for key, name in signers.items())
            raise RemoteKeyError(
                f"Bundles are signed with different keys: {shown}; nothing was taken",
                hint="`familiar sync status` on your other machines shows the right one. Delete the"
                " bundles of the other keys, or add `--signing-key FINGERPRINT`.",
            )
        return bool(signers) and bool(self.replace(*signers))

    def objection(self, signer: bytes | None) -> str:
        """Return what is wrong with a bundle; empty: nothing."""
        if signer is None:
            return "" if self._trust.unsigned else "not signed"
        if signer == self.read():
            return ""
        return f"signed with another key ({fingerprint(signer)})"

    def _unusable(self, what: str) -> RemoteKeyError:
        return RemoteKeyError(
            f"The signing key {str(self._path)!r} {what}; nothing was sent or taken",
            hint=f"Run `chmod 600 {self._path}`. If that does not help, delete it and sync: the key"
            " is taken from the bundles of your other machines.",
        )


def sign(file: BinaryIO, key: bytes, place: str) -> None:
    """Fill in the signature of a bundle. May raise OSError.

    Args:
        file: Begins with `UNSIGNED_HEAD`.
        key: The familiar's.
        place: The machine that writes it, and its number.
    """
    file.seek(len(UNSIGNED_HEAD))
    digest = _digest(file, key, place)
    file.seek(0)
    file.write(_FIRST_LINE + f"{key.hex()} {digest}\n".encode())


def read_signature(file: BinaryIO, place: str) -> bytes | None:
    """Return the key with which a bundle is signed; None: it is not signed.

    Leaves `file` where the git bundle begins.

    Raises:
        RemoteDamagedError: The signature is not that of this bundle at this place.
        OSError: It cannot be read.
    """
    if file.read(len(_FIRST_LINE)) != _FIRST_LINE:
        file.seek(0)
        return None
    found = _SIGNATURE.fullmatch(file.read(len(UNSIGNED_HEAD) - len(_FIRST_LINE)))
    key = bytes.fromhex(found[1].decode()) if found else b""
    if not found or not hmac.compare_digest(_digest(file, key, place), found[2].decode()):
        raise RemoteDamagedError("its signature is wrong")
    file.seek(len(UNSIGNED_HEAD))
    return key


def _digest(file: BinaryIO, key: bytes, place: str) -> str:
    digest = hmac.new(key, f"{place}\n".encode(), "sha256")
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One bundle, all of which has arrived.

    Args:
        name: Of the file.
        instance: Who wrote it.
        number: Its place among the bundles of that instance.
        is_sealed: Whether it is encrypted.
        size_bytes: Its size.
        header: What it says of itself.
        proof: Which secret its writer knew: the fingerprint of the key that it is signed with, or
            `PASSPHRASE`; empty: none.
        signer: That key, where it was read just now.
    """

    name: str
    instance: str
    number: int
    is_sealed: bool
    size_bytes: int
    header: Header
    proof: str = ""
    signer: bytes | None = None
