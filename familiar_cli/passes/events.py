"""`Event`: one thing that happened while background passes ran, for people and for `--json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from familiar_cli.errors import FamiliarError

Kind = Literal["started", "wrote", "made", "held", "failed", "note"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Args:
        kind: What kind of thing; see docs/reference/json-and-exit-codes.md.
        message: It in words, for a person; may have several lines.
        command: The command that does by itself what was done; empty for a note.
        data: It in fields, for a program.
        error: What went wrong; None: nothing.
    """

    kind: Kind
    message: str
    command: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    error: FamiliarError | None = None

    def to_json(self, at: str) -> dict[str, Any]:
        """Return the event as one line of `familiar daemon --json` shows it."""
        command = {"command": self.command} if self.command else {}
        return {"event": self.kind, "at": at, **command, "message": self.message, **self.data}


def failed(command: str, error: FamiliarError, retry_in_s: float) -> Event:
    """Return the event of a pass that failed."""
    data = {
        "code": error.code,
        "hint": error.hint,
        "retry_in_s": round(retry_in_s, 1),
    }
    return Event("failed", str(error), command, data, error)
