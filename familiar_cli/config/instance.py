"""Which instance of a familiar lives here: one memory may live on several machines.

`instance.id` stands in the familiar's directory, outside its memory, so that it never travels:

    id = "laptop-7f3a"      # this instance
    began = "laptop-7f3a"   # the instance that the familiar began on
    days = "laptop-7f3a"    # what its daily files are named after

`id` is made once, of the machine's name and some random digits, and is ASCII: it becomes part of
file names, of citations and of the names of git refs.
"""

from __future__ import annotations

import os
import platform
import re
import tomllib
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConfigError
from familiar_cli.files import Disk, locked, read_plain, remove, temp_in, why, write_whole
from familiar_cli.text import slugify

if TYPE_CHECKING:
    from pathlib import Path

MOST_ID_CHARS: Final = 40
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAMELESS: Final = "here"
_RANDOM_BYTES: Final = 2
_MOST_BYTES: Final = 4_096
_LOCK: Final = ".instance.lock"
_NOTE: Final = (
    "# The instance of this familiar that lives here. Made by the program; never copy it to another"
    " machine.\n"
)


@dataclass(frozen=True, slots=True)
class Instance:
    """One of the places where a familiar lives.

    Args:
        id: Which.
        began: The instance that the familiar began on.
        days: What its daily files are named after; where it is older than its id, as before.
    """

    id: str
    began: str
    days: str

    @property
    def is_first(self) -> bool:
        """Whether the familiar began here."""
        return self.id == self.began


def is_instance_id(text: str) -> bool:
    """Tell whether `text` can be the id of an instance: ASCII letters, digits, `-` between."""
    return len(text) <= MOST_ID_CHARS and _ID.fullmatch(text) is not None


def host_name() -> str:
    """Return what the machine is called, as a slug."""
    return slugify(platform.node().partition(".")[0]) or _NAMELESS


def new_id(chosen: str = "") -> str:
    """Return an id that no other instance has.

    Args:
        chosen: What the settings call this machine; empty: its host name.
    """
    plain = unicodedata.normalize("NFKD", chosen or host_name()).encode("ascii", "ignore").decode()
    suffix = os.urandom(_RANDOM_BYTES).hex()
    readable = slugify(plain)[: MOST_ID_CHARS - len(suffix) - 1].strip("-")
    return f"{readable or _NAMELESS}-{suffix}"


def read_instance(path: Path) -> Instance | None:
    """Return the instance that a file names; None: there is no file.

    Raises:
        ConfigError: It cannot be read, or says something else.
    """
    try:
        found = tomllib.loads(read_plain(path, _MOST_BYTES).decode())
        made = Instance(found["id"], found["began"], found.get("days", found["id"]))
        is_right = all(map(is_instance_id, (made.id, made.began))) and _can_name_files(made.days)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {why(error)}") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        is_right = False
    if not is_right:
        raise _unusable(path, "is damaged")
    return made


def ensure_instance(path: Path, *, chosen: str = "", is_older: bool = False) -> Instance:
    """Return the instance of a familiar, and make it where there is none. Processes may race.

    Args:
        path: Its file.
        chosen: What the settings call this machine; empty: its host name.
        is_older: The familiar wrote daily files before it had an instance; they stay its own.

    Raises:
        ConfigError: The file is damaged, or cannot be read or written.
    """
    found = read_instance(path)
    if found is not None:
        return found
    made = new_id(chosen)
    instance = Instance(made, made, (chosen or host_name()) if is_older else made)
    try:
        return instance if _put_first(path, instance) else _read_again(path)
    except OSError as error:
        raise _unusable(path, f"cannot be written: {why(error)}") from error


def begin_instance(path: Path, began: str, *, chosen: str = "") -> Instance:
    """Return the instance of a familiar that began elsewhere, made now.

    Args:
        path: Its file, which is not there yet.
        began: The instance that it began on.
        chosen: What the settings call this machine; empty: its host name.

    Raises:
        ConfigError: `began` is not an id, or the file is there or cannot be written.
    """
    if not is_instance_id(began):
        raise ConfigError(f"{began!r} is not the id of an instance; nothing was changed")
    made = new_id(chosen)
    instance = Instance(made, began, made)
    try:
        if not _put_first(path, instance):
            raise _unusable(path, "is there already")
    except OSError as error:
        raise _unusable(path, f"cannot be written: {why(error)}") from error
    return instance


def replace_id(path: Path, taken: str, *, chosen: str = "") -> Instance:
    """Return the instance under a new id, because another machine has the old one, too.

    Of two processes that notice, one makes the new id and the other takes it. The familiar began
    where it began, and the daily files so far belong to the instance that keeps the id.

    Args:
        path: Its file.
        taken: The id that was found in use elsewhere.
        chosen: What the settings call this machine; empty: its host name.

    Raises:
        ConfigError: The file is missing or damaged, or cannot be written.
    """
    try:
        with locked(path.with_name(_LOCK), what=str(path)):
            found = _read_again(path)
            if found.id != taken:
                return found
            made = new_id(chosen)
            instance = replace(found, id=made, days=made)
            write_whole(path, _text(instance))
    except OSError as error:
        raise _unusable(path, f"cannot be written: {why(error)}") from error
    return instance


def _put_first(path: Path, instance: Instance) -> bool:
    """Write the file unless there is one, so that nobody sees half of it; tell whether we did."""
    directory = str(path.parent)
    os.makedirs(directory, exist_ok=True)  # noqa: PTH103
    disk, temporary = Disk(), temp_in(directory, ".new")
    try:
        disk.create(temporary, _text(instance).encode())
        try:
            disk.link(temporary, str(path))
        except FileExistsError:
            return False
        except OSError:  # no second names here, as on FAT
            return _put_locked(path, instance)
        disk.sync_dir(directory)
    finally:
        remove(temporary)
    return True


def _put_locked(path: Path, instance: Instance) -> bool:
    with locked(path.with_name(_LOCK), what=str(path)):
        if os.path.lexists(path):
            return False
        write_whole(path, _text(instance))
    return True


def _read_again(path: Path) -> Instance:
    found = read_instance(path)
    if found is None:
        raise _unusable(path, "is gone")
    return found


def _text(instance: Instance) -> str:
    lines = (f"{key} = {_quoted(getattr(instance, key))}\n" for key in ("id", "began", "days"))
    return _NOTE + "".join(lines)


def _quoted(text: str) -> str:
    return f'"{text}"'  # a slug needs no escapes


def _can_name_files(days: object) -> bool:
    return isinstance(days, str) and bool(days) and slugify(days) == days


def _unusable(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{str(path)!r} {what}; nothing was changed",
        hint="Restore it from a backup; it holds id, began and days, one line each. Without a"
        " backup, delete it, and this machine becomes a new instance.",
    )
