"""The kinds of file that carry a card: what is inside each, found by content and not by name."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap import charx, png
from familiar_cli.bootstrap.bounds import MAX_CARD_BYTES, MIB
from familiar_cli.bootstrap.card_fields import V1_FIELDS
from familiar_cli.bootstrap.json_text import decoded, read_json
from familiar_cli.bootstrap.yaml_text import read_yaml
from familiar_cli.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES: Final = {"png": ".png", "apng": ".png", "json": ".json", "yaml": ".yaml"} | {
    "charx": ".charx"
}
V3_KEYWORD: Final = "ccv3"
V2_KEYWORD: Final = "chara"
ASSET_KEYWORD: Final = "chara-ext-asset_:"
ASSET_SCHEME: Final = "__asset:"
_ASSET = re.compile(r"chara-ext-asset_:?(.+)", re.IGNORECASE | re.DOTALL)
_PICTURES: Final = ((b"\xff\xd8\xff", "JPEG"), (b"GIF8", "GIF"), (b"BM", "BMP"))
_HINT: Final = "A card is a PNG with a card in it, a .charx, a .json or a .yaml file."


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that carries a card.

    Args:
        container: `png`, `apng`, `json`, `yaml` or `charx`.
        value: The card as JSON, of whatever shape.
        notes: What was odd about the container.
        members: Path and size in bytes of every other file it carries; a PNG's are its assets.
    """

    container: str
    value: Any
    notes: tuple[str, ...] = ()
    members: tuple[tuple[str, int], ...] = ()


def open_container(raw: bytes, *, origin: str) -> Opened:
    """Return what `raw` carries.

    Args:
        raw: The file's bytes.
        origin: Its name, for messages; a suffix of `.yaml` or `.yml` counts.

    Raises:
        BadInputError: It is damaged, too large, or carries no card.
    """
    if raw.startswith(png.SIGNATURE):
        return _open_png(raw, origin)
    text = _as_text(raw)
    if text is None or raw.startswith(b"PK"):
        return _open_charx(raw, origin)
    is_yaml = PurePath(origin).suffix.lower() in {".yaml", ".yml"}
    if text.startswith(("{", "[")) and not is_yaml:
        if len(raw) > MAX_CARD_BYTES:
            raise BadInputError(f"{origin!r} is JSON of more than {MAX_CARD_BYTES // MIB} MiB")
        value, notes = read_json(raw, origin=origin)
        return Opened("json", value, notes)
    if not text:
        raise BadInputError(f"{origin!r} is empty", hint=_HINT)
    return _open_yaml(raw, origin)


def read_asset(raw: bytes, path: str, *, origin: str) -> bytes:
    """Return a file that the container carries besides the card, by its path in `members`.

    Raises:
        BadInputError: It is not there, or damaged.
    """
    if not raw.startswith(png.SIGNATURE):
        return charx.read_member(raw, path, origin=origin)
    for chunk in png.parse_png(raw, origin=origin).chunks:
        if _asset_path(chunk) == path:
            return _from_base64(png.text_of(chunk, origin=origin), origin)
    raise BadInputError(f"{origin!r} contains no asset {path!r}")


def card_chunks(*, v3_json: str, v2_json: str) -> tuple[png.Chunk, ...]:
    """Return the text chunks of a PNG card: V3 for those who know it, V2 for the others."""
    return (
        png.text_chunk(V2_KEYWORD, base64.b64encode(v2_json.encode("utf-8"))),
        png.text_chunk(V3_KEYWORD, base64.b64encode(v3_json.encode("utf-8"))),
    )


def asset_chunk(path: str, content: bytes) -> png.Chunk:
    """Return the text chunk that carries an asset in a PNG; refer to it as `__asset:{path}`.

    Args:
        path: At most 60 Latin-1 characters.
        content: The asset's bytes.
    """
    return png.text_chunk(ASSET_KEYWORD + path, base64.b64encode(content))


