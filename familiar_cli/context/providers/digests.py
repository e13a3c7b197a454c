"""`DigestsProvider`: what was, in short: the last sessions, the last weeks, and all before.

A digest stays as it is until it is made again, so it stands where the prompt stays the same from
turn to turn. Of the latest sessions the oldest go first when there is too little room.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from familiar_cli.context.budget import MESSAGE_TOKENS
from familiar_cli.context.tiers import LONG, MID, SHORT, is_loaded, withheld
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan
from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.jobs import in_thread
from familiar_cli.markdown import body_start, sections
from familiar_cli.memory.layout import DIGEST_DIR
from familiar_cli.memory.pages.machine_text import machine_spans, shown_between
from familiar_cli.memory.pages.privacy import private_spans
from familiar_cli.truncate import cut_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.context.types import ContextRequest, Subject
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import MemoryHead

PRIORITIES: Final = {LONG: 57, MID: 58, SHORT: 59}
"""Below the chat and the example dialogues: a digest tells what nobody asked about yet."""

SHARES: Final = {LONG: 0.2, MID: 0.3, SHORT: 0.5}
"""What of the layer each digest has for itself; what one leaves is there for the others."""

_BEYOND: Final = 3  # so much lower is the priority of what goes beyond a digest's share


class DigestsProvider:
    """Offers the digests. A file is data: nothing in it is expanded.

    Args:
        store: The memory.
        count: Counts tokens.
        deadline_s: How long it may take.
    """

    name: Final = "digests"
    looks_at: Final = f"{DIGEST_DIR}/short.md, mid.md and long.md"

    def __init__(
        self,
        store: MemoryStore,
        count: Callable[[str], int],
        *,
        deadline_s: float = 2.0,
    ) -> None:
        self.deadline_s = deadline_s
        self._count = count
        self._store = store

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the digests of the tier, what is longest ago first."""
        return await in_thread(partial(self._read, request))

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a digest is not in a prompt; see `protocols.Explains`."""
        rel_path = subject.rel_path
        if rel_path is None or not rel_path.startswith(f"{DIGEST_DIR}/"):
            return None
        if rel_path not in PRIORITIES:
            return f"of {DIGEST_DIR}/ only short.md, mid.md and long.md are read"
        higher = withheld(rel_path, request.tier)
        return higher or ("" if self._offers(rel_path, request) else "it is empty")

    def _read(self, request: ContextRequest) -> list[Contribution]:
        loaded = [rel_path for rel_path in PRIORITIES if is_loaded(rel_path, request.tier)]
        offered = {rel_path: self._offers(rel_path, request) for rel_path in loaded}
        room = request.layer_tokens.get(Layer.digest, request.budget_tokens)
        costs = {path: sum(map(self._cost, pieces)) for path, pieces in offered.items()}
        if sum(costs.values()) > room:
            offered = {
                path: self._within(pieces, int(SHARES[path] * room))
                for path, pieces in offered.items()
            }
        return [piece for pieces in offered.values() for piece in pieces]

    def _cost(self, piece: Contribution) -> int:
        return MESSAGE_TOKENS + self._count(piece.text)

    def _within(self, pieces: list[Contribution], share: int) -> list[Contribution]:
        """Return a digest, the newest of it first in line for its share, the rest for what is left.

        Each of the three is in the prompt, however long another one is.
        """
        kept: list[Contribution] = []
        for piece in reversed(pieces):
            cost = self._cost(piece)
            if cost <= share:
                kept.insert(0, piece)
                share -= cost
                continue
            kept[:0] = self._divided(piece, share)
            share = 0
        return kept

    def _divided(self, piece: Contribution, room: int) -> list[Contribution]:
        """Return what of a piece has its share, and the rest of it, which waits behind others."""
        head = cut_to(piece.text, room - MESSAGE_TOKENS, self._count) if room else ""
        rest = piece.text[len(head) :].strip()
        later = replace(piece, text=rest, priority=piece.priority - _BEYOND)
        return [*([replace(piece, text=head)] if head else []), *([later] if rest else [])]

    def _offers(self, rel_path: str, request: ContextRequest) -> list[Contribution]:
        try:
            head = self._store.read_head(rel_path, self._store.limits.max_file_bytes)
        except NotFoundError:
            return []
        except FamiliarError as error:
            return [_piece(rel_path, problem=str(error))]
        start = body_start(head.text)
        shown = _sections(head.text, start) if rel_path == SHORT else [(start, len(head.text))]
        hidden = private_spans(head.text, request.viewer)
        pieces = (_shown(head, start, end, hidden) for start, end in shown)
        return [piece for piece in pieces if piece]


def _sections(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield where each section below an H2 stands, as characters from … to, in order."""
    starts = sorted({start, *(found.start for found in sections(text, 2) if found.level == 2)})  # noqa: PLR2004
    yield from zip(starts, [*starts[1:], len(text)], strict=True)


def _shown(
    head: MemoryHead, start: int, end: int, hidden: list[tuple[int, int]]
) -> Contribution | None:
    """Return a part of a file as a reader sees it; None when that is nothing."""
    inside = any(a < end and b > start for a, b in hidden)
    text = shown_between(head.text, start, end, sorted((*hidden, *machine_spans(head.text))))
    if not text or (text.startswith("# ") and "\n" not in text and head.rel_path == SHORT):
        return None  # a title with nothing below it
    first = 1 + head.text.count("\n", 0, start)
    last = first + head.text[start:end].rstrip().count("\n")
    shortened = "without what was said in private elsewhere" if inside else ""
    if not head.is_whole:
        shortened = "only the beginning of the file is read: memory.max_file_bytes"
    return _piece(head.rel_path, text, (first, last), head.sha256, shortened=shortened)


def _piece(
    rel_path: str,
    text: str = "",
    lines: tuple[int, int] | None = None,
    sha256: str = "",
    *,
    shortened: str = "",
    problem: str = "",
) -> Contribution:
    return Contribution(
        layer=Layer.digest,
        priority=0 if problem else PRIORITIES[rel_path],
        text=text,
        source=f"digest.{rel_path.removeprefix(f'{DIGEST_DIR}/').removesuffix('.md')}",
        place=PromptSpan.digest,
        rel_path=rel_path,
        fit=Fit.newest if rel_path == SHORT else Fit.cut,
        lines=lines,
        sha256=sha256,
        shortened=shortened,
        problem=problem,
    )
