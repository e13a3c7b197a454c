"""`Remotes`: which remotes a familiar has, in `sync.toml` in its directory, never in its memory.

[remotes.hub]
address = "me@example.org:familiar.git"

[instances.old-laptop-7f3a]
forgotten = true
trust = "known"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import ConfigError, NotFoundError, RefusedError, UsageError
from familiar_cli.files import locked, read_plain, why, write_whole
from familiar_cli.sync.transport import read_address
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
