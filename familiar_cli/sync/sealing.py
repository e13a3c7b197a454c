"""Bundles: their form, encryption and signatures.

Dulwich's reader loads the whole file to list its refs, and does not check their names.

A bundle that is encrypted to recipients begins with two lines, before the git bundle:

    # familiar signed bundle
    KEY HMAC

`KEY` belongs to the familiar and only leaves a machine inside an encrypted bundle, so knowing it
proves having decrypted one. `HMAC` is HMAC-SHA256 with that key over the bundle's place and the git
bundle. Each machine keeps the key in `bundle.key`, outside the memory.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Final

from msgspec import Struct

from familiar_cli.base import files
from familiar_cli.base.config.environment import install_command
from familiar_cli.base.errors import RemoteDamagedError, RemoteKeyError
from familiar_cli.base.text import bare_lines
from familiar_cli.store.journal.objects import is_id

if TYPE_CHECKING:
    from types import ModuleType

    from dulwich.pack import UnpackedObject

PASSPHRASE: Final = "passphrase"  # noqa: S105  # a word, not one
"""Value of `sync.encrypt` for encryption by passphrase."""

SEALED: Final = b"age-encryption.org/v1\n"
"""Magic bytes of an encrypted file."""

_MOST_KEY_BYTES: Final = 65_536
_SSH: Final = "ssh-"
_SCRYPT: Final = b"-> scrypt "  # only a passphrase opens such a file
_PRIVATE: Final = "-----BEGIN"
_IDENTITY: Final = "AGE-SECRET-KEY-"
_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_HEAD_BYTES: Final = 256
_MOST_DIGITS: Final = 3
_NEVER: Final = 999
_MOST_SCRYPT_FACTOR: Final = 20  # 1 GB; age uses 18, pyrage about one second's worth
_SEAL_TRIES: Final = 5
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class FileCipher:
    """Encrypts and decrypts whole files.

    Args:
        encrypt: Recipients (`age1...`, or a line of an SSH public key), or `PASSPHRASE` alone.
        key: Returns the secret: the passphrase, or the text of an age identity file or SSH private
            key. Called at most once, when first needed.
        old_keys: Returns former secrets of the same kinds, used only for decryption.
    """

    def __init__(
        self,
        encrypt: Sequence[str],
        key: Callable[[], str],
        old_keys: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._encrypt = tuple(encrypt)
        self._ask = key
        self._old_keys = old_keys
        self._key: str | None = None

    @property
    def seals(self) -> bool:
        """Whether outgoing data is encrypted; incoming data is decrypted in any case."""
        return bool(self._encrypt)

    @property
    def needs_signature(self) -> bool:
        """Whether anyone can encrypt to this key, so that a signature is needed."""
        return self.seals and self._encrypt != (PASSPHRASE,)

    def seal(self, plain: IO[bytes], sealed: IO[bytes]) -> None:
        """Encrypt a file.

        Raises:
            RemoteKeyError: The key or the recipients are unusable; nothing was written.
            OSError: It cannot be read or written.
        """
        age = _import_pyrage()
        if self._encrypt == (PASSPHRASE,):
            content, made = plain.read(), b""
            for _ in range(_SEAL_TRIES):  # it measures the time, sometimes badly
                made = age.passphrase.encrypt(content, _first_line(self._secret()))
                if (_scrypt_factor(io.BytesIO(made[:_HEAD_BYTES])) or 0) <= _MOST_SCRYPT_FACTOR:
                    break
            sealed.write(made)
            return
        recipients = [_parse_recipient(age, text) for text in self._encrypt]
        try:
            age.encrypt_io(plain, sealed, recipients)
        except age.EncryptError as error:
            raise _disk_error(error) from error

    def open(self, sealed: IO[bytes], plain: IO[bytes]) -> bool:
        """Decrypt a file, and tell whether only someone with the secret can have encrypted it.

        Raises:
            RemoteKeyError: The key does not fit.
            RemoteDamagedError: It would take too much memory.
            OSError: It cannot be read or written.
        """
        age = _import_pyrage()
        factor = _scrypt_factor(sealed)
        if factor is not None and factor > _MOST_SCRYPT_FACTOR:
            raise RemoteDamagedError(
                f"its scrypt factor is {factor}, over the limit of {_MOST_SCRYPT_FACTOR}"
            )
        begin, at = sealed.tell(), plain.tell()
        secrets = [self._secret, *((lambda old=old: old) for old in self._old_keys())]
        read = _open_with_identities if factor is None else _open_with_passphrase
        for left, secret in enumerate(secrets, 1 - len(secrets)):
            sealed.seek(begin)
            plain.seek(at)
            plain.truncate()
            try:
                read(age, sealed, plain, secret())
            except age.DecryptError as error:
                if str(error).startswith("OSError"):
                    raise _disk_error(error) from error
                if not left:
                    raise RemoteKeyError(
                        "The key does not decrypt the folder; nothing was read from it",
                        hint="Check sync.encrypt and sync.key_file: `familiar config show`.",
                    ) from error
            else:
                break
        return factor is not None

    def _secret(self) -> str:
        if self._key is None:
            self._key = self._ask()
        return self._key


def no_key() -> str:
    """Report a missing key; a `key` for `FileCipher` where nobody can be asked.

    Raises:
        RemoteKeyError: Always.
    """
    raise RemoteKeyError(
        "The key of the encrypted folder is not known, and there is no terminal to ask for it",
        hint="Put it in a file that only you can read, and run "
        "`familiar config set sync.key_file PATH`, or set FAMILIAR_SYNC_KEY_FILE.",
    )


def read_key(path: Path, *, away_from: Iterable[Path] = ()) -> str:
    """Return the secret that a file holds.

    Args:
        path: The file, readable only by its owner; not checked on Windows.
        away_from: Directories that must not contain it: a key next to the data it opens is useless.

    Raises:
        RemoteKeyError: It is unreadable, readable by others, empty, or in such a directory.
    """
    real = path.resolve()
    for directory in away_from:
        if real.is_relative_to(directory.resolve()):
            raise RemoteKeyError(
                f"The key file {str(path)!r} is stored with the data it decrypts; it was not used",
                hint="Move it out of the folder and out of the familiar's directory, then "
                "`familiar config set sync.key_file PATH`.",
            )
    try:
        mode = real.stat().st_mode
        text = files.read_plain(real, _MOST_KEY_BYTES).decode()
    except OSError as error:
        raise RemoteKeyError(
            f"The key file {str(path)!r} cannot be read: {files.why(error)}",
            hint="Name another one: `familiar config set sync.key_file PATH`.",
        ) from error
    except UnicodeDecodeError as error:
        raise RemoteKeyError(
            f"The key file {str(path)!r} is not text",
            hint="Name another one: `familiar config set sync.key_file PATH`.",
        ) from error
    if mode & _OTHERS and not files.ON_WINDOWS:
        raise RemoteKeyError(
            f"Other users can read the key file {str(path)!r}; it was not used",
            hint=f"Run `chmod 600 {path}`, then try again.",
        )
    if not text.split("\n", 1)[0].strip():
        raise RemoteKeyError(
            f"The key file {str(path)!r} is empty",
            hint="Put the key in it, or be asked for it in the terminal: "
            "`familiar config unset sync.key_file`.",
        )
    return text


def _first_line(secret: str) -> str:
    """Return the first line of a passphrase without its newline."""
    return secret.split("\n", 1)[0].rstrip("\r")


def _scrypt_factor(sealed: IO[bytes]) -> int | None:
    """Return the scrypt work factor of a passphrase-encrypted file, or None for a key."""
    begin = sealed.tell()
    head = sealed.read(_HEAD_BYTES)
    sealed.seek(begin)
    if not head.startswith(SEALED + _SCRYPT):
        return None
    factor = head[len(SEALED) :].split(b"\n", 1)[0].rpartition(b" ")[2]
    return int(factor) if factor.isdigit() and len(factor) <= _MOST_DIGITS else _NEVER


def _disk_error(error: Exception) -> OSError:
    """Extract the disk error from the text of a pyrage error."""
    match = _ERRNO.search(str(error))
    return OSError(int(match[1]), os.strerror(int(match[1]))) if match else OSError(str(error))


def _import_pyrage() -> ModuleType:
    try:
        import pyrage
    except ImportError as error:
        raise RemoteKeyError(
            "Encrypted folders need the extra `sync`, which is not installed; nothing was written",
            hint=f"Run `{install_command('sync')}`.",
        ) from error
    return pyrage  # type: ignore[no-any-return]


def _parse_recipient(age: ModuleType, text: str) -> object:
    kind = age.ssh if text.startswith(_SSH) else age.x25519
    try:
        return kind.Recipient.from_str(text)
    except age.RecipientError as error:
        shown = repr(text) if text.startswith(("age1", _SSH)) else "one that may be a secret"
        raise RemoteKeyError(
            f"sync.encrypt contains {shown}, which is not a recipient; nothing was written",
            hint=f"Use age1..., a line of an SSH public key, or {PASSPHRASE!r} alone: "
            "`familiar config set sync.encrypt ...`.",
        ) from error


def _open_with_passphrase(
    age: ModuleType, sealed: IO[bytes], plain: IO[bytes], secret: str
) -> None:
    if _IDENTITY in secret or secret.lstrip().startswith(_PRIVATE):
        raise age.DecryptError("no passphrase")  # others may know the first line of such a file
    plain.write(age.passphrase.decrypt(sealed.read(), _first_line(secret)))


def _open_with_identities(
    age: ModuleType, sealed: IO[bytes], plain: IO[bytes], secret: str
) -> None:
    age.decrypt_io(sealed, plain, _parse_identities(age, secret))


def _parse_identities(age: ModuleType, secret: str) -> list[object]:
    try:
        if secret.lstrip().startswith(_PRIVATE):
            return [age.ssh.Identity.from_buffer(secret.encode())]
        lines = [line.strip() for line in bare_lines(secret)]
        texts = [line for line in lines if line and not line.startswith("#")]
        return [age.x25519.Identity.from_str(text) for text in texts]
    except age.IdentityError as error:
        raise RemoteKeyError(
            "The key is not an age identity (AGE-SECRET-KEY-1...); nothing was read",
            hint="Check the file that sync.key_file names, or what you typed.",
        ) from error


KEY_FILE: Final = "bundle.key"
_FIRST_LINE: Final = b"# familiar signed bundle\n"
_KEY_BYTES: Final = 32
_HEX_CHARS: Final = 64
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_SIGNATURE: Final = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{64})\n")
UNSIGNED_HEAD: Final = _FIRST_LINE + b"0" * _HEX_CHARS + b" " + b"0" * _HEX_CHARS + b"\n"
"""Placeholder at the start of a bundle until `sign_bundle` fills it in."""

_FINGERPRINT_CHARS: Final = 20
_MOST_FILE_BYTES: Final = 1_000
_CHUNK_BYTES: Final = 1024 * 1024


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a key, which is safe to display."""
    return hashlib.sha256(key).hexdigest()[:_FINGERPRINT_CHARS]


