"""Files: safe reads, atomic writes, locks, and change detection."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
import unicodedata
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

import msgspec

from familiar_cli.base.errors import LockedError, UnsafePathError

_T = TypeVar("_T")

TEMP_PREFIX: Final = ".tmp-familiar-"
"""Name prefix of temporary files, which are renamed when complete."""

SETTLED_NS: Final = 3_000_000_000
"""Age at which a change's timestamp can be trusted: FAT counts in steps of two seconds, and a file
server's clock may be slightly off."""

_FINE_NS: Final = 100_000_000  # the same on local disks of Linux, whose steps are 10 ms or less


ON_WINDOWS: Final = os.name == "nt"
"""Whether other programs can block reading, replacing or deleting files. Tests may override it."""

OWNER_ONLY: Final = 0o600
"""Permissions of every file below a familiar, and of every export, whatever the umask."""

_OWNER_BITS: Final = 0o700
_BINARY: Final = getattr(os, "O_BINARY", 0)
# Opening a named pipe without O_NONBLOCK would wait for a writer.
_READING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | _BINARY
_APPENDING: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | _BINARY
# ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION: on Windows a virus scanner or
# an editor holds a file for a moment.
_HELD_FOR_A_MOMENT: Final = {5, 32, 33}
_LITTLE_BYTES: Final = 65_536  # with so little room, a disk is full
_MAX_PATH_CHARS: Final = 248  # limit of a directory path; 260 for a file
TOO_LONG: Final = "Windows allows 259 (MAX_PATH) unless long paths are enabled"
_WAITS_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
_POLL_S: Final = 0.005
_SETTLED_AT_ONCE: Final = 8


def append(path: str | Path, content: bytes) -> None:
    """Append to a file that only the program writes, creating its directory.

    Raises:
        UnsafePathError: Its directory is a link.
        OSError: It cannot be written, or is a link.
    """
    directory = os.path.dirname(path)
    check_own(directory)
    os.makedirs(directory, exist_ok=True)
    with open(os.open(path, _APPENDING, OWNER_ONLY), "ab") as file:
        file.write(content)


