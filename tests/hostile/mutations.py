"""Damage done to valid input: bytes, JSON, PNG chunks, archives, database pages."""

from __future__ import annotations

import base64
import copy
import io
import json
import struct
import warnings
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

TRICKS = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\xbd",
    b"\x1b]0;title\x07\x1b[2J",
    b"\r\n",
    b"{" * 300,
    b"[" * 100_000,
    b'{"a":' * 3000,
    b"9" * 5000,
    b"NaN",
    b"1e999",
    b"-Infinity",
    b"../../evil",
    "\u202egnp.exe".encode(),
    b"&a [*a, *a]",
    b"!!python/object/apply:os.system",
    b"'''",
    b'"""',
    b"PK\x01\x02" * 50,
    b"\x89PNG\r\n\x1a\n",
    b"IEND",
)
TEXTS = (
    "",
    " ",
    "\0",
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "\u202egnp.exe",
    "\ud83d",
    "../../../evil",
    "/evil",
    "C:\\evil",
    "con",
    "a" * 70_000,
    "\n" * 3000,
    "{{char}}" * 500,
    "{{random:" * 200 + "}}" * 200,
    "# heading\n\n**Disabled**",
    "<!-- lorebook entry 0123456789ab -->",
    "/(a+)+$/i",
    "@@depth 4\n@@@role user",
    "İﬁ\u0301\u2028",
    "data:image/png;base64,AAAA",
    "embeded://../../evil",
    "__asset:../x",
    "ccdefault:",
    "\ufeff",
    "[b]x[/b] [/b]",
)
_VALUES = (
    *TEXTS,
    None,
    True,
    False,
    0,
    -1,
    2**63,
    -(2**70),
    10**400,
    1.5,
    -0.0,
    1e308,
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": None},
    ["a", 1, None, ["b"]],
    {"a": {"b": {"c": []}}},
    "RAW:NaN",
    "RAW:1e999",
    "RAW:" + "[" * 200 + "]" * 200,
    "RAW:" + "[" * 100_000,
    "RAW:" + "9" * 5000,
    'RAW:{"a":1,"a":2}',
    "RAW:",
)


