"""What a caller may see: files without the private sections of others, turns of open channels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import in_zone
from familiar_cli.errors import NotFoundError
from familiar_cli.index.dates import day_in, last_day
from familiar_cli.mcp_server.tool import Item
from familiar_cli.memory.pages.evidence import spans, turn_ids
from familiar_cli.memory.pages.links import is_page
from familiar_cli.memory.pages.outward import outward
from familiar_cli.memory.pages.privacy import owned
from familiar_cli.memory.store.paths import parse
from familiar_cli.text import framed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.history.types import Turn
    from familiar_cli.mcp_server.tool import Caller
    from familiar_cli.memory.pages.evidence import Numbering
    from familiar_cli.memory.store.types import MemoryFile

_MOST_LINES: Final = 60  # of one item; so far a citation of lines may be off


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as a caller may see it.

    Args:
        file: The file.
        lines: Its lines, without their ends, with their numbers from 1; private ones are missing.
        numbering: Which turns it cites.
    """

    file: MemoryFile
    lines: tuple[tuple[int, str], ...]
    numbering: Numbering

    @property
    def text(self) -> str:
        """What is left of it."""
        return "\n".join(text for _, text in self.lines)

    def items(self) -> Iterator[Item]:
        """Yield it in pieces: a section each, or as many of its lines as one citation bears."""
        day = day_of(self.file.rel_path)
        for piece in _pieces(self.lines):
            text = "\n".join(line for _, line in piece).strip("\n")
            if text.strip():
                about = {"path": self.file.rel_path, "lines": f"{piece[0][0]}-{piece[-1][0]}"}
                yield Item(
                    {**about, **cited(text, self.numbering), **({"date": day} if day else {})}, text
                )


def see(caller: Caller, path: str) -> SeenFile:
    """Return a file as a caller may see it.

    Raises:
        NotFoundError: There is no such file, or it is the program's own.
        UnsafePathError: The path leads outside the memory.
    """
    rel_path = parse(path)
    if not is_readable(rel_path):
        raise NotFoundError(
            f"There is no memory file {framed(path)!r}",
            hint="Memory files are Markdown; memory_list names them.",
        )
    file = caller.familiar.memory.read(rel_path)
    viewer = caller.viewer
    caller.reads.note(caller.session, rel_path, outward(file.text, viewer))
    lines = tuple(
        (number, line.text.rstrip("\r\n"))
        for number, (line, scopes) in enumerate(owned(file.text), 1)
        if viewer.sees(scopes)
    )
    return SeenFile(file, lines, caller.familiar.numbering)


def is_readable(rel_path: str) -> bool:
    """Return whether a path can be that of a memory, and not of what the program keeps beside."""
    hidden = any(part.startswith(".") for part in rel_path.split("/"))
    return is_page(rel_path) and not hidden


def day_of(rel_path: str) -> str:
    """Return the day that a file's name says it is about, or an empty string."""
    day = None if last_day(rel_path) else day_in(rel_path)
    return day.isoformat() if day else last_day(rel_path)


def cited(text: str, numbering: Numbering) -> dict[str, str]:
    """Return the turns that a text names as its evidence, if any."""
    named = spans(turn_ids(text, numbering))
    return {"turns": named} if named else {}


def turn_item(caller: Caller, turn: Turn, speaker: str) -> Item:
    """Return a turn that the caller may see."""
    at = in_zone(turn.at, caller.familiar.zone)
    about = {
        "turns": str(turn.id),
        "date": at.isoformat(timespec="minutes"),
        "channel": turn.channel_id,
        "speaker": speaker,
    }
    return Item(about, turn.content)


def speaker_of(caller: Caller, turn: Turn) -> str:
    """Return what the one who said a turn is called here."""
    familiar = caller.familiar
    if turn.role == "assistant":
        return framed(familiar.name)
    if turn.author is None:
        return "Somebody"
    return familiar.labels((turn.author,), caller.channel_id or "").of(turn.author)


def _pieces(lines: tuple[tuple[int, str], ...]) -> Iterator[list[tuple[int, str]]]:
    """Yield runs of lines that belong together and follow each other."""
    section = 0

    def place(numbered: tuple[int, tuple[int, str]]) -> tuple[int, int, int]:
        nonlocal section
        position, (number, text) = numbered
        if text.startswith("#"):
            section += 1
        return number - position, section, position // _MOST_LINES

    for _, run in groupby(enumerate(lines), place):
        yield [line for _, line in run]
