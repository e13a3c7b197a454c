"""Files that contain a card: pictures, CHARX archives, JSON and YAML, detected by content."""

from __future__ import annotations

import base64
import binascii
import io
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.files import inflate
from familiar_cli.base.text import counted
from familiar_cli.imports.foreign_files import (
    MAX_CARD_BYTES,
    MAX_MEMBERS,
    MAX_TOTAL_BYTES,
    MIB,
    DamagedError,
    as_object,
    decode_text,
    read_json,
    read_yaml,
)

V1_FIELDS: Final = ("name", "description", "personality", "scenario", "first_mes", "mes_example")
"""The fields of a V1 card, which every card has."""

CARD_NAME: Final = "card.json"
BYAF_NAME: Final = "manifest.json"
SCHEMES: Final = ("embeded://", "embedded://")  # the specification's spelling comes first
# The other methods may need a dictionary of gigabytes.
_READ_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MEMBER_MARK: Final = b"PK\x01\x02"  # signature of an entry in the central directory
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)  # fixed, so that equal content gives equal archives
_FOREIGN_ERRORS: Final = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,  # an encrypted member
    ValueError,
)


def list_members(raw: bytes, *, origin: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return path and inflated size of each file in the archive, and duplicated paths.

    Raises:
        BadInputError: It is damaged, too large, or contains a path that leads outside.
    """
    with _open_zip(raw, origin) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
    times = Counter(info.filename for info in infos)
    twice = tuple(name for name, count in times.items() if count > 1)
    return {info.filename: info.file_size for info in infos}, twice


def read_member(raw: bytes, path: str, *, origin: str, limit_bytes: int = MAX_TOTAL_BYTES) -> bytes:
    """Read a file of the archive.

    Raises:
        BadInputError: It does not exist, is damaged, or inflates to more than `limit_bytes`.
    """
    with _open_zip(raw, origin) as archive:
        if path not in archive.namelist():
            raise BadInputError(f"{origin!r} is a zip archive without {path!r}")
        _check_method(archive.getinfo(path), origin)
        with archive.open(path) as member:
            content = member.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise BadInputError(f"{path!r} in {origin!r} is larger than {limit_bytes // MIB} MiB")
    return content


def unpack_members(raw: bytes, directory: Path, *, origin: str) -> list[Path]:
    """Write the files of the archive below a directory, as regular files; return their paths.

    Raises:
        BadInputError: It is damaged, encrypted, too large, or contains a path that leads outside.
    """
    with _open_zip(raw, origin) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        for info in infos:
            _check_method(info, origin)
        return [Path(archive.extract(info, directory)) for info in infos]


def _check_method(info: zipfile.ZipInfo, origin: str) -> None:
    if info.compress_type not in _READ_METHODS:
        raise BadInputError(
            f"{info.filename!r} in {origin!r} uses a compression method that is not read",
            hint="Unpack it, and zip it again with standard compression.",
        )


def write_charx(card_json: str, members: Mapping[str, bytes]) -> bytes:
    """Build an archive of the card and `members`; equal input gives equal bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in {CARD_NAME: card_json.encode("utf-8"), **members}.items():
            info = zipfile.ZipInfo(path, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return packed.getvalue()


@contextmanager
def _open_zip(raw: bytes, origin: str) -> Iterator[zipfile.ZipFile]:
    # Opening builds an object for each file, so count them first; those of archives nested
    # inside this one count, too.
    if raw.count(_MEMBER_MARK) > 10 * MAX_MEMBERS:
        raise BadInputError(f"{origin!r} holds more than {MAX_MEMBERS} files")
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            _check_archive(archive, origin)
            yield archive
    except BadInputError:
        raise
    except _FOREIGN_ERRORS as error:
        raise DamagedError(
            f"{origin!r} is a zip archive that cannot be read: {error}", hint="Download it again."
        ) from error


def _check_archive(archive: zipfile.ZipFile, origin: str) -> None:
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise BadInputError(f"{origin!r} holds more than {MAX_MEMBERS} files")
    if sum(info.file_size for info in infos) > MAX_TOTAL_BYTES:
        raise BadInputError(
            f"{origin!r} unpacks to more than {MAX_TOTAL_BYTES // MIB} MiB; it was not unpacked"
        )
    for info in infos:
        path = PurePosixPath(info.orig_filename.replace("\\", "/"))
        drive = info.orig_filename[1:2] == ":"
        if path.is_absolute() or ".." in path.parts or drive or "\0" in info.orig_filename:
            raise BadInputError(
                f"{origin!r} contains a path that leads outside: {info.filename!r}",
                hint="It may want to overwrite your files; do not unpack it.",
            )


SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_TEXT_KINDS: Final = (b"tEXt", b"zTXt", b"iTXt")
_FRAME_BYTES: Final = 12  # length, type and CRC of a chunk


class Chunk(Struct, frozen=True):
    """A chunk: its four-letter type and its content, without length and CRC."""

    kind: bytes
    content: bytes


class Png(Struct, frozen=True):
    """A PNG file: its chunks in order, and any data after the last one."""

    chunks: tuple[Chunk, ...]
    trailer: bytes = b""


def parse_png(raw: bytes, *, origin: str) -> Png:
    """Parse `raw` into chunks.

    Raises:
        BadInputError: It is not a PNG, is truncated, or a chunk's checksum does not match.
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
        raise DamagedError(f"{origin!r} is a damaged PNG: its header is missing")
    return Png(tuple(chunks), raw[at:])


def write_png(png: Png) -> bytes:
    """Serialise `png`."""
    parts = [SIGNATURE]
    for chunk in png.chunks:
        body = chunk.kind + chunk.content
        parts += [len(chunk.content).to_bytes(4, "big"), body, zlib.crc32(body).to_bytes(4, "big")]
    return b"".join([*parts, png.trailer])


def keyword_of(chunk: Chunk) -> str | None:
    """Return the keyword of a text chunk; None for other chunks."""
    if chunk.kind not in _TEXT_KINDS:
        return None
    keyword, end, _ = chunk.content.partition(b"\0")
    return keyword.decode("latin-1") if end else None


def text_of(chunk: Chunk, *, origin: str, limit_bytes: int = MAX_CARD_BYTES) -> bytes:
    """Return the text of a text chunk, inflating it if compressed.

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
        return _inflate(rest, origin, limit_bytes)
    if len(rest) > limit_bytes:
        raise _too_much(origin)
    return rest


def text_chunk(keyword: str, text: bytes) -> Chunk:
    """Build an uncompressed text chunk; `text` is ASCII."""
    return Chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + text)


def with_text(png: Png, replaced: Iterable[str], added: Iterable[Chunk]) -> Png:
    """Replace the text chunks with keywords in `replaced` (any case) by `added`.

    New chunks go before the image data, where every reader finds them.
    """
    names = {name.lower() for name in replaced}
    kept = [chunk for chunk in png.chunks if (keyword_of(chunk) or "").lower() not in names]
    data_starts = next((i for i, c in enumerate(kept) if c.kind == b"IDAT"), len(kept) - 1)
    return Png((*kept[:data_starts], *added, *kept[data_starts:]), png.trailer)


def _chunk_at(raw: bytes, at: int, origin: str) -> Chunk:
    length = int.from_bytes(raw[at : at + 4], "big")
    end = at + _FRAME_BYTES + length
    if len(raw) < end or len(raw) < at + _FRAME_BYTES:
        raise DamagedError(f"{origin!r} is an incomplete PNG", hint="Download it again.")
    body = raw[at + 4 : end - 4]
    if zlib.crc32(body) != int.from_bytes(raw[end - 4 : end], "big"):
        kind = body[:4].decode("latin-1")
        raise DamagedError(
            f"{origin!r} is a damaged PNG: the checksum of its {kind!r} chunk does not match",
            hint="Download it again.",
        )
    return Chunk(body[:4], body[4:])


def _inflate(packed: bytes, origin: str, limit_bytes: int) -> bytes:
    try:
        return inflate(packed, limit_bytes)
    except zlib.error as error:
        raise DamagedError(f"{origin!r} contains a damaged compressed text: {error}") from error
    except EOFError:
        raise DamagedError(f"{origin!r} contains an incomplete compressed text") from None
    except ValueError:
        raise _too_much(origin) from None


def _too_much(origin: str) -> BadInputError:
    return BadInputError(f"{origin!r} contains texts of more than {MAX_CARD_BYTES // MIB} MiB")


_KINDS: Final = ("png", "json", "yaml", "charx", "webp", "byaf")
SUFFIXES: Final = {"apng": ".png"} | {kind: f".{kind}" for kind in _KINDS}
V3_KEYWORD: Final = "ccv3"
V2_KEYWORD: Final = "chara"
ASSET_KEYWORD: Final = "chara-ext-asset_:"
ASSET_SCHEME: Final = "__asset:"
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_=\s-]{16,}")
_ASSET = re.compile(r"chara-ext-asset_:?(.+)", re.IGNORECASE | re.DOTALL)
_PICTURE_NAMES: Final = {"png": "picture", "webp": "WebP picture"}
_TWICE_ENCODED: Final = "the card was encoded twice; it is read as it was meant"
_NOT_PACKED: Final = "the card is plain JSON instead of base64"
_PICTURES: Final = ((b"\xff\xd8\xff", "JPEG"), (b"GIF8", "GIF"), (b"BM", "BMP"))
_HINT: Final = "A card is a PNG with a card in it, a .charx, a .json or a .yaml file."


