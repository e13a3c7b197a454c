"""A simple picture for a card that has none: a moon over hills, coloured after the name."""

from __future__ import annotations

import colorsys
import hashlib
import math
import zlib
from typing import Final

from familiar_cli.bootstrap.png import Chunk, Png

WIDTH: Final = 192
HEIGHT: Final = 288
_MOON_RADIUS: Final = 34
_EDGE: Final = 1.5  # pixels over which an edge fades

Colour = tuple[float, float, float]


def draw(name: str) -> Png:
    """Return the picture for `name`; the same name gives the same picture."""
    seed = hashlib.sha256(name.encode("utf-8", errors="replace")).digest()
    sky = _colour(seed[0] / 255, 0.45, 0.32)
    glow = _colour(seed[1] / 255, 0.35, 0.92)
    hill = _colour(seed[0] / 255 + 0.08, 0.55, 0.17)
    moon = (WIDTH * (0.3 + seed[2] / 255 * 0.4), HEIGHT * 0.3)
    wave = seed[3] / 255 * math.tau
    rows = (_row(y, sky=sky, glow=glow, hill=hill, moon=moon, wave=wave) for y in range(HEIGHT))
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    header = WIDTH.to_bytes(4, "big") + HEIGHT.to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    return Png((Chunk(b"IHDR", header), Chunk(b"IDAT", pixels), Chunk(b"IEND", b"")))


def _row(
    y: int, *, sky: Colour, glow: Colour, hill: Colour, moon: tuple[float, float], wave: float
) -> bytes:
    air = _mix(sky, glow, (y / HEIGHT) ** 2 * 0.7)
    row = bytearray()
    for x in range(WIDTH):
        lit = _cover(_MOON_RADIUS - math.hypot(x - moon[0], y - moon[1]))
        ridge = HEIGHT * 0.78 + 16 * math.sin(x / 31 + wave) + 7 * math.sin(x / 10 + 2 * wave)
        colour = _mix(_mix(air, glow, lit), hill, _cover(y - ridge))
        row += bytes(round(255 * part) for part in colour)
    return bytes(row)


def _cover(distance: float) -> float:
    """Return how much of a pixel is covered, `distance` pixels inside an edge."""
    return min(max(distance / _EDGE + 0.5, 0.0), 1.0)


def _mix(one: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (a + (b - a) * share for a, b in zip(one, other, strict=True))
    return red, green, blue


def _colour(hue: float, saturation: float, value: float) -> Colour:
    return colorsys.hsv_to_rgb(hue % 1, saturation, value)
