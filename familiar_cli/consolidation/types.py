"""Values that travel through consolidation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.review.pending import PlannedFile


@dataclass(frozen=True, slots=True)
class Item:
    """Something to be read: a day, a week, a session, or what was made of some of them.

    Args:
        label: What it is called, e.g. `2026-04-07`.
        text: What it says.
        sources: The labels of what it rests on; itself, if it is not made of others.
    """

    label: str
    text: str
    sources: tuple[str, ...] = ()

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The labels of the sources that it stands for."""
        return self.sources or (self.label,)


@dataclass(frozen=True, slots=True)
class Point:
    """One thing worth remembering, and the labels of the sources that it rests on."""

    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that a rule did not let through.

    Args:
        rail: The rule's name.
        reason: Why, in words.
        text: What would have been written.
    """

    rail: str
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class DraftedSummary:
    """What a model proposes to remember.

    Args:
        summary: A few sentences.
        points: What is worth remembering beside them.
        refused: What the rules took out.
    """

    summary: str
    points: tuple[Point, ...]
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that is to be made.

    Args:
        name: What it is called in reports, e.g. `2026-W15` or `mid`.
        rel_path: Where it is.
        title: Its H1.
        sources: The hash of each file that it is made of.
        items: What there is to read.
        body: The whole text, if no model is needed.
        guidance: What a model is to do with the items.
        budget_tokens: Most tokens of the text that a model writes.
        made_at: When it is made, ISO 8601; empty where that does not matter.
        may_shrink: It may become half as long without a person's yes.
    """

    name: str
    rel_path: str
    title: str
    sources: Mapping[str, str]
    items: tuple[Item, ...] = ()
    body: str | None = None
    guidance: str = ""
    budget_tokens: int = 0
    made_at: str = ""
    may_shrink: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a file that was wanted.

    Args:
        file: The file before and after.
        expect: The hash that it had before, or `MISSING`.
        refused: What the rules took out.
        held: A person has to say yes first: the name of the plan; empty: no.
    """

    file: PlannedFile
    expect: str
    refused: tuple[Refused, ...] = ()
    held: str = field(default="")
