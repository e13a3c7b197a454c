"""Texts that a person put into every prompt: pinned files, the author's note and injections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import counted, framed
from familiar_cli.context.budget import MESSAGE_TOKENS
from familiar_cli.context.tiers import loaded_whole
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan, Subject, held_back
from familiar_cli.store.memory.pages.front_matter import SELF_FILES
from familiar_cli.store.memory.pages.visible_lines import numbered_text, sha256_seen
from familiar_cli.store.search.build import Pins

if TYPE_CHECKING:
    from familiar_cli.base.config.schema import InjectSettings, NoteSettings
    from familiar_cli.context.character import Macros
    from familiar_cli.context.providers.passages import Sight
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.llm.tokens import TokenCounter
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.store.store import MemoryStore


SOURCE: Final = "memory.pinned"
PRIORITY: Final = 91
# Of a pin that finds no room beside the others, which is served after them.
_WAITING_PRIORITY: Final = 90

_LABEL_CHARS: Final = 160
_SELF: Final = frozenset(entry.rel_path for entry in SELF_FILES)
_CUT_HEAD: Final = "only the beginning of the file is read: memory.max_file_bytes"


class Pinned(Struct, frozen=True):
    """The pins of one prompt.

    Args:
        pieces: The contributions, and problems.
        shown: Those that certainly fit, by file.
        found: The pinned files, and how the index was updated.
    """

    pieces: tuple[Contribution, ...] = ()
    shown: dict[str, Contribution] = field(default_factory=dict)
    found: Pins = field(default_factory=Pins)


class PinnedMemory(Struct, eq=False):
    """The pins of one turn, looked up once for all callers.

    Args:
        find: Finds the pinned files.
        counter: The token counter.
        sight: Returns the filter of visible memory in a turn.
    """

    find: Callable[[], Pins]
    store: MemoryStore
    counter: TokenCounter
    sight: Callable[[ContextRequest], Sight]
    _lock: Lock = field(default_factory=Lock)
    _last: tuple[ContextRequest, Pinned] | None = None

    def of(self, request: ContextRequest) -> Pinned:
        """Return the pins for the prompt of `request`."""
        with self._lock:
            if self._last is None or self._last[0] is not request:
                self._last = (request, self._read(request))
            return self._last[1]

    def _read(self, request: ContextRequest) -> Pinned:
        pins = self.find()
        sight = self.sight(request)
        pieces = [self._piece(path, sight, request) for path in pins.rel_paths]
        pieces += [
            _make_remark(path, f"it may be pinned, but {why}") for path, why in pins.problems
        ]
        if pins.unread:
            pieces.append(_problem_contribution(None, _unread_notice(pins.unread)))
        return self._sort_pins(pieces, request, pins)

    def _sort_pins(self, pieces: list[Contribution], request: ContextRequest, pins: Pins) -> Pinned:
        """Sort the pins: those that fit together come first."""
        room = request.layer_tokens.get(Layer.pinned, request.budget_tokens)
        contributions: dict[str, Contribution] = {}
        waiting: list[Contribution] = []
        for piece in pieces:
            cost = MESSAGE_TOKENS + self.counter.count(piece.text)
            if piece.text and piece.rel_path and cost <= room:
                contributions[piece.rel_path] = piece
                room -= cost
            else:
                waiting.append(replace(piece, priority=_WAITING_PRIORITY) if piece.text else piece)
        return Pinned((*contributions.values(), *waiting), contributions, pins)

    def _piece(self, rel_path: str, sight: Sight, request: ContextRequest) -> Contribution:
        if rel_path in _SELF or rel_path in loaded_whole(request.tier, request.viewer):
            return _make_remark(rel_path, "it is already included elsewhere in the prompt")
        try:
            head = self.store.read_head(rel_path, self.store.limits.max_file_bytes)
        except FamiliarError as error:
            return _problem_contribution(rel_path, f"it is pinned, but {error}")
        whole = sight.whole(rel_path, head.text)
        if whole.why_not:
            return _make_remark(rel_path, f"it is pinned, but {whole.why_not}")
        if request.beside and request.beside.cover(whole.text):
            return _make_remark(
                rel_path, "it is pinned, but the chat program's own prompt already says this"
            )
        kept_back = held_back(sight.viewer) if whole.is_part else ""
        label = framed(whole.label, _LABEL_CHARS)
        heading = request.phrases.labelled(request.phrases.pinned, label)
        piece = Contribution(
            layer=Layer.pinned,
            priority=PRIORITY,
            text=f"{heading}\n{whole.text}",
            source=SOURCE,
            place=PromptSpan.world_before,
            rel_path=rel_path,
            fit=Fit.cut,
            lines=(1, 1 + numbered_text(head.text, sight.viewer, rel_path).rstrip().count("\n")),
            sha256=sha256_seen(head.text, head.sha256, sight.viewer, rel_path),
            cause="it is pinned",
            shortened=kept_back if head.is_whole else _CUT_HEAD,
        )
        return sight.place(piece, rel_path, head.text, whole.text)


class PinsProvider:
    """Provides the pinned files.

    Args:
        pinned: The pins.
    """

    name: Final = "pins"
    looks_at: Final = "files that are pinned (`familiar memory pins`)"

    def __init__(self, pinned: PinnedMemory, *, deadline_s: float = 2.0) -> None:
        self.deadline_s = deadline_s
        self._pinned = pinned

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the pinned files, sorted by path."""
        return list(self._pinned.of(request).pieces)

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a pinned file is not in a prompt; see `Explains`."""
        if subject.rel_path is None:
            return None
        pieces = self._pinned.of(request).pieces
        reasons = [p.problem or p.remark for p in pieces if p.rel_path == subject.rel_path]
        return reasons[0] if reasons else None


def _problem_contribution(rel_path: str | None, why: str) -> Contribution:
    return Contribution(
        Layer.pinned, 0, "", SOURCE, PromptSpan.world_before, rel_path=rel_path, problem=why
    )


def _make_remark(rel_path: str, why: str) -> Contribution:
    return Contribution(
        Layer.pinned, PRIORITY, "", SOURCE, PromptSpan.world_before, rel_path=rel_path, remark=why
    )


def _unread_notice(count: int) -> str:
    return (
        f"{counted(count, 'file')} not read in time; pins among them are missing; "
        "run `familiar index build`"
    )


NOTE: Final = 94
INJECT: Final = 93


class NotesProvider(Struct, eq=False):
    """Provides the texts that settings insert, at SillyTavern's places.

    Args:
        note: The author's note.
        inject: The other texts, by name.
        macros: Returns the values of macros in a turn.
        store: The history, which counts a channel's turns.
    """

    name = "notes"

    note: NoteSettings
    inject: Mapping[str, InjectSettings]
    macros: Callable[[ContextRequest], Macros]
    store: HistoryStore
    deadline_s: float = 2.0

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the note, if it is its turn, and the other texts in the order of the file."""
        if not self.note.text.strip() and not any(e.text.strip() for e in self.inject.values()):
            return []
        macros = self.macros(request)
        note = [self._make_note(macros)] if self._is_due(request) else []
        return [*note, *self._inserted_pieces(macros)]

    def _is_due(self, request: ContextRequest) -> bool:
        """Tell whether the note is due in this turn."""
        interval = self.note.interval
        if not self.note.text.strip() or not interval:
            return False
        # What is being said now counts, too.
        return interval == 1 or (self.store.said_count(request.channel_id) + 1) % interval == 0

    def _make_note(self, macros: Macros) -> Contribution:
        note = self.note
        in_chat = note.place == "depth"
        return Contribution(
            layer=Layer.author_note,
            priority=NOTE,
            text=macros.expand(note.text),
            source="settings.author_note",
            place=PromptSpan.depth if in_chat else PromptSpan.scenario,
            role=note.role if in_chat else "system",  # type: ignore[arg-type]  # the schema checks it
            depth=note.depth,
        )

    def _inserted_pieces(self, macros: Macros) -> list[Contribution]:
        return [
            Contribution(
                layer=Layer.depth_inject,
                priority=INJECT,
                text=macros.expand(entry.text),
                source=f"settings.inject.{name}",
                place=PromptSpan.depth,
                role=entry.role,  # type: ignore[arg-type]  # the schema checks it
                depth=entry.depth,
            )
            for name, entry in self.inject.items()
            if entry.text.strip()
        ]