def _open_png(raw: bytes, origin: str) -> Opened:
    picture = png.parse_png(raw, origin=origin)
    found = _card_texts(picture, origin)
    if not found:
        raise BadInputError(
            f"{origin!r} is a picture that does not contain a card",
            hint="Sites and chats that convert pictures remove the card; get the original file.",
        )
    value, notes = _first_readable(found, origin)
    if picture.trailer:
        notes = (*notes, f"{len(picture.trailer)} bytes follow the end of the picture")
    members = tuple(
        (path, len(chunk.content.partition(b"\0")[2].rstrip(b"=")) * 3 // 4)
        for chunk in picture.chunks
        if (path := _asset_path(chunk)) is not None
    )
    return Opened("apng" if picture.animated else "png", value, notes, members)


def _card_texts(picture: png.Png, origin: str) -> list[tuple[str, bytes]]:
    """Return keyword and text of each card in the picture, the one to prefer first.

    Raises:
        BadInputError: Together they inflate to more than a card may have.
    """
    found: list[tuple[str, bytes]] = []
    left = MAX_CARD_BYTES
    for chunk in picture.chunks:
        keyword = (png.keyword_of(chunk) or "").strip().lower()
        if keyword in (V3_KEYWORD, V2_KEYWORD):
            found.append((keyword, png.text_of(chunk, origin=origin, limit_bytes=left)))
            left -= len(found[-1][1])
    return sorted(found, key=lambda entry: entry[0] != V3_KEYWORD)


def _first_readable(found: list[tuple[str, bytes]], origin: str) -> tuple[Any, tuple[str, ...]]:
    notes: list[str] = []
    failures: list[BadInputError] = []
    for position, (keyword, text) in enumerate(found):
        try:
            value, odd = _card_text(text, origin)
        except BadInputError as error:
            failures.append(error)
            notes.append(f"the {keyword!r} text cannot be read ({error}); another one is used")
            continue
        others = [entry for entry in found[position + 1 :] if entry[1] != text]
        notes.extend(_differences(keyword, value, others, origin))
        return value, (*notes, *odd)
    raise failures[0]


def _differences(
    keyword: str, value: object, others: list[tuple[str, bytes]], origin: str
) -> Iterator[str]:
    """Say where another card in the same picture tells another story."""
    chosen = _texts_of(value)
    for other, text in others:
        try:
            theirs = _texts_of(_card_text(text, origin)[0])
        except BadInputError:
            yield f"another text, {other!r}, cannot be read; {keyword!r} is used"
            continue
        differing = [field for field in V1_FIELDS if theirs.get(field) != chosen.get(field)]
        if differing:
            listed = ", ".join(differing)
            yield f"another text, {other!r}, differs in {listed}; the {keyword!r} text is used"


def _texts_of(value: object) -> dict[str, Any]:
    fields = value.get("data", value) if isinstance(value, dict) else {}
    return fields if isinstance(fields, dict) else {}


def _card_text(text: bytes, origin: str) -> tuple[Any, tuple[str, ...]]:
    if text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        value, odd = read_json(text, origin=origin)
        return value, ("the card is plain JSON instead of base64", *odd)
    return read_json(_from_base64(text, origin), origin=origin)


def _from_base64(text: bytes, origin: str) -> bytes:
    packed = b"".join(text.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=\0")
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInputError(f"{origin!r} contains damaged base64: {error}") from error


def _asset_path(chunk: png.Chunk) -> str | None:
    found = _ASSET.fullmatch(png.keyword_of(chunk) or "")
    return found[1] if found else None


def _open_charx(raw: bytes, origin: str) -> Opened:
    if not charx.is_zip(raw):
        raise BadInputError(f"{origin!r} is {_what_it_is(raw)}, not a character card", hint=_HINT)
    members, twice = charx.list_members(raw, origin=origin)
    if charx.CARD_NAME not in members:
        raise BadInputError(
            f"{origin!r} is a zip archive without a card.json at its root", hint=_HINT
        )
    card_json = charx.read_card_json(raw, origin=origin)
    value, notes = read_json(card_json, origin=f"{origin}:{charx.CARD_NAME}")
    others = tuple((path, size) for path, size in members.items() if path != charx.CARD_NAME)
    doubled = (f"{name!r} is in the archive twice; the last one is used" for name in twice)
    return Opened("charx", value, (*notes, *doubled), others)


def _open_yaml(raw: bytes, origin: str) -> Opened:
    value = read_yaml(raw, origin=origin)
    if not isinstance(value, dict):
        raise BadInputError(f"{origin!r} is text, not a character card", hint=_HINT)
    return Opened("yaml", value)


def _as_text(raw: bytes) -> str | None:
    try:
        text = decoded(raw).lstrip()
    except ValueError:
        return None
    return None if "\0" in text else text


def _what_it_is(raw: bytes) -> str:
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "a WebP picture"
    if raw.startswith(b"PK"):
        return "a damaged zip archive"
    if raw.lstrip()[:1] in (b"{", b"["):
        return "text that is not UTF-8"
    for magic, name in _PICTURES:
        if raw.startswith(magic):
            return f"a {name} picture"
    return "binary data"
