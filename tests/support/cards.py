"""Cards and containers to test with, put together byte by byte."""

from __future__ import annotations

import base64
import json
import zlib

from familiar_cli.imports.containers import Chunk, Png, text_chunk, write_charx, write_png
from familiar_cli.imports.export_card import draw_picture

TINY = draw_picture("test")
V2_DATA = {
    "name": "Ilse",
    "description": "{{char}} mends clocks.",
    "personality": "exact",
    "scenario": "",
    "first_mes": "It ticks again.",
    "mes_example": "<START>\n{{user}}: late?\n{{char}}: Never.",
    "creator_notes": "made for tests",
    "system_prompt": "",
    "post_history_instructions": "Stay brief.",
    "alternate_greetings": ["Oh!", "時計は好き？"],
    "tags": ["clock", "test"],
    "creator": "me",
    "character_version": "1",
    "extensions": {"depth_prompt": {"prompt": "tick", "depth": 4, "role": "system"}},
}


def v2(**changes):
    return {"spec": "chara_card_v2", "spec_version": "2.0", "data": V2_DATA | changes}


def v3(**changes):
    data = V2_DATA | {"group_only_greetings": []} | changes
    return {"spec": "chara_card_v3", "spec_version": "3.0", "data": data}


def as_json(value) -> bytes:
    return json.dumps(value).encode()


def encoded(value) -> bytes:
    return base64.b64encode(as_json(value))


def png_with(*chunks, after=False) -> bytes:
    """Return a picture with `chunks` before its data, or after it."""
    at = 2 if after else 1
    return write_png(Png((*TINY.chunks[:at], *chunks, *TINY.chunks[at:])))


def png_card(value, keyword="chara") -> bytes:
    return png_with(text_chunk(keyword, encoded(value)))


def ztxt(keyword, text) -> Chunk:
    return Chunk(b"zTXt", keyword.encode() + b"\0\0" + zlib.compress(text))


def itxt(keyword, text, *, packed) -> Chunk:
    content = zlib.compress(text) if packed else text
    return Chunk(b"iTXt", keyword.encode() + b"\0" + bytes([packed]) + b"\0en\0\0" + content)


def charx_card(value, members=None, prefix=b"") -> bytes:
    return prefix + write_charx(json.dumps(value), members or {})
