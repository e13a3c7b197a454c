"""Text of old programs: UTF-8, and Windows-1252 where it is not."""

from __future__ import annotations

import codecs
from typing import Final

LENIENT: Final = "familiar-windows-1252"
"""Decode bytes that are not valid UTF-8 as Windows-1252, for `errors` of a codec."""


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not valid UTF-8 as Windows-1252, as old programs wrote it."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    raw = error.object[error.start : error.end]
    return "".join(_byte_letter(byte) for byte in raw), error.end


def _byte_letter(byte: int) -> str:
    try:
        return bytes((byte,)).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


codecs.register_error(LENIENT, _as_windows)
