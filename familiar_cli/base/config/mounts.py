"""Network file systems, on which SQLite's write-ahead log does not work."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from familiar_cli.base.text import bare_lines

MOUNTINFO: Final = Path("/proc/self/mountinfo")
_REMOTE_DRIVE: Final = 4  # DRIVE_REMOTE of GetDriveTypeW
_NETWORK: Final = re.compile(
    r"nfs[34]?|cifs|smb\w*|ncpfs|afpfs|afs|webdav|davfs2?|glusterfs|lustre|ceph|beegfs"
    r"|fuse\.(sshfs|rclone|s3fs|glusterfs|davfs2?|ceph(-fuse)?|goofys|gcsfuse|mount-s3|juicefs)"
)
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_MOUNT_LINE: Final = re.compile(r".* on (/.*) \((\w+)[,)]")  # of `mount` on macOS


def network_file_system(path: Path) -> str:
    """Return the type of the network file system that holds `path`, or an empty string.

    Also empty if the system does not report it.
    """
    place = path.expanduser().absolute().resolve()
    if sys.platform == "win32":
        return _remote_drive(place)
    longest, kind = "", ""
    for mount_point, its_kind in _list_mounts():  # of two at one place, the later one is on top
        if place.is_relative_to(mount_point) and len(mount_point) >= len(longest):
            longest, kind = mount_point, its_kind
    return kind if _NETWORK.fullmatch(kind) else ""


def network_warning(home: Path) -> tuple[str, str] | None:
    """Describe the risk of a home on a network file system, and the way out; None for others."""
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


def _list_mounts() -> Iterator[tuple[str, str]]:
    """Yield each mount point and its file system type, in mount order."""
    if sys.platform == "darwin":
        import subprocess  # noqa: PLC0415  # slow to import

        done = subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=False)
        listed = done.stdout
        found = map(_MOUNT_LINE.match, bare_lines(listed))
        yield from ((match[1], match[2]) for match in found if match)
        return
    try:
        lines = bare_lines(MOUNTINFO.read_text("utf-8", "surrogateescape"))
    except OSError:
        return  # not Linux, or /proc is missing
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if len(fields) > 4 and kind:  # noqa: PLR2004  # the mount point is the fifth
            yield _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4]), kind


def _remote_drive(place: Path) -> str:
    if place.drive.startswith("\\\\"):
        return "smb"
    import ctypes  # noqa: PLC0415  # slow to import

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009  # exists on Windows only
    return "smb" if kernel.GetDriveTypeW(f"{place.drive}\\") == _REMOTE_DRIVE else ""
