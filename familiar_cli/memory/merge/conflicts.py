"""Conflicts between machines: the other version of each below `conflicts/`, and a list of them.

A copy is the other machine's file, byte for byte, so that any program can open and compare it. What
belongs to it stands in `conflicts/README.md`, a list for people whose lines end in a comment for
the program. That list is made anew by each merge and never conflicts itself.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import chain, count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from familiar_cli.errors import NotFoundError
from familiar_cli.memory.layout import CONFLICTS_DIR, CONFLICTS_LIST, is_in_conflicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from familiar_cli.memory.store.store import MemoryStore

_BELOW: Final = f"{CONFLICTS_DIR}/"
_ENTRY: Final = re.compile(r"^- .*<!-- conflict (\{.*\}) -->[ \t\r]*$", re.MULTILINE)
_HEAD: Final = """\
# Conflicts

Two machines changed these files, each in its own way. What both changed was put together; where
they differ the file holds one version, and the copy that is listed here is the whole of the other.
No copy is searched or shown to a model. `familiar sync resolve` shows the differences and settles
them.

"""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A file of which there are two versions that cannot be had both.

    Args:
        path: The file. It holds what both changed, and one side's where they differ.
        copy: The file that holds the other version, whole.
        ours: The machine whose version stands in the file.
        theirs: The machine whose version is in the copy.
        base: The id of what both began with; empty: there was no such file.
        what: The places, e.g. `list item`, `key 'aliases'`; each kind once.
    """

    path: str
    copy: str
    ours: str
    theirs: str
    base: str
    what: tuple[str, ...]


def is_copy(rel_path: str) -> bool:
    """Return whether a file is the other version of one in conflict."""
    return is_in_conflicts(rel_path) and rel_path != CONFLICTS_LIST


def copy_path(rel_path: str, instance: str, is_taken: Callable[[str], bool]) -> str:
    """Return where the other version of a file goes: `conflicts/people/anna.md`.

    Args:
        rel_path: The file; what is in conflict itself gets no second `conflicts/`.
        instance: The machine of that version; where the plain name is taken, it is part of it.
        is_taken: Returns whether something else has a path.
    """
    plain = f"{_BELOW}{rel_path.removeprefix(_BELOW)}"
    if plain != CONFLICTS_LIST and not is_taken(plain):
        return plain
    path = PurePosixPath(plain)
    names = (f"{path.stem}.{instance}{more}{path.suffix}" for more in chain([""], count(-2, -1)))
    return next(one for name in names if not is_taken(one := str(path.with_name(name))))


def listed(text: str) -> list[Conflict]:
    """Return the conflicts that the list names; a line that is damaged names none."""
    found = (_read(entry[1]) for entry in _ENTRY.finditer(text))
    return [one for one in found if one is not None]


def conflicts_in(store: MemoryStore) -> list[Conflict]:
    """Return the conflicts of a memory, sorted by path; quick where there are none."""
    try:
        copies = [entry.rel_path for entry in store.walk(CONFLICTS_DIR, hidden=True).files]
    except NotFoundError:
        return []
    text = (
        store.read_bytes(CONFLICTS_LIST).decode("utf-8", "replace")
        if CONFLICTS_LIST in copies
        else ""
    )
    return standing([text], copies)


def list_text(conflicts: Iterable[Conflict]) -> str:
    """Return the list as a file; empty when there is nothing to list."""
    lines = [_line(one) for one in conflicts]
    return _HEAD + "".join(lines) if lines else ""


def standing(
    lists: Iterable[str], paths: Iterable[str], new: Iterable[Conflict] = ()
) -> list[Conflict]:
    """Return the conflicts that there are, sorted by path.

    Args:
        lists: The lists that there were before; what a later one says counts.
        paths: Files; each of them that is a copy is a conflict, and nothing else.
        new: What was found since.
    """
    before = (one for text in lists for one in listed(text))
    known = {one.copy: one for one in (*before, *new)}
    found = (
        known.get(copy) or Conflict(copy.removeprefix(_BELOW), copy, "", "", "", ())
        for copy in paths
        if is_copy(copy)
    )
    return sorted(found, key=lambda one: (one.path, one.copy))


def _line(one: Conflict) -> str:
    told: dict[str, Any] = {
        "path": one.path,
        "copy": one.copy,
        "ours": one.ours,
        "theirs": one.theirs,
        "base": one.base,
        "what": list(one.what),
    }
    data = json.dumps(told, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e")
    link = f"[{_shown(one.path)}]({quote(one.copy.removeprefix(_BELOW))})"
    which = f": the version of {_shown(one.theirs)}" if one.theirs else ""
    return f"- {link}{which} <!-- conflict {data} -->\n"


def _shown(name: str) -> str:
    return re.sub(r"([\[\]<>`*_\\])", r"\\\1", name)


def _read(data: str) -> Conflict | None:
    try:
        told: Mapping[str, Any] = json.loads(data)
        what = tuple(map(str, told["what"]))
        names = [told[key] for key in ("path", "copy", "ours", "theirs", "base")]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not all(isinstance(name, str) for name in names) or not is_copy(names[1]):
        return None
    path, copy, ours, theirs, base = names
    return Conflict(path, copy, ours, theirs, base, what)
