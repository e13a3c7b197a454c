"""Pack a card's value and what came with it into PNG, JSON or CHARX.

Assets move along, and their addresses change to what the new container understands: `__asset:` in a
PNG, `embeded://` in a CHARX, `data:` in JSON.
"""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap import charx, png
from familiar_cli.bootstrap.cards import V2_SPEC, V3_SPEC
from familiar_cli.bootstrap.containers import (
    ASSET_KEYWORD,
    ASSET_SCHEME,
    V2_KEYWORD,
    V3_KEYWORD,
    asset_chunk,
    card_chunks,
    open_container,
    read_asset,
)
from familiar_cli.bootstrap.json_text import dump_json
from familiar_cli.bootstrap.picture import draw

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_URI: Final = "ccdefault:"  # "this file's own picture"
_MAIN_PICTURE: Final = "assets/icon/images/main.png"
_MAX_PNG_PATH_CHARS: Final = 60  # what a PNG keyword leaves room for


@dataclass(frozen=True, slots=True)
class Carried:
    """What a card's original file carries besides the card.

    Args:
        content: The original's bytes; empty when there is none.
        origin: Its name, for messages.
        kind: Its container, or an empty string.
        paths: The files in it.
    """

    content: bytes = b""
    origin: str = ""
    kind: str = ""
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, content: bytes, origin: str) -> Carried:
        """Return what the file `content` carries.

        Raises:
            BadInputError: It is damaged.
        """
        if not content:
            return cls()
        opened = open_container(content, origin=origin)
        kind = "png" if opened.container == "apng" else opened.container
        return cls(content, origin, kind, tuple(path for path, _ in opened.members))

    def read(self, path: str) -> bytes:
        """Return one file of it."""
        return read_asset(self.content, path, origin=self.origin)

    def path_of(self, uri: object) -> str | None:
        """Return the file that an asset's `uri` means, when it is in here."""
        if not isinstance(uri, str):
            return None
        for scheme in (*charx.SCHEMES, ASSET_SCHEME):
            path = uri[len(scheme) :]
            if uri.startswith(scheme) and path in self.paths:
                return path
        return None


