"""What embodiments that are no git send: where it stands to what is here, and both as one.

An embodiment names the version that each change began with. From that version, from the text and
from the file's past follows one of four answers (`clocks.Order`); only what is concurrent is
merged, and a version that loses is kept below `conflicts/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from familiar_cli.memory.merge.files import HUMAN, Editor, Side, blob_id, merge_trees
from familiar_cli.sync.journal_past import clock_of, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from familiar_cli.memory.merge.files import MergedTree
    from familiar_cli.sync.journal_past import Clock, Order, Version

Kept = Literal["", "deletion", "edit"]
"""Which of a deletion and an edit at the same time was not followed: the deletion, always."""


@dataclass(frozen=True, slots=True)
class EmbodimentChange:
    """What an embodiment did to a file.

    Args:
        rel_path: Which.
        text: Its text now; None: it deleted the file.
        base: The clock of the version that it began with; None: the version of the memory counts.
        since: The version of the memory that it last saw; 0: none.
    """

    rel_path: str
    text: str | None
    base: Clock | None = None
    since: int = 0


@dataclass(frozen=True, slots=True)
class FileHere:
    """A file as it is here, and as it was.

    Args:
        now: Its text; None: there is none.
        versions: Its versions, oldest first.
        text: Returns the text of one of them; None: it was gone.
    """

    now: str | None
    versions: Sequence[Version]
    text: Callable[[Version], str | None]


@dataclass(frozen=True, slots=True)
class Judged:
    """Where a change stands to what is here.

    Args:
        change: The change.
        order: `after` may be taken as it is, `before` and `equal` bring nothing.
        base: The text that it began with; None: there was none, or it is not known.
        since: The versions that came after that.
    """

    change: EmbodimentChange
    order: Order
    base: str | None
    since: Sequence[Version] = ()


@dataclass(frozen=True, slots=True)
class Merged:
    """What becomes of the files.

    Args:
        texts: The new text of each file that changes, None to delete it; copies below `conflicts/`
            are among them.
        conflicts: The copy that holds the other version, for each file in conflict.
        kept: Files that one side deleted and the other edited, so that they stay.
    """

    texts: Mapping[str, str | None] = field(default_factory=dict)
    conflicts: Mapping[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()


def judge(change: EmbodimentChange, here: FileHere) -> Judged:
    """Return where a change stands to the file as it is here.

    What the embodiment sends again, and what it never edited, is `before`: the text tells, since an
    answer may be lost, a request repeated, and a device restored from an old copy.
    """
    at = begun_at(change, here.versions)
    base = here.text(here.versions[at - 1]) if at else None
    since = here.versions[at or 0 :]
    if change.text == here.now:
        return Judged(change, "equal", base, since)
    if at and change.text == base:
        return Judged(change, "before", base, since)
    if any(here.text(version) == change.text for version in since):
        return Judged(change, "before", base, since)
    order: Order = "concurrent" if since else "after"
    return Judged(change, order, base, since)


def begun_at(change: EmbodimentChange, versions: Sequence[Version]) -> int | None:
    """Return how many versions of a file a change knows of; None: it knows of others.

    Those are versions that this journal has lost, or never had.
    """
    if change.base is None:
        return sum(version.at <= change.since for version in versions)
    for count in range(len(versions), -1, -1):
        order = compare(clock_of(versions[:count]), change.base)
        if order == "equal":
            return count
        if order == "before":
            break  # the older ones are before it, too
    return None


def merge(
    judged: Iterable[Judged],
    device: str,
    own: str,
    now: Callable[[str], str | None],
    conflicts: Mapping[str, str],
) -> Merged:
    """Apply the changes that are `after` or `concurrent` to the files.

    Args:
        judged: The changes.
        device: The embodiment that they come from.
        own: This instance.
        now: Returns the text of a file; None: there is none.
        conflicts: The files below `conflicts/` that are there, with their texts.
    """
    every = list(judged)
    texts = {one.change.rel_path: one.change.text for one in every if one.order == "after"}
    both = [one for one in every if one.order == "concurrent"]
    kept = frozenset(
        one.change.rel_path
        for one in both
        if one.change.text is None or now(one.change.rel_path) is None
    )
    restored = {one.change.rel_path: one.change.text for one in both if one.change.text is not None}
    texts |= {path: text for path, text in restored.items() if path in kept}
    clashing = [one for one in both if one.change.rel_path not in kept]
    if not clashing:
        return Merged(texts, {}, kept)
    made, read = _merge_trees(clashing, device, own, now, conflicts)
    ours = {**conflicts, **{one.change.rel_path: now(one.change.rel_path) for one in clashing}}
    for path, blob in made.files.items():
        text = read(blob).decode("utf-8")
        if ours.get(path) != text:
            texts[path] = text
    return Merged(texts, {one.path: one.copy for one in made.conflicts}, kept)


def _merge_trees(
    clashing: Sequence[Judged],
    device: str,
    own: str,
    now: Callable[[str], str | None],
    conflicts: Mapping[str, str],
) -> tuple[MergedTree, Callable[[str], bytes]]:
    """Return three-way merged what both sides changed, and what reads the result."""
    blobs: dict[str, bytes] = {}

    def tree(texts: Mapping[str, str | None]) -> dict[str, str]:
        found = {path: text.encode() for path, text in texts.items() if text is not None}
        blobs.update((blob_id(content), content) for content in found.values())
        return {path: blob_id(content) for path, content in found.items()}

    since = {one.change.rel_path: one.since for one in clashing}

    def our_hands(path: str) -> tuple[Editor, ...]:
        hands = (Editor(v.instance, v.source) for v in since.get(path, ()))
        return tuple(dict.fromkeys(hands))

    base = {one.change.rel_path: one.base for one in clashing}
    ours = {one.change.rel_path: now(one.change.rel_path) for one in clashing}
    theirs = {one.change.rel_path: one.change.text for one in clashing}
    made = merge_trees(
        tree({**conflicts, **base}),
        Side(tree({**conflicts, **ours}), own, our_hands),
        # An edit on an embodiment is a person's, or as good as one: it is never taken for a file
        # that can be made again.
        Side(tree({**conflicts, **theirs}), device, lambda _: (Editor(device, HUMAN),)),
        lambda blob: blobs[blob],
    )
    blobs.update(made.blobs)
    return made, lambda blob: blobs[blob]
