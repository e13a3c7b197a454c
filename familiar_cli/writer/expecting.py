"""How much a model is likely to write about a batch: then the cost of a pass can be told before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError
from familiar_cli.writer import sections

if TYPE_CHECKING:
    from familiar_cli.review.draft import Draft
    from familiar_cli.writer.grounds import Grounds

# What prompts ask for: a summary of some sentences for each
# session, and a fact about each person for every few turns.
_SUMMARY_CHARS: Final = 300
_LINE: Final = "- " + "a fact that is told in so many words " * 3 + "\n"
_TURNS_OF_FACT: Final = 8
_MOST_FACTS: Final = 3


def expect_reply(draft: Draft, grounds: Grounds) -> None:
    """Let the files of a batch grow in `draft` by about what a model would write into them."""
    facts = min(1 + len(grounds.batch.turns) // _TURNS_OF_FACT, _MOST_FACTS)
    summary = (_LINE * 3)[:_SUMMARY_CHARS]
    for rel_path, more in (
        *((path, summary) for path in grounds.sessions),
        *((person.rel_path, _LINE * facts) for person in grounds.roster.people),
    ):
        try:
            text = draft.text(rel_path) or sections.new_file(rel_path)
            draft.put(rel_path, f"{text}\n{more}")
        except FamiliarError:
            continue  # it cannot be read, so it is not shown either
