"""`DeskProvider` and `DigestsProvider`: memory files with a fixed place in prompts.

The desk has due reminders, and at the highest tier the scratchpad and the tasks. A digest
summarises the last sessions, the last weeks, or everything before. It stays the same until it is
made again, so it belongs to the stable part of the prompt. Of the latest sessions, the oldest are
dropped first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import tzinfo
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.languages import Phrases
from familiar_cli.base.markdown import body_start, sections
from familiar_cli.base.text import cut_to
from familiar_cli.base.who.visibility import PUBLIC, SHARED, Viewer
from familiar_cli.context.budget import MESSAGE_TOKENS
from familiar_cli.context.tiers import LONG, MID, SHORT, is_loaded, why_withheld
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan, Subject, held_back
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.lines import machine_spans, shown_between
from familiar_cli.store.memory.pages.visible_lines import line_for, private_spans, sha256_seen

if TYPE_CHECKING:
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.store.memory.desk import DeskItem
    from familiar_cli.store.memory.store.files import MemoryHead
    from familiar_cli.store.memory.store.store import MemoryStore

DUE: Final = 92
TASKS_PRIORITY: Final = 54
SCRATCH_PRIORITY: Final = 53
CONFLICTS_PRIORITY: Final = 52


class _VisibleFile(Struct, frozen=True):
    """A file, and its visible part in a channel."""

    head: MemoryHead
    hidden_lines: frozenset[int]
    viewer: Viewer

    def items(self) -> list[DeskItem]:
        from familiar_cli.store.memory.desk import items_in  # noqa: PLC0415  # only where there is such a file

        found = items_in(self.head.text)
        return [item for item in found if item.is_open and item.line not in self.hidden_lines]

    def number(self, line: int) -> int:
        """Return the number of a line as the viewer counts."""
        start = sum(len(one) + 1 for one in self.head.text.split("\n")[: line - 1])
        return line_for(self.head.text, start, self.viewer, self.head.rel_path)

    def told(self, items: list[DeskItem], phrases: Phrases) -> list[str]:
        """Return the lines of some items, with their continuation lines."""
        from familiar_cli.store.memory.desk import with_details  # noqa: PLC0415  # only where there is such a file

        lines = self.head.text.split("\n")
        parts: list[str] = []
        for item, below in with_details(self.head.text, items):
            parts.append(_item_line(item, phrases))
            parts += [lines[n - 1].rstrip() for n in below if n not in self.hidden_lines]
        return parts

    def text(self) -> str:
        lines = self.head.text.removeprefix("\ufeff").split("\n")
        shown = (line for n, line in enumerate(lines, start=1) if n not in self.hidden_lines)
        return "\n".join(shown).strip()


class DeskProvider(Struct, eq=False):
    """Provides reminders, tasks and the scratchpad. A file is data: nothing in it is expanded.

    Args:
        zone: The familiar's timezone; None for the system's.
    """

    name = "desk"
    looks_at = f"{layout.REMINDERS}, {layout.TASKS}, {layout.SCRATCH} and {layout.CONFLICTS_LIST}"

    store: MemoryStore
    zone: tzinfo | None
    deadline_s: float = 2.0

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the tasks, the scratchpad and what is due, as far as the tier has them."""
        makers: dict[str, Callable[[_VisibleFile, ContextRequest], Contribution | None]] = {
            layout.TASKS: self._tasks,
            layout.SCRATCH: self._scratch,
            layout.REMINDERS: self._reminders,
            layout.CONFLICTS_LIST: self._conflicts,
        }
        offered = []
        for rel_path, make in makers.items():
            if not is_loaded(rel_path, request.tier):
                continue
            try:
                seen = self._read_visible(rel_path, request)
                offered.append(make(seen, request) if seen else None)
            except FamiliarError as error:
                offered.append(_problem_contribution(rel_path, str(error)))
        return [piece for piece in offered if piece]

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a file of the desk is not in a prompt; see `Explains`."""
        rel_path = subject.rel_path
        if rel_path not in {layout.REMINDERS, layout.TASKS, layout.SCRATCH, layout.CONFLICTS_LIST}:
            return None
        if higher := why_withheld(rel_path, request.tier):
            return higher
        if rel_path == layout.CONFLICTS_LIST:
            return "" if self.store.exists(rel_path) else "no file is in conflict"
        seen = self._read_visible(rel_path, request)
        if seen is None or rel_path == layout.SCRATCH:
            return "" if seen and seen.text() else "it is empty"
        if not seen.items():
            return "nothing in it is open"
        from familiar_cli.store.memory.desk import due_items  # noqa: PLC0415  # only where there is such a file

        is_due = rel_path == layout.TASKS or due_items(seen.items(), request.at, self.zone)
        return "" if is_due else "nothing in it is due yet"

    def _read_visible(self, rel_path: str, request: ContextRequest) -> _VisibleFile | None:
        try:
            head = self.store.read_head(rel_path, self.store.limits.max_file_bytes)
        except NotFoundError:
            return None
        spans = private_spans(head.text, request.viewer, rel_path)
        hidden = {1 + head.text.count("\n", 0, start) for start, _ in spans}
        front = head.text.count("\n", 0, body_start(head.text))
        hidden |= set(range(1, front + 1))
        return _VisibleFile(head, frozenset(hidden), request.viewer)

    def _reminders(self, seen: _VisibleFile, request: ContextRequest) -> Contribution | None:
        from familiar_cli.store.memory.desk import due_items  # noqa: PLC0415  # only where there is such a file

        due = due_items(seen.items(), request.at, self.zone)
        listed = [_item_line(item, request.phrases) for item in due]
        text = "\n".join([request.phrases.due_reminders, *listed])
        return _desk_piece(seen, listed, due, text, DUE)

    def _tasks(self, seen: _VisibleFile, request: ContextRequest) -> Contribution | None:
        items = seen.items()
        listed = seen.told(items, request.phrases)
        text = "\n".join([request.phrases.open_tasks, *listed])
        return _desk_piece(seen, listed, items, text, TASKS_PRIORITY)

    def _scratch(self, seen: _VisibleFile, request: ContextRequest) -> Contribution | None:
        text = seen.text()
        told = f"{request.phrases.scratchpad}\n{text}"
        return _desk_piece(seen, text, [], told, SCRATCH_PRIORITY)

    def _conflicts(self, seen: _VisibleFile, request: ContextRequest) -> Contribution | None:
        from familiar_cli.store.memory.merge.files import listed_conflicts  # noqa: PLC0415  # only where there is such a file

        listed_ = []
        for one in listed_conflicts(seen.head.text):
            between = " / ".join(filter(None, (one.ours, one.theirs)))
            listed_.append(f"- {one.path} ({between})" if between else f"- {one.path}")
        text = "\n".join([request.phrases.open_conflicts, *listed_])
        return _desk_piece(seen, listed_, [], text, CONFLICTS_PRIORITY)


def _item_line(item: DeskItem, phrases: Phrases) -> str:
    when = f" ({phrases.due.format(item.due.written)})" if item.due else ""
    return f"- {item.text}{when}"


def _desk_piece(
    seen: _VisibleFile, holds: object, items: list[DeskItem], text: str, priority: int
) -> Contribution | None:
    if not holds:
        return None
    lines = [item.line for item in items] or [1, 1 + seen.head.text.rstrip().count("\n")]
    is_due = priority == DUE
    return Contribution(
        layer=Layer.desk,
        priority=priority,
        text=text,
        source=f"desk.{seen.head.rel_path.removesuffix('.md').removesuffix('/README')}",
        place=PromptSpan.depth if is_due else PromptSpan.desk,
        depth=1,
        rel_path=seen.head.rel_path,
        fit=Fit.cut,
        lines=(seen.number(min(lines)), seen.number(max(lines))),
        sha256=sha256_seen(seen.head.text, seen.head.sha256, seen.viewer, seen.head.rel_path),
        shortened="" if seen.head.is_whole else "only its beginning is read: memory.max_file_bytes",
    )


def _problem_contribution(rel_path: str, why: str) -> Contribution:
    return Contribution(
        layer=Layer.desk,
        priority=0,
        text="",
        source=f"desk.{rel_path.removesuffix('.md')}",
        place=PromptSpan.desk,
        rel_path=rel_path,
        problem=why,
    )


_plain: Final = layout.path_without_scope
PRIORITIES: Final = {LONG: 57, MID: 58, SHORT: 59}
"""Below the chat and the example dialogues: a digest tells what nobody asked about yet."""

SHARES: Final = {LONG: 0.2, MID: 0.3, SHORT: 0.5}
"""What of the layer each digest has for itself; what one leaves is there for the others."""

_BEYOND: Final = 3  # priority penalty of what exceeds a digest's share


def digests_for(request: ContextRequest) -> list[str]:
    """Return the digests for a prompt: public ones, and those of the viewer's scopes."""
    scopes = request.viewer.page_scopes
    digests = [rel_path for rel_path in PRIORITIES if is_loaded(rel_path, request.tier)]
    paths = [layout.path_in_scope(rel_path, scope) for scope in scopes for rel_path in digests]

    def rank(path: str) -> int:
        is_public = layout.scope_of_path(path) in {PUBLIC, SHARED}
        return digests.index(_plain(path)) if is_public else len(digests)

    return sorted(paths, key=rank)