class SignatureTrust(Struct, frozen=True):
    """What the user accepts without proof, for one command.

    Args:
        signing_key: Fingerprint of a key to adopt in any case; empty for none.
        unsigned: Whether to accept unsigned bundles.
    """

    signing_key: str = ""
    unsigned: bool = False


class SigningKey(Struct):
    """The signing key of a familiar on this machine.

    Args:
        path: Its file, which may not exist yet.
        trust: What the user accepts without proof.
    """

    path: Path
    trust: SignatureTrust = SignatureTrust()

    def read(self) -> bytes | None:
        """Return the key, or None if there is none yet.

        Raises:
            RemoteKeyError: The file is damaged or readable by others.
        """
        try:
            mode = self.path.stat().st_mode
            text = files.read_plain(self.path, _MOST_FILE_BYTES).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(f"cannot be read: {files.why(error)}") from error
        if mode & _OTHERS and not files.ON_WINDOWS:
            raise self._unusable("can be read by other users")
        if not _KEY.fullmatch(text):
            raise self._unusable("is damaged")
        return bytes.fromhex(text)

    def make(self) -> bytes:
        """Return the key, creating it if needed; raises OSError, or what `read` raises."""
        return self.read() or self.replace()

    def replace(self, key: bytes | None = None) -> bytes:
        """Store another key, or a new one, and return it. May raise OSError."""
        key = key or secrets.token_bytes(_KEY_BYTES)
        files.write_own(self.path, f"{key.hex()}\n".encode())
        return key

    def fingerprint(self) -> str:
        """Return the key's fingerprint, which is safe to display; empty without a key."""
        key = self.read()
        return fingerprint(key) if key else ""

    def choose(
        self, bundles: Sequence[BundleFile], is_vouched_for: Callable[[BundleFile], bool]
    ) -> bool:
        """Adopt the key of other machines if there is none here or one was requested.

        Args:
            bundles: Bundles not read before.
            is_vouched_for: Tells whether a bundle may introduce the key.

        Returns:
            Whether a key was adopted.

        Raises:
            RemoteKeyError: They have several keys, and none was requested.
        """
        signers = {one.signer: one.name for one in bundles if one.signer}
        keys = {key for key in signers if fingerprint(key) == self.trust.signing_key}
        if keys:
            return bool(self.replace(keys.pop()))
        if not signers or self.read() is not None:
            return False
        signers = {one.signer: one.name for one in bundles if one.signer and is_vouched_for(one)}
        if len(signers) > 1:
            text = ", ".join(f"{fingerprint(key)} ({name})" for key, name in signers.items())
            raise RemoteKeyError(
                f"Bundles are signed with different keys: {text}; nothing was accepted",
                hint="`familiar sync status` on your other machines shows the right one. Delete the"
                " bundles of the other keys, or add `--signing-key FINGERPRINT`.",
            )
        return bool(signers) and bool(self.replace(*signers))

    def objection(self, signer: bytes | None) -> str:
        """Return why a signer is not accepted; empty if it is."""
        if signer is None:
            return "" if self.trust.unsigned else "not signed"
        if signer == self.read():
            return ""
        return f"signed with another key ({fingerprint(signer)})"

    def _unusable(self, what: str) -> RemoteKeyError:
        return RemoteKeyError(
            f"The signing key {str(self.path)!r} {what}; nothing was sent or received",
            hint=f"Run `chmod 600 {self.path}`. If that does not help, delete it and sync: the key"
            " is taken from the bundles of your other machines.",
        )


