"""Values that travel through the writer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.llm.asking import Spent

if TYPE_CHECKING:
    from familiar_cli.errors import FamiliarError
    from familiar_cli.history.types import Turn
    from familiar_cli.review.draft import FileChange
    from familiar_cli.visibility import Viewer

Op = Literal["set_summary", "add_bullets", "replace_section", "add_aliases", "create"]
Kind = Literal["said", "play", "felt"]
OPS: Final = ("set_summary", "add_bullets", "replace_section", "add_aliases", "create")
KINDS: Final = ("said", "play", "felt")
REWRITES: Final = frozenset({"set_summary", "replace_section"})
"""What takes away words that were there."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Turns that one question to the model is about, oldest first.

    Args:
        turns: The turns.
        private: The private scope that all of them belong to; None: they are public.
        viewer: Who may see what is learned from them.
    """

    turns: tuple[Turn, ...]
    private: str | None = None
    viewer: Viewer = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class ProposedLine:
    """One line that the model wants to write, and the turns that it rests on."""

    text: str
    turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One change of one file.

    Args:
        op: What to do.
        rel_path: With which file.
        lines: Bullets, paragraphs or names.
        section: The title of the section; empty where the operation needs none.
        title: The H1, if the file is new.
        kind: `said` by someone, part of a `play`, or `felt` by the familiar.
    """

    op: Op
    rel_path: str
    lines: tuple[ProposedLine, ...]
    section: str = ""
    title: str = ""
    kind: Kind = "said"

    @property
    def turns(self) -> tuple[int, ...]:
        """All turns that its lines rest on."""
        return tuple(sorted({turn_id for line in self.lines for turn_id in line.turns}))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was not written, and why.

    Args:
        rel_path: The file that the model named; empty when it named none.
        rail: The rule that said no.
        reason: Why, in words.
        text: What would have been written.
        turns: What it was said to rest on.
    """

    rel_path: str
    rail: str
    reason: str
    text: str = ""
    turns: tuple[int, ...] = ()


Outcome = Literal["wrote", "nothing", "review", "failed"]


@dataclass(slots=True)
class WriterReport:
    """What a pass did. It grows while the pass goes on.

    Attributes:
        run: The pass's id, as in `runs/` and in the journal.
        outcome: What came of it.
        turns_covered: Turns that are done with.
        remaining: Turns that still wait, of those that the pass was asked for.
        newest_left: Turns of exchanges that may still change; they were left for later.
        batches: Questions that were put to the model and answered.
        files: The files that changed, or would.
        refused: What was not written.
        held: Files with a change that waits for a person.
        pending: The plan in which it waits; empty: none.
        spent: What it cost.
        notices: What a person should know.
        quarantined: Where unusable replies are kept.
        diff: The changes as a unified diff, where they were not made.
        error: Why the pass ended early.
        interrupted: It was broken off.
    """

    run: str
    outcome: Outcome = "nothing"
    turns_covered: int = 0
    remaining: int = 0
    newest_left: int = 0
    batches: int = 0
    files: dict[str, FileChange] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    pending: str = ""
    spent: Spent = field(default_factory=Spent)
    notices: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    diff: str = ""
    error: FamiliarError | None = None
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the report as `--json` shows it."""
        used = self.spent
        per_turn = used.estimated_tokens / self.turns_covered if self.turns_covered else None
        return {
            "run": self.run,
            "outcome": self.outcome,
            "turns_covered": self.turns_covered,
            "remaining": self.remaining,
            "newest_left": self.newest_left,
            "batches": self.batches,
            "files": [
                {
                    "rel_path": f.rel_path,
                    "operation": f.operation,
                    "added": f.added,
                    "removed": f.removed,
                }
                for f in self.files.values()
            ],
            "refused": [
                {"rel_path": r.rel_path, "rail": r.rail, "reason": r.reason} for r in self.refused
            ],
            "held": self.held,
            "pending": self.pending or None,
            "calls": used.calls,
            "repairs": used.repairs,
            "usage": {
                "prompt_tokens": used.prompt_tokens,
                "completion_tokens": used.completion_tokens,
                "cost": used.cost,
            },
            "estimated_tokens": used.estimated_tokens,
            "estimated_tokens_per_turn": None if per_turn is None else round(per_turn, 1),
            "model_s": round(used.model_s, 3),
            "notices": self.notices,
            "quarantined": self.quarantined,
            "diff": self.diff or None,
            "interrupted": self.interrupted,
        }
