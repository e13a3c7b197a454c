"""Where an original is kept: a path in memory for any name that a file elsewhere may have."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import UnsafePathError
from familiar_cli.memory.store import paths
from familiar_cli.text import fold, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# What some system cannot hold in a name, or what would hide or disguise it.
_ODD: Final = re.compile(
    r'[\x00-\x1f\x7f-\x9f\\<>:"|?*%\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]'
)
_MOST_NAME_BYTES: Final = 180
_MOST_PATH_BYTES: Final = 700


def kept_paths(sources: Iterable[str], directory: str) -> dict[str, str]:
    """Return a path below `directory` for each source; no two are one file on any system."""
    made: dict[str, str] = {}
    taken: set[str] = set()
    for source in sorted(sources):
        path = f"{directory}/{_portable_path(source)}"
        if fold(path) in taken:
            path = f"{directory}/~{_digest(source)}"
        taken.add(fold(path))
        made[source] = path
    return made


def is_plain(rel_path: str) -> bool:
    """Tell whether a file may stand in memory under the very path it has elsewhere."""
    parts = rel_path.split("/")
    try:
        same = paths.parse_new(rel_path) == rel_path
    except UnsafePathError:
        return False
    return same and not any(part.startswith((".", "_")) or _ODD.search(part) for part in parts)


def _portable_path(source: str) -> str:
    path = "/".join(_portable(part) for part in source.split("/"))
    return path if len(path.encode()) <= _MOST_PATH_BYTES else f"~{_digest(source)}"


def _portable(name: str) -> str:
    shown = _ODD.sub(_encoded, name)
    if shown[-1] in ". ":
        shown = shown[:-1] + _percent(shown[-1])
    if shown[0] in " ~" or _refused(shown):
        shown = _percent(shown[0]) + shown[1:]
    if len(shown.encode()) > _MOST_NAME_BYTES:
        return f"~{_digest(name)}"
    return shown


def _refused(name: str) -> bool:
    try:
        paths.parse_new(f"x/{name}")
    except UnsafePathError:
        return True
    return False


def _encoded(found: re.Match[str]) -> str:
    return _percent(found[0])


def _percent(char: str) -> str:
    try:
        raw = os.fsencode(char)
    except UnicodeEncodeError:  # half a character, which is no byte of a name either
        raw = char.encode("utf-8", errors="surrogatepass")
    return "".join(f"%{byte:02X}" for byte in raw)


def _digest(source: str) -> str:
    return sha256_of(source)[:32]
