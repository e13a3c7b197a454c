"""Say who may hear a page of memory, and find the pages that others hear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import Struct

from familiar_cli.base import errors
from familiar_cli.base.text import fold
from familiar_cli.base.who.identity import NEUTRAL
from familiar_cli.base.who.visibility import (
    OWNER,
    OWNERS,
    PUBLIC,
    SHARED,
    channel_scope,
    person_scope,
)
from familiar_cli.store.history.recall import search
from familiar_cli.store.history.selection import TurnFilter, only_speaker
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.aliases import names_of, slug_in
from familiar_cli.store.memory.pages.visible_lines import told_to, visible_in, with_audience

if TYPE_CHECKING:
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.familiar import Familiar
    from familiar_cli.store.memory.store.files import WriteResult

_MOST_HITS = 50  # turns that are looked at for a name
_ALWAYS_PUBLIC = (f"{layout.SELF_DIR}/", f"{layout.LORE_DIR}/")


def set_audience(
    familiar: Familiar, target: str, scope: str, *, dry_run: bool = False
) -> WriteResult:
    """Mark a page, or one of its sections, as told to those of a scope.

    Args:
        familiar: The familiar.
        target: A path, or `PATH#SECTION`.
        scope: `PUBLIC`, `OWNERS`, or another scope, which is told beside the owner.
        dry_run: Whether to change nothing.

    Raises:
        NotFoundError: There is no such file or section.
        RefusedError: It is in the folder of a private conversation.
    """
    rel_path, _, section = target.partition("#")
    if layout.scope_of_path(rel_path) == SHARED:
        raise errors.RefusedError(
            f"{rel_path!r} is the public version of a page; nothing was changed",
            hint=f"`familiar memory rm {rel_path}` removes it.",
        )
    if layout.scope_of_path(rel_path):
        raise errors.RefusedError(
            f"{rel_path!r} belongs as a whole to a private conversation; nothing was changed",
            hint="Copy what others may see to a separate page.",
        )
    file = familiar.memory.read(rel_path)
    stem = rel_path.rpartition("/")[2].removesuffix(".md")
    text = with_audience(file.text, section.strip(), scope, stem)
    if text is None:
        raise errors.NotFoundError(
            f"{rel_path!r} has no section {section.strip()!r}; nothing was changed",
            hint=f"Show the file: `familiar memory cat {rel_path}`.",
        )
    what = f"{'unpublish' if scope == OWNERS else 'publish'} {target}"
    with familiar.memory.transaction("human", what, dry_run=dry_run) as tx:
        tx.write(rel_path, text, expect=file.sha256)
    return tx.result


def scope_named(familiar: Familiar, name: str) -> str:
    """Return the scope to tell, given a channel, a person's name or an account.

    Raises:
        NotFoundError: Nobody, and no channel, has this name.
        UsageError: Several people have it.
    """
    from familiar_cli.actions.people.people import find_person

    channel_ids = {channel.channel_id for channel in familiar.history.channels()}
    if name in channel_ids:
        rules = familiar.privacy.rules()
        return told_to(rules.private.get(name) or rules.one_to_one.get(name, channel_scope(name)))
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        return told_to(person_scope(find_person(familiar, names, name)))


class Audience(Struct, frozen=True):
    """Pages by who may hear them, once somebody besides the owner has spoken.

    Args:
        notes: Pages with text that nobody said, which others may hear.
        withheld: Pages with lines that rest on what the owner said in private.
        is_room_open: Whether everybody sees what the owner says in their own room.
    """

    notes: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    is_room_open: bool = False


def survey_audience(familiar: Familiar) -> Audience:
    """Find the pages that others may hear, and those that are withheld from them.

    Raises:
        FamiliarError: The memory cannot be listed.
    """
    everyone = familiar.privacy.program()
    if not has_others(familiar):
        return Audience()
    notes, withheld = list[str](), list[str]()
    for rel_path, text in _pages(familiar):
        shown = visible_in(text, everyone, rel_path)
        if shown != text and not layout.is_owners_page(rel_path):
            withheld.append(rel_path)
        if shown.strip() and "<!-- turn" not in text:
            notes.append(rel_path)
    has_begun, only = only_speaker(familiar.history, NEUTRAL.platform)
    is_group = has_begun and only is None
    is_open = is_group and everyone.rules.scope_said(NEUTRAL.platform, None) == PUBLIC
    return Audience(tuple(notes), tuple(withheld), is_open)


def is_heard(familiar: Familiar, rel_path: str) -> bool:
    """Tell whether everybody may see something of a page that could be the owner's."""
    if rel_path.startswith(_ALWAYS_PUBLIC):
        return False
    text = familiar.memory.readable(rel_path)
    return bool(visible_in(text, familiar.privacy.program(), rel_path).strip())


def has_others(familiar: Familiar) -> bool:
    """Tell whether anybody but the owners has spoken."""
    own = familiar.privacy.own
    return any(one.author.slug not in own for one in familiar.history.speakers(OWNER))


def private_names(familiar: Familiar) -> list[tuple[str, str]]:
    """Find names that a person's page tells everybody and that only private turns use.

    Returns:
        The page and the name of each.

    Raises:
        FamiliarError: The memory or the history cannot be read.
    """
    everyone, history = familiar.privacy.program(), familiar.history
    called = {fold(one.author.label) for one in history.speakers(everyone)}

    def is_heard(name: str, viewer: Viewer) -> bool:
        hits = search(history, name, TurnFilter(viewer), limit=_MOST_HITS, neighbours=0)
        return any(fold(name) in fold(hit.turn.content) for hit in hits)

    return [
        (rel_path, name)
        for rel_path, text in _pages(familiar)
        if slug_in(rel_path)
        for name in names_of(visible_in(text, everyone, rel_path))
        if fold(name) not in called and not is_heard(name, everyone) and is_heard(name, OWNER)
    ]


def _pages(familiar: Familiar) -> Iterator[tuple[str, str]]:
    for entry in familiar.memory.walk(missing_ok=True).files:
        path = entry.rel_path
        is_open = path.startswith(_ALWAYS_PUBLIC) or layout.scope_of_path(path) != PUBLIC
        if layout.is_page(path) and not layout.is_hidden(path) and not is_open:
            try:
                yield path, familiar.memory.read_file(path)
            except errors.FamiliarError:  # `familiar doctor` names it
                continue