class CardFile(Struct, frozen=True):
    """A file that contains a card.

    Args:
        container: `png`, `apng`, `json`, `yaml` or `charx`.
        value: The card as JSON, of any version.
        notes: Oddities of the container.
        members: Path and size in bytes of every other embedded file; in a PNG, its assets.
    """

    container: str
    value: Any
    notes: tuple[str, ...] = ()
    members: tuple[tuple[str, int], ...] = ()


def open_container(raw: bytes, *, origin: str) -> CardFile:
    """Extract the card from a file.

    Args:
        raw: The file's bytes.
        origin: Its name, for messages; a suffix of `.yaml` or `.yml` matters.

    Raises:
        BadInputError: It is damaged, too large, or contains no card.
    """
    if raw.startswith(SIGNATURE):
        return _open_png(raw, origin)
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return _open_exif(_webp_exif(raw), "webp", origin)
    text = _as_text(raw)
    if text is None or raw.startswith(b"PK"):
        return _open_charx(raw, origin)
    is_yaml = PurePath(origin).suffix.lower() in {".yaml", ".yml"}
    if text.startswith(("{", "[")) and not is_yaml:
        if len(raw) > MAX_CARD_BYTES:
            raise BadInputError(f"{origin!r} is JSON of more than {MAX_CARD_BYTES // MIB} MiB")
        value, notes = read_json(raw, origin=origin)
        return CardFile("json", value, notes)
    if not text:
        raise BadInputError(f"{origin!r} is empty", hint=_HINT)
    return _open_yaml(raw, origin)


