"""What leaves this machine for a folder, made unreadable without the key: age, through `pyrage`."""

from __future__ import annotations

import io
import os
import re
import stat
from typing import IO, TYPE_CHECKING, Final

from familiar_cli.errors import RemoteDamagedError, RemoteKeyError
from familiar_cli.files import ON_WINDOWS, read_plain, why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from types import ModuleType

PASSPHRASE: Final = "passphrase"  # noqa: S105  # a word, not one
"""In `sync.encrypt`, instead of recipients."""

SEALED: Final = b"age-encryption.org/v1\n"
"""How a file begins that is encrypted."""

_MOST_KEY_BYTES: Final = 65_536
_SSH: Final = "ssh-"
_SCRYPT: Final = b"-> scrypt "  # then a passphrase opens it, and nothing else
_PRIVATE: Final = "-----BEGIN"
_IDENTITY: Final = "AGE-SECRET-KEY-"
_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_HEAD_BYTES: Final = 256
_MOST_DIGITS: Final = 3
_NEVER: Final = 999
_MOST_SCRYPT_FACTOR: Final = 20  # 1 GB; age writes 18, pyrage what takes a second
_SEAL_TRIES: Final = 5
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Sealing:
    """Encrypts and decrypts whole files, each at once.

    Args:
        encrypt: Recipients (`age1...`, or a line of an SSH public key), or `PASSPHRASE` alone.
        key: Returns the secret: the passphrase, or the text of a file with age identities or of an
            SSH private key. Called when it is first needed, and never twice.
        old_keys: Returns secrets of the same kinds that were used before; they decrypt only.
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
        """Whether what leaves is encrypted; what comes is decrypted in any case."""
        return bool(self._encrypt)

    @property
    def needs_signature(self) -> bool:
        """Whether anybody can encrypt what this key decrypts."""
        return self.seals and self._encrypt != (PASSPHRASE,)

    def seal(self, plain: IO[bytes], sealed: IO[bytes]) -> None:
        """Encrypt a file.

        Raises:
            RemoteKeyError: Not with this key, or not to these recipients; nothing was written.
            OSError: It cannot be read or written.
        """
        age = _pyrage()
        if self._encrypt == (PASSPHRASE,):
            content, made = plain.read(), b""
            for _ in range(_SEAL_TRIES):  # it measures the time, and not always well
                made = age.passphrase.encrypt(content, self._passphrase())
                if (_scrypt_factor(io.BytesIO(made[:_HEAD_BYTES])) or 0) <= _MOST_SCRYPT_FACTOR:
                    break
            sealed.write(made)
            return
        recipients = [_recipient(age, text) for text in self._encrypt]
        try:
            age.encrypt_io(plain, sealed, recipients)
        except age.EncryptError as error:
            raise _disk_error(error) from error

    def open(self, sealed: IO[bytes], plain: IO[bytes]) -> bool:
        """Decrypt a file, and tell whether only those who know the secret could encrypt it.

        Raises:
            RemoteKeyError: Not with this key.
            RemoteDamagedError: It would take too much memory.
            OSError: It cannot be read or written.
        """
        age = _pyrage()
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

    def _passphrase(self) -> str:
        return _first_line(self._secret())

    def _secret(self) -> str:
        if self._key is None:
            self._key = self._ask()
        return self._key


def no_key() -> str:
    """Say that there is no key. A `key` of `Sealing` where nobody can be asked for it.

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
        path: The file, which only its owner may read. Windows does not tell, so there nothing is
            checked.
        away_from: Directories that must not hold it: a key beside what it opens opens it for all.

    Raises:
        RemoteKeyError: It cannot be read, others can read it, or it is empty or too near.
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
        text = read_plain(real, _MOST_KEY_BYTES).decode()
    except OSError as error:
        raise RemoteKeyError(
            f"The key file {str(path)!r} cannot be read: {why(error)}",
            hint="Name another one: `familiar config set sync.key_file PATH`.",
        ) from error
    except UnicodeDecodeError as error:
        raise RemoteKeyError(
            f"The key file {str(path)!r} is not text",
            hint="Name another one: `familiar config set sync.key_file PATH`.",
        ) from error
    if mode & _OTHERS and not ON_WINDOWS:
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
    """Return a passphrase: a file ends in a line's end, a person's answer does not."""
    return secret.split("\n", 1)[0].rstrip("\r")


def _scrypt_factor(sealed: IO[bytes]) -> int | None:
    """Return the work factor of a file that a passphrase opens; None: a key opens it."""
    begin = sealed.tell()
    head = sealed.read(_HEAD_BYTES)
    sealed.seek(begin)
    if not head.startswith(SEALED + _SCRYPT):
        return None
    factor = head[len(SEALED) :].split(b"\n", 1)[0].rpartition(b" ")[2]
    return int(factor) if factor.isdigit() and len(factor) <= _MOST_DIGITS else _NEVER


def _disk_error(error: Exception) -> OSError:
    """Return what the disk said, which pyrage hides in the text of its own error."""
    found = _ERRNO.search(str(error))
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else OSError(str(error))


def _pyrage() -> ModuleType:
    try:
        import pyrage
    except ImportError as error:
        raise RemoteKeyError(
            "Encrypted folders need the extra `sync`, which is not installed; nothing was written",
            hint="Run `pip install 'familiar-memory[sync]'`.",
        ) from error
    return pyrage  # type: ignore[no-any-return]


def _recipient(age: ModuleType, text: str) -> object:
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
    age.decrypt_io(sealed, plain, _identities(age, secret))


def _identities(age: ModuleType, secret: str) -> list[object]:
    try:
        if secret.lstrip().startswith(_PRIVATE):
            return [age.ssh.Identity.from_buffer(secret.encode())]
        lines = [line.strip() for line in secret.splitlines()]
        texts = [line for line in lines if line and not line.startswith("#")]
        return [age.x25519.Identity.from_str(text) for text in texts]
    except age.IdentityError as error:
        raise RemoteKeyError(
            "The key is not an age identity (AGE-SECRET-KEY-1...); nothing was read",
            hint="Check the file that sync.key_file names, or what you typed.",
        ) from error
