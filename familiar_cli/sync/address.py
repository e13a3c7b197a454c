"""`Address`: where a remote is, as a person types it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit, urlunsplit

from familiar_cli.errors import UsageError
from familiar_cli.files import ON_WINDOWS

if TYPE_CHECKING:
    from urllib.parse import SplitResult

Kind = Literal["path", "ssh", "http", "folder"]

FOLDER: Final = "dir:"
"""Before the path of a folder that holds bundles instead of a repository."""

_FORMS: Final = "a path, `file://…`, `ssh://…`, `user@host:path`, `https://…` or `dir:PATH`"
_SCP: Final = re.compile(r"(?:[^\s/:@]+@)?[^\s/:@]+:.+", re.DOTALL)
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a remote is.

    Args:
        kind: How it is reached.
        text: As it is kept and shown; it holds no password.
        path: The path of a `path` or a `folder`; empty for others.
    """

    kind: Kind
    text: str
    path: str = ""

    def __str__(self) -> str:
        return self.text


def read_address(text: str) -> Address:
    """Parse a remote's address; a relative path is made absolute.

    Raises:
        UsageError: It is none, or a password stands in it.
    """
    if not text.strip() or not text.isprintable() or text.startswith("-"):
        raise _no_address(text)
    if text.startswith(FOLDER):
        path = _whole(text.removeprefix(FOLDER), text)
        return Address("folder", FOLDER + path, path)
    if "://" in text and not _DRIVE.match(text):
        return _of_url(text)
    if _SCP.fullmatch(text) and not _DRIVE.match(text) and not os.path.exists(text):
        return Address("ssh", text)
    path = _whole(text, text)
    return Address("path", path, path)


def _of_url(text: str) -> Address:
    try:
        url = urlsplit(text)
        _ = url.port  # a number, or ValueError
    except ValueError as error:
        raise _no_address(text) from error
    scheme = url.scheme.lower()
    if scheme == "file":
        if url.netloc not in {"", "localhost"}:
            raise _no_address(text)
        path = _whole(_path_of(url), text)
        return Address("path", path, path)
    if scheme not in {"ssh", "git+ssh", "https", "http"} or not url.hostname:
        raise _no_address(text)
    if url.hostname.startswith("-") or (url.username or "").startswith("-"):
        raise _no_address(text)
    if url.password is not None:
        shown = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
        raise UsageError(
            f"The address {shown!r} was given with a password; it was not kept",
            hint="Leave it out: git's credential helpers are asked, or set FAMILIAR_SYNC_TOKEN.",
        )
    return Address("ssh" if "ssh" in scheme else "http", text)


def _path_of(url: SplitResult) -> str:
    from urllib.request import url2pathname

    return url2pathname(url.path)


def _whole(path: str, text: str) -> str:
    if not path.strip():
        raise _no_address(text)
    expanded = str(Path(path).expanduser())
    whole = os.path.abspath(expanded)
    return whole.replace("/", "\\") if ON_WINDOWS else whole


def _no_address(text: str) -> UsageError:
    return UsageError(f"{text!r} is not the address of a remote", hint=f"Give {_FORMS}.")
