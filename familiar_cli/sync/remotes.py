"""Configured remotes, and the interface of their transports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from familiar_cli.base import errors
from familiar_cli.base.config.environment import sync_token
from familiar_cli.base.config.home import is_instance_id
from familiar_cli.base.files import (
    ON_WINDOWS,
    locked,
    read_plain,
    read_record,
    remove,
    why,
    write_record,
    write_whole,
)
from familiar_cli.base.text import Discreet, bare_lines, nearest
from familiar_cli.store.journal.exchange import IncomingObjects, JournalExchange
from familiar_cli.store.journal.objects import is_id
from familiar_cli.store.journal.repository import Repository
from familiar_cli.sync.journal_epochs import dead_commits

Kind = Literal["path", "ssh", "http", "folder"]

FOLDER: Final = "dir:"
"""Prefix of the path of a bundle folder, which is not a repository."""

_HEADS: Final = "refs/heads/"
_FORMS: Final = "a path, `file://…`, `ssh://…`, `user@host:path`, `https://…` or `dir:PATH`"
_SCP: Final = re.compile(r"(?:[^\s/:@]+@)?[^\s/:@]+:.+", re.DOTALL)
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")

MEMORY_REFS: Final = "refs/heads/memory/"
"""Prefix of an instance's id: the ref of its memory."""

TURNS_REFS: Final = "refs/heads/turns/"
"""Prefix of an instance's id: the ref of its turns."""

MAIN_REF: Final = "refs/heads/main"
"""The branch that people see first, and where git users commit."""


class Address(Struct, frozen=True):
    """The address of a remote.

    Args:
        kind: Kind of transport.
        text: As stored and displayed, without password.
        path: Path of a `path` or `folder`; empty for others.
    """

    kind: Kind
    text: str
    path: str = ""

    def __str__(self) -> str:
        return self.text


class PushedRef(Struct, frozen=True):
    """The result of pushing a ref.

    Args:
        ref: Its full name.
        id: The commit it should name.
        refused: Why it was rejected; empty if it was not.
    """

    ref: str
    id: str
    refused: str = ""


class Transport(Protocol):
    """An open remote. Raises only `FamiliarError`; updates are atomic.

    Attributes:
        address: Its address without passwords or tokens.
        shared_refs: Branches that git users may commit to: `main` and the remote's HEAD, as of the
            last `refs`. None if only this program writes there.
    """

    address: str
    shared_refs: tuple[str, ...]

    def refs(self) -> Mapping[str, str]:
        """Return all current branches: full name and commit.

        Raises:
            RemoteUnreachableError: It cannot be reached, or access is denied.
            RemoteDamagedError: Not a compatible repository, e.g. one with SHA-256 ids.
        """

    def fetch(
        self, wants: Collection[str], haves: Collection[str], incoming: IncomingObjects
    ) -> None:
        """Fetch commits with everything reachable. The caller runs `incoming.accept`.

        Args:
            wants: Commits just listed by the remote.
            haves: Commits that are complete here.
            incoming: Receives the objects.

        Raises:
            RemoteUnreachableError: The connection broke.
            RemoteDamagedError: The received data is invalid.
        """

    def fetch_chosen(
        self, choose: Callable[[Mapping[str, str]], Collection[str]], incoming: IncomingObjects
    ) -> None:
        """Fetch the commits that `choose` selects among the branches; git in one connection.

        Raises as `refs` and `fetch`.
        """

    def push(self, refs: Mapping[str, str]) -> list[PushedRef]:
        """Fast-forward refs to commits of the journal.

        Each ref is updated separately, after all its objects have arrived.

        Raises:
            RemoteUnreachableError: The connection broke; the outcome is unknown.
            RemoteRefusedError: It rejects everything.
        """

    def close(self) -> None:
        """Close the connection."""


def heads_in(refs: Mapping[str, str], prefix: str = MEMORY_REFS) -> dict[str, str]:
    """Return the commit that each instance's ref names, of its memory or of its turns."""
    return {ref.removeprefix(prefix): at for ref, at in refs.items() if ref.startswith(prefix)}


def refs_of_familiars(refs: Mapping[str, str]) -> dict[str, str]:
    """Return the refs of instances' memories and turns."""
    return {
        prefix + instance: id_
        for prefix in (MEMORY_REFS, TURNS_REFS)
        for instance, id_ in heads_in(refs, prefix).items()
        if is_instance_id(instance)
    }


def shared_refs(head: str | None) -> tuple[str, ...]:
    """Return the branches that git users may commit to, given the remote's HEAD."""
    is_branch = head and head.startswith(_HEADS) and not head.startswith((MEMORY_REFS, TURNS_REFS))
    return tuple(dict.fromkeys((MAIN_REF, head))) if head and is_branch else (MAIN_REF,)