def read_plain(path: str | Path, most_bytes: int = -1) -> bytes:
    """Return the bytes of a regular file, or its first `most_bytes`.

    Raises:
        OSError: It cannot be read, or is a directory, a pipe or a device.
    """
    descriptor = patiently(os.open, path, _READING)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "It is not a regular file", str(path))
        left = most_bytes if most_bytes >= 0 else sys.maxsize
        parts = []
        while left and (part := os.read(descriptor, min(left, status.st_size + 1))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_record(
    path: str | Path, kind: type[_T], damaged: Callable[[], Exception] | None = None
) -> _T | None:
    """Read a file of JSON; None if it is missing, or holds no `kind` and can be made again.

    Args:
        damaged: Makes the error for a file that cannot be made again.
    """
    import json  # noqa: PLC0415  # starting is quicker without it

    try:
        # `json` takes what an editor may leave: a byte order mark, or half a character.
        return msgspec.convert(json.loads(read_plain(path)), kind)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        if damaged:
            raise damaged() from error
        return None


def write_record(path: str | Path, value: object) -> None:
    """Write a file of JSON that can be made again, if possible; `read_record` reads it."""
    import json  # noqa: PLC0415  # as above

    with suppress(OSError, UnsafePathError):
        text = json.dumps(msgspec.to_builtins(value))
        write_own(path, f"{text}\n".encode(), durable=False)


def read_object(path: str | Path) -> dict[str, Any]:
    """Read any object in the same way; empty if there is none."""
    return read_record(path, dict[str, Any]) or {}


def status_of(path: str | Path) -> os.stat_result | None:
    """Return the `os.stat` result of a file; None if it is missing or not accessible."""
    try:
        return os.stat(path)
    except OSError:
        return None


class FileStamp(NamedTuple):
    """Detects file changes without reading. A tuple, since there are many.

    Args:
        mtime_ns: Modification time of its content.
        ctime_ns: Time of any change; on Windows, which lacks it, `mtime_ns`.
        settled: Whether its last change is old enough that another one would show.
    """

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    settled: bool

    def shows_no_change_since(self, seen: FileStamp) -> bool:
        """Tell whether the file is unchanged since `seen` was taken."""
        return seen.settled and self[:3] == seen[:3]


def stamp_of(status: os.stat_result, looked_ns: int) -> FileStamp:
    """Return the stamp of a file.

    Args:
        status: Its stat result.
        looked_ns: A time before the stat call; see `clock.wall_ns`.
    """
    mtime_ns = status.st_mtime_ns
    ctime_ns = mtime_ns if ON_WINDOWS else status.st_ctime_ns
    age_ns = looked_ns - max(mtime_ns, ctime_ns)
    settled = age_ns > SETTLED_NS or (age_ns > _FINE_NS and _has_fine_times(status))
    return FileStamp(status.st_size, mtime_ns, ctime_ns, settled)


def _has_fine_times(status: os.stat_result) -> bool:
    """Tell whether a file's times have more digits than milliseconds, from this system's clock."""
    return status.st_ctime_ns % 1_000_000 > 0 and is_local_disk(status.st_dev)


MOUNTINFO: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs", "zfs"}
_NETWORK: Final = (
    r"nfs[34]?|cifs|smb\w*|ncpfs|afpfs|afs|webdav|davfs2?|glusterfs|lustre|ceph|beegfs"
    r"|fuse\.(sshfs|rclone|s3fs|glusterfs|davfs2?|ceph(-fuse)?|goofys|gcsfuse|mount-s3|juicefs)"
)
_REMOTE_DRIVE: Final = 4  # DRIVE_REMOTE of GetDriveTypeW


@lru_cache(maxsize=16)
def is_local_disk(device: int) -> bool:
    """Tell whether all writers of a file system go through this kernel; only Linux says so."""
    if sys.platform != "linux":
        return False
    target = f"{os.major(device)}:{os.minor(device)}"
    kinds = {kind for its_device, _, kind in _mounts() if its_device == target}
    return bool(kinds) and kinds <= _LOCAL


def network_file_system(path: Path) -> str:
    """Return the type of the network file system that holds `path`, or an empty string.

    Also empty if the system does not report it.
    """
    place = path.expanduser().absolute().resolve()
    if sys.platform == "win32":
        return _remote_drive(place)
    longest, kind = "", ""
    for _, mount_point, its_kind in _mounts():  # of two at one place, the later one is on top
        if place.is_relative_to(mount_point) and len(mount_point) >= len(longest):
            longest, kind = mount_point, its_kind
    return kind if re.fullmatch(_NETWORK, kind) else ""


def network_warning(home: Path) -> tuple[str, str] | None:
    """Return the problem of a home on a network file system, and its remedy; None if it is not."""
    kind = network_file_system(home)
    if not kind:
        return None
    problem = (
        f"{str(home)!r} is on a network file system ({kind}), where SQLite's write-ahead log does "
        "not work: the history can be damaged as soon as two machines use it"
    )
    return (
        problem,
        "Keep the home on a local disk and share it with `familiar sync`: `familiar help sync`.",
    )


def _mounts() -> Iterator[tuple[str, str, str]]:
    """Yield device (unknown on macOS), mount point and type of each mounted file system."""
    if sys.platform == "darwin":
        import subprocess  # noqa: PLC0415  # slow to import

        done = subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=False)
        for match in re.finditer(r"(?m)^.* on (/.*) \((\w+)[,)]", done.stdout):
            yield "", match[1], match[2]
        return
    try:
        text = MOUNTINFO.read_text("utf-8", "surrogateescape")
    except OSError:
        return  # not Linux, or /proc is missing
    for line in text.split("\n"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if len(fields) > 4 and kind:  # noqa: PLR2004  # the mount point is the fifth
            place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
            yield fields[2], place, kind


def _remote_drive(place: Path) -> str:
    if place.drive.startswith("\\\\"):
        return "smb"
    import ctypes  # noqa: PLC0415  # slow to import

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009  # exists on Windows only
    return "smb" if kernel.GetDriveTypeW(f"{place.drive}\\") == _REMOTE_DRIVE else ""


def path_of(name: str) -> Path:
    """Return the path that a person typed: absolute, with `~` expanded, and without `..`."""
    path = Path(name).expanduser().absolute()
    return path.resolve() if ".." in path.parts else path


def is_plain(path: str | Path) -> bool:
    """Tell whether `path` is a regular file; unlike `Path.is_file`, never raises."""
    return os.path.isfile(path)


def is_directory(path: str | Path) -> bool:
    """Tell whether `path` is a directory; unlike `Path.is_dir`, never raises."""
    return os.path.isdir(path)


def is_misspelled(path: str) -> bool:
    """Tell whether a file exists at `path` under a different spelling.

    File systems may ignore case or Unicode normalization. False if nothing exists there.
    """
    directory, name = os.path.split(path)
    if not any(os.path.lexists(os.path.join(directory, twin)) for twin in _twins(name)):
        return False  # names are distinct here, or nothing exists
    try:
        return name not in os.listdir(directory) and os.path.lexists(path)
    except OSError:
        return False


@lru_cache(maxsize=256)  # directories are asked of for every file in them
def _twins(name: str) -> frozenset[str]:
    """Return other spellings of `name`, one per way in which file systems fold names."""
    other_case = "".join(c.swapcase() if len(c.swapcase()) == 1 else c for c in name)
    twins = {other_case}
    if not name.isascii():
        twins |= {unicodedata.normalize(form, name) for form in ("NFC", "NFD")}
    return frozenset(twins - {name})


class Disk:
    """The primitive file operations. Tests make one of them fail or stop.

    Paths are real paths; every method may raise OSError.
    """

    def create(
        self,
        path: str,
        content: bytes | Iterable[bytes],
        *,
        mode: int | None = None,
        durable: bool = True,
    ) -> None:
        """Write a new file completely, or leave none.

        Args:
            path: A path that does not exist.
            content: Its content, possibly in parts.
            mode: Permissions, of which only the owner's are used; None for `OWNER_ONLY`.
            durable: Flush to disk before returning.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, OWNER_ONLY)
        try:
            with open(descriptor, "wb") as file:
                file.writelines((content,) if isinstance(content, bytes) else content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            if mode is not None:
                os.chmod(path, mode & _OWNER_BITS)
            self.adopt(path)
        except BaseException:  # a partial file is useless, and disk space may be short
            with suppress(OSError):
                os.unlink(path)
            raise

    def replace(self, old: str, new: str) -> None:
        """Rename the file `old` to `new`, replacing it."""
        _make_writable(new)
        patiently(os.replace, old, new)

    def unlink(self, path: str) -> None:
        """Delete a file."""
        _make_writable(path)
        patiently(os.unlink, path)

    def link(self, path: str, second: str) -> None:
        """Create a hard link."""
        os.link(path, second)

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        os.mkdir(path, _OWNER_BITS)
        self.adopt(path)

    def make_dirs(self, path: str) -> None:
        """Create a directory and its missing parents."""
        if not os.path.isdir(path):
            self.make_dirs(os.path.dirname(path))
            with suppress(FileExistsError):
                self.mkdir(path)

    def adopt(self, path: str) -> None:
        """Set the permissions of a new file or directory."""
        close_one(path)

    def settle(self, paths: Sequence[str]) -> None:
        """Flush several files at once, which is faster on most disks."""
        if not paths:
            return
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # few change so many

        with ThreadPoolExecutor(_SETTLED_AT_ONCE) as several:
            for _ in several.map(_settle, paths):
                pass

    def sync_dir(self, path: str) -> None:
        """Flush a directory's entries, where the system supports it."""
        if ON_WINDOWS:
            return
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def put(
        self,
        path: str,
        content: bytes | Iterable[bytes],
        *,
        mode: int | None = None,
        durable: bool = True,
    ) -> None:
        """Write a whole file in an existing directory, atomically."""
        directory = os.path.dirname(path)
        temporary = temp_in(directory, ".new")
        try:
            self.create(temporary, content, mode=mode, durable=durable)
            self.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            self.sync_dir(directory)


class SharedDisk(Disk):
    """Disk whose new files inherit the permissions of their directory.

    For a remote on a path, which other people may use too.
    """

    def adopt(self, path: str) -> None:
        """Set a new file's or directory's permissions to those of its directory, as applicable."""
        with suppress(OSError):  # not every file system has permissions
            status = os.stat(path)
            most = 0o7777 if stat.S_ISDIR(status.st_mode) else status.st_mode | 0o066
            os.chmod(path, os.stat(os.path.dirname(path)).st_mode & stat.S_IMODE(most))


def close_to_others(root: str | Path, names: Collection[str] | None = None) -> None:
    """Remove others' permissions from a directory tree.

    The root's own permissions record completion: they change last, and a closed root is not
    scanned. Links are not followed, and shared directories such as `/tmp` are skipped.

    Args:
        names: The program's files, if not everything in it is.
    """
    try:
        status = os.lstat(root)
        mode = stat.S_IMODE(status.st_mode)
        if (
            ON_WINDOWS
            or not mode & 0o077
            or mode & stat.S_ISVTX
            or not stat.S_ISDIR(status.st_mode)
        ):
            return
        os.chmod(root, mode)  # fails early if nothing can be changed
    except OSError:
        return
    if names is None:
        for directory, _, files in os.walk(root, topdown=False):
            for name in files:
                close_one(os.path.join(directory, name))
            close_one(directory)
        return
    for name in names:
        close_one(os.path.join(root, name))
    close_one(root)


def close_one(path: str | Path) -> None:
    """Remove others' permissions from a regular file or directory, if possible."""
    with suppress(OSError):
        status = os.lstat(path)
        kind, mode = status.st_mode, stat.S_IMODE(status.st_mode)
        if mode & 0o077 and (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            os.chmod(path, mode & _OWNER_BITS)


def _settle(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | _BINARY)  # Windows flushes only writable files
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(
    path: str | Path, content: str | bytes | Iterable[bytes], *, durable: bool = True
) -> None:
    """Write a whole file atomically: readers see either the old or the new content.

    Links are kept, and so are the owner's permissions. Pipes and devices are written to directly.

    Args:
        path: A path in an existing directory.
        content: Bytes, possibly in parts, or text, written as UTF-8 without newline translation.
        durable: Flush to disk before returning. Not needed for files that are regenerated when
            missing or damaged.

    Raises:
        OSError: It cannot be written, or is not a regular file; the file is unchanged.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))
    made = content.encode() if isinstance(content, str) else content
    Disk().put(target, made, mode=mode_of(target), durable=durable)


def check_own(path: str | Path) -> None:
    """Refuse a link in place of a program file.

    Raises:
        UnsafePathError: It is a link; nothing was read or written there.
    """
    if os.path.islink(path):
        raise UnsafePathError(
            f"{str(path)!r} is a link, which is not followed; nothing was changed",
            hint="Put a real file or directory in its place, or delete the link.",
        )


def write_own(path: str | Path, content: bytes, *, durable: bool = True) -> None:
    """Write a program file atomically, creating its directory.

    A link in place of the file is replaced, never followed.

    Raises:
        UnsafePathError: Its directory is a link.
        OSError: It cannot be written; the file is unchanged.
    """
    directory = os.path.dirname(path)
    check_own(directory)
    os.makedirs(directory, exist_ok=True)
    Disk().put(str(path), content, durable=durable)


def mode_of(path: str) -> int | None:
    """Return the permissions of the file at `path`, or None if it does not exist."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def temp_in(directory: str, suffix: str) -> str:
    """Return a unique path in `directory`."""
    return os.path.join(directory, f"{TEMP_PREFIX}{os.getpid()}-{os.urandom(6).hex()}{suffix}")


_TEMP_NAME: Final = re.compile(rf"{re.escape(TEMP_PREFIX)}([0-9]{{1,10}})-[0-9a-f]{{12}}(?:\..+)?")


def maker_of(name: str) -> int | None:
    """Return the process that made a temporary file, as `temp_in` names it; None: another's."""
    match = _TEMP_NAME.fullmatch(name)
    return int(match[1]) if match else None


def remove(path: str | Path) -> None:
    """Delete a file if it exists, waiting for a process that holds it."""
    with suppress(FileNotFoundError):
        Disk().unlink(str(path))


def directories_in(path: Path, fits: Callable[[Path], bool] = lambda _: True) -> list[Path]:
    """Return the directories in a directory that fit, sorted; none if they cannot be read."""
    try:
        return sorted(entry for entry in path.iterdir() if entry.is_dir() and fits(entry))
    except OSError:
        return []


def remove_leftovers(paths: Iterable[str]) -> None:
    """Delete files, leaving those that cannot be deleted."""
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def open_patiently(path: str | Path) -> BinaryIO:
    """Open a file to read its bytes; see `patiently`."""
    return patiently(lambda _: open(path, "rb"), path)


def patiently(action: Callable[..., _T], *args: object) -> _T:
    """Call `action`, retrying while Windows reports that another process holds the file.

    Args:
        action: Opens, renames or deletes a file.
        args: Its arguments; a path first, if any.
    """
    for wait_s in _WAITS_S:
        try:
            return action(*args)
        except OSError as error:
            if not _is_held(error):
                raise
            time.sleep(wait_s)
    return action(*args)


def _is_held(error: OSError) -> bool:
    """Tell whether retrying may help. Opening a file raises no Windows error, only `EACCES`."""
    code = getattr(error, "winerror", None)
    if code is not None:
        return code in _HELD_FOR_A_MOMENT
    where = error.filename
    return ON_WINDOWS and error.errno == errno.EACCES and not (where and os.path.isdir(where))


def is_disk_full(error: OSError) -> bool:
    """Tell whether a write failed for lack of disk space or quota."""
    return error.errno in {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


def write_hint(code: int | None) -> str:
    """Say what helps against a system error of writing."""
    if code in {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}:
        return "The disk is full: free some space on it, then try again."
    if code == errno.EROFS:
        return "The disk is read-only: make it writable, or use another one."
    return "Check the permissions of the file and its directory."


def refusal_of_disk(path: str | os.PathLike[str]) -> int:
    """Return why nothing can be written at a path, where no error has told: an `errno`."""
    with suppress(OSError, AttributeError):  # Windows has no `statvfs`
        disk = os.statvfs(path)
        if disk.f_flag & os.ST_RDONLY:
            return errno.EROFS
        if disk.f_bavail * disk.f_frsize < _LITTLE_BYTES:
            return errno.ENOSPC
    return errno.EACCES


def why(error: OSError) -> str:
    """Describe a system error; Windows does not report that a path is too long."""
    names = [name for name in (error.filename, error.filename2) if isinstance(name, str)]
    path = max(map(os.path.abspath, names), key=len, default="")
    missing = error.errno in {errno.ENOENT, errno.EINVAL, errno.ENAMETOOLONG}
    if ON_WINDOWS and missing and len(path) >= _MAX_PATH_CHARS:
        return f"its path would have {len(path)} characters, and {TOO_LONG}"
    return error.strerror or str(error)


def _make_writable(path: str) -> None:
    """Make a read-only file replaceable on Windows; elsewhere only its directory matters."""
    if ON_WINDOWS:
        with suppress(OSError):
            mode = os.stat(path).st_mode
            if not mode & stat.S_IWRITE:
                os.chmod(path, stat.S_IMODE(mode) | stat.S_IWRITE)


@contextmanager
def locked(path: Path, timeout_s: float = -1, *, what: str = "") -> Iterator[None]:
    """Hold the lock file at `path`, in an existing directory. It is released on a crash.

    Args:
        path: The lock file, which stays.
        timeout_s: Maximum wait for another thread or process; negative for no limit.
        what: What it protects, for the error; defaults to the lock file's name.

    Raises:
        LockedError: Another holder kept it for that long.
        OSError: The lock file cannot be created.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  # only who changes something pays

    lock = FileLock(
        path, timeout=timeout_s, mode=OWNER_ONLY, thread_local=False, poll_interval=_POLL_S
    )
    try:
        lock.acquire()
    except Timeout as error:
        raise LockedError(
            f"Another process has been changing {what or str(path)!r} for {timeout_s:g} s; nothing "
            "was changed",
            hint="Try again when it is done, or check whether another `familiar` process hangs.",
        ) from error
    try:
        yield
    finally:
        lock.release()


_PART_BYTES: Final = 1024 * 1024  # bytes unpacked at a time


def inflate(packed: bytes, most_bytes: int) -> bytes:
    """Decompress bytes, stopping once they exceed the limit; see `inflate_stream`."""
    parts: list[bytes] = []
    inflate_stream(packed, lambda: b"", most_bytes, parts.append)
    return b"".join(parts)


def inflate_stream(
    packed: bytes, more: Callable[[], bytes], most_bytes: int, keep: Callable[[bytes], object]
) -> tuple[int, int]:
    """Decompress bytes and what follows them, stopping once they exceed the limit.

    Returns:
        The unpacked size, and how many of the bytes read belong to no stream.

    Args:
        packed: The beginning.
        more: Reads the next bytes; empty at the end.
        most_bytes: Maximum unpacked size.
        keep: Takes each part of the content.

    Raises:
        ValueError: They unpack to more than `most_bytes`.
        EOFError: They are cut off.
        zlib.error: They are damaged.
    """
    unpacker, size = zlib.decompressobj(), 0
    while not unpacker.eof:
        packed = packed or more()
        part = unpacker.decompress(packed, min(most_bytes + 1 - size, _PART_BYTES))
        if not packed and not part:
            raise EOFError("it is cut off")
        size, packed = size + len(part), unpacker.unconsumed_tail
        if size > most_bytes:
            raise ValueError(f"it unpacks to more than {most_bytes:,} bytes")
        keep(part)
    return size, len(unpacker.unused_data)
