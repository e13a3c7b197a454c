"""Which paths may be touched: none outside the memory, none that some system cannot hold."""

from __future__ import annotations

import os
import re
import sys
import unicodedata

from familiar_cli import files
from familiar_cli.errors import UnsafePathError
from familiar_cli.files import TEMP_PREFIX
from familiar_cli.memory.layout import PRIVATE_DIRS
from familiar_cli.text import fold

MAX_NAME_BYTES = 255  # of one name, on ext4, APFS and NTFS
MAX_PATH_BYTES = 1024
MAX_LEVELS = 200  # of directories within each other; less than Python and git can walk
_SHOWN_CHARS = 80
NAMES_ARE_UTF8 = sys.getfilesystemencoding() == "utf-8"
"""Whether Python names files as they are. With an old locale it decodes other names wrongly."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:")
# What Windows forbids, and what would make a path look like another one on a terminal.
_NOT_PORTABLE = re.compile(r'[<>:"|?*\u2028\u2029\u202a-\u202e\u2066-\u2069]')
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?", re.IGNORECASE
)
# The second spelling is the short name that Windows gives the first.
_GITS_OWN = re.compile(r"\.git|git~[0-9]+|\.gitmodules|gitmod~[0-9]+|gi7eba~[0-9]+")
_INVISIBLE = "Cf"  # some file systems leave such characters out when they compare names


def parse(rel_path: str, *, wildcards: bool = False) -> str:
    """Return `rel_path` in its one spelling; `""` is the memory itself.

    `.` and empty parts are dropped, so `./people//a.md` is `people/a.md`. With `wildcards` it may
    be a pattern, which has characters that no name has on Windows.

    Raises:
        UnsafePathError: It is absolute, climbs up, or holds what no path may hold.
    """
    if rel_path.startswith("/") or _DRIVE.match(rel_path):
        raise _refused(rel_path, "is not a path below the memory directory")
    parts = [part for part in rel_path.split("/") if part not in {"", "."}]
    for part in parts:
        problem = unreadable(part, wildcards=wildcards)
        if problem:
            raise _refused(rel_path, problem)
    clean = "/".join(parts)
    if len(clean.encode()) > MAX_PATH_BYTES:
        raise _refused(rel_path, f"is longer than {MAX_PATH_BYTES} bytes")
    if len(parts) > MAX_LEVELS:
        raise _refused(rel_path, f"lies in more than {MAX_LEVELS} directories within each other")
    return clean


def unreadable(name: str, *, wildcards: bool = False) -> str | None:
    """Return why `name` cannot be one part of a path here, or None when it can."""
    if name == "..":
        return "leads outside the memory directory"
    if not (name.isascii() or NAMES_ARE_UTF8):
        return "has a name that this locale cannot show; set one with UTF-8, or PYTHONUTF8=1"
    is_plain = name.isascii() and name.isprintable() and "\\" not in name  # as almost all are
    if not is_plain and _UNREADABLE.search(name):
        if _LONE_SURROGATE.search(name):
            return "has a name that is not UTF-8"
        return "contains a backslash or a control character"
    if len(name if name.isascii() else name.encode()) > MAX_NAME_BYTES:
        return f"has a name longer than {MAX_NAME_BYTES} bytes"
    return _not_portable(name) if os.name == "nt" and not wildcards else None


def parse_old(rel_path: str) -> str:
    """Return `rel_path` in its one spelling, when a file there may be changed or taken away.

    Raises:
        UnsafePathError: It is no path of a file, or one of the program's own.
    """
    clean = parse(rel_path)
    if not clean or rel_path.endswith("/"):
        raise _refused(rel_path, "does not name a file")
    if any(_is_private_twin(part) for part in clean.split("/")):
        raise _refused(rel_path, "is reserved for this program, git or Obsidian")
    return clean


def parse_new(rel_path: str) -> str:
    """Return `rel_path` in its one spelling, when a file may be written there on every system.

    Raises:
        UnsafePathError: It may not.
    """
    clean = parse_old(rel_path)
    for part in clean.split("/"):
        problem = _not_portable(part)
        if problem or is_gits_own(part):
            raise _refused(rel_path, problem or "has a name reserved by git")
    return clean


def is_private(name: str) -> bool:
    """Tell whether `name` belongs to the program, to git or to an editor, not to the memory.

    Obsidian runs the plugins in its directory, so nothing here may write there.
    """
    return name.startswith(TEMP_PREFIX) or name in PRIVATE_DIRS


def is_gits_own(name: str) -> bool:
    """Tell whether git, on some system, takes `name` for its own directory or settings."""
    shown = "".join(c for c in name if unicodedata.category(c) != _INVISIBLE)
    return bool(_GITS_OWN.fullmatch(fold(shown).partition(":")[0].rstrip(". ")))


def is_leftover(name: str) -> bool:
    """Tell whether `name` is a half-written file, which only a crash leaves behind."""
    return name.startswith(TEMP_PREFIX) and name.endswith(".new")


def locate(root: str, rel_path: str) -> str:
    """Return the real path of `rel_path` below `root`, wherever links lead.

    Args:
        root: The memory directory's own real path.
        rel_path: As `parse` returned it.

    Raises:
        UnsafePathError: A link on the way leads out of `root`, or in a circle.
    """
    if not rel_path:
        return root
    direct = _without_links(root, rel_path)
    if direct:
        return direct
    try:
        real = os.path.realpath(os.path.join(root, *rel_path.split("/")))
    except OSError as error:
        raise _refused(rel_path, f"cannot be followed ({error.strerror})") from error
    if not inside(root, real):
        raise _refused(rel_path, "leads outside the memory directory through a link")
    return real


def _without_links(root: str, rel_path: str) -> str:
    """Return the path of `rel_path` where no link is on the way, which takes few looks; else none.

    On Windows there are more ways than links in which a path is not the real one.
    """
    if os.name == "nt":
        return ""
    path = root.rstrip(os.sep)
    for part in rel_path.split("/"):
        path = f"{path}/{part}"
        if os.path.islink(path):
            return ""
    return path


def is_misspelled(root: str, rel_path: str) -> bool:
    """Tell whether what is seen at `rel_path` below `root`, as `parse` returned it, is a twin's."""
    path = root
    for part in rel_path.split("/") if rel_path else ():
        path = os.path.join(path, part)
        if files.is_misspelled(path):
            return True
    return False


def inside(root: str, real: str) -> bool:
    """Tell whether the real path `real` is `root` or below it."""
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _is_private_twin(name: str) -> bool:
    """Tell whether some file system takes `name` for one of the program's own."""
    shown = "".join(c for c in name if unicodedata.category(c) != _INVISIBLE)
    return is_private(fold(shown))


def _not_portable(name: str) -> str | None:
    if _NOT_PORTABLE.search(name):
        return "has a character in its name that is not valid on Windows or in a terminal"
    if name[-1] in ". " or name[0] == " ":
        return "has a name that begins or ends with a space, or ends with a dot"
    if _DEVICE.fullmatch(name):
        return "has a name reserved for a device on Windows"
    return None


def _refused(rel_path: str, problem: str) -> UnsafePathError:
    return UnsafePathError(
        f"{shorten(rel_path)!r} {problem}; nothing was changed",
        hint="Use a path below the memory directory, e.g. `people/alice.md`.",
    )


def shorten(rel_path: str) -> str:
    """Return a path for use in a message, shortened if very long."""
    return rel_path if len(rel_path) <= _SHOWN_CHARS else rel_path[:_SHOWN_CHARS] + "…"