def ref_objection(exchange: JournalExchange, now: str | None, new: str) -> str:
    """Return why a ref may not move from `now` to `new`; empty if it may."""
    if now is None or now == new or now in dead_commits(exchange.repository):
        return ""  # commits replaced by forgetting someone may be overwritten
    if not exchange.has(now):
        return f"it is at commit {now[:10]}, which is not known here"
    if exchange.leads_to(now, new):
        return ""
    return f"it is at commit {now[:10]}, which is not an ancestor of the new one"


def read_address(text: str) -> Address:
    """Parse a remote's address; a relative path is made absolute.

    Raises:
        UsageError: Not an address, or it contains a password.
    """
    if not text.strip() or not text.isprintable() or text.startswith("-"):
        raise _no_address(text)
    if text.startswith(FOLDER):
        path = _check_text(text.removeprefix(FOLDER), text)
        return Address("folder", FOLDER + path, path)
    if "://" in text and not _DRIVE.match(text):
        return _of_url(text)
    if _SCP.fullmatch(text) and not _DRIVE.match(text) and not os.path.exists(text):
        return Address("ssh", text)
    path = _check_text(text, text)
    return Address("path", path, path)


def repository_at(path: str) -> str:
    """Return the git directory of the repository at `path`.

    Raises:
        RemoteUnreachableError: There is none.
    """
    for at in (path, os.path.join(path, ".git")):
        if os.path.isdir(os.path.join(at, "objects")) and os.path.isfile(os.path.join(at, "HEAD")):
            return at
    if os.path.exists(path):
        raise errors.RemoteUnreachableError(
            f"There is no git repository in {path!r}",
            hint=f"Add `dir:{path}` for a plain folder, or create a repository: "
            f"`git init --bare {path}`.",
        )
    raise errors.RemoteUnreachableError(
        f"There is nothing at {path!r}",
        hint=f"Mount its disk, or create a repository: `git init --bare {path}`.",
    )


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
        from urllib.request import url2pathname

        path = _check_text(url2pathname(url.path), text)
        return Address("path", path, path)
    if scheme not in {"ssh", "git+ssh", "https", "http"} or not url.hostname:
        raise _no_address(text)
    if url.hostname.startswith("-") or (url.username or "").startswith("-"):
        raise _no_address(text)
    if url.password is not None:
        shown = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
        raise errors.UsageError(
            f"The address {shown!r} was given with a password; it was not kept",
            hint="Leave it out: git's credential helpers are asked, or set FAMILIAR_SYNC_TOKEN.",
        )
    return Address("ssh" if "ssh" in scheme else "http", text)


def _check_text(path: str, text: str) -> str:
    if not path.strip():
        raise _no_address(text)
    expanded = str(Path(path).expanduser())
    whole = os.path.abspath(expanded)
    return whole.replace("/", "\\") if ON_WINDOWS else whole


def _no_address(text: str) -> errors.UsageError:
    return errors.UsageError(f"{text!r} is not the address of a remote", hint=f"Give {_FORMS}.")


_ANY_USER: Final = "git"  # for servers that look at the token only
LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}
_PATIENCE_S: Final = 120.0  # a helper may open a window and wait for the user


class Login(Discreet, frozen=True):
    """A user name and a secret, which is never displayed."""

    shown: ClassVar = ("user",)

    user: str
    secret: str


def find_login(url: str, *, ask: bool) -> Login | None:
    """Find credentials for `url`, or None. Tokens are only sent over HTTPS or to this machine.

    Args:
        url: The remote.
        ask: Whether git may ask the user.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        return None
    token = sync_token()
    if token:
        return Login(parts.username or _ANY_USER, token)
    answer = _ask_git_credential("fill", _without_secrets(url), ask=ask)
    login = dict(line.split("=", 1) for line in bare_lines(answer) if "=" in line)
    if not login.get("password"):
        return None
    return Login(login.get("username", _ANY_USER), login["password"])


def tell_helpers(url: str, login: Login, *, worked: bool) -> None:
    """Let git's credential helpers store or erase a login they provided."""
    if login.secret != sync_token():
        words = f"{_without_secrets(url)}username={login.user}\npassword={login.secret}\n"
        _ask_git_credential("approve" if worked else "reject", words, ask=False)


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    user = f"username={parts.username}\n" if parts.username else ""
    return f"protocol={parts.scheme}\nhost={host}{port}\npath={parts.path.lstrip('/')}\n{user}"


