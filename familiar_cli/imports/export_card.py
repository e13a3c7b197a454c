"""Export a card from memory, edits included, as PNG, JSON or CHARX."""

from __future__ import annotations

import base64
import mimetypes
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath, PurePosixPath
from typing import Any, Final, Literal, cast

from msgspec import Struct

from familiar_cli.base.errors import BadInputError, FamiliarError, LimitError, NotFoundError
from familiar_cli.base.text import digest_of
from familiar_cli.imports import cards, containers, lorebook_shelf
from familiar_cli.imports.containers import (
    ASSET_KEYWORD,
    ASSET_SCHEME,
    V2_KEYWORD,
    V3_KEYWORD,
    Chunk,
    Png,
    asset_chunk,
    card_chunks,
    open_container,
    read_asset,
)
from familiar_cli.imports.export_lorebook import export_book
from familiar_cli.imports.foreign_files import (
    OWN_DEPTH,
    dump_json,
    json_line,
    object_list,
    read_json,
    to_storable,
)
from familiar_cli.imports.lorebook_shelf import same_book
from familiar_cli.imports.reading import load_book
from familiar_cli.store.history.attachments import media_type
from familiar_cli.store.memory.layout import CARD_JSON
from familiar_cli.store.memory.pages.front_matter import field_text, self_file
from familiar_cli.store.memory.store.store import MemoryStore

WIDTH: Final = 192
HEIGHT: Final = 288


def draw_picture(name: str) -> Png:
    """Draw a plain picture whose colour depends on `name`."""
    colour = bytes(64 + byte // 2 for byte in digest_of(name, 3))
    pixels = zlib.compress((b"\0" + colour * WIDTH) * HEIGHT)
    header = WIDTH.to_bytes(4, "big") + HEIGHT.to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    return Png((Chunk(b"IHDR", header), Chunk(b"IDAT", pixels), Chunk(b"IEND", b"")))


DEFAULT_URI: Final = "ccdefault:"  # "this file's own picture"
_MAIN_PICTURE: Final = "assets/icon/images/main.png"
_MAX_PNG_PATH_CHARS: Final = 60  # longest name that fits a PNG keyword


class CardAttachments(Struct, frozen=True):
    """The files embedded in a card's original besides the card.

    Args:
        content: The original's bytes; empty if there is none.
        origin: Its name, for messages.
        kind: Its container type, or an empty string.
        paths: The embedded files.
    """

    content: bytes = b""
    origin: str = ""
    kind: str = ""
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, content: bytes, origin: str) -> CardAttachments:
        """Open the file `content`.

        Raises:
            BadInputError: It is damaged.
        """
        if not content:
            return cls()
        opened = open_container(content, origin=origin)
        kind = "png" if opened.container == "apng" else opened.container
        return cls(content, origin, kind, tuple(path for path, _ in opened.members))

    def read(self, path: str) -> bytes:
        """Read an embedded file."""
        return read_asset(self.content, path, origin=self.origin)

    def path_of(self, uri: object) -> str | None:
        """Return the embedded file that an asset's `uri` refers to, if any."""
        if not isinstance(uri, str):
            return None
        for scheme in (*containers.SCHEMES, ASSET_SCHEME):
            path = uri[len(scheme) :]
            if uri.startswith(scheme) and path in self.paths:
                return path
        return None


