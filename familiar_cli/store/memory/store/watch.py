"""Know that nothing below the memory directory has changed, from Linux's change notification.

Scanning 10,000 files costs as much as everything else in a prompt, and a process that answers
several messages usually finds nothing new. So the second scan of a large memory starts a watch
(inotify), the fourth one of a small memory, and if that reports nothing, further scans are skipped.
The system queues an event before the call that changed a file returns. Nothing is assumed unchanged
that a watch may miss: file systems other than plain local ones, files with several names,
unreadable directories, and, since a program may write through a mapped file, anything listed more
than a minute ago.
"""

from __future__ import annotations

import os
import stat
import struct
import threading
from collections import OrderedDict
from contextlib import suppress
from itertools import count
from typing import Final

from msgspec import Struct, field

from familiar_cli.base.files import is_local_disk, status_of
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.store.memory.store.walk import Listing, list_all

WORTH_FILES: Final = 1_000
"""A smaller memory is scanned as quickly as watched, unless it is scanned often."""

OFTEN: Final = 4
"""After so many scans a small memory is watched as well."""

TRUSTED_S: Final = 60.0
"""How long nothing may be looked at, whatever the system says."""

_MOST_ROOTS: Final = 4  # a system allows few inotify instances
_MOST_FOLDERS: Final = 500
_EVENT: Final = struct.Struct("iIII")
_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0xC0, 0x100, 0x200
_SELF: Final = 0xC00  # the directory itself was deleted or moved
_IS_DIR: Final = 0x4000_0000
_ONLY_DIR: Final = 0x100_0000
_CHANGES: Final = _MODIFY | _ATTRIB | _MOVED | _CREATE | _DELETE | _SELF | _ONLY_DIR
_READ_BYTES: Final = 65_536

_Identity = tuple[int, int]


class _Root(Struct):
    """A memory directory: its last state, and the watch on it; an empty `digest` means unknown."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    descriptor: int = -1
    identity: _Identity = (0, 0)
    folders: frozenset[str] = frozenset()
    digest: str = ""
    number: int = 0
    listed_s: float = 0.0
    looks: int = 0

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor, self.folders, self.digest = -1, frozenset(), ""


_roots: OrderedDict[str, _Root] = OrderedDict()
_roots_lock = threading.Lock()
_numbers = count(1)


def is_unchanged(root: str, digest: str) -> bool:
    """Tell whether everything below the real path `root` certainly matches `digest`.

    Args:
        root: A memory directory.
        digest: Its earlier state; see `Listing.digest`.
    """
    return bool(digest) and watched_digest(root) == digest


def watched_digest(root: str) -> str:
    """Return the digest of everything below the real path `root`; empty if it may have changed."""
    known = _roots.get(root)
    if known is None:
        return ""
    with known.lock:
        is_recent = stopwatch_s() - known.listed_s < TRUSTED_S
        is_same = bool(known.digest) and is_recent and known.identity == _root_identity(root)
        if not (is_same and _is_quiet(known)):
            known.digest = ""
        return known.digest


def quiet_since(root: str) -> int:
    """Return the number of the listing since which nothing below the real path `root` has changed.

    0 if something may have. Numbers are never used twice in a process, so unlike a digest, an equal
    number also rules out changes that file stamps do not show.
    """
    digest = watched_digest(root)
    known = _roots.get(root)
    return known.number if known and digest else 0


def list_tree(root: str) -> tuple[Listing, str]:
    """List everything below the real path `root`, with its digest.

    Raises:
        FamiliarError: The memory directory cannot be read.
    """
    known = _known_root(root)
    with known.lock:
        if known.descriptor >= 0:
            _is_quiet(known)  # changes count from here on
        begun_s, watched, identity = stopwatch_s(), known.folders, _root_identity(root)
        listing = list_all(root)
        digest = listing.digest()
        known.looks += 1
        folders = frozenset(folder.prefix for folder in listing.folders)
        known.digest, known.number, known.listed_s = "", next(_numbers), begun_s
        if folders == watched and known.identity == identity:
            known.digest = digest
        elif known.looks > 1 and _is_worth_it(listing, identity, known.looks):
            known.close()
            _watch_folders(known, root, folders)
            known.identity = identity
        return listing, digest


def stop_watching() -> None:
    """Stop all watches; the next scan of each memory starts over."""
    with _roots_lock:
        for root in _roots.values():
            with root.lock:
                root.close()
        _roots.clear()


def _known_root(root: str) -> _Root:
    with _roots_lock:
        known = _roots.pop(root, None) or _Root()
        _roots[root] = known
        while len(_roots) > _MOST_ROOTS:
            _, dropped = _roots.popitem(last=False)
            with dropped.lock:
                dropped.close()
        return known


def _is_worth_it(listing: Listing, identity: _Identity, times: int) -> bool:
    """Tell whether a watch would save time, and would see every change."""
    looks = [status for folder in listing.folders for status in folder.seen]
    return (
        (len(looks) >= WORTH_FILES or times >= OFTEN)
        and len(listing.folders) <= _MOST_FOLDERS
        and not listing.closed
        and all(status.st_dev == identity[0] for status in looks)
        and not any(status.st_nlink > 1 and stat.S_ISREG(status.st_mode) for status in looks)
        and is_local_disk(identity[0])
    )


def _watch_folders(known: _Root, root: str, folders: frozenset[str]) -> None:
    """Watch directories for changes, where the system supports it."""
    import ctypes  # only where a process looks more than once

    libc = ctypes.CDLL(None)
    known.descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    paths = [os.fsencode(f"{root}/{folder}") for folder in folders]
    if all(libc.inotify_add_watch(known.descriptor, path, _CHANGES) >= 0 for path in paths):
        known.folders = folders
    else:
        known.close()


def _is_quiet(root: _Root) -> bool:
    """Tell whether no change was reported since the last call."""
    quiet, places = True, False
    with suppress(BlockingIOError):
        while events := os.read(root.descriptor, _READ_BYTES):
            at = 0
            while at < len(events):
                _, mask, _, size = _EVENT.unpack_from(events, at)
                at += _EVENT.size + size
                if events[at - size : at].startswith(b"."):
                    continue  # hidden files are not listed
                quiet = False
                places = places or not size or bool(mask & _IS_DIR)
    if places:  # directories were replaced, or events were lost
        root.close()
    return quiet


def _root_identity(root: str) -> _Identity:
    status = status_of(root)
    return (status.st_dev, status.st_ino) if status else (0, 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_roots.clear)  # a child would take the parent's events
