"""Addresses of remotes, what every transport offers, and who we are to a server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

from familiar_cli.config.environment import sync_token
from familiar_cli.errors import UsageError
from familiar_cli.files import ON_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from urllib.parse import SplitResult

    from familiar_cli.memory.journal.exchange import IncomingObjects, JournalExchange


Kind = Literal["path", "ssh", "http", "folder"]

FOLDER: Final = "dir:"
"""Before the path of a folder that holds bundles instead of a repository."""

_HEADS: Final = "refs/heads/"
_FORMS: Final = "a path, `file://…`, `ssh://…`, `user@host:path`, `https://…` or `dir:PATH`"
_SCP: Final = re.compile(r"(?:[^\s/:@]+@)?[^\s/:@]+:.+", re.DOTALL)
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")

MEMORY_REFS: Final = "refs/heads/memory/"
"""Before the id of an instance: the newest commit of its memory."""

TURNS_REFS: Final = "refs/heads/turns/"
"""Before the id of an instance: the newest commit of its turns."""

MAIN_REF: Final = "refs/heads/main"
"""What people see first who look at a remote, and where other gits commit."""


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


@dataclass(frozen=True, slots=True)
class PushedRef:
    """What became of one ref that was pushed.

    Args:
        ref: Its whole name.
        id: The commit that it was to name.
        refused: Why it does not; empty: it does.
    """

    ref: str
    id: str
    refused: str = ""


class Transport(Protocol):
    """A remote, opened. Whatever it raises is a `FamiliarError`; nothing half done shows.

    Attributes:
        address: Where it is, fit to be shown: without passwords or tokens.
        shared_refs: The branches that any git may commit to, `main` and what HEAD names there; as
            of the last `refs`. None where only this program writes.
    """

    address: str
    shared_refs: tuple[str, ...]

    def refs(self) -> Mapping[str, str]:
        """Return all branches as they are now: the whole name of each, and the commit it names.

        Raises:
            RemoteUnreachableError: Nothing is there, or nobody let us in.
            RemoteDamagedError: It is no repository of ours, e.g. one with SHA-256 ids.
        """

    def fetch(
        self, wants: Collection[str], haves: Collection[str], incoming: IncomingObjects
    ) -> None:
        """Bring commits with all they lead to. `Incoming.accept` is the caller's.

        Args:
            wants: The commits; the remote has named them a moment ago.
            haves: Commits that are here with all they lead to.
            incoming: Where to put what comes.

        Raises:
            RemoteUnreachableError: The connection broke.
            RemoteDamagedError: What came cannot be read.
        """

    def push(self, refs: Mapping[str, str]) -> list[PushedRef]:
        """Make each ref name a commit of the journal, if that only adds to what it named.

        Each is decided at the remote by itself, and what they lead to is there before they name it.

        Raises:
            RemoteUnreachableError: The connection broke; whether something arrived is not known.
            RemoteRefusedError: It takes nothing at all.
        """

    def close(self) -> None:
        """Let go of it."""


def shared_refs(head: str | None) -> tuple[str, ...]:
    """Return the branches that any git may commit to, where HEAD of the remote names `head`."""
    is_branch = head and head.startswith(_HEADS) and not head.startswith((MEMORY_REFS, TURNS_REFS))
    return tuple(dict.fromkeys((MAIN_REF, head))) if head and is_branch else (MAIN_REF,)


def objection(exchange: JournalExchange, now: str | None, new: str) -> str:
    """Return why a ref that names the commit `now` may not name `new`; empty: it may."""
    if now is None or now == new:
        return ""
    if not exchange.has(now):
        return f"it is at commit {now[:10]}, which is not known here"
    if exchange.leads_to(now, new):
        return ""
    return f"it is at commit {now[:10]}, which is not an ancestor of the new one"


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


_ANY_USER: Final = "git"  # for servers that look at the token only
_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}
_PATIENCE_S: Final = 120.0  # a helper may open a window and wait for a person


@dataclass(frozen=True, slots=True)
class Login:
    """A name and a secret, which is never shown."""

    user: str
    secret: str = field(repr=False)


def find_login(url: str, *, ask: bool) -> Login | None:
    """Find credentials for `url`, or None. A token is sent over HTTPS or to this machine only.

    Args:
        url: The remote.
        ask: A person sits there whom git may ask.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        return None
    token = sync_token()
    if token:
        return Login(parts.username or _ANY_USER, token)
    answer = _git("fill", _described(url), ask=ask)
    found = dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)
    if not found.get("password"):
        return None
    return Login(found.get("username", _ANY_USER), found["password"])


def tell_helpers(url: str, login: Login, *, worked: bool) -> None:
    """Let git's helpers keep, or forget, a login that came from them."""
    if login.secret != sync_token():
        words = f"{_described(url)}username={login.user}\npassword={login.secret}\n"
        _git("approve" if worked else "reject", words, ask=False)


def _described(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    user = f"username={parts.username}\n" if parts.username else ""
    return f"protocol={parts.scheme}\nhost={host}{port}\npath={parts.path.lstrip('/')}\n{user}"


def _git(action: str, words: str, *, ask: bool) -> str:
    """Ask `git credential`; empty without git, or if it has no credentials."""
    program = shutil.which("git")
    if program is None:
        return ""
    environment = dict(os.environ)
    if not ask:
        environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": ""}
        environment["GCM_INTERACTIVE"] = "never"
    try:
        done = subprocess.run(  # noqa: S603  # git itself; the words go to its input
            [program, "credential", action],
            input=f"{words}\n",
            capture_output=True,
            text=True,
            env=environment,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""
