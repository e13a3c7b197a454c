"""Make one file from its sources: compose, keep what a person did, guard, write as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.consolidation.composing import told
from familiar_cli.consolidation.keeping import hand_in, made_again
from familiar_cli.consolidation.pages import Page, Record, page_text, read_page
from familiar_cli.consolidation.types import SOURCE, Change, Made
from familiar_cli.errors import ConflictError
from familiar_cli.memory.pages.privacy import visible_in
from familiar_cli.memory.store.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.consolidation.composing import Composer
    from familiar_cli.consolidation.keeping import Hand
    from familiar_cli.consolidation.types import Refused, Wanted, Why
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction

_TRIES: Final = 3
_HALF: Final = 0.5
# A text shorter than this may become a shorter one: there is little to lose.
_LEAST_CHARS: Final = 400


@dataclass(slots=True)
class Engine:
    """Makes files.

    Args:
        store: The memory.
        composer: Opens what asks the model; called when a model is needed.
        hold: Stages a change as a plan that waits for a person, and returns the plan's name.
        wrote: Told within the transaction that writes what a model made, by the name of the file.
        review: Everything a model wrote waits for a person.
        dry_run: Nothing is written.
    """

    store: MemoryStore
    composer: Callable[[], Composer]
    hold: Callable[[Transaction, Change, Why], str]
    wrote: Callable[[Transaction, str], None] = lambda *_: None
    review: bool = False
    dry_run: bool = False

    async def make(self, wanted: Wanted) -> Made:
        """Make a file, or a plan for it, and return what became of it.

        Raises:
            ModelError: The model could not be asked, or its words are no use.
            ConfigError: There is no model, or it is too small.
            ConflictError: Somebody else keeps writing the file.
            FamiliarError: The disk or a limit refused. In each case nothing was changed.
        """
        body, refused = await self._body(wanted)
        for attempt in range(_TRIES):
            made = self._drawn(wanted, body, refused)
            try:
                return self._written(wanted, made)
            except ConflictError:  # a person wrote meanwhile: theirs stays, and ours joins it
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    async def _body(self, wanted: Wanted) -> tuple[str, tuple[Refused, ...]]:
        if wanted.body is not None:
            return wanted.body, ()
        kept = [visible_in(block.text, None) for block in self._hand(wanted.rel_path)[1].blocks]
        plan = await self.composer().compose(wanted, kept)
        return f"# {wanted.title}\n\n{told(plan)}", plan.refused

    def _drawn(self, wanted: Wanted, body: str, refused: tuple[Refused, ...]) -> Made:
        """Return the file as it would be, over the file as it is."""
        page, hand, before, expect = self._hand(wanted.rel_path)
        text, marks = made_again(body, hand)
        if "\r\n" in page.body:
            text = text.replace("\n", "\r\n")
        record = Record(wanted.sources, marks, wanted.made_at)
        after = page_text(Page(text, record, page.front))
        return Made(Change(wanted.name, wanted.rel_path, before, after), expect, refused)

    def _hand(self, rel_path: str) -> tuple[Page, Hand, str | None, str]:
        """Return a file as it is: its page, what a person did to it, its text and hash."""
        there = self.store.read(rel_path) if self.store.exists(rel_path) else None
        page = read_page(there.text if there else "")
        hand = hand_in(page.body.replace("\r\n", "\n"), page.record.marks if page.record else ())
        if there is None:
            return page, hand, None, MISSING
        return page, hand, there.text, there.sha256

    def _written(self, wanted: Wanted, made: Made) -> Made:
        by_model = wanted.body is None
        too_short = shrinks(made.change) and not wanted.may_shrink
        waits = by_model and changes_text(made.change) and (self.review or too_short)
        count = len(wanted.sources)
        message = f"{wanted.name} from {count} {'file' if count == 1 else 'files'}"
        held = ""
        with self.store.transaction(SOURCE, message, dry_run=self.dry_run) as tx:
            if waits:
                held = self.hold(tx, made.change, "review" if self.review else "held")
            else:
                tx.write(wanted.rel_path, made.change.after, expect=made.expect)
                self.wrote(tx, wanted.name)
        if by_model:
            self.composer().forget(wanted.name)
        return Made(made.change, made.expect, made.refused, held)


def changes_text(change: Change) -> bool:
    """Return whether a change is more than one of the record: there is something to decide on."""
    return change.before is None or read_page(change.before).body != read_page(change.after).body


def shrinks(change: Change) -> bool:
    """Return whether a change takes away more than half of what a file says."""
    old, new = (_size(text) for text in (change.before or "", change.after))
    return old >= _LEAST_CHARS and new < _HALF * old


def _size(text: str) -> int:
    return len("".join(read_page(text).body.split()))
