"""Unpack compressed bytes from outside, never to more than the caller allows."""

from __future__ import annotations

import zlib


def inflate(packed: bytes, most_bytes: int) -> bytes:
    """Unpack compressed bytes, and stop as soon as they are more than allowed.

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
