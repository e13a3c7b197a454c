"""Decompression of untrusted bytes, up to a limit."""

from __future__ import annotations

import zlib


def inflate(packed: bytes, most_bytes: int) -> bytes:
    """Decompress bytes, stopping once they exceed the limit.

    Raises:
        ValueError: They unpack to more than `most_bytes`.
        EOFError: They are cut off.
        zlib.error: They are damaged.
    """
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed, most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"it unpacks to more than {most_bytes:,} bytes")
    if not unpacker.eof:
        raise EOFError("it is cut off")
    return content
