"""Turn a card into the files of `self/`, and see first what that would change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.card_fields import is_text
from familiar_cli.bootstrap.cards import FILE_FIELDS, dump_kept, effects_of_card, kept_of, storable
from familiar_cli.bootstrap.containers import SUFFIXES
from familiar_cli.bootstrap.import_report import Effects, ImportReport
from familiar_cli.bootstrap.import_silly_tavern import plan_import, read_book
from familiar_cli.bootstrap.json_text import OWN_DEPTH, read_json
from familiar_cli.bootstrap.lorebooks.shelf import directories, place_for
from familiar_cli.errors import BadInputError, RefusedError
from familiar_cli.memory.layout import CARD_JSON, SELF_DIR
from familiar_cli.memory.pages.self_files import ORIGINAL_STEM, field_markdown, self_file
from familiar_cli.memory.store.store import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.bootstrap.import_silly_tavern import ImportPlan
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction


@dataclass(frozen=True, slots=True)
class UnpackPlan:
    """What unpacking a card would change.

    Args:
        files: New content of each file that would be written.
        seen: SHA-256 of each file there is in their place, or `MISSING`.
        unchanged: Files that hold already what they should.
        overwritten: Files that hold something else.
        removed: Files of another card that this one does not have.
        effects: What becomes of each field, and of each setting of the book.
        warnings: What was odd about the card.
        book: The plan for its book, if it has one.
    """

    files: Mapping[str, bytes]
    seen: Mapping[str, str]
    unchanged: tuple[str, ...]
    overwritten: tuple[str, ...]
    removed: tuple[str, ...]
    effects: Effects
    warnings: tuple[str, ...]
    book: ImportPlan | None

    @property
    def report(self) -> ImportReport:
        """What it does, for a person to read."""
        written, same = (self.book.written, self.book.unchanged) if self.book else ((), ())
        return ImportReport(
            written=tuple(sorted((*self.files, *written))),
            unchanged=tuple(sorted((*self.unchanged, *same))),
            overwritten=self.overwritten,
            removed=self.removed,
            in_every_prompt=self.effects.in_every_prompt,
            found_when_it_fits=self.effects.found_when_it_fits,
            kept_unmapped=self.effects.kept,
            warnings=self.warnings,
        )

    @property
    def is_noop(self) -> bool:
        """Whether everything is already as the card has it."""
        return not (self.files or self.removed or (self.book and self.book.written))

    def stage(self, tx: Transaction) -> None:
        """Put all changes into a transaction."""
        for rel_path, content in self.files.items():
            tx.write(rel_path, content, expect=self.seen[rel_path], any_size=True)
        for rel_path in self.removed:
            tx.delete(rel_path, expect=self.seen[rel_path])
        if self.book:
            self.book.stage(tx)


def plan_unpack(
    card: Card, store: MemoryStore, *, overwrite: bool = False, keep_edits: bool = False
) -> UnpackPlan:
    """Return what unpacking `card` into `store` would change. Nothing is written.

    Args:
        card: The card.
        store: The memory it would go to.
        overwrite: Files that differ may be overwritten, and files of another card removed.
        keep_edits: But not what a person has edited of the card's book.

    Raises:
        RefusedError: Files differ and may not be overwritten; they are named.
    """
    book = _plan_book(card, store, overwrite=overwrite, force=overwrite and not keep_edits)
    files = _files(card, book_dir=book.directory)
    there = {path: store.read_bytes(path) for path in files if store.exists(path)}
    same = {path for path, content in there.items() if _equal(path, content, files[path])}
    same_card = (_original(card) if card.content else CARD_JSON) in same
    removed = () if same_card else _stale(store, files)
    overwritten = tuple(sorted(there.keys() - same))
    is_refused = (overwritten or removed or book.refusal) and not overwrite
    if is_refused or (book.refusal and keep_edits):
        raise _refused(card, (*overwritten, *removed), book.refusal)
    return UnpackPlan(
        files={path: content for path, content in files.items() if path not in same},
        seen={path: store.sha256(path) or MISSING for path in (*files, *removed)},
        unchanged=tuple(sorted(same)),
        overwritten=overwritten,
        removed=removed,
        effects=_effects(card, book),
        warnings=(*card.warnings, *book.warnings, *_former_lore(store, book, same_card=same_card)),
        book=book.plan,
    )


def _files(card: Card, *, book_dir: str | None) -> dict[str, bytes]:
    files = {
        self_file(field).rel_path: field_markdown(field, storable(card.data[field])).encode("utf-8")
        for field in FILE_FIELDS
        if is_text(card.data.get(field))
    }
    files[CARD_JSON] = dump_kept(kept_of(card, book_dir=book_dir))
    if card.content:
        files[_original(card)] = card.content
    return files


def _original(card: Card) -> str:
    return f"{SELF_DIR}/{ORIGINAL_STEM}{SUFFIXES.get(card.container, '')}"


def _stale(store: MemoryStore, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the files that only a card puts there and this one does not have."""
    possible = [self_file(field).rel_path for field in FILE_FIELDS]
    possible += [f"{SELF_DIR}/{ORIGINAL_STEM}{suffix}" for suffix in set(SUFFIXES.values())]
    return tuple(sorted(path for path in possible if path not in files and store.exists(path)))