class DigestsProvider(Struct, eq=False):
    """Provides the digests. A file is data: nothing in it is expanded.

    Args:
        count: Counts tokens.
    """

    name = "digests"
    looks_at = f"{layout.DIGEST_DIR}/short.md, mid.md and long.md"

    store: MemoryStore
    count: Callable[[str], int]
    deadline_s: float = 2.0

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the digests of the tier, what is longest ago first."""
        loaded = digests_for(request)
        offered = {rel_path: self._offers(rel_path, request) for rel_path in loaded}
        for rel_path in loaded:
            if layout.scope_of_path(rel_path) == SHARED and offered[_plain(rel_path)]:
                offered[rel_path] = []
        room = request.layer_tokens.get(Layer.digest, request.budget_tokens)
        costs = {path: sum(map(self._cost, pieces)) for path, pieces in offered.items()}
        if sum(costs.values()) > room:
            share = room // len(
                {layout.scope_of_path(path) for path, cost in costs.items() if cost}
            )
            offered = {
                path: self._within(pieces, int(SHARES[_plain(path)] * share))
                for path, pieces in offered.items()
            }
        return [piece for pieces in offered.values() for piece in pieces]

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a digest is not in a prompt; see `Explains`."""
        rel_path = subject.rel_path
        if rel_path is None or not rel_path.startswith(f"{layout.DIGEST_DIR}/"):
            return None
        if _plain(rel_path) not in PRIORITIES:
            return f"in {layout.DIGEST_DIR}/, only short.md, mid.md and long.md are read"
        if layout.scope_of_path(rel_path) not in request.viewer.page_scopes:
            return "it belongs to a private conversation"
        higher = why_withheld(rel_path, request.tier)
        return higher or ("" if self._offers(rel_path, request) else "it is empty")

    def _cost(self, piece: Contribution) -> int:
        return MESSAGE_TOKENS + self.count(piece.text)

    def _within(self, pieces: list[Contribution], share: int) -> list[Contribution]:
        """Split a digest: its newest part has priority within its share, the rest uses free room.

        Each of the three digests is in the prompt, however long another one is.
        """
        contributions: list[Contribution] = []
        for piece in reversed(pieces):
            cost = self._cost(piece)
            if cost <= share:
                contributions.insert(0, piece)
                share -= cost
                continue
            contributions[:0] = self._divide_piece(piece, share)
            share = 0
        return contributions

    def _divide_piece(self, piece: Contribution, room: int) -> list[Contribution]:
        """Split a piece into its share and the rest, which has lower priority."""
        head = cut_to(piece.text, room - MESSAGE_TOKENS, self.count) if room else ""
        rest = piece.text[len(head) :].strip()
        later = replace(piece, text=rest, priority=piece.priority - _BEYOND)
        return [*([replace(piece, text=head)] if head else []), *([later] if rest else [])]

    def _offers(self, rel_path: str, request: ContextRequest) -> list[Contribution]:
        try:
            head = self.store.read_head(rel_path, self.store.limits.max_file_bytes)
        except NotFoundError:
            return []
        except FamiliarError as error:
            return [_digest_piece(rel_path, problem=str(error))]
        start = body_start(head.text)
        is_short = _plain(rel_path) == SHORT
        shown = _file_sections(head.text, start) if is_short else [(start, len(head.text))]
        hidden = private_spans(head.text, request.viewer, rel_path)
        pieces = (_visible_part(head, place, hidden, request.viewer) for place in shown)
        return [piece for piece in pieces if piece]