def sign_bundle(file: BinaryIO, key: bytes, place: str) -> None:
    """Fill in the signature of a bundle. May raise OSError.

    Args:
        file: Begins with `UNSIGNED_HEAD`.
        key: The familiar's signing key.
        place: The writing machine and the bundle's number.
    """
    file.seek(len(UNSIGNED_HEAD))
    digest = _bundle_digest(file, key, place)
    file.seek(0)
    file.write(_FIRST_LINE + f"{key.hex()} {digest}\n".encode())


def read_signature(file: BinaryIO, place: str) -> bytes | None:
    """Return the key that signed a bundle, or None if unsigned.

    Leaves `file` at the start of the git bundle.

    Raises:
        RemoteDamagedError: The signature does not match this bundle and place.
        OSError: It cannot be read.
    """
    if file.read(len(_FIRST_LINE)) != _FIRST_LINE:
        file.seek(0)
        return None
    match = _SIGNATURE.fullmatch(file.read(len(UNSIGNED_HEAD) - len(_FIRST_LINE)))
    key = bytes.fromhex(match[1].decode()) if match else b""
    if not match or not hmac.compare_digest(_bundle_digest(file, key, place), match[2].decode()):
        raise RemoteDamagedError("its signature is wrong")
    file.seek(len(UNSIGNED_HEAD))
    return key