def damage(rng: Random, raw: bytes) -> bytes:
    """Return `raw` with one to eight bits, bytes, pieces or ends of it changed."""
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(out) + 1)
        end = min(at + rng.choice((1, 2, 4, 16, 200)), len(out))
        match rng.randrange(8):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(out):
                out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del out[at:]
            case 3:
                del out[at:end]
            case 4:
                out[at:at] = rng.choice(TRICKS)
            case 5:
                out[at:at] = out[at:end]
            case 6:
                out[at:end] = rng.randbytes(end - at)
            case _:
                out[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(out)


def damage_json(rng: Random, value: Any) -> bytes:
    """Return JSON in which one to four nodes of `value` became something else, or moved."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            break
        parent, key = rng.choice(places)
        _change(rng, parent, key, places)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    return _with_raw(text).encode("utf-8", errors="surrogatepass")


def _change(rng: Random, parent: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    match rng.randrange(6):
        case 0:
            del parent[key]
        case 1:
            other, name = rng.choice(places)
            parent[key] = copy.deepcopy(other[name])
        case 2 if isinstance(parent, dict):
            name = rng.choice(TEXTS)
            parent[name] = parent.pop(key)
        case 3:
            several = 1 if isinstance(parent[key], dict | list) else rng.choice((1, 2, 50))
            parent[key] = [parent[key]] * several
        case 4:
            parent[key] = {rng.choice(TEXTS): parent[key]}
        case _:
            parent[key] = copy.deepcopy(rng.choice(_VALUES))


def _places(value: Any) -> list[tuple[Any, Any]]:
    found, waiting = [], [value]
    while waiting:
        item = waiting.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item))
        for key in keys:
            found.append((item, key))
            if isinstance(item[key], dict | list):
                waiting.append(item[key])
    return found


def _with_raw(text: str) -> str:
    for value in _VALUES:
        if isinstance(value, str) and value.startswith("RAW:"):
            text = text.replace(json.dumps(value), value[4:])
    return text


def damage_png(rng: Random, raw: bytes) -> bytes:
    """Return a PNG whose chunks were changed, doubled, reordered or dropped; checksums fit."""
    chunks = chunks_of(raw)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(chunks))
        kind, content = chunks[at]
        match rng.randrange(8):
            case 0:
                chunks.insert(rng.randrange(len(chunks) + 1), (kind, content))
            case 1:
                rng.shuffle(chunks)
            case 2 if len(chunks) > 1:
                del chunks[at]
            case 3:
                chunks[at] = (rng.choice((b"tEXt", b"zTXt", b"iTXt", b"IDAT", b"acTL")), content)
            case 4:
                chunks[at] = (kind, damage(rng, content))
            case 5:
                chunks.insert(at, _bomb(rng))
            case 6:
                chunks[at] = (rng.randbytes(4), content)
            case _:
                chunks[at] = (kind, _damage_base64(rng, content))
    packed = [b"\x89PNG\r\n\x1a\n", *(frame(*chunk) for chunk in chunks)]
    if rng.random() < 0.1:
        packed.append(rng.choice(TRICKS))
    return b"".join(packed)


def chunks_of(raw: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 8
    while at + 12 <= len(raw):
        (length,) = struct.unpack(">I", raw[at : at + 4])
        found.append((raw[at + 4 : at + 8], raw[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def frame(kind: bytes, content: bytes) -> bytes:
    crc = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)


def _bomb(rng: Random) -> tuple[bytes, bytes]:
    packed = zlib.compress(b"e30" * rng.choice((10, 1_000_000)))
    keyword = rng.choice((b"chara", b"ccv3", b"CHARA", b"chara-ext-asset_:../x", b""))
    if rng.random() < 0.5:
        return b"zTXt", keyword + b"\0\0" + packed[: rng.choice((len(packed), 40))]
    return b"iTXt", keyword + b"\0\1\0\0\0" + packed


def _damage_base64(rng: Random, content: bytes) -> bytes:
    keyword, mark, text = content.partition(b"\0")
    try:
        inner = base64.b64decode(text, validate=True)
    except ValueError:
        return damage(rng, content)
    try:
        made = damage_json(rng, json.loads(inner)) if rng.random() < 0.7 else damage(rng, inner)
    except ValueError:
        made = damage(rng, inner)
    packed = base64.b64encode(made)
    packed = damage(rng, packed) if rng.random() < 0.2 else packed
    return keyword + mark + packed


def damage_zip(rng: Random, raw: bytes, outside: str) -> bytes:
    """Return an archive with members that a careless reader would regret."""
    made = io.BytesIO()
    with (
        warnings.catch_warnings(action="ignore", category=UserWarning),  # of doubled names
        zipfile.ZipFile(io.BytesIO(raw)) as old,
        zipfile.ZipFile(made, "w") as new,
    ):
        members = [(info, old.read(info)) for info in old.infolist()]
        for info, content in members:
            info.compress_type = rng.choice((0, 8, 8, 8, 12, 14))
            changed = _damage_member(rng, info.filename, content)
            if rng.random() > 0.05:
                new.writestr(info, changed)
            if rng.random() < 0.15:
                _add_evil(rng, new, outside)
    raw = made.getvalue()
    if rng.random() < 0.4:
        raw = _damage_directory(rng, raw)
    return damage(rng, raw) if rng.random() < 0.2 else raw


def _damage_member(rng: Random, name: str, content: bytes) -> bytes:
    if name != "card.json" or rng.random() < 0.4:
        return content
    return damage_json(rng, json.loads(content)) if rng.random() < 0.8 else damage(rng, content)


def _add_evil(rng: Random, archive: zipfile.ZipFile, outside: str) -> None:
    names = ("../../evil", f"{outside}/evil", "C:\\evil", "..\\evil", "card.json", "a\0b", "con")
    info = zipfile.ZipInfo("x", (1980, 1, 1, 0, 0, 0))
    others = ("CARD.JSON", "x/" * 300, "ü" * 200, "card.json/", "\x1b[2J")
    info.filename = rng.choice((*names, *others))
    info.compress_type = zipfile.ZIP_DEFLATED
    if rng.random() < 0.3:
        info.external_attr = 0o120777 << 16  # a symbolic link
        archive.writestr(info, f"{outside}/evil")
    else:
        archive.writestr(info, b"0" * rng.choice((10, 2_000_000)))


def _damage_directory(rng: Random, raw: bytes) -> bytes:
    """Lie about sizes, flags, methods and counts, where a zip says them."""
    out = bytearray(raw)
    marks = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06")
    for _ in range(rng.choice((1, 2, 5))):
        at = out.rfind(rng.choice(marks), 0, rng.randrange(4, len(out) + 1))
        if at < 0:
            continue
        field = at + rng.choice((4, 6, 8, 10, 12, 16, 20, 24, 26, 28, 30, 32, 38, 42))
        if field + 4 <= len(out):
            out[field : field + 2] = rng.choice((b"\1\0", b"\x08\0", b"\xff\xff", rng.randbytes(2)))
    return bytes(out)


def damage_pages(rng: Random, raw: bytes) -> bytes:
    """Return an SQLite file with damaged, swapped, doubled or missing pages or header fields."""
    out = bytearray(raw)
    size = int.from_bytes(out[16:18], "big") or 4096
    pages = max(len(out) // size, 1)
    for _ in range(rng.choice((1, 1, 2, 6))):
        first, second = (rng.randrange(pages) * size for _ in range(2))
        match rng.randrange(6):
            case 0:
                at = rng.choice((16, 18, 24, 28, 44, 56, 60, 68, 92, 100, 103, 105))
                out[at : at + 2] = rng.choice((b"\0\0", b"\xff\xff", rng.randbytes(2)))
            case 1:
                out[first : first + size], out[second : second + size] = (
                    out[second : second + size],
                    out[first : first + size],
                )
            case 2:
                out[first : first + size] = bytes(size)
            case 3:
                del out[first:]
            case _:
                at = first + rng.randrange(size)
                out[at : at + 1] = bytes([rng.randrange(256)])
        if len(out) < 100:
            break
    return bytes(out)


def either(rng: Random, *ways: Callable[[], bytes]) -> bytes:
    """Do one of `ways`."""
    return rng.choice(ways)()