def _file_sections(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield the character range of each H2 section, in order."""
    starts = sorted({start, *(one.start for one in sections(text, 2) if one.level == 2)})  # noqa: PLR2004
    yield from zip(starts, [*starts[1:], len(text)], strict=True)


def _visible_part(
    head: MemoryHead, span: tuple[int, int], hidden: list[tuple[int, int]], viewer: Viewer
) -> Contribution | None:
    """Return the visible part of a file; None if it is empty."""
    start, end = span
    inside = any(a < end and b > start for a, b in hidden)
    text = shown_between(head.text, start, end, sorted((*hidden, *machine_spans(head.text))))
    is_short = _plain(head.rel_path) == SHORT
    if not text or (text.startswith("# ") and "\n" not in text and is_short):
        return None  # a title with nothing below it
    ends = (start, start + len(head.text[start:end].rstrip()))
    first, last = (line_for(head.text, place, viewer, head.rel_path) for place in ends)
    shortened = held_back(viewer) if inside else ""
    if not head.is_whole:
        shortened = "only the beginning of the file is read: memory.max_file_bytes"
    sha256 = sha256_seen(head.text, head.sha256, viewer, head.rel_path)
    return _digest_piece(head.rel_path, text, (first, last), sha256, shortened=shortened)


def _digest_piece(
    rel_path: str,
    text: str = "",
    lines: tuple[int, int] | None = None,
    sha256: str = "",
    *,
    shortened: str = "",
    problem: str = "",
) -> Contribution:
    digest = _plain(rel_path)
    return Contribution(
        layer=Layer.digest,
        priority=0 if problem else PRIORITIES[digest],
        text=text,
        source=f"digest.{layout.told_path(rel_path).removeprefix(f'{layout.DIGEST_DIR}/').removesuffix('.md')}",
        place=PromptSpan.digest,
        rel_path=rel_path,
        fit=Fit.newest if digest == SHORT else Fit.cut,
        lines=lines,
        sha256=sha256,
        shortened=shortened,
        problem=problem,
    )