def _bundle_digest(file: BinaryIO, key: bytes, place: str) -> str:
    digest = hmac.new(key, f"{place}\n".encode(), "sha256")
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A complete bundle.

    Args:
        name: File name; includes a digest, so name and size identify the content.
        is_sealed: Whether it is encrypted.
        proof: Secret the writer is proven to know: the fingerprint of the signing key, or
            `PASSPHRASE`; empty for none.
        signer: The signing key, if read just now.
        refused: Why it is ignored; empty if it is used.
    """

    name: str
    size_bytes: int
    header: Header
    is_sealed: bool
    proof: str = ""
    signer: bytes | None = field(default=None, compare=False)
    refused: str = ""

    @property
    def instance(self) -> str:
        """Instance that wrote it."""
        return self.name.lower().split(".")[0]

    @property
    def number(self) -> int:
        """Its number among that instance's bundles."""
        return int(self.name.split(".")[1])


_V2: Final = b"# v2 git bundle\n"
_V3: Final = b"# v3 git bundle\n"
_SHA1: Final = b"@object-format=sha1"
_MOST_LINES: Final = 10_000
_MOST_LINE_BYTES: Final = 4_096
_REF: Final = re.compile(r"HEAD|refs/heads/[a-z0-9][a-z0-9/-]*")