def _equal(rel_path: str, there: bytes, new: bytes) -> bool:
    if there == new or rel_path != CARD_JSON:
        return there == new
    try:
        old, made = (
            read_json(content, origin=rel_path, max_depth=OWN_DEPTH)[0] for content in (there, new)
        )
        return bool(old == made)
    except BadInputError:
        return False


@dataclass(frozen=True, slots=True)
class _BookPlan:
    """What becomes of the card's book: a plan, or the reason why there is none."""

    plan: ImportPlan | None = None
    directory: str | None = None
    refusal: str = ""
    warnings: tuple[str, ...] = ()


def _former_lore(store: MemoryStore, book: _BookPlan, *, same_card: bool) -> tuple[str, ...]:
    if same_card:
        return ()
    others = [place for place in directories(store) if place != book.directory]
    return tuple(f"the lore already in {place} is kept" for place in others)


def _effects(card: Card, book: _BookPlan) -> Effects:
    """Return what becomes of the card's fields and of the settings of its book."""
    of_card = effects_of_card(card, book_dir=book.directory)
    of_book = book.plan.effects if book.plan else Effects()
    return Effects(
        *(
            (*names, *(f"character_book: {name}" for name in settings))
            for names, settings in (
                (of_card.in_every_prompt, of_book.in_every_prompt),
                (of_card.found_when_it_fits, of_book.found_when_it_fits),
                (of_card.kept, of_book.kept),
            )
        )
    )


def _plan_book(card: Card, store: MemoryStore, *, overwrite: bool, force: bool) -> _BookPlan:
    given = card.data.get("character_book")
    if given is None:
        return _BookPlan()
    try:
        # Given as a card's, so that an export of the card knows it again.
        book = read_book({"data": {"character_book": given}}, origin=card.origin or card.name)
    except BadInputError as error:
        warning = f"the card's book cannot be read and is kept in {CARD_JSON}: {error}"
        return _BookPlan(warnings=(warning,))
    directory = None
    try:
        place = place_for(book, store)
        directory = place.directory
        plan = plan_import(book, store, into=directory, update=overwrite, force=force)
    except RefusedError as error:
        return _BookPlan(directory=directory, refusal=str(error))
    warnings = tuple(f"character_book: {note}" for note in (*place.notes, *plan.warnings))
    return _BookPlan(plan, place.directory, warnings=warnings)


_OVERWRITE: Final = (
    "Add `--overwrite` to replace them with the card's text, or give the familiar another ID."
)


def _refused(card: Card, differing: tuple[str, ...], refusal: str) -> RefusedError:
    which = f"differs from {card.origin or card.name!r} in: {', '.join(differing)}"
    parts = [which] if differing else []
    parts += [f"has other lore than the card's book. {refusal}"] if refusal else []
    return RefusedError(f"The familiar {'; it '.join(parts)}; nothing was changed", hint=_OVERWRITE)
