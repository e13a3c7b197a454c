"""The remotes of a familiar, their refs, and what was seen of them."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import ConfigError, NotFoundError, RefusedError, UsageError
from familiar_cli.files import locked, read_plain, remove, why, write_own, write_whole
from familiar_cli.memory.journal.objects import is_id
from familiar_cli.sync.transport import MEMORY_REFS, read_address
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.sync.transport import Address


FILE: Final = "sync.toml"
_NAME: Final = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_MOST_NAME_CHARS: Final = 40
_MOST_BYTES: Final = 256 * 1024


class Remotes:
    """The remotes of one familiar, and the instances that it no longer waits for.

    Args:
        path: `sync.toml`; it need not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, Address]:
        """Return where each remote is, by name, in the order in which they were added.

        Raises:
            ConfigError: The file cannot be read.
        """
        found = self._table("remotes")
        try:
            return {name: read_address(str(one["address"])) for name, one in found.items()}
        except (KeyError, TypeError, UsageError) as error:
            raise self._unusable(f"names a remote without a valid address: {error}") from error

    def chosen(self, name: str | None) -> dict[str, Address]:
        """Return the remote of that name, or all.

        Raises:
            NotFoundError: There is none, or none of that name.
        """
        known = self.all()
        if not known:
            raise NotFoundError(
                "No remote is configured to sync with",
                hint="Add one: `familiar sync remote add hub ADDRESS`, where ADDRESS is the path"
                " of a bare git repository, `user@host:path`, an https URL, or `dir:FOLDER`.",
            )
        if name is None:
            return known
        if name not in known:
            guess = nearest(name, known)
            raise NotFoundError(
                f"There is no remote {name!r}",
                hint=f"Did you mean {guess!r}?"
                if guess
                else "List them: `familiar sync remote ls`.",
            )
        return {name: known[name]}

    def add(self, name: str, address: str) -> Address:
        """Keep a remote.

        Raises:
            UsageError: The name or the address cannot be one.
            RefusedError: The name is taken.
        """
        if len(name) > _MOST_NAME_CHARS or not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a remote; nothing was changed",
                hint="Use lower-case letters and digits, with `-` between, e.g. `hub`.",
            )
        meant = read_address(address)
        known = self.all()
        if name in known:
            raise RefusedError(
                f"The remote {name!r} already exists: {known[name]}; nothing was changed",
                hint=f"Remove it first: `familiar sync remote rm {name}`.",
            )
        same = next((other for other, at in known.items() if at == meant), None)
        if same:
            raise RefusedError(f"The remote {same!r} has that address; nothing was changed")
        self._change(
            lambda file: _in(file, "remotes", is_super=True).__setitem__(
                name, {"address": meant.text}
            )
        )
        return meant

    def remove(self, name: str) -> Address:
        """Forget a remote; what is there stays.

        Raises:
            NotFoundError: There is none of that name.
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
                row = _in(_in(file, "instances", is_super=True), name)
                for key, value in values.items():
                    if value is None:
                        row.pop(key, None)
                    else:
                        row[key] = value
                if not row:
                    file["instances"].pop(name)

        self._change(change)

    def forgotten(self) -> frozenset[str]:
        """Return the instances that are no longer waited for."""
        return frozenset(name for name, row in self.instances().items() if row.get("forgotten"))

    def forget(self, instance: str, *, forgotten: bool = True) -> None:
        """Wait for an instance no longer, or again."""
        if forgotten or instance in self.forgotten():
            self.set_instances({instance: {"forgotten": forgotten or None}})

    def _table(self, key: str) -> dict[str, Any]:
        import tomllib

        try:
            found = tomllib.loads(read_plain(self._path, _MOST_BYTES).decode())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(f"cannot be read: {why(error)}") from error
        except (ValueError, RecursionError) as error:
            raise self._unusable(f"is not valid TOML: {error}") from error
        table = found.get(key, {})
        if not isinstance(table, dict):
            raise self._unusable(f"has a `{key}` that is not a table")
        return table

    def _change(self, change: Any) -> None:  # noqa: ANN401  # tomlkit's own types say nothing
        import tomlkit

        try:
            with locked(self._path.with_name(f".{FILE}.lock"), what=str(self._path)):
                self.all()  # a file that cannot be read is not written over
                try:
                    text = read_plain(self._path, _MOST_BYTES).decode()
                except FileNotFoundError:
                    text = ""
                file = tomlkit.parse(text)
                change(file)
                write_whole(self._path, tomlkit.dumps(file))
        except OSError as error:
            raise self._unusable(f"cannot be written: {why(error)}") from error

    def _unusable(self, what: str) -> ConfigError:
        return ConfigError(
            f"{str(self._path)!r} {what}; nothing was changed",
            hint="Correct it with an editor, or delete it and add the remotes again.",
        )


def _in(file: Any, key: str, *, is_super: bool = False) -> Any:  # noqa: ANN401  # as above
    import tomlkit

    if key not in file:
        file[key] = tomlkit.table(is_super_table=is_super)
    return file[key]


_HEADS: Final = "refs/heads/"
_ASIDE: Final = "familiar-aside"


@dataclass(frozen=True, slots=True)
class RefAside:
    """A ref of a remote of which nothing is taken.

    Args:
        ref: Its whole name.
        id: The commit that it names.
        reason: Why nothing is taken of it.
        is_final: It stays so until the ref names another commit.
    """

    ref: str
    id: str
    reason: str
    is_final: bool = True

    @property
    def name(self) -> str:
        """The ref as people are shown it."""
        return self.ref.removeprefix(_HEADS)

    @property
    def instance(self) -> str:
        """The instance whose branch it is."""
        return self.ref.rpartition("/")[2]


class SeenRefs:
    """The refs of one remote as they were seen last.

    Args:
        repository: The journal.
        remote: The remote's name.
    """

    def __init__(self, repository: Repository, remote: str) -> None:
        self._repository = repository
        self._top = os.path.join(repository.path, "refs", "remotes", remote)

    def all(self) -> dict[str, str]:
        """Return them, named as they are at the remote."""
        found = {}
        for directory, _, names in os.walk(self._top):
            for name in names:
                path = os.path.join(directory, name)
                ref = _HEADS + os.path.relpath(path, self._top).replace(os.sep, "/")
                with suppress(OSError):
                    id_ = read_plain(path).decode("ascii", errors="replace").strip()
                    if is_id(id_):
                        found[ref] = id_
        return found

    def note(self, refs: Mapping[str, str]) -> None:
        """Remember what refs name now. May raise OSError."""
        before = self.all()
        for ref, id_ in refs.items():
            if before.get(ref) != id_ and ref.startswith(_HEADS):
                path = os.path.join(self._top, *ref.removeprefix(_HEADS).split("/"))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._repository.disk.put(path, f"{id_}\n".encode())

    def aside(self) -> dict[str, RefAside]:
        """Return the refs of which nothing is taken, by name."""
        try:
            rows = json.loads(read_plain(self._aside_path))
            return {row["ref"]: RefAside(**row) for row in rows}
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return {}

    def note_aside(self, refs: Mapping[str, RefAside]) -> None:
        """Remember the refs of which nothing is taken, as far as that is possible."""
        rows = [
            {"ref": one.ref, "id": one.id, "reason": one.reason, "is_final": one.is_final}
            for _, one in sorted(refs.items())
        ]
        if refs != self.aside():
            with suppress(OSError):
                write_own(self._aside_path, json.dumps(rows).encode(), durable=False)

    def forget(self) -> None:
        """Remove all of them: the remote is no longer one of ours."""
        import shutil

        shutil.rmtree(self._top, ignore_errors=True)
        with suppress(OSError):
            remove(self._aside_path)

    @property
    def _aside_path(self) -> str:
        return os.path.join(self._repository.path, _ASIDE, f"{os.path.basename(self._top)}.json")


def newest_seen(repository: Repository) -> dict[str, set[str]]:
    """Return the newest commits of each instance whose memory was fetched from any remote."""
    top = os.path.join(repository.path, "refs", "remotes")
    found: dict[str, set[str]] = {}
    for remote in os.listdir(top) if os.path.isdir(top) else ():
        for ref, id_ in SeenRefs(repository, remote).all().items():
            if ref.startswith(MEMORY_REFS):
                found.setdefault(ref.removeprefix(MEMORY_REFS), set()).add(id_)
    return found


def instances_seen(repository: Repository) -> frozenset[str]:
    """Return the instances whose memory was fetched from any remote."""
    return frozenset(newest_seen(repository))


def local_ref(repository: Repository, ref: str) -> str | None:
    """Return the commit that a ref of the journal names, or None."""
    try:
        path = os.path.join(repository.path, *ref.split("/"))
        id_ = read_plain(path).decode("ascii", errors="replace").strip()
    except OSError:
        return None
    return id_ if is_id(id_) else None


def set_local_ref(repository: Repository, ref: str, id_: str) -> None:
    """Make a ref of the journal name a commit, durably. May raise OSError."""
    path = os.path.join(repository.path, *ref.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    repository.disk.put(path, f"{id_}\n".encode())
