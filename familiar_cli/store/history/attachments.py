"""Pictures of turns: files named by their hash, which the turn's text mentions.

So a picture is as private as its turn, and goes when no turn mentions it any more.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.base.files import check_own, read_plain, remove, write_own

if TYPE_CHECKING:
    from familiar_cli.store.history.store import HistoryStore

DIRECTORY: Final = "attachments"
_UNKNOWN: Final = "[image]"  # only its address is known, or it is not a picture
_NAME: Final = re.compile("[0-9a-f]{16}")
_MARK: Final = re.compile(r"\[image ([0-9a-f]{16})\]")
FILE: Final = re.compile(r"([0-9a-f]{16})\.(?:png|jpg|webp|gif|img)")
_DATA: Final = re.compile(
    r"data:(image/[\w.+-]{1,40})(?:;[\w=.-]{1,80}){0,3};base64,", re.IGNORECASE
)
_ENDINGS: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/webp": "webp",
    "image/gif": "gif",
}
_KINDS: Final = {ending: kind for kind, ending in _ENDINGS.items()}
_SIGNATURES: Final = {
    rb"\x89PNG": "image/png",
    rb"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF....WEBP": "image/webp",
}


def media_type(content: bytes) -> str:
    """Return the media type of a picture by how it begins; empty for anything else."""
    kinds = (kind for start, kind in _SIGNATURES.items() if re.match(start, content, re.DOTALL))
    return next(kinds, "")


def picture_mark(url: str) -> str:
    """Return what stands for a picture in the text of a turn.

    Args:
        url: Its address; one that begins with `data:` holds the picture itself.
    """
    data = _decode(url)
    return f"[image {_name_of(data)}]" if data else _UNKNOWN


def pictures_in(text: str) -> list[str]:
    """List the names of the pictures that a text mentions."""
    return _MARK.findall(text)


def split_pictures(root: Path, text: str) -> tuple[str, list[str]]:
    """Split a text into its words and the names of the pictures in it that are here."""
    names = [name for name in pictures_in(text) if picture_files(root, [name])]
    for name in names:
        text = text.replace(f"[image {name}]", "")
    return text.rstrip() if names else text, names


def keep_pictures(root: Path, urls: Iterable[str]) -> None:
    """Store pictures in the directory of a familiar. Those with an address only are not fetched.

    Raises:
        FamiliarError: They cannot be written.
    """
    for url in urls:
        data, label = _decode(url), _DATA.match(url)
        if data and label:
            ending = _ENDINGS.get(label[1].lower(), "img")
            put_picture(root / DIRECTORY / f"{_name_of(data)}.{ending}", data)


def put_picture(path: Path, data: bytes) -> None:
    """Store a picture unless it is here, or its name is not the one of its content.

    Raises:
        FamiliarError: It cannot be written.
    """
    if path.stem == _name_of(data) and not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_own(path, data)


def stored_pictures(root: Path) -> dict[str, Path]:
    """Return all stored pictures by their path below the familiar's directory, sorted."""
    directory = root / DIRECTORY
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    return {f"{DIRECTORY}/{path.name}": path for path in paths if FILE.fullmatch(path.name)}


def picture_files(root: Path, names: Iterable[str]) -> list[Path]:
    """List the files of pictures, as far as they are here."""
    return [path for name in sorted(names) for path in (root / DIRECTORY).glob(f"{name}.*")]


def load_picture(root: Path, name: str) -> str:
    """Return a stored picture as an address that holds it; empty if it is not here."""
    content, kind = read_picture(root, name)
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}" if content else ""


def read_picture(root: Path, name: str) -> tuple[bytes, str]:
    """Return a stored picture with its media type; both empty if it is not here."""
    for path in picture_files(root, [name] if _NAME.fullmatch(name) else []):
        with suppress(OSError):
            kind = _KINDS.get(path.suffix.removeprefix("."), "application/octet-stream")
            return read_plain(path), kind
    return b"", ""


def is_mentioned(name: str, history: HistoryStore) -> bool:
    """Tell whether a turn mentions a picture."""
    return history.mentions(f"[image {name}]")


def remove_unmentioned(root: Path, history: HistoryStore) -> int:
    """Remove the pictures that no turn mentions; return their number.

    Raises:
        FamiliarError: The directory is not ours.
    """
    directory, gone = root / DIRECTORY, 0
    if not directory.is_dir():
        return 0
    check_own(directory)
    for path in directory.iterdir():
        if not is_mentioned(path.stem, history):
            remove(path)
            gone += 1
    return gone


def _decode(url: str) -> bytes:
    """Return the picture in a `data:` address; nothing if there is none."""
    label = _DATA.match(url)
    if label is None:
        return b""
    try:
        return base64.b64decode(url[label.end() :], validate=False)
    except (binascii.Error, ValueError):
        return b""


def _name_of(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]
