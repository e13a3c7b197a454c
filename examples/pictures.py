"""The portraits of the example characters, drawn from plain shapes."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 384, 512
FINE = 3  # drawn this much larger, then made smaller, so that edges are smooth

Point = tuple[float, float]
Box = tuple[float, float, float, float]


class Sheet:
    """A picture to draw on, in pixels of the finished size."""

    def __init__(self, top: str, bottom: str) -> None:
        column = Image.linear_gradient("L").resize((1, HEIGHT * FINE))
        column = Image.composite(
            Image.new("RGB", column.size, bottom), Image.new("RGB", column.size, top), column
        )
        self.image = column.resize((WIDTH * FINE, HEIGHT * FINE))
        self.pen = ImageDraw.Draw(self.image)

    def oval(self, box: Box, colour: str) -> None:
        """Fill an ellipse."""
        self.pen.ellipse([n * FINE for n in box], fill=colour)

    def disc(self, at: Point, radius: float, colour: str) -> None:
        """Fill a circle."""
        self.oval((at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius), colour)

    def block(self, box: Box, colour: str, *, corner: float = 0) -> None:
        """Fill a rectangle, perhaps with round corners."""
        self.pen.rounded_rectangle([n * FINE for n in box], corner * FINE, fill=colour)

    def shape(self, points: Sequence[Point], colour: str) -> None:
        """Fill a polygon."""
        self.pen.polygon([(x * FINE, y * FINE) for x, y in points], fill=colour)

    def line(self, points: Sequence[Point], colour: str, width: float) -> None:
        """Draw a line with round ends."""
        fine = [(x * FINE, y * FINE) for x, y in points]
        self.pen.line(fine, fill=colour, width=round(width * FINE), joint="curve")
        for x, y in (fine[0], fine[-1]):
            half = width * FINE / 2
            self.pen.ellipse((x - half, y - half, x + half, y + half), fill=colour)

    def arc(self, box: Box, start: float, end: float, colour: str, width: float) -> None:
        """Draw part of an ellipse's edge, in degrees clockwise from the right."""
        fine = [n * FINE for n in box]
        self.pen.arc(fine, start, end, fill=colour, width=round(width * FINE))

    def pie(self, box: Box, start: float, end: float, colour: str) -> None:
        """Fill a slice of an ellipse."""
        self.pen.pieslice([n * FINE for n in box], start, end, fill=colour)

    def glow(self, at: Point, radius: float, colour: str, strength: int = 150) -> None:
        """Light the air around a point."""
        mask = Image.new("L", self.image.size)
        x, y, r = at[0] * FINE, at[1] * FINE, radius * FINE
        ImageDraw.Draw(mask).ellipse((x - r / 2, y - r / 2, x + r / 2, y + r / 2), fill=strength)
        mask = mask.filter(ImageFilter.GaussianBlur(r / 3.5))
        self.image.paste(Image.new("RGB", self.image.size, colour), mask=mask)

    def png(self, size: tuple[int, int] = (WIDTH, HEIGHT)) -> bytes:
        """Return the picture, made smaller, as a PNG of few colours."""
        small = self.image.resize(size, Image.Resampling.LANCZOS)
        packed = io.BytesIO()
        small.quantize(192, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
        return packed.getvalue()


def smile(sheet: Sheet, at: Point, half: float, colour: str) -> None:
    """Draw a smiling mouth."""
    sheet.arc((at[0] - half, at[1] - half, at[0] + half, at[1] + half), 25, 155, colour, 2.4)


def yuzu() -> bytes:
    """Draw the clerk of the lost-property office, her shelves, and the night outside."""
    sheet = Sheet("#24344f", "#3d2f45")
    _window(sheet)
    _shelves(sheet)
    _clerk(sheet)
    _counter(sheet)
    return sheet.png()


def _window(sheet: Sheet) -> None:
    sheet.pie((100, 26, 284, 210), 180, 360, "#6f5136")
    sheet.block((100, 116, 284, 262), "#6f5136")
    sheet.pie((110, 36, 274, 200), 180, 360, "#16263f")
    sheet.block((110, 116, 274, 254), "#16263f")
    sheet.glow((232, 84), 62, "#fff1c4", 120)
    sheet.disc((232, 84), 18, "#fff1c4")
    for x, y in ((136, 120), (160, 76), (190, 58), (206, 116), (150, 98), (256, 130), (126, 146)):
        sheet.disc((x, y), 1.4, "#e9efff")
    sheet.shape(
        ((110, 216), (150, 158), (182, 206), (216, 146), (274, 222), (274, 254), (110, 254)),
        "#2f4568",
    )
    sheet.shape(((150, 158), (140, 173), (151, 170), (160, 175)), "#dfe8f5")
    sheet.shape(((216, 146), (202, 166), (216, 160), (230, 166)), "#dfe8f5")
    sheet.block((190, 36, 194, 254), "#6f5136")


def _shelves(sheet: Sheet) -> None:
    for x in (14, 296):
        for y in (118, 206, 294):
            sheet.block((x, y, x + 74, y + 7), "#8a6541", corner=2)
    _umbrella(sheet, (36, 60), "#d1495b")
    _umbrella(sheet, (66, 66), "#3e8e7e")
    sheet.glow((50, 176), 46, "#ffd27d", 170)
    sheet.block((36, 160, 64, 205), "#c9e4e7", corner=9)
    sheet.block((40, 153, 60, 161), "#a8794b", corner=2)
    sheet.disc((50, 184), 7, "#fff3cf")
    sheet.block((22, 262, 56, 293), "#b5835a", corner=4)
    sheet.line(((28, 262), (32, 252), (46, 252), (50, 262)), "#6f4a2f", 3)
    sheet.disc((75, 280), 13, "#e6b655")
    sheet.disc((75, 280), 9, "#fdf6e3")
    sheet.line(((75, 274), (75, 280), (80, 282)), "#4a3a2a", 2)
    for number, colour in enumerate(("#d9a441", "#7d9d5c", "#c06c4e", "#5b7aa6")):
        sheet.block(
            (302 + number * 14, 76 + number % 2 * 8, 313 + number * 14, 118), colour, corner=1
        )
    sheet.shape(((332, 150), (354, 176), (332, 204), (310, 176)), "#e27d60")
    sheet.line(((332, 150), (332, 204)), "#fbe8d3", 1.6)
    sheet.line(((310, 176), (354, 176)), "#fbe8d3", 1.6)
    sheet.block((312, 258, 334, 294), "#4e7d96", corner=6)
    sheet.block((312, 280, 352, 294), "#4e7d96", corner=6)


def _umbrella(sheet: Sheet, top: Point, colour: str) -> None:
    x, y = top
    sheet.shape(((x, y - 6), (x + 9, y + 34), (x - 9, y + 34)), colour)
    sheet.line(((x, y + 34), (x, y + 50)), "#caa472", 2.4)
    sheet.arc((x - 8, y + 44, x, y + 56), 0, 180, "#caa472", 2.4)


def _clerk(sheet: Sheet) -> None:
    sheet.glow((192, 250), 190, "#ffcf87", 70)
    sheet.oval((134, 172, 250, 316), "#2b2430")
    sheet.shape(((106, 420), (122, 346), (164, 322), (220, 322), (262, 346), (278, 420)), "#27406b")
    sheet.block((176, 292, 208, 336), "#f0c3a0", corner=8)
    sheet.shape(((168, 322), (192, 350), (216, 322), (206, 318), (192, 334), (178, 318)), "#f7f2e6")
    sheet.shape(((192, 338), (184, 358), (192, 392), (200, 358)), "#e0b13a")
    sheet.oval((146, 194, 238, 306), "#f8d5b5")
    sheet.pie((140, 178, 244, 292), 180, 360, "#2b2430")
    sheet.shape(
        (
            (146, 234),
            (168, 206),
            (176, 236),
            (196, 208),
            (210, 236),
            (222, 212),
            (238, 236),
            (238, 206),
            (192, 190),
            (146, 206),
        ),
        "#2b2430",
    )
    sheet.oval((138, 160, 246, 214), "#27406b")
    sheet.block((142, 190, 242, 210), "#1b2d4d", corner=5)
    sheet.oval((150, 200, 234, 222), "#141f36")
    sheet.disc((192, 184), 10, "#f2c84b")
    sheet.oval((189, 172, 201, 178), "#6fa65a")
    for x in (172, 212):
        sheet.oval((x - 5, 246, x + 5, 260), "#3a2a2a")
        sheet.disc((x + 1.6, 250), 1.8, "#ffffff")
        sheet.oval((x - 13, 264, x + 9, 274), "#f2b19b")
    sheet.line(((164, 238), (176, 236)), "#2b2430", 2)
    sheet.line(((208, 236), (220, 238)), "#2b2430", 2)
    smile(sheet, (192, 266), 12, "#a3473f")


def _counter(sheet: Sheet) -> None:
    sheet.block((0, 404, WIDTH, HEIGHT), "#7a4f30")
    sheet.block((0, 398, WIDTH, 416), "#a9713f")
    for y in (446, 482):
        sheet.block((0, y, WIDTH, y + 3), "#6a4329")
    sheet.pie((300, 366, 346, 412), 180, 360, "#e7c15a")
    sheet.block((294, 388, 352, 398), "#b8892f", corner=3)
    sheet.disc((323, 364), 4, "#e7c15a")
    sheet.block((44, 372, 122, 400), "#f5ead0", corner=3)
    sheet.disc((53, 386), 3.4, "#7a4f30")
    for y in (380, 387, 394):
        sheet.line(((64, y), (112 - (y - 380) * 2, y)), "#9a8764", 1.6)
    sheet.line(((50, 386), (34, 398)), "#c0392b", 1.6)
    sheet.oval((118, 386, 168, 412), "#f8d5b5")
    sheet.oval((216, 386, 266, 412), "#f8d5b5")


def gneiss() -> bytes:
    """Draw a mountain with a kind face, in the morning."""
    sheet = Sheet("#f6c89f", "#f9e7d0")
    sheet.glow((300, 120), 150, "#fff6dc", 200)
    sheet.disc((300, 120), 34, "#fff3c9")
    sheet.shape(
        ((0, 330), (60, 250), (120, 320), (200, 240), (384, 350), (384, 512), (0, 512)), "#b9a7b8"
    )
    body = (
        (18, 512),
        (58, 330),
        (104, 236),
        (150, 142),
        (196, 92),
        (236, 136),
        (276, 228),
        (330, 330),
        (370, 512),
    )
    sheet.shape(body, "#7c7f92")
    sheet.shape(
        (
            (196, 92),
            (236, 136),
            (276, 228),
            (330, 330),
            (370, 512),
            (262, 512),
            (238, 330),
            (214, 200),
        ),
        "#666a80",
    )
    sheet.shape(
        (
            (150, 142),
            (196, 92),
            (236, 136),
            (226, 164),
            (208, 146),
            (194, 172),
            (176, 148),
            (160, 168),
        ),
        "#fbfbff",
    )
    for y in (286, 396, 440):
        bend = [(x, y + 7 * math.sin(x / 21 + y)) for x in range(96, 300, 8)]
        sheet.line(bend, "#8f93a8", 3)
    for x in (158, 224):
        sheet.arc((x - 17, 236, x + 17, 268), 200, 340, "#34374a", 5)
        sheet.oval((x - 7, 248, x + 7, 264), "#34374a")
        sheet.disc((x + 2.5, 253), 2.4, "#ffffff")
    sheet.shape(((190, 262), (178, 312), (206, 312)), "#5a5e73")
    sheet.arc((142, 290, 240, 366), 25, 155, "#34374a", 6)
    for x, y, size in (
        (96, 420, 20),
        (120, 446, 26),
        (74, 452, 24),
        (296, 430, 22),
        (322, 456, 26),
        (270, 462, 20),
        (146, 470, 20),
        (236, 478, 24),
        (190, 486, 22),
    ):
        sheet.shape(((x, y - size * 1.7), (x + size * 0.62, y), (x - size * 0.62, y)), "#4d7358")
        sheet.block((x - 2, y, x + 2, y + 7), "#6b4a35")
    sheet.block((0, 494, WIDTH, HEIGHT), "#5d8463")
    sheet.disc((206, 80), 5, "#d1495b")
    sheet.block((203, 84, 209, 96), "#d1495b", corner=2)
    sheet.line(((213, 78), (213, 98)), "#5d4330", 1.8)
    for x, y in ((70, 130), (98, 112), (120, 140)):
        sheet.arc((x - 12, y - 6, x, y + 6), 200, 340, "#5b4a5a", 2.4)
        sheet.arc((x, y - 6, x + 12, y + 6), 200, 340, "#5b4a5a", 2.4)
    return sheet.png()


def ilmari() -> bytes:
    """Draw the postman of winds and his kite above the clouds."""
    sheet = Sheet("#4a90b8", "#e8f3f1")
    for x, y, size in ((60, 90, 26), (320, 150, 32), (40, 300, 24), (340, 330, 22)):
        _cloud(sheet, (x, y), size)
    sheet.shape(((192, 26), (284, 104), (192, 206), (100, 104)), "#e4572e")
    sheet.shape(((192, 26), (284, 104), (192, 104)), "#f3a712")
    sheet.shape(((192, 206), (100, 104), (192, 104)), "#f3a712")
    sheet.line(((192, 26), (192, 206)), "#6b3d23", 3)
    sheet.line(((100, 104), (284, 104)), "#6b3d23", 3)
    for x in (150, 234):
        sheet.line(((192, 206), (x, 372)), "#6b3d23", 2)
    sheet.shape(((128, 470), (140, 384), (172, 358), (212, 358), (244, 384), (256, 470)), "#2f6690")
    sheet.block((132, 420, 252, 428), "#f0c808")
    sheet.block((180, 336, 204, 364), "#e2ab83", corner=6)
    sheet.oval((152, 254, 232, 348), "#eebd96")
    sheet.pie((150, 286, 234, 362), 0, 180, "#c86b3c")
    sheet.oval((166, 290, 218, 334), "#eebd96")
    sheet.oval((146, 236, 238, 288), "#2f6690")
    sheet.block((148, 262, 236, 280), "#24527a", corner=5)
    sheet.block((180, 248, 204, 264), "#f4f1de", corner=2)
    sheet.line(((180, 248), (192, 258), (204, 248)), "#c86b3c", 1.8)
    for x in (176, 208):
        sheet.arc((x - 8, 292, x + 8, 306), 200, 340, "#3b2a20", 3)
    smile(sheet, (192, 314), 11, "#8f3b2e")
    sheet.shape(((110, 372), (150, 372), (150, 402), (110, 402)), "#f4f1de")
    sheet.line(((110, 372), (130, 390), (150, 372)), "#c8b88a", 2)
    for start, end in (((96, 380), (40, 366)), ((98, 392), (30, 396)), ((100, 402), (52, 420))):
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - 8)
        sheet.line((start, middle, end), "#ffffff", 2.4)
    sheet.oval((140, 384, 172, 406), "#eebd96")
    sheet.block((222, 398, 290, 452), "#8d5b3a", corner=6)
    sheet.block((222, 398, 290, 420), "#a46d48", corner=6)
    sheet.block((250, 412, 262, 424), "#f0c808", corner=2)
    _cloud(sheet, (110, 486), 40)
    _cloud(sheet, (250, 494), 46)
    return sheet.png()


def envelope() -> bytes:
    """Draw one of the envelopes that Ilmari carries: a small picture to go along as an asset."""
    sheet = Sheet("#cfe8ef", "#cfe8ef")
    sheet.block((48, 140, 336, 372), "#f4f1de", corner=10)
    sheet.shape(((48, 150), (192, 270), (336, 150), (326, 140), (58, 140)), "#e5dec0")
    sheet.disc((192, 262), 30, "#c0392b")
    for turn in range(3):
        sheet.arc(
            (178 - turn * 5, 248 - turn * 5, 206 + turn * 5, 276 + turn * 5),
            turn * 90,
            turn * 90 + 220,
            "#f7d9d3",
            3,
        )
    return sheet.png((96, 128))


def _cloud(sheet: Sheet, at: Point, size: float) -> None:
    x, y = at
    for dx, dy, part in ((-1.1, 0.2, 0.7), (0, -0.25, 1.0), (1.1, 0.15, 0.75), (0.3, 0.35, 0.8)):
        sheet.disc((x + dx * size, y + dy * size), part * size, "#ffffff")