def read_asset(raw: bytes, path: str, *, origin: str) -> bytes:
    """Read an embedded file other than the card, by its path in `members`.

    Raises:
        BadInputError: It does not exist or is damaged.
    """
    if not raw.startswith(SIGNATURE):
        return read_member(raw, path, origin=origin)
    for chunk in parse_png(raw, origin=origin).chunks:
        if _asset_path(chunk) == path:
            return _from_base64(text_of(chunk, origin=origin), origin)
    raise BadInputError(f"{origin!r} contains no asset {path!r}")


def card_chunks(*, v3_json: str, v2_json: str) -> tuple[Chunk, ...]:
    """Build the text chunks of a PNG card: V3, and V2 for older readers."""
    return (
        text_chunk(V2_KEYWORD, base64.b64encode(v2_json.encode("utf-8"))),
        text_chunk(V3_KEYWORD, base64.b64encode(v3_json.encode("utf-8"))),
    )


def asset_chunk(path: str, content: bytes) -> Chunk:
    """Build the text chunk for an asset in a PNG, referred to as `__asset:{path}`.

    Args:
        path: At most 60 Latin-1 characters.
        content: The asset's bytes.
    """
    return text_chunk(ASSET_KEYWORD + path, base64.b64encode(content))


def _open_png(raw: bytes, origin: str) -> CardFile:
    picture = parse_png(raw, origin=origin)
    items = _card_texts(picture, origin)
    if not items:
        exif = next((chunk.content for chunk in picture.chunks if chunk.kind == b"eXIf"), b"")
        return _open_exif(exif, "png", origin)
    value, notes = _first_readable(items, origin)
    if picture.trailer:
        rest, verb = len(picture.trailer), "follows" if len(picture.trailer) == 1 else "follow"
        notes = (*notes, f"{counted(rest, 'byte')} {verb} the end of the picture")
    members = tuple(
        (path, len(chunk.content.partition(b"\0")[2].rstrip(b"=")) * 3 // 4)
        for chunk in picture.chunks
        if (path := _asset_path(chunk)) is not None
    )
    is_animated = any(chunk.kind == b"acTL" for chunk in picture.chunks)
    return CardFile("apng" if is_animated else "png", value, notes, members)


def _open_exif(exif: bytes, container: str, origin: str) -> CardFile:
    """Read the card in the EXIF data of a picture.

    Raises:
        BadInputError: There is none.
    """
    text = _user_comment(exif)
    if not text:
        raise BadInputError(
            f"{origin!r} is a {_PICTURE_NAMES[container]} that does not contain a card",
            hint="Sites and chats that convert pictures remove the card; get the original file.",
        )
    value, notes = _card_text(text, origin)
    return CardFile(container, value, tuple(note for note in notes if note != _NOT_PACKED))


def _card_texts(picture: Png, origin: str) -> list[tuple[str, bytes]]:
    """Return keyword and text of each card in the picture, preferred one first.

    Raises:
        BadInputError: Together they inflate to more than the limit for a card.
    """
    items: list[tuple[str, bytes]] = []
    left = MAX_CARD_BYTES
    for chunk in picture.chunks:
        keyword = (keyword_of(chunk) or "").strip().lower()
        if keyword in (V3_KEYWORD, V2_KEYWORD):
            items.append((keyword, text_of(chunk, origin=origin, limit_bytes=left)))
            left -= len(items[-1][1])
    return sorted(items, key=lambda entry: entry[0] != V3_KEYWORD)


def _first_readable(items: list[tuple[str, bytes]], origin: str) -> tuple[Any, tuple[str, ...]]:
    notes: list[str] = []
    failures: list[BadInputError] = []
    for position, (keyword, text) in enumerate(items):
        try:
            value, odd = _card_text(text, origin)
        except BadInputError as error:
            failures.append(error)
            notes.append(f"the {keyword!r} text cannot be read ({error}); another one is used")
            continue
        others = [entry for entry in items[position + 1 :] if entry[1] != text]
        notes.extend(_differing_cards(keyword, value, others, origin))
        return value, (*notes, *odd)
    raise failures[0]


def _differing_cards(
    keyword: str, value: object, others: list[tuple[str, bytes]], origin: str
) -> Iterator[str]:
    """Describe how other cards in the same picture differ."""
    chosen = _texts_of(value)
    used = f"the first {keyword!r} text" if keyword in dict(others) else f"the {keyword!r} text"
    for other, text in others:
        try:
            theirs = _texts_of(_card_text(text, origin)[0])
        except BadInputError:
            yield f"another text, {other!r}, cannot be read; {used} is used"
            continue
        differing = [field for field in V1_FIELDS if theirs.get(field) != chosen.get(field)]
        if differing:
            listed = ", ".join(differing)
            yield f"another text, {other!r}, differs in {listed}; {used} is used"


def _texts_of(value: object) -> dict[str, Any]:
    outer = as_object(value)
    return as_object(outer.get("data", outer))


def _card_text(text: bytes, origin: str) -> tuple[Any, tuple[str, ...]]:
    if text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        value, odd = read_json(text, origin=origin)
        return value, (_NOT_PACKED, *odd)
    plain = _from_base64(text, origin)
    if _BASE64.fullmatch(plain) and not plain.lstrip().startswith((b"{", b"[")):
        value, odd = read_json(_from_base64(plain, origin), origin=origin)
        return value, (_TWICE_ENCODED, *odd)
    value, odd = read_json(plain, origin=origin)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value, odd = read_json(value, origin=origin)
        return value, (_TWICE_ENCODED, *odd)
    return value, odd


def _from_base64(text: bytes, origin: str) -> bytes:
    packed = b"".join(text.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=\0")
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DamagedError(f"{origin!r} contains damaged base64: {error}") from error


def _asset_path(chunk: Chunk) -> str | None:
    match = _ASSET.fullmatch(keyword_of(chunk) or "")
    return match[1] if match else None


def _open_charx(raw: bytes, origin: str) -> CardFile:
    if raw.startswith(b"PK") and not zipfile.is_zipfile(io.BytesIO(raw)):
        raise DamagedError(f"{origin!r} is a damaged zip archive", hint="Download it again.")
    if not zipfile.is_zipfile(io.BytesIO(raw)):
        raise BadInputError(f"{origin!r} is {_what_it_is(raw)}, not a character card", hint=_HINT)
    members, twice = list_members(raw, origin=origin)
    name = next((name for name in (CARD_NAME, BYAF_NAME) if name in members), None)
    if name is None:
        raise BadInputError(
            f"{origin!r} is a zip archive without a card.json at its root", hint=_HINT
        )
    card_json = read_member(raw, name, origin=origin, limit_bytes=MAX_CARD_BYTES)
    value, notes = read_json(card_json, origin=f"{origin}:{name}")
    others = tuple((path, size) for path, size in members.items() if path != name)
    doubled = (f"{one!r} is in the archive twice; the last one is used" for one in twice)
    kind = "charx" if name == CARD_NAME else "byaf"
    return CardFile(kind, value, (*notes, *doubled), others)


def _open_yaml(raw: bytes, origin: str) -> CardFile:
    value = read_yaml(raw, origin=origin)
    if not isinstance(value, dict):
        raise BadInputError(f"{origin!r} is text, not a character card", hint=_HINT)
    return CardFile("yaml", value)


def _as_text(raw: bytes) -> str | None:
    try:
        text = decode_text(raw).lstrip()
    except ValueError:
        return None
    return None if "\0" in text else text


def _what_it_is(raw: bytes) -> str:
    if raw.lstrip()[:1] in (b"{", b"["):
        return "text that is not UTF-8"
    for magic, name in _PICTURES:
        if raw.startswith(magic):
            return f"a {name} picture"
    return "binary data"


_EXIF_DIRECTORY: Final = 0x8769
_USER_COMMENT: Final = 0x9286
_ENTRY_BYTES: Final = 12
_INLINE_BYTES: Final = 4  # longer values stand elsewhere
_MOST_ENTRIES: Final = 1_000
_WIDE: Final = b"UNICODE\0"
_CODES: Final = (b"ASCII\0\0\0", _WIDE, b"JIS\0\0\0\0\0", b"\0" * 8)


def _webp_exif(raw: bytes) -> bytes:
    """Return the EXIF data of a WebP picture; empty if it has none."""
    at = 12
    while at + 8 <= len(raw):
        size = int.from_bytes(raw[at + 4 : at + 8], "little")
        if raw[at : at + 4] == b"EXIF":
            return raw[at + 8 : at + 8 + size]
        at += 8 + size + size % 2
    return b""


def _user_comment(exif: bytes) -> bytes:
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