class Header(Struct, frozen=True):
    """Header of a bundle.

    Args:
        refs: Full name of each ref and its commit.
        needs: Prerequisites: commits the reader must have completely.
    """

    refs: dict[str, str]
    needs: tuple[str, ...] = ()


def encode_bundle(header: Header, count: int, objects: Iterator[UnpackedObject]) -> Iterator[bytes]:
    """Yield the bytes of a bundle.

    Args:
        count: The number of `objects`.
        objects: Everything reachable from the refs but not from `header.needs`.
    """
    from dulwich.object_format import DEFAULT_OBJECT_FORMAT
    from dulwich.pack import PackChunkGenerator

    lines = [f"-{id_} \n" for id_ in header.needs]
    lines += [f"{id_} {ref}\n" for ref, id_ in header.refs.items()]
    yield _V2 + "".join(lines).encode() + b"\n"
    yield from PackChunkGenerator(DEFAULT_OBJECT_FORMAT, num_records=count, records=objects)


def read_header(file: BinaryIO) -> Header:
    """Read a bundle's header, leaving `file` at the start of its pack.

    Raises:
        RemoteDamagedError: Not a bundle, or of an unsupported kind.
        OSError: It cannot be read.
    """
    lines = (file.readline(_MOST_LINE_BYTES) for _ in range(_MOST_LINES))
    first = next(lines, b"")
    if first not in {_V2, _V3}:
        raise RemoteDamagedError("It is not a git bundle")
    needs: list[str] = []
    refs: dict[str, str] = {}
    for line in lines:
        if line == b"\n":
            return Header(refs, tuple(needs))
        text = line.rstrip(b"\n")
        if text.startswith(b"@"):
            if first != _V3 or text != _SHA1:
                raise RemoteDamagedError("This kind of git bundle is not supported")
            continue
        id_, _, rest = text.removeprefix(b"-").decode("ascii", errors="replace").partition(" ")
        if not is_id(id_):
            raise RemoteDamagedError("It names an invalid commit id")
        if text.startswith(b"-"):
            needs.append(id_)
        elif _REF.fullmatch(rest):
            refs[rest] = id_
        else:
            raise RemoteDamagedError("It names an unexpected ref")
    raise RemoteDamagedError("Its header is truncated")


def read_seen(path: str) -> dict[str, BundleFile]:
    """Read the bundles seen in a folder, by name; empty if the file is unusable."""
    return files.read_record(path, dict[str, BundleFile]) or {}


def write_seen(path: str, bundles: Mapping[str, BundleFile]) -> None:
    """Record the bundles seen, if possible."""
    files.write_record(path, {name: replace(one, signer=None) for name, one in bundles.items()})
