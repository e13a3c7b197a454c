"""`NotesProvider`: the author's note and the texts that a person has inserted between the turns."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import Contribution, Layer, Place
from familiar_cli.jobs import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from familiar_cli.config.schema import InjectSettings, NoteSettings
    from familiar_cli.context.macros import Macros
    from familiar_cli.context.types import ContextRequest
    from familiar_cli.history.store import HistoryStore

NOTE: Final = 94
INJECT: Final = 93


class NotesProvider:
    """Offers what the settings insert, at SillyTavern's places.

    Args:
        note: The author's note.
        inject: The other texts, by their names.
        macros: Says what macros become in a turn.
        store: The history, which knows how much was said in a channel.
        deadline_s: How long it may take.
    """

    name: Final = "notes"

    def __init__(
        self,
        note: NoteSettings,
        inject: Mapping[str, InjectSettings],
        macros: Callable[[ContextRequest], Macros],
        store: HistoryStore,
        *,
        deadline_s: float = 2.0,
    ) -> None:
        self.deadline_s = deadline_s
        self._note = note
        self._inject = inject
        self._macros = macros
        self._store = store

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the note, if it is its turn, and the other texts in the order of the file."""
        if not self._note.text.strip() and not any(e.text.strip() for e in self._inject.values()):
            return []
        return await in_thread(partial(self._read, request))

    def _read(self, request: ContextRequest) -> list[Contribution]:
        macros = self._macros(request)
        note = [self._noted(macros)] if self._is_due(request) else []
        return [*note, *self._inserted(macros)]

    def _is_due(self, request: ContextRequest) -> bool:
        """Return whether what is said now is one of the times at which the note is there."""
        interval = self._note.interval
        if not self._note.text.strip() or not interval:
            return False
        # What is being said now counts, too.
        return interval == 1 or (self._store.said_count(request.channel_id) + 1) % interval == 0

    def _noted(self, macros: Macros) -> Contribution:
        note = self._note
        in_chat = note.place == "depth"
        return Contribution(
            layer=Layer.author_note,
            priority=NOTE,
            text=macros.expand(note.text),
            source="settings.author_note",
            place=Place.depth if in_chat else Place.scenario,
            role=note.role if in_chat else "system",  # type: ignore[arg-type]  # the schema checks it
            depth=note.depth,
        )

    def _inserted(self, macros: Macros) -> list[Contribution]:
        return [
            Contribution(
                layer=Layer.depth_inject,
                priority=INJECT,
                text=macros.expand(entry.text),
                source=f"settings.inject.{name}",
                place=Place.depth,
                role=entry.role,  # type: ignore[arg-type]  # the schema checks it
                depth=entry.depth,
            )
            for name, entry in self._inject.items()
            if entry.text.strip()
        ]
