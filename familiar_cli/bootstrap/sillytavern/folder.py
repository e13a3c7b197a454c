"""Which files a SillyTavern data folder has, each with its kind.

Nothing outside the folder is ever looked at: links that lead out of it are named and left alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from familiar_cli.bootstrap.containers import SUFFIXES
from familiar_cli.bootstrap.what_is_it import INSIDE, instead
from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.text import typed

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal[
    "character", "world", "chat", "group", "group_chat", "settings", "backup", "link", "other"
]

CARD_SUFFIXES: Final = frozenset((*SUFFIXES.values(), ".yml"))
_PLACES: Final = ("characters", "chats", "worlds", "groups", "group chats")
_SURE: Final = frozenset(("characters", "chats", "group chats"))
"""Directories of which one at least makes a folder SillyTavern's."""

_NOISE: Final = frozenset((".ds_store", ".gitkeep", "desktop.ini", "thumbs.db"))


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file, or a directory that is passed over as a whole.

    Args:
        path: Where it is.
        rel_path: The same below the folder, with `/`.
        kind: What it is, by its place.
        reason: Why it is passed over; empty: it is read.
    """

    path: Path
    rel_path: str
    kind: Kind
    reason: str = ""

    @property
    def stem(self) -> str:
        """Its name without suffix."""
        return self.path.stem

    @property
    def owner(self) -> str:
        """The name of the directory that it is in."""
        return self.path.parent.name


@dataclass(frozen=True, slots=True)
class Folder:
    """A data folder.

    Args:
        root: Where it is.
        files: What is in it, sorted by path.
    """

    root: Path
    files: tuple[FoundFile, ...] = field(repr=False)

    def of(self, kind: Kind) -> list[FoundFile]:
        """Return the files of a kind that are read."""
        return [file for file in self.files if file.kind == kind and not file.reason]


def is_folder(path: Path) -> bool:
    """Tell whether `path` is the data folder of one user."""
    return any((path / name).is_dir() for name in _SURE)


def find_folder(path: Path) -> Folder:
    """Return the data folder at `path`, or the one that is plainly meant by it.

    Raises:
        NotFoundError: There is none.
        UsageError: It is a file, or there are the folders of several users.
    """
    if path.is_file():
        raise instead("folder", path) or UsageError(
            f"{str(path)!r} is a file, not SillyTavern's data folder; nothing was imported",
            hint="Give the folder that holds `characters` and `chats`.",
        )
    if is_folder(path):
        return _look(path)
    usual = [path / inside for inside in INSIDE if is_folder(path / inside)]
    others = _users(path) if not usual else []
    if len(others) > 1:
        listed = ", ".join(repr(user.name) for user in others)
        raise UsageError(
            f"{str(path)!r} holds the data of several users: {listed}; nothing was imported",
            hint=f"Choose one: `familiar import-sillytavern {typed(str(others[0]))}`.",
        )
    for found in (*usual, *others):
        return _look(found)
    raise NotFoundError(
        f"{str(path)!r} is not SillyTavern's data folder: it has no `characters` and no `chats`",
        hint="It is usually `SillyTavern/data/default-user`.",
    )


def _users(path: Path) -> list[Path]:
    try:
        return sorted(entry for entry in path.iterdir() if entry.is_dir() and is_folder(entry))
    except OSError:
        return []


def _look(root: Path) -> Folder:
    looking = _Looking(root)
    looking.top()
    return Folder(root, tuple(sorted(looking.found, key=lambda file: file.rel_path)))


class _Looking:
    """Goes through a data folder once."""

    def __init__(self, root: Path) -> None:
        self.found: list[FoundFile] = []
        self._root = root
        self._real = os.path.realpath(root)

    def top(self) -> None:
        for entry in self._entries(self._root, "other"):
            if entry.name in _PLACES and _is_dir(entry):
                self._place(entry)
            elif entry.name == "settings.json" and _is_file(entry):
                self._note(entry, "settings")
            elif entry.name == "backups":
                self._note(entry, "backup", "backup copies are not read")
            else:
                self._note(entry, "other", "not a kind of file that is imported")

    def _place(self, place: os.DirEntry[str]) -> None:
        if place.name == "characters":
            self._all(place, "character", CARD_SUFFIXES)
        elif place.name == "worlds":
            self._all(place, "world", {".json"})
        elif place.name == "groups":
            self._all(place, "group", {".json"})
        elif place.name == "group chats":
            self._all(place, "group_chat", {".jsonl"})
        else:
            for entry in self._entries(place, "chat"):
                if _is_dir(entry):
                    self._all(entry, "chat", {".jsonl"})
                else:
                    self._note(entry, "chat", "it is not in a character's directory")

    def _all(self, directory: os.DirEntry[str], kind: Kind, suffixes: Iterable[str]) -> None:
        for entry in self._entries(directory, kind):
            suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122  # a name, not a path
            if _is_dir(entry):
                self._note(entry, "other", "a directory")
            elif not _is_file(entry):
                self._note(entry, kind, "not a plain file")
            elif suffix not in suffixes:
                wanted = ", ".join(sorted(suffixes))
                self._note(entry, "other", f"its name does not end in {wanted}")
            else:
                self._note(entry, kind)

    def _entries(self, directory: os.DirEntry[str] | Path, kind: Kind) -> list[os.DirEntry[str]]:
        """Return what is in a directory and stays within the folder; the rest is noted."""
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            path = Path(directory)
            reason = f"it cannot be read: {error.strerror or error}"
            self.found.append(FoundFile(path, self._rel(path), kind, reason))
            return []
        inside = []
        for entry in entries:
            if entry.name.startswith("._") or entry.name.lower() in _NOISE:
                continue
            if self._leads_out(entry):
                self._note(entry, "link", "a link that leads out of the folder is not followed")
            else:
                inside.append(entry)
        return inside

    def _leads_out(self, entry: os.DirEntry[str]) -> bool:
        real = os.path.realpath(entry.path)
        try:
            return os.path.commonpath([self._real, real]) != self._real
        except ValueError:  # on another drive
            return True

    def _note(self, entry: os.DirEntry[str], kind: Kind, reason: str = "") -> None:
        path = Path(entry.path)
        self.found.append(FoundFile(path, self._rel(path), kind, reason))

    def _rel(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _is_dir(entry: os.DirEntry[str]) -> bool:
    return os.path.isdir(entry.path)  # noqa: PTH112  # unlike the entry's own, it never raises


def _is_file(entry: os.DirEntry[str]) -> bool:
    return os.path.isfile(entry.path)  # noqa: PTH113  # as above
