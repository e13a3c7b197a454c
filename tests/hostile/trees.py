"""Memory directories that nobody would make on purpose."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

NAMES = (
    b"plain.md",
    b"self",
    b"lore",
    b"card.json",
    b"\xff\xfe.md",
    b"\x1b[2J.md",
    b"a\nb.md",
    b"con.md",
    b"nul",
    b"a:b.md",
    b"back\\slash.md",
    b"trail. ",
    b" lead.md",
    "\u202egnp.md".encode(),
    "é.md".encode(),
    "e\u0301.md".encode(),
    b"E.MD",
    b"e.md",
    b".git",
    b".index",
    b".tmp-familiar-1-abc.new",
    b".hidden.md",
    b"description.md",
    b".original.png",
    b".lorebook.json",
    b"x" * 255,
    b"-rf",
    b"*.md",
)
LINKS = (b".", b"..", b"/", b"/dev/zero", b"/etc/passwd", b"missing", b"plain.md", b"a\x1b")


def plant(root: Path, outside: Path, rng: Random) -> None:
    """Fill `root` with files, links, pipes and directories of odd names; some lead `outside`."""
    directories = [os.fsencode(root)]
    for _ in range(rng.randrange(1, 25)):
        place = os.path.join(rng.choice(directories), rng.choice(NAMES))
        with suppress(OSError, ValueError):
            made = _make(place, os.fsencode(outside), rng)
            if made:
                directories.append(made)


def _make(place: bytes, outside: bytes, rng: Random) -> bytes | None:
    """Make one thing at `place`; return it when it is a directory to go on in."""
    match rng.randrange(9):
        case 0:
            os.symlink(rng.choice((*LINKS, outside, outside + b"/kept.md")), place)
        case 1:
            os.mkfifo(place)
        case 2 | 3:
            os.mkdir(place)
            return place
        case 4:
            return _deep(place, rng.choice((3, 40, 300)))
        case 5:
            _write(place, b"\xff\xfe not text")
        case 6:
            _write(place, b"")
            os.truncate(place, rng.choice((10, 300_000, 3_000_000_000)))
        case 7:
            _write(place, b"# \x1b[2J\n\n<!-- lorebook entry 0123456789ab -->\n")
            os.utime(place, (0, rng.choice((-1, 0, 10**11, 2**40))))
        case _:
            _write(place, b"# Title\n\ntext \xe5\x9f\x8e\n" * rng.choice((1, 2000)))
    return None


def _deep(place: bytes, levels: int) -> bytes:
    os.mkdir(place)
    here = place
    for _ in range(levels):
        here = os.path.join(here, b"d" * 10)
        os.mkdir(here)
    return here


def _write(place: bytes, content: bytes) -> None:
    with open(place, "xb") as file:
        file.write(content)