def _ask_git_credential(action: str, words: str, *, ask: bool) -> str:
    """Ask `git credential`; empty without git, or if it has no credentials."""
    program = shutil.which("git")
    if program is None:
        return ""
    environment = dict(os.environ)
    if not ask:
        environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": ""}
        environment["GCM_INTERACTIVE"] = "never"
    try:
        process = subprocess.run(  # noqa: S603  # git itself; the words go to its input
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
    return process.stdout if process.returncode == 0 else ""


FILE: Final = "sync.toml"
_NAME: Final = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_MOST_NAME_CHARS: Final = 40
_MOST_BYTES: Final = 256 * 1024


class Remotes:
    """The remotes of a familiar, and the instances no longer waited for.

    Args:
        path: `sync.toml`; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, Address]:
        """Return the address of each remote by name, in the order they were added.

        Raises:
            ConfigError: The file cannot be read.
        """
        table = self._table("remotes")
        try:
            return {name: read_address(str(one["address"])) for name, one in table.items()}
        except (KeyError, TypeError, errors.UsageError) as error:
            raise self._unusable(f"names a remote without a valid address: {error}") from error

    def chosen(self, name: str | None) -> dict[str, Address]:
        """Return the named remote, or all.

        Raises:
            NotFoundError: There are none, or none with that name.
        """
        addresses = self.all()
        if not addresses:
            raise errors.NotFoundError(
                "No remote is configured to sync with",
                hint="Add one: `familiar sync remote add hub ADDRESS`, where ADDRESS is the path"
                " of a bare git repository, `user@host:path`, an https URL, or `dir:FOLDER`.",
            )
        if name is None:
            return addresses
        if name not in addresses:
            guess = nearest(name, addresses)
            raise errors.NotFoundError(
                f"There is no remote {name!r}",
                hint=f"Did you mean {guess!r}?"
                if guess
                else "List them: `familiar sync remote list`.",
            )
        return {name: addresses[name]}

    def add(self, name: str, address: str) -> Address:
        """Add a remote.

        Raises:
            UsageError: The name or address is invalid.
            RemoteUnreachableError: The directory is not a git repository.
            RefusedError: The name is taken.
        """
        if len(name) > _MOST_NAME_CHARS or not _NAME.fullmatch(name):
            raise errors.UsageError(
                f"{name!r} cannot be the name of a remote; nothing was changed",
                hint="Use lower-case letters and digits, with `-` between, e.g. `hub`.",
            )
        meant = read_address(address)
        if meant.kind == "path" and os.path.exists(meant.path):
            repository_at(meant.path)
        addresses = self.all()
        if name in addresses:
            raise errors.RefusedError(
                f"The remote {name!r} already exists: {addresses[name]}; nothing was changed",
                hint=f"Remove it first: `familiar sync remote rm {name}`.",
            )
        same = next((other for other, at in addresses.items() if at == meant), None)
        if same:
            raise errors.RefusedError(f"The remote {same!r} has that address; nothing was changed")
        self._change(
            lambda file: _read_number(file, "remotes", is_super=True).__setitem__(
                name, {"address": meant.text}
            )
        )
        return meant

    def remove(self, name: str) -> Address:
        """Remove a remote from the list; its data is unchanged.

        Raises:
            NotFoundError: No remote with that name.
        """
        (address,) = self.chosen(name).values()
        self._change(lambda file: file["remotes"].pop(name))
        return address

    def instances(self) -> dict[str, dict[str, Any]]:
        """Return the owner's decisions about each instance, e.g. `forgotten` and `trust`.

        Raises:
            ConfigError: The file cannot be read.
        """
        return {n: row for n, row in self._table("instances").items() if isinstance(row, dict)}

    def set_instances(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        """Change what is stored about instances; None as a value removes it.

        Raises:
            ConfigError: The file cannot be read or written.
        """

        def change(file: Any) -> None:  # noqa: ANN401  # as `_change`
            for name, values in rows.items():
                row = _read_number(_read_number(file, "instances", is_super=True), name)
                for key, value in values.items():
                    if value is None:
                        row.pop(key, None)
                    else:
                        row[key] = value
                if not row:
                    file["instances"].pop(name)

        self._change(change)

    def forgotten(self) -> frozenset[str]:
        """Return the instances no longer waited for."""
        return frozenset(name for name, row in self.instances().items() if row.get("forgotten"))

    def forget(self, instance: str, *, forgotten: bool = True) -> None:
        """Stop waiting for an instance, or resume."""
        if forgotten or instance in self.forgotten():
            self.set_instances({instance: {"forgotten": forgotten or None}})

    def _table(self, key: str) -> dict[str, Any]:
        try:
            data = tomllib.loads(read_plain(self._path, _MOST_BYTES).decode())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(f"cannot be read: {why(error)}") from error
        except (ValueError, RecursionError) as error:
            raise self._unusable(f"is not valid TOML: {error}") from error
        table = data.get(key, {})
        if not isinstance(table, dict):
            raise self._unusable(f"has a `{key}` that is not a table")
        return table

    def _change(self, change: Any) -> None:  # noqa: ANN401  # tomlkit's own types say nothing
        import tomlkit

        try:
            with locked(self._path.with_name(f".{FILE}.lock"), what=str(self._path)):
                self.all()  # an unreadable file is not overwritten
                try:
                    text = read_plain(self._path, _MOST_BYTES).decode()
                except FileNotFoundError:
                    text = ""
                file = tomlkit.parse(text)
                change(file)
                write_whole(self._path, tomlkit.dumps(file))
        except OSError as error:
            raise self._unusable(f"cannot be written: {why(error)}") from error

    def _unusable(self, what: str) -> errors.ConfigError:
        return errors.ConfigError(
            f"{str(self._path)!r} {what}; nothing was changed",
            hint="Correct it with an editor, or delete it and add the remotes again.",
        )


def _read_number(file: Any, key: str, *, is_super: bool = False) -> Any:  # noqa: ANN401  # as above
    import tomlkit

    if key not in file:
        file[key] = tomlkit.table(is_super_table=is_super)
    return file[key]


_ASIDE: Final = "familiar-aside"


class RefAside(Struct, frozen=True):
    """A remote ref that is not accepted.

    Args:
        ref: Its full name.
        id: The commit that it names.
        reason: Why it is not accepted.
        is_final: Whether this holds until the ref changes.
        code: The code of the error that refused it, if any.
    """

    ref: str
    id: str
    reason: str
    is_final: bool = True
    code: str = ""

    @property
    def name(self) -> str:
        """The ref's display name."""
        return self.ref.removeprefix(_HEADS)

    @property
    def instance(self) -> str:
        """The instance that owns the branch."""
        return self.ref.rpartition("/")[2]


class SeenRefs:
    """The last seen refs of a remote.

    Args:
        repository: The journal.
        remote: The remote's name.
    """

    def __init__(self, repository: Repository, remote: str) -> None:
        self._repository = repository
        self._top = os.path.join(repository.path, "refs", "remotes", remote)

    def all(self) -> dict[str, str]:
        """Return the refs by their names on the remote."""
        return {ref: id_ for ref, path in ref_files(self._top) if (id_ := _read_id(path))}

    def note(self, refs: Mapping[str, str]) -> None:
        """Record the current refs. May raise OSError."""
        before = self.all()
        for ref, id_ in refs.items():
            if before.get(ref) != id_ and ref.startswith(_HEADS):
                at = f"refs/remotes/{os.path.basename(self._top)}/{ref.removeprefix(_HEADS)}"
                set_local_ref(self._repository, at, id_)

    def aside(self) -> dict[str, RefAside]:
        """Return the refs that are not accepted, by name."""
        return {one.ref: one for one in read_record(self._aside_path, list[RefAside]) or ()}

    def note_aside(self, refs: Mapping[str, RefAside]) -> None:
        """Record the refs that are not accepted, if possible."""
        if refs != self.aside():
            write_record(self._aside_path, [one for _, one in sorted(refs.items())])

    def forget(self) -> None:
        """Delete all of them, when the remote is removed."""
        shutil.rmtree(self._top, ignore_errors=True)
        with suppress(OSError):
            remove(self._aside_path)

    @property
    def _aside_path(self) -> str:
        return os.path.join(self._repository.path, _ASIDE, f"{os.path.basename(self._top)}.json")


def ref_files(top: str) -> Iterator[tuple[str, str]]:
    """Yield each branch in a directory of ref files, with the path of its file."""
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            yield _HEADS + os.path.relpath(path, top).replace(os.sep, "/"), path


def newest_seen(repository: Repository) -> dict[str, set[str]]:
    """Return the newest commits of each instance whose memory was fetched from any remote."""
    top = os.path.join(repository.path, "refs", "remotes")
    heads: dict[str, set[str]] = {}
    for remote in os.listdir(top) if os.path.isdir(top) else ():
        for instance, id_ in heads_in(SeenRefs(repository, remote).all()).items():
            heads.setdefault(instance, set()).add(id_)
    return heads


def instances_seen(repository: Repository) -> frozenset[str]:
    """Return the instances whose memory was fetched from any remote."""
    return frozenset(newest_seen(repository))


def local_ref(repository: Repository, ref: str) -> str | None:
    """Return the commit that a ref of the journal names, or None."""
    return _read_id(os.path.join(repository.path, *ref.split("/")))


def _read_id(path: str) -> str | None:
    """Read the commit from a ref file, or None."""
    with suppress(OSError):
        id_ = read_plain(path).decode("ascii", errors="replace").strip()
        return id_ if is_id(id_) else None
    return None


def set_local_ref(repository: Repository, ref: str, id_: str) -> None:
    """Durably update a ref of the journal. May raise OSError."""
    path = os.path.join(repository.path, *ref.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    repository.disk.put(path, f"{id_}\n".encode())
