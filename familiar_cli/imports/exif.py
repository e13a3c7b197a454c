"""Text in the EXIF data of a picture, where some programs keep a card."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

_EXIF_DIRECTORY: Final = 0x8769
_USER_COMMENT: Final = 0x9286
_ENTRY_BYTES: Final = 12
_INLINE_BYTES: Final = 4  # longer values stand elsewhere
_MOST_ENTRIES: Final = 1_000
_WIDE: Final = b"UNICODE\0"
_CODES: Final = (b"ASCII\0\0\0", _WIDE, b"JIS\0\0\0\0\0", b"\0" * 8)


def webp_exif(raw: bytes) -> bytes:
    """Return the EXIF data of a WebP picture; empty if it has none."""
    at = 12
    while at + 8 <= len(raw):
        size = int.from_bytes(raw[at + 4 : at + 8], "little")
        if raw[at : at + 4] == b"EXIF":
            return raw[at + 8 : at + 8 + size]
        at += 8 + size + size % 2
    return b""


def user_comment(exif: bytes) -> bytes:
    """Return the user comment in EXIF data as UTF-8; empty if there is none."""
    exif = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return b""
    try:
        (first,) = struct.unpack_from(f"{order}I", exif, 4)
        for tag, _, _, place in _entries(exif, order, first):
            if tag == _EXIF_DIRECTORY:
                (inner,) = struct.unpack_from(f"{order}I", exif, place)
                for position, _, count, where in _entries(exif, order, inner):
                    if position == _USER_COMMENT:
                        return _decode_value(_value(exif, order, count, where), order)
    except struct.error:  # it points beyond its end
        return b""
    return b""


def _entries(exif: bytes, order: str, at: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield tag, type, count and place of the value of each entry of a directory."""
    (count,) = struct.unpack_from(f"{order}H", exif, at)
    for number in range(min(count, _MOST_ENTRIES)):
        place = at + 2 + number * _ENTRY_BYTES
        tag, kind, length = struct.unpack_from(f"{order}HHI", exif, place)
        yield tag, kind, length, place + 8


def _value(exif: bytes, order: str, count: int, place: int) -> bytes:
    if count > _INLINE_BYTES:  # longer values stand elsewhere
        (place,) = struct.unpack_from(f"{order}I", exif, place)
    return exif[place : place + count]


def _decode_value(value: bytes, order: str) -> bytes:
    code = value[:8]
    if code not in _CODES:
        return value.strip(b"\0 ")
    text = value[8:]
    if code == _WIDE:
        wide = "utf-16-le" if order == "<" else "utf-16-be"
        text = text.decode(wide, errors="replace").encode()
    return text.strip(b"\0 ")
