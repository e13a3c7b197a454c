"""Make one file from its sources: compose, keep what a person did, guard, write as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.consolidation.composing import told
from familiar_cli.consolidation.keeping import hand_in, made_again
from familiar_cli.consolidation.pages import MadePage, Record, page_text, read_page
from familiar_cli.consolidation.plans import made_from, plan_for, plan_id
from familiar_cli.consolidation.types import Made
from familiar_cli.memory.pages.privacy import visible_in
from familiar_cli.memory.run_ids import noting
from familiar_cli.memory.sources import CONSOLIDATION
from familiar_cli.memory.store.transactions import retry_on_conflict
from familiar_cli.memory.store.types import MISSING
from familiar_cli.review.pending import PlannedFile, stage
from familiar_cli.review.rejected import forget
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.consolidation.composing import Composer
    from familiar_cli.consolidation.keeping import Hand
    from familiar_cli.consolidation.types import Refused, Wanted
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction
    from familiar_cli.review.pending import Why

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
        run: The run that its plans name.
        review: Everything a model wrote waits for a person.
        dry_run: Nothing is written.
    """

    store: MemoryStore
    composer: Callable[[], Composer]
    run: str = ""
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
        # Where a person wrote meanwhile, theirs stays, and ours joins it.
        return retry_on_conflict(
            lambda: self._written(wanted, self._drawn(wanted, body, refused)), _TRIES
        )

    async def _body(self, wanted: Wanted) -> tuple[str, tuple[Refused, ...]]:
        if wanted.body is not None:
            return wanted.body, ()
        page = self._hand(wanted.rel_path)[0]
        kept = [block.text for block in _hand_of(page, visible_in(page.body, NOBODY)).blocks]
        plan = await self.composer().compose(wanted, kept)
        return f"# {wanted.title}\n\n{told(plan)}", plan.refused

    def _drawn(self, wanted: Wanted, body: str, refused: tuple[Refused, ...]) -> Made:
        """Return the file as it would be, over the file as it is."""
        page, hand, before, expect = self._hand(wanted.rel_path)
        text, marks = made_again(body, hand)
        if "\r\n" in page.body:
            text = text.replace("\n", "\r\n")
        record = Record(wanted.sources, marks, wanted.made_at)
        after = page_text(MadePage(text, record, page.front))
        file = PlannedFile(wanted.rel_path, before, after, has_record=True)
        return Made(file, expect, refused)

    def _hand(self, rel_path: str) -> tuple[MadePage, Hand, str | None, str]:
        """Return a file as it is: its page, what a person did to it, its text and hash."""
        there = self.store.read(rel_path) if self.store.exists(rel_path) else None
        page = read_page(there.text if there else "")
        hand = _hand_of(page, page.body)
        if there is None:
            return page, hand, None, MISSING
        return page, hand, there.text, there.sha256

    def _written(self, wanted: Wanted, made: Made) -> Made:
        by_model = wanted.body is None
        too_short = shrinks(made.file) and not wanted.may_shrink
        waits = by_model and changes_text(made.file) and (self.review or too_short)
        message = made_from(wanted.name, len(wanted.sources))
        held = ""
        with self.store.transaction(
            CONSOLIDATION, message, dry_run=self.dry_run, trailers=noting(self.run)
        ) as tx:
            if waits:
                held = self._hold(tx, wanted.name, made.file)
            else:
                tx.write(wanted.rel_path, made.file.after, expect=made.expect)
                forget(tx, self.store, plan_id(wanted.name))
        if by_model:
            self.composer().forget(wanted.name)
        return Made(made.file, made.expect, made.refused, held)

    def _hold(self, tx: Transaction, name: str, file: PlannedFile) -> str:
        """Stage a plan that waits for a person, and return its name."""
        why: Why = "review" if self.review else "held"
        plan = plan_for(name, file, why, model=self.composer().model.name, run=self.run)
        stage(tx, self.store, plan)
        return plan.id


def _hand_of(page: MadePage, body: str) -> Hand:
    """Return what of `body`, which is all or a part of the page, is a person's."""
    return hand_in(body.replace("\r\n", "\n"), page.record.marks if page.record else ())


def changes_text(file: PlannedFile) -> bool:
    """Return whether a change is more than one of the record: there is something to decide on."""
    return file.before is None or read_page(file.before).body != read_page(file.after).body


def shrinks(file: PlannedFile) -> bool:
    """Return whether a change takes away more than half of what a file says."""
    old, new = (_size(text) for text in (file.before or "", file.after))
    return old >= _LEAST_CHARS and new < _HALF * old


def _size(text: str) -> int:
    return len("".join(read_page(text).body.split()))
