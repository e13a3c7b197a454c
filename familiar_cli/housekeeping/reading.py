"""Read the whole memory once, for all checks together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError
from familiar_cli.housekeeping.types import Corpus, Note
from familiar_cli.housekeeping.wording import known_in
from familiar_cli.markdown import scan
from familiar_cli.memory.layout import PENDING_DIR, is_in_conflicts
from familiar_cli.memory.pages.privacy import private_spans
from familiar_cli.memory.store.types import Skipped
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.housekeeping.types import Finding
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import MemoryEntry

_TEXT: Final = (".md", ".markdown", ".txt", ".json", ".toml", ".yaml", ".yml", ".csv")
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of a larger file the size alone is looked at, and that is said."""
# Plans that wait for a person hold old text and new; they are gone once they are settled.


def read_corpus(
    store: MemoryStore,
    words: frozenset[str] = frozenset(),
    on_file: Callable[[int], None] = lambda _: None,
) -> Corpus:
    """Return all text of the memory. What cannot be read is named, and stops nothing.

    Args:
        store: The memory.
        words: What `Note.known` is to tell of.
        on_file: Told before each file which one it is, from 1.
    """
    walk = store.walk(hidden=True)
    notes: list[Note] = []
    skipped = list(walk.skipped)
    wanted = [entry for entry in walk.files if _is_wanted(entry)]
    for number, entry in enumerate(wanted, 1):
        on_file(number)
        text = ""
        if entry.size_bytes > MAX_BYTES:
            most = f"{MAX_BYTES // 1024**2} MB"
            skipped.append(
                Skipped(entry.rel_path, f"is larger than {most}; only its size is checked")
            )
        else:
            try:
                text = store.read_file(entry.rel_path)
            except FamiliarError as error:
                skipped.append(Skipped(entry.rel_path, str(error)))
                continue
        folded = text.casefold()
        known = known_in(folded, words)
        notes.append(Note(entry.rel_path, text, entry.size_bytes, entry.modified, folded, known))
    return Corpus(
        notes=tuple(note for note in notes if not note.is_hidden),
        hidden=tuple(note for note in notes if note.is_hidden),
        paths=frozenset(f.rel_path for f in walk.files if not _is_hidden(f.rel_path)),
        skipped=tuple(skipped),
    )


def quotes_private(store: MemoryStore, finding: Finding) -> bool:
    """Return whether a finding quotes what was said in private; in doubt it does."""
    for rel_path in {quote.rel_path for quote in finding.evidence}:
        try:
            text = store.read_file(rel_path)
        except FamiliarError:
            return True
        starts = {start for start, _ in private_spans(text, NOBODY)}
        private = {line.number for line in scan(text) if line.start in starts}
        if any(q.line in private for q in finding.evidence if q.rel_path == rel_path):
            return True
    return False


def _is_wanted(entry: MemoryEntry) -> bool:
    is_text = entry.rel_path.lower().endswith(_TEXT) and not is_in_conflicts(entry.rel_path)
    return is_text and not entry.rel_path.startswith(f"{PENDING_DIR}/")


def _is_hidden(rel_path: str) -> bool:
    return rel_path.startswith(".") or "/." in rel_path
