"""Create familiars from a card or a persona folder: all of it, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from familiar_cli.bootstrap.folders import FolderImportOptions, plan_folder, read_folder
from familiar_cli.bootstrap.personas import LEDGER, NAMES, PersonaDir, map_persona, template_folder
from familiar_cli.bootstrap.staging import build
from familiar_cli.bootstrap.unpack_character import plan_unpack
from familiar_cli.config.home import FamiliarPaths
from familiar_cli.errors import UsageError
from familiar_cli.identity import check_familiar_id
from familiar_cli.text import one_line, slugify, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.bootstrap.folders import FolderContents, FolderPlan
    from familiar_cli.bootstrap.import_report import FamiliarReport
    from familiar_cli.identity import Author
    from familiar_cli.memory.store.store import MemoryStore


_MAX_NAME_CHARS = 200


def create_familiar(
    home: Path,
    card: Card,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    *,
    familiar_id: str | None = None,
    overwrite: bool = False,
    keep_edits: bool = False,
    dry_run: bool = False,
) -> FamiliarReport:
    """Make a familiar out of `card`, or bring an existing one up to it.

    Args:
        home: Where the familiars live; it is made when it is not there.
        card: What it is made of.
        open_store: Opens the memory of a familiar.
        familiar_id: Its id; else the card's name, else the name of the card's file.
        overwrite: Text that differs from the card's may be overwritten.
        keep_edits: But not what a person has edited of the card's book.
        dry_run: Check everything, and leave nothing on disk.

    Raises:
        UsageError: `familiar_id` could not be an id.
        RefusedError: The familiar exists with other text and `overwrite` is not set.
        FamiliarError: The disk refused; what was there before is as it was.
    """
    paths = FamiliarPaths(home / (check_familiar_id(familiar_id) if familiar_id else id_for(card)))
    return build(
        paths,
        open_store,
        lambda store: plan_unpack(card, store, overwrite=overwrite, keep_edits=keep_edits),
        name=called(card),
        message=f"unpack {one_line(card.name, 60)}",
        dry_run=dry_run,
    )


def id_for(card: Card) -> str:
    """Return the id that a familiar made of `card` gets when none is given."""
    for name in (card.name, PurePath(card.origin).stem):
        try:
            return check_familiar_id(slugify(name))
        except UsageError:
            continue
    return "familiar"


def called(card: Card) -> str:
    """Return what the character is called: the nickname, else the name."""
    return one_line(card.text("nickname"), _MAX_NAME_CHARS) or one_line(card.name, _MAX_NAME_CHARS)


_MAX_PERSONA_NAME_CHARS = 200
_OVERWRITE = "Add `--overwrite` to replace them with the persona's text, or use another ID."


@dataclass(frozen=True, slots=True)
class PersonaCard:
    """A persona, read.

    Args:
        id: The id that the familiar gets.
        name: What it is called.
        folder: Its files.
        user: Whom `USER.md` is about.
        user_name: What they are called where `USER.md` does not say so.
    """

    id: str
    name: str
    folder: FolderContents
    user: Author
    user_name: str = ""


def read_personas(
    found: Sequence[PersonaDir], user: Author, *, familiar_id: str | None = None
) -> list[PersonaCard]:
    """Return the personas in folders, each with an id of its own.

    Raises:
        UsageError: One id was given for several; or `familiar_id` could not be an id.
        FamiliarError: A folder cannot be read.
    """
    if familiar_id and len(found) > 1:
        listed = "; ".join(f"`familiar init --from-persona {typed(str(p.path))}`" for p in found)
        raise UsageError(
            f"There are {len(found)} personas, but only one ID; nothing was written",
            hint=f"Omit the ID to create all of them, or choose one: {listed}.",
        )
    return [
        PersonaCard(
            id=check_familiar_id(familiar_id) if familiar_id else persona_id(one, found),
            name=one_line(_shown(one.name), _MAX_PERSONA_NAME_CHARS),
            folder=read_folder(one.path),
            user=user,
            user_name=_shown(one.user),
        )
        for one in found
    ]


def template_persona(template: str, user: Author, *, familiar_id: str | None = None) -> PersonaCard:
    """Return the persona of a template.

    Raises:
        UsageError: `familiar_id` could not be an id.
    """
    name = _shown(familiar_id) if familiar_id else NAMES[template]
    wanted = check_familiar_id(familiar_id) if familiar_id else slugify(name)
    return PersonaCard(wanted, name, template_folder(template), user)


def persona_id(one: PersonaDir, among: Sequence[PersonaDir] = ()) -> str:
    """Return the id that a persona gets when none is given: its name, else the user's before it."""
    twins = [other for other in among if slugify(other.name) == slugify(one.name)]
    name = one.name if len(twins) < 2 else f"{one.user} {one.name}"  # noqa: PLR2004
    try:
        return check_familiar_id(slugify(name))
    except UsageError:
        return "familiar"


def create_from_persona(
    home: Path,
    persona: PersonaCard,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    *,
    update: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
) -> FamiliarReport:
    """Make a familiar out of a persona, or bring an existing one up to it, in one transaction.

    Args:
        home: Where the familiars live; it is made when it is not there.
        persona: What it is made of.
        open_store: Opens the memory of a familiar.
        update: Files whose source has changed may be written anew.
        overwrite: So may files that hold something else.
        dry_run: Check everything, and leave nothing on disk.

    Raises:
        RefusedError: The familiar has other text, or the folder has changed.
        FamiliarError: The disk refused; what was there before is as it was.
    """
    wish = FolderImportOptions(update, overwrite, force_hint=_OVERWRITE)
    return build(
        FamiliarPaths(home / persona.id),
        open_store,
        lambda store: _plan(store, persona, wish),
        name=persona.name,
        message=f"persona {one_line(persona.name, 60)}",
        dry_run=dry_run,
    )


def _plan(store: MemoryStore, persona: PersonaCard, wish: FolderImportOptions) -> FolderPlan:
    files = persona.folder.files
    mapped = map_persona(files, persona.user, persona.user_name)
    return plan_folder(
        store,
        mapped.pieces,
        LEDGER,
        wish,
        sources=files,
        left_out=persona.folder.left_out,
        warnings=(*persona.folder.notes, *mapped.warnings),
    )


def _shown(name: str) -> str:
    """Return a folder's name as a person would write it; a name with a capital stays as it is."""
    return name.replace("-", " ").replace("_", " ").title() if name.islower() else name