def pack_json(value: dict[str, Any], carried: Carried) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the value with its assets inside, and what stays behind."""
    used: set[str] = set()

    def address(path: str) -> str:
        used.add(path)
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        return f"data:{kind};base64,{base64.b64encode(carried.read(path)).decode('ascii')}"

    packed = _readdressed(value, carried, address)
    left_out = [path for path in carried.paths if path not in used]
    if carried.kind == "png":
        left_out.append("the picture")
    return packed, tuple(left_out)


def pack_png(value: dict[str, Any], carried: Carried) -> tuple[bytes, tuple[str, ...]]:
    """Return a PNG with the card for new and for old readers in it, and what stays behind."""
    if carried.kind == "png":
        picture = png.parse_png(carried.content, origin=carried.origin)
        return _with_card(picture, value, ()), ()
    main = _main_icon(value, carried)
    added: dict[str, png.Chunk] = {}

    def address(path: str) -> str:
        if path == main:
            return DEFAULT_URI
        added.setdefault(path, asset_chunk(_short(path, len(added)), carried.read(path)))
        return ASSET_SCHEME + (png.keyword_of(added[path]) or "").removeprefix(ASSET_KEYWORD)

    packed = _readdressed(value, carried, address)
    picture = (
        png.parse_png(carried.read(main), origin=main) if main else draw(str(value["data"]["name"]))
    )
    left_out = tuple(path for path in carried.paths if path not in added and path != main)
    return _with_card(picture, packed, tuple(added.values())), left_out


def pack_charx(value: dict[str, Any], carried: Carried) -> tuple[bytes, tuple[str, ...]]:
    """Return a CHARX archive with the card and every asset, and what stays behind: nothing."""
    if carried.kind == "charx":
        members = {path: carried.read(path) for path in carried.paths}
        return charx.write_charx(dump_json(_as_spec(value, V3_SPEC)), members), ()
    members = {}

    def address(path: str) -> str:
        place = f"assets/other/{_short(path, len(members))}"
        members[place] = carried.read(path)
        return charx.SCHEMES[0] + place

    packed = _as_spec(_readdressed(value, carried, address), V3_SPEC)
    if carried.kind == "png":
        picture = png.parse_png(carried.content, origin=carried.origin)
        members[_MAIN_PICTURE] = png.write_png(png.with_text(picture, _card_keywords(picture), ()))
        packed["data"]["assets"] = _with_main_icon(packed["data"].get("assets"))
    return charx.write_charx(dump_json(packed), members), ()


def _with_card(picture: png.Png, value: dict[str, Any], assets: tuple[png.Chunk, ...]) -> bytes:
    chunks = card_chunks(
        v3_json=dump_json(_as_spec(value, V3_SPEC), indent=None),
        v2_json=dump_json(_as_spec(value, V2_SPEC), indent=None),
    )
    return png.write_png(png.with_text(picture, (V2_KEYWORD, V3_KEYWORD), (*chunks, *assets)))


def _as_spec(value: dict[str, Any], spec: tuple[str, str]) -> dict[str, Any]:
    """Return the value under the version that a container asks for; a newer one keeps its name."""
    if spec == V3_SPEC and value["spec"] != V2_SPEC[0]:
        return dict(value, data=dict(value["data"]))
    data = dict(value["data"])
    if spec == V3_SPEC:
        data.setdefault("group_only_greetings", [])
    return value | {"spec": spec[0], "spec_version": spec[1], "data": data}


def _readdressed(
    value: dict[str, Any], carried: Carried, address: Callable[[str], str]
) -> dict[str, Any]:
    """Return the value with the `uri` of each asset that `carried` holds replaced."""
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


def _main_icon(value: dict[str, Any], carried: Carried) -> str | None:
    """Return the path of the card's own portrait, when it is a PNG in the original."""
    assets = value["data"].get("assets")
    icons = [
        asset
        for asset in (assets if isinstance(assets, list) else [])
        if isinstance(asset, dict) and asset.get("type") == "icon"
    ]
    icons.sort(key=lambda asset: asset.get("name") != "main")
    for asset in icons:
        path = carried.path_of(asset.get("uri"))
        if path and carried.read(path).startswith(png.SIGNATURE):
            return path
    return None


def _with_main_icon(assets: object) -> list[Any]:
    """Return the assets, with the picture that was the file itself named as one of them."""
    main = {
        "type": "icon",
        "uri": charx.SCHEMES[0] + _MAIN_PICTURE,
        "name": "main",
        "ext": "png",
    }
    others = assets if isinstance(assets, list) else []
    own = [a for a in others if isinstance(a, dict) and a.get("uri") == DEFAULT_URI]
    if not own:
        return [main, *others]
    return [a | {"uri": main["uri"], "ext": "png"} if a in own else a for a in others]


def _card_keywords(picture: png.Png) -> list[str]:
    """Return the keywords of the text chunks that belong to the card and not to the picture."""
    names = [name for chunk in picture.chunks if (name := png.keyword_of(chunk))]
    return [
        name
        for name in names
        if name.lower() in {V2_KEYWORD, V3_KEYWORD} or name.lower().startswith(ASSET_KEYWORD[:-1])
    ]


def _short(path: str, number: int) -> str:
    """Return a name for an asset that any container can hold, with the suffix it had."""
    plain = path.isascii() and path.isprintable() and not {"..", ""} & set(path.split("/"))
    if plain and len(path) <= _MAX_PNG_PATH_CHARS:
        return path
    suffix = PurePosixPath(path).suffix
    return f"{number}{suffix if suffix.isascii() and len(suffix) < 10 else ''}"  # noqa: PLR2004