def pack_json(
    value: dict[str, Any], carried: CardAttachments
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the value with its assets embedded, and what had to be left out."""
    used: set[str] = set()

    def address(path: str) -> str:
        used.add(path)
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        return f"data:{kind};base64,{base64.b64encode(carried.read(path)).decode('ascii')}"

    packed = _readdress_assets(value, carried, address)
    left_out = [path for path in carried.paths if path not in used]
    if carried.kind == "png":
        left_out.append("the picture")
    return packed, tuple(left_out)


def pack_png(value: dict[str, Any], carried: CardAttachments) -> tuple[bytes, tuple[str, ...]]:
    """Build a PNG with the card for new and old readers; also return what was left out."""
    if carried.kind == "png":
        picture = containers.parse_png(carried.content, origin=carried.origin)
        return _with_card(picture, value, ()), ()
    main = _main_icon(value, carried)
    added: dict[str, containers.Chunk] = {}

    def address(path: str) -> str:
        if path == main:
            return DEFAULT_URI
        added.setdefault(path, asset_chunk(_asset_name(path, len(added)), carried.read(path)))
        return ASSET_SCHEME + (containers.keyword_of(added[path]) or "").removeprefix(ASSET_KEYWORD)

    packed = _readdress_assets(value, carried, address)
    picture = (
        containers.parse_png(carried.read(main), origin=main)
        if main
        else draw_picture(str(value["data"]["name"]))
    )
    left_out = tuple(path for path in carried.paths if path not in added and path != main)
    return _with_card(picture, packed, tuple(added.values())), left_out


def pack_charx(value: dict[str, Any], carried: CardAttachments) -> tuple[bytes, tuple[str, ...]]:
    """Build a CHARX archive with the card and every asset; nothing is left out."""
    if carried.kind == "charx":
        members = {path: carried.read(path) for path in carried.paths}
        return containers.write_charx(dump_json(_as_spec(value, cards.V3_SPEC)), members), ()
    members = {}

    def address(path: str) -> str:
        place = f"assets/other/{_asset_name(path, len(members))}"
        members[place] = carried.read(path)
        return containers.SCHEMES[0] + place

    packed = _as_spec(_readdress_assets(value, carried, address), cards.V3_SPEC)
    if carried.kind == "png":
        picture = containers.parse_png(carried.content, origin=carried.origin)
        members[_MAIN_PICTURE] = containers.write_png(
            containers.with_text(picture, _card_keywords(picture), ())
        )
        packed["data"]["assets"] = _with_main_icon(packed["data"].get("assets"))
    return containers.write_charx(dump_json(packed), members), ()


def _with_card(
    picture: containers.Png, value: dict[str, Any], assets: tuple[containers.Chunk, ...]
) -> bytes:
    chunks = card_chunks(
        v3_json=json_line(_as_spec(value, cards.V3_SPEC)),
        v2_json=json_line(_as_spec(value, cards.V2_SPEC)),
    )
    return containers.write_png(
        containers.with_text(picture, (V2_KEYWORD, V3_KEYWORD), (*chunks, *assets))
    )


def _as_spec(value: dict[str, Any], spec: tuple[str, str]) -> dict[str, Any]:
    """Set the version that a container requires, unless the card's is newer."""
    if spec == cards.V3_SPEC and value["spec"] != cards.V2_SPEC[0]:
        return dict(value, data=dict(value["data"]))
    data = dict(value["data"])
    if spec == cards.V3_SPEC:
        data.setdefault("group_only_greetings", [])
    return value | {"spec": spec[0], "spec_version": spec[1], "data": data}


def _readdress_assets(
    value: dict[str, Any], carried: CardAttachments, address: Callable[[str], str]
) -> dict[str, Any]:
    """Replace the `uri` of each asset embedded in `carried`."""
    assets = value["data"].get("assets")
    if not isinstance(assets, list):
        return value
    moved = [
        asset | {"uri": address(path)}
        if isinstance(asset, dict) and (path := carried.path_of(asset.get("uri")))
        else asset
        for asset in assets
    ]
    return value | {"data": value["data"] | {"assets": moved}}


def _main_icon(value: dict[str, Any], carried: CardAttachments) -> str | None:
    """Return the path of the card's own portrait, if it is a PNG in the original."""
    icons = [
        asset for asset in object_list(value["data"].get("assets")) if asset.get("type") == "icon"
    ]
    icons.sort(key=lambda asset: asset.get("name") != "main")
    for asset in icons:
        path = carried.path_of(asset.get("uri"))
        if path and carried.read(path).startswith(containers.SIGNATURE):
            return path
    return None


def card_picture(store: MemoryStore) -> tuple[bytes, str]:
    """Return the card's picture and its media type; no bytes if it has none."""
    content, origin = cards.original_file(store)
    with suppress(FamiliarError):
        carried = CardAttachments.of(content, origin)
        if carried.kind not in {"", "png"}:
            path = _main_icon({"data": dict(_kept_card(store).get("data") or {})}, carried)
            content = carried.read(path) if path else b""
    kind = media_type(content)
    return (content, kind) if kind else (b"", "")


def _with_main_icon(assets: object) -> list[Any]:
    """Return the assets, with the picture that was the file itself listed by name."""
    main = {
        "type": "icon",
        "uri": containers.SCHEMES[0] + _MAIN_PICTURE,
        "name": "main",
        "ext": "png",
    }
    others = assets if isinstance(assets, list) else []
    own = [a for a in others if isinstance(a, dict) and a.get("uri") == DEFAULT_URI]
    if not own:
        return [main, *others]
    return [a | {"uri": main["uri"], "ext": "png"} if a in own else a for a in others]


def _card_keywords(picture: containers.Png) -> list[str]:
    """Return the keywords of the text chunks that belong to the card, not the picture."""
    names = [name for chunk in picture.chunks if (name := containers.keyword_of(chunk))]
    return [
        name
        for name in names
        if name.lower() in {V2_KEYWORD, V3_KEYWORD} or name.lower().startswith(ASSET_KEYWORD[:-1])
    ]


def _asset_name(path: str, number: int) -> str:
    """Return an asset name valid in any container, keeping its suffix."""
    plain = path.isascii() and path.isprintable() and not {"..", ""} & set(path.split("/"))
    if plain and len(path) <= _MAX_PNG_PATH_CHARS:
        return path
    suffix = PurePosixPath(path).suffix
    return f"{number}{suffix if suffix.isascii() and len(suffix) < 10 else ''}"  # noqa: PLR2004


CardFormat = Literal["png", "json", "charx"]


def format_of_file(path: PurePath) -> CardFormat:
    """Return the format implied by a file's name; a picture by default."""
    formats: dict[str, CardFormat] = {".json": "json", ".charx": "charx"}
    return formats.get(path.suffix.lower(), "png")


class CardExport(Struct, frozen=True):
    """An exported card.

    Args:
        content: The file's bytes.
        left_out: Files of the original that this format cannot contain.
    """

    content: bytes
    left_out: tuple[str, ...] = ()


def export_card(store: MemoryStore, card_format: CardFormat, *, default_name: str) -> CardExport:
    """Export the familiar as a card, edits included.

    Args:
        store: The familiar's memory.
        card_format: The output format.
        default_name: The name of a familiar that was not made from a card.

    Raises:
        NotFoundError: `self/` is empty.
        BadInputError: `self/card.json` or the original is unreadable.
    """
    value = current_value(store, default_name=default_name)
    carried = CardAttachments.of(*cards.original_file(store))
    if card_format == "json":
        packed, left_out = pack_json(value, carried)
        return CardExport((dump_json(packed) + "\n").encode("utf-8"), left_out)
    pack = pack_png if card_format == "png" else pack_charx
    content, left_out = pack(value, carried)
    return CardExport(content, left_out)


def current_value(store: MemoryStore, *, default_name: str) -> dict[str, Any]:
    """Return the card as JSON from the current memory, in its original version.

    Raises:
        NotFoundError: As `export_card`.
        BadInputError: As `export_card`.
    """
    card = _kept_card(store)
    spec = card.get("spec") or cards.V3_SPEC[0]
    data = dict(card.get("data") or {})
    data.setdefault("name", default_name)
    for field in cards.FILE_FIELDS:
        _put_text(store, field, data)
    _put_book(store, card.get("book"), data)
    required = cards.REQUIRED if spec == cards.V2_SPEC[0] else cards.REQUIRED_V3
    for field, empty in required.items():
        data.setdefault(field, empty())
    value = {
        key: data[field] for key, field in (card.get("repeated") or {}).items() if field in data
    }
    value |= card.get("top_level") or {}
    version = card.get("spec_version") or cards.V3_SPEC[1]
    return value | {"spec": spec, "spec_version": version, "data": _in_order(data)}


def _kept_card(store: MemoryStore) -> cards.KeptCard:
    if not store.exists(CARD_JSON):
        if not any(store.exists(self_file(field).rel_path) for field in cards.FILE_FIELDS):
            raise NotFoundError(
                "There is nothing in self/ to export",
                hint="Write `self/description.md`, or start with `familiar init`.",
            )
        return {}
    value, _ = read_json(store.read_bytes(CARD_JSON), origin=CARD_JSON, max_depth=OWN_DEPTH)
    parts = ("data", "top_level", "repeated")
    objects = isinstance(value, dict) and all(isinstance(value.get(p, {}), dict) for p in parts)
    if objects and all(isinstance(field, str) for field in value.get("repeated", {}).values()):
        return cast("cards.KeptCard", value)
    raise BadInputError(
        f"{CARD_JSON!r} is not an object with an object 'data' in it",
        hint="Unpack the card again with `familiar init --from-card FILE --overwrite`.",
    )


def _put_text(store: MemoryStore, field: str, data: dict[str, Any]) -> None:
    """Set the field from its file; a deleted file leaves it empty."""
    rel_path = self_file(field).rel_path
    value = data.get(field)
    if not store.exists(rel_path):
        if isinstance(value, str) and to_storable(value) != value:
            data[field] = ""
        return
    text = field_text(store.read_file(rel_path))
    # A file cannot hold lone surrogates; unedited text is exported with its original ones.
    if not (isinstance(value, str) and to_storable(value) == text):
        data[field] = text


def _put_book(store: MemoryStore, directory: object, data: dict[str, Any]) -> None:
    if not isinstance(directory, str):
        return
    try:
        data["character_book"] = export_book(
            store, directory=directory, book_format="card", book_id=_own_book(store, directory)
        )
    except NotFoundError:
        return


def _own_book(store: MemoryStore, directory: str) -> str:
    """Return the id of the card's own book among several in a directory; empty: unknown."""
    settings = lorebook_shelf.load_settings(store, directory)
    if len(settings.books) <= 1:
        return ""
    content, origin = cards.original_file(store)
    try:
        return same_book(settings, load_book(content, origin=origin)) or ""
    except (BadInputError, LimitError):
        return ""


def _in_order(data: dict[str, Any]) -> dict[str, Any]:
    known = {field: data[field] for field in cards.KNOWN_FIELDS if field in data}
    return known | data
