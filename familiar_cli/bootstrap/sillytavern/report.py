"""What became of each file of a data folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from familiar_cli.errors import PartialError

if TYPE_CHECKING:
    from familiar_cli.bootstrap.sillytavern.folder import FoundFile, Kind

Outcome = Literal["imported", "updated", "unchanged", "read", "skipped", "refused"]

OUTCOMES: Final[tuple[Outcome, ...]] = (
    "refused",
    "imported",
    "updated",
    "unchanged",
    "read",
    "skipped",
)
"""All outcomes; what several familiars make of a file comes to the first of theirs."""

_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file.

    Args:
        path: Where it is, below the folder.
        kind: What it is.
        outcome: `imported` is new, `updated` adds to what was there or replaces it, `unchanged` was
            there as it is, `read` tells of other files only, `skipped` is left out on purpose,
            `refused` could not be read or taken.
        reason: Why, where it is not plain.
        familiars: Whose it is.
        incomplete: Some of it could not be taken.
    """

    path: str
    kind: Kind
    outcome: Outcome
    reason: str = ""
    familiars: tuple[str, ...] = ()
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class FamiliarInFolder:
    """What became of one character.

    Args:
        id: The familiar's id.
        name: What it is called.
        character: The character's file.
        outcome: As in `FileReport`.
        turns: How many turns were added.
        already_there: How many were there before.
        channels: In how many channels they are.
        warnings: What was odd.
    """

    id: str
    name: str
    character: str
    outcome: Outcome
    turns: int = 0
    already_there: int = 0
    channels: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedFolder:
    """What an import of a folder did, or would do."""

    folder: str
    familiars: tuple[FamiliarInFolder, ...]
    files: tuple[FileReport, ...]

    @property
    def problem(self) -> PartialError | None:
        """Why the import is not whole; None: it is."""
        left = [f for f in self.files if f.outcome == "refused" or f.incomplete]
        if not left:
            return None
        named = "; ".join(f"{f.path}: {f.reason}" for f in left[:_SHOWN])
        more = f"; and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        return PartialError(
            f"Not everything was imported: {named}{more}",
            hint="Fix those and run the same command again; nothing is imported twice.",
        )


@dataclass(slots=True)
class Register:
    """Notes what becomes of each file, also where several familiars have a part in it."""

    _notes: dict[str, list[FileReport]] = field(default_factory=dict)

    def note(
        self,
        file: FoundFile,
        outcome: Outcome,
        reason: str = "",
        *,
        familiar: str = "",
        incomplete: bool = False,
    ) -> None:
        """Note what became of a file, for one familiar."""
        whose = (familiar,) if familiar else ()
        made = FileReport(file.rel_path, file.kind, outcome, reason, whose, incomplete)
        self._notes.setdefault(file.rel_path, []).append(made)

    def knows(self, file: FoundFile) -> bool:
        """Tell whether anything was noted of a file."""
        return file.rel_path in self._notes

    def reports(self) -> tuple[FileReport, ...]:
        """Return one report for each file, sorted by path."""
        return tuple(_joined(self._notes[path]) for path in sorted(self._notes))


def _joined(notes: list[FileReport]) -> FileReport:
    first = min(notes, key=lambda note: OUTCOMES.index(note.outcome))
    reasons = dict.fromkeys(note.reason for note in notes if note.reason)
    return FileReport(
        first.path,
        first.kind,
        first.outcome,
        "; ".join(reasons),
        tuple(dict.fromkeys(name for note in notes for name in note.familiars)),
        any(note.incomplete for note in notes),
    )
