"""Settings of the writer, and what a reply may be expected to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.store.memory.pages.lines import PLAIN, Numbering
from familiar_cli.writing.writer.page_text import new_file

if TYPE_CHECKING:
    from familiar_cli.writing.review.pending import Draft
    from familiar_cli.writing.writer.grounds import Grounds


class WriterSettings(Struct, frozen=True):
    """Settings of the writer.

    Args:
        batch_turns: Maximum turns per question.
        batch_tokens: Maximum tokens of turns per question; less for a small model.
        quiet_gap_s: A silence this long ends a conversation.
        reply_tokens: Maximum tokens of a reply.
        temperature: Sampling temperature; None: the model's setting.
        structured: `auto`, `on` or `off`: whether to request constrained replies.
        numbering: How turns are cited.
    """

    batch_turns: int = 60
    batch_tokens: int = 4000
    quiet_gap_s: float = 1800.0
    reply_tokens: int = 1024
    temperature: float | None = None
    structured: str = "auto"
    numbering: Numbering = PLAIN


# As requested in prompts: a summary of some sentences per
# session, and a fact about each person every few turns.
_SUMMARY_CHARS: Final = 300
_LINE: Final = "- " + "a fact that is told in so many words " * 3 + "\n"
_TURNS_OF_FACT: Final = 8
_MOST_FACTS: Final = 3


def expect_reply(draft: Draft, grounds: Grounds) -> None:
    """Grow a batch's files in `draft` by the expected size of a model's output."""
    facts = min(1 + len(grounds.batch.turns) // _TURNS_OF_FACT, _MOST_FACTS)
    summary = (_LINE * 3)[:_SUMMARY_CHARS]
    for rel_path, more in (
        *((path, summary) for path in grounds.sessions),
        *((person.rel_path, _LINE * facts) for person in grounds.roster.people),
    ):
        try:
            text = draft.text(rel_path) or new_file(rel_path)
            draft.put(rel_path, f"{text}\n{more}")
        except FamiliarError:
            continue  # unreadable, so it is not shown either
