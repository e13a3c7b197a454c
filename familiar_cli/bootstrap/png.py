"""PNG pictures: their chunks, and the text chunks that carry cards. Pixels are never looked at."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.bounds import MAX_CARD_BYTES, MIB
from familiar_cli.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_TEXT_KINDS: Final = (b"tEXt", b"zTXt", b"iTXt")
_FRAME_BYTES: Final = 12  # length, kind and CRC of a chunk


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: four letters that tell its kind, and its content without length and CRC."""

    kind: bytes
    content: bytes


@dataclass(frozen=True, slots=True)
class Png:
    """A PNG file: its chunks in order, and whatever stands behind the last one."""

    chunks: tuple[Chunk, ...]
    trailer: bytes = b""

    @property
    def animated(self) -> bool:
        """Whether it is an APNG."""
        return any(chunk.kind == b"acTL" for chunk in self.chunks)


def parse_png(raw: bytes, *, origin: str) -> Png:
    """Return the chunks of `raw`.

    Raises:
        BadInputError: It is no PNG, is cut off, or a chunk's checksum does not match.
    """
    if not raw.startswith(SIGNATURE):
        raise BadInputError(f"{origin!r} is not a PNG picture")
    chunks: list[Chunk] = []
    at = len(SIGNATURE)
    while not chunks or chunks[-1].kind != b"IEND":
        chunk = _chunk_at(raw, at, origin)
        chunks.append(chunk)
        at += _FRAME_BYTES + len(chunk.content)
    if chunks[0].kind != b"IHDR":
        raise BadInputError(f"{origin!r} is a damaged PNG: its header is missing")
    return Png(tuple(chunks), raw[at:])


def write_png(png: Png) -> bytes:
    """Return the file that holds `png`."""
    parts = [SIGNATURE]
    for chunk in png.chunks:
        body = chunk.kind + chunk.content
        parts += [len(chunk.content).to_bytes(4, "big"), body, zlib.crc32(body).to_bytes(4, "big")]
    return b"".join([*parts, png.trailer])


def keyword_of(chunk: Chunk) -> str | None:
    """Return the keyword of a text chunk; None for any other chunk."""
    if chunk.kind not in _TEXT_KINDS:
        return None
    keyword, end, _ = chunk.content.partition(b"\0")
    return keyword.decode("latin-1") if end else None


def text_of(chunk: Chunk, *, origin: str, limit_bytes: int = MAX_CARD_BYTES) -> bytes:
    """Return the text of a text chunk, inflated when it is compressed.

    Raises:
        BadInputError: It inflates to more than `limit_bytes`, or is damaged.
    """
    _, _, rest = chunk.content.partition(b"\0")
    packed = chunk.kind == b"zTXt"
    if packed:
        rest = rest[1:]
    elif chunk.kind == b"iTXt":
        packed = rest[:1] == b"\x01"
        rest = rest[2:].partition(b"\0")[2].partition(b"\0")[2]
    if packed:
        return _inflated(rest, origin, limit_bytes)
    if len(rest) > limit_bytes:
        raise _too_much(origin)
    return rest


def text_chunk(keyword: str, text: bytes) -> Chunk:
    """Return a plain text chunk; `text` is ASCII."""
    return Chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + text)


def with_text(png: Png, replaced: Iterable[str], added: Iterable[Chunk]) -> Png:
    """Return `png` without the text chunks named in `replaced` (any case), and with `added`.

    What is added stands before the picture's data, where every reader finds it.
    """
    names = {name.lower() for name in replaced}
    kept = [chunk for chunk in png.chunks if (keyword_of(chunk) or "").lower() not in names]
    data_starts = next((i for i, c in enumerate(kept) if c.kind == b"IDAT"), len(kept) - 1)
    return Png((*kept[:data_starts], *added, *kept[data_starts:]), png.trailer)


def _chunk_at(raw: bytes, at: int, origin: str) -> Chunk:
    length = int.from_bytes(raw[at : at + 4], "big")
    end = at + _FRAME_BYTES + length
    if len(raw) < end or len(raw) < at + _FRAME_BYTES:
        raise BadInputError(f"{origin!r} is an incomplete PNG", hint="Download it again.")
    body = raw[at + 4 : end - 4]
    if zlib.crc32(body) != int.from_bytes(raw[end - 4 : end], "big"):
        kind = body[:4].decode("latin-1")
        raise BadInputError(
            f"{origin!r} is a damaged PNG: the checksum of its {kind!r} chunk does not match",
            hint="Download it again.",
        )
    return Chunk(body[:4], body[4:])


def _inflated(packed: bytes, origin: str, limit_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(packed, limit_bytes + 1)
    except zlib.error as error:
        raise BadInputError(f"{origin!r} contains a damaged compressed text: {error}") from error
    if len(text) > limit_bytes:
        raise _too_much(origin)
    if not stream.eof:
        raise BadInputError(f"{origin!r} contains an incomplete compressed text")
    return text


def _too_much(origin: str) -> BadInputError:
    return BadInputError(f"{origin!r} contains texts of more than {MAX_CARD_BYTES // MIB} MiB")
