"""A SillyTavern data folder: its files, personas and groups, and the import report."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Final, Literal

from msgspec import Struct, field

from familiar_cli.base import errors
from familiar_cli.base.files import directories_in, is_directory, is_plain
from familiar_cli.base.text import fold, sha256_of, typed
from familiar_cli.imports import foreign_files
from familiar_cli.imports.cards import Card, original_file
from familiar_cli.imports.containers import SUFFIXES
from familiar_cli.imports.foreign_files import text_at
from familiar_cli.imports.import_plan import incomplete_import
from familiar_cli.imports.reading import read_card
from familiar_cli.imports.source import as_source
from familiar_cli.imports.what_is_it import INSIDE, recognise_instead
from familiar_cli.store.memory.store.store import MemoryStore

_TEXTS: Final = ("description", "personality", "scenario", "first_mes", "mes_example")


class Face(Struct, frozen=True):
    """Features of a card for recognising it.

    Args:
        meaning: A digest of everything it says about the character.
        name: The character's name, case-folded.
        texts: Field name and digest of each longer text.
    """

    meaning: str
    name: str
    texts: frozenset[tuple[str, str]]

    def likeness(self, other: Face) -> int:
        """Return a similarity score of two cards; 0: different characters."""
        if self.meaning == other.meaning:
            return len(_TEXTS) + 1
        return len(self.texts & other.texts) if self.name == other.name else 0


def face_of(card: Card) -> Face:
    """Extract the features of a card for comparison."""
    texts = {(field, sha256_of(card.text(field).strip())) for field in _TEXTS if card.text(field)}
    return Face(_card_meaning(card), fold(card.name), frozenset(texts))


def _card_meaning(card: Card) -> str:
    data = dict(card.data)
    if card.extensions:  # its owner's settings are stored in the card, too
        data["extensions"] = {key: value for key, value in card.extensions.items() if key != "fav"}
    return sha256_of(json.dumps(data, sort_keys=True, default=str))


def original_card(store: MemoryStore) -> Card | None:
    """Return the card that a familiar was made from, or None."""
    try:
        content, origin = original_file(store)
        return read_card(content, origin=origin) if origin else None
    except errors.FamiliarError:
        return None


def match_names(wanted: Mapping[str, Face], faces: Mapping[str, Face]) -> dict[str, str]:
    """Match each wanted card with a known one, one to one.

    Args:
        wanted: Cards by any key.
        faces: The cards of familiars, by id.
    """
    result: dict[str, str] = {}
    taken: set[str] = set()
    for _, key, familiar_id in sorted(_likely_pairs(wanted, faces)):
        if key not in result and familiar_id not in taken:
            result[key] = familiar_id
            taken.add(familiar_id)
    return result


def _likely_pairs(
    wanted: Mapping[str, Face], faces: Mapping[str, Face]
) -> Iterator[tuple[int, str, str]]:
    """Yield candidate pairs with a rank, the likeliest having the lowest."""
    by_name: dict[str, list[str]] = {}
    by_content: dict[str, list[str]] = {}
    for familiar_id, face in faces.items():
        by_name.setdefault(face.name, []).append(familiar_id)
        by_content.setdefault(face.meaning, []).append(familiar_id)
    for key, face in wanted.items():
        candidates: Iterable[str] = {*by_name.get(face.name, ()), *by_content.get(face.meaning, ())}
        for familiar_id in candidates:
            likeness = face.likeness(faces[familiar_id])
            if likeness:
                yield -likeness, key, familiar_id


Kind = Literal[
    "character", "world", "chat", "group", "group_chat", "settings", "backup", "link", "other"
]

CARD_SUFFIXES: Final = frozenset((*SUFFIXES.values(), ".yml"))
# What the files of a directory are; only `chats` has directories in it.
_PLACES: Final[dict[str, tuple[Kind, frozenset[str]]]] = {
    "characters": ("character", CARD_SUFFIXES),
    "worlds": ("world", frozenset({".json"})),
    "groups": ("group", frozenset({".json"})),
    "group chats": ("group_chat", frozenset({".jsonl"})),
}

_CHATS: Final = "chats"
# Directories of which one at least makes a folder SillyTavern's.
_SURE: Final = frozenset(("characters", "chats", "group chats"))

_NOISE: Final = frozenset((".ds_store", ".gitkeep", "desktop.ini", "thumbs.db"))


class FoundFile(Struct, frozen=True):
    """A file, or a directory skipped as a whole.

    Args:
        path: Where it is.
        rel_path: Its path below the folder, with `/`.
        kind: Its kind, by location.
        reason: Why it is skipped; empty: it is read.
    """

    path: Path
    rel_path: str
    kind: Kind
    reason: str = ""

    @property
    def stem(self) -> str:
        """Its name without suffix."""
        return self.path.stem

    @property
    def owner(self) -> str:
        """The name of its directory."""
        return self.path.parent.name


class SillyTavernFolder(Struct, frozen=True):
    """A data folder.

    Args:
        root: Its path.
        files: Its files, sorted by path.
    """

    root: Path
    files: tuple[FoundFile, ...]

    def of(self, kind: Kind) -> list[FoundFile]:
        """Return the readable files of a kind."""
        return [file for file in self.files if file.kind == kind and not file.reason]


def is_folder(path: Path) -> bool:
    """Tell whether `path` is the data folder of one user."""
    return any((path / name).is_dir() for name in _SURE)


def find_folder(path: Path) -> SillyTavernFolder:
    """Return the data folder at `path`, or the one unambiguously below it.

    Raises:
        NotFoundError: There is none.
        UsageError: It is a file, or there are the folders of several users.
    """
    if path.is_file():
        raise recognise_instead("folder", path) or errors.UsageError(
            f"{str(path)!r} is a file, not SillyTavern's data folder; nothing was imported",
            hint="Give the folder that holds `characters` and `chats`.",
        )
    if is_folder(path):
        return _read_folder(path)
    usual = [path / inside for inside in INSIDE if is_folder(path / inside)]
    others = directories_in(path, is_folder) if not usual else []
    if len(others) > 1:
        listed = ", ".join(repr(user.name) for user in others)
        raise errors.UsageError(
            f"{str(path)!r} holds the data of several users: {listed}; nothing was imported",
            hint=f"Choose one: `familiar import-sillytavern {typed(str(others[0]))}`.",
        )
    for found in (*usual, *others):
        return _read_folder(found)
    raise errors.NotFoundError(
        f"{str(path)!r} is not SillyTavern's data folder: it has no `characters` and no `chats`",
        hint="It is usually `SillyTavern/data/default-user`.",
    )


def _read_folder(root: Path) -> SillyTavernFolder:
    looking = _FolderScan(root)
    looking.top()
    return SillyTavernFolder(root, tuple(sorted(looking.found, key=lambda file: file.rel_path)))


class _FolderScan:
    """Walks a data folder once."""

    def __init__(self, root: Path) -> None:
        self.found: list[FoundFile] = []
        self._root = root
        self._real = os.path.realpath(root)

    def top(self) -> None:
        for entry in self._entries(self._root, "other"):
            if entry.name in (*_PLACES, _CHATS) and is_directory(entry.path):
                self._place(entry)
            elif entry.name == "settings.json" and is_plain(entry.path):
                self._note(entry, "settings")
            elif entry.name == "backups":
                self._note(entry, "backup", "backup copies are not read")
            else:
                self._note(entry, "other", "not a kind of file that is imported")

    def _place(self, place: os.DirEntry[str]) -> None:
        if place.name in _PLACES:
            self._all(place, *_PLACES[place.name])
            return
        for entry in self._entries(place, "chat"):
            if is_directory(entry.path):
                self._all(entry, "chat", {".jsonl"})
            else:
                self._note(entry, "chat", "it is not in a character's directory")

    def _all(self, directory: os.DirEntry[str], kind: Kind, suffixes: Iterable[str]) -> None:
        for entry in self._entries(directory, kind):
            suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122  # a name, not a path
            if is_directory(entry.path):
                self._note(entry, "other", "a directory")
            elif not is_plain(entry.path):
                self._note(entry, kind, "not a plain file")
            elif suffix not in suffixes:
                target = ", ".join(sorted(suffixes))
                self._note(entry, "other", f"its name does not end in {target}")
            else:
                self._note(entry, kind)

    def _entries(self, directory: os.DirEntry[str] | Path, kind: Kind) -> list[os.DirEntry[str]]:
        """List a directory; note unreadable entries and links that leave the folder."""
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self._note(directory, kind, f"it cannot be read: {error.strerror or error}")
            return []
        inside = []
        for entry in entries:
            if entry.name.startswith("._") or entry.name.lower() in _NOISE:
                continue
            if self._leads_out(entry):
                self._note(entry, "link", "a link that leads out of the folder is not followed")
            else:
                inside.append(entry)
        return inside

    def _leads_out(self, entry: os.DirEntry[str]) -> bool:
        real = os.path.realpath(entry.path)
        try:
            return os.path.commonpath([self._real, real]) != self._real
        except ValueError:  # on another drive
            return True

    def _note(self, entry: os.DirEntry[str] | Path, kind: Kind, reason: str = "") -> None:
        path = Path(entry)
        rel_path = path.relative_to(self._root).as_posix()
        self.found.append(FoundFile(path, rel_path, kind, reason))


class CharacterGroup(Struct, frozen=True):
    """A group of characters.

    Args:
        members: The names of their files in `characters/`.
        chats: The stems of its files in `group chats/`.
    """

    name: str
    members: frozenset[str]
    chats: frozenset[str]
    about: Mapping[str, Mapping[str, Any]] = {}


class BookLinks(Struct, frozen=True):
    """Assignment of books by the settings, by file stem.

    Args:
        everywhere: Books used in all chats.
        of_character: Books of a character besides the one its card names.
        attachments: Files of a character in the Data Bank, below the folder, by its file.
        notes: The author's note of a character, and whether it is before (1) or after (2) the
            chat's, or replaces it (0).
        personas: The name of each persona, by its picture.
    """

    everywhere: frozenset[str] = frozenset()
    of_character: Mapping[str, frozenset[str]] | None = None
    attachments: Mapping[str, tuple[str, ...]] = {}  # msgspec copies it
    notes: Mapping[str, tuple[str, int]] = {}
    personas: Mapping[str, str] = {}

    def of(self, character: str, card: Card) -> frozenset[str]:
        """Return the books of a character.

        Args:
            character: The stem of its file.
        """
        text = text_at(card.extensions, "world")
        more = (self.of_character or {}).get(character, frozenset())
        return self.everywhere | more | ({text} if text else set())


def read_group(file: FoundFile) -> CharacterGroup:
    """Read the group in a file.

    Raises:
        FamiliarError: It is unreadable, or not a group.
    """
    value = _read_object(file)
    members, chats = (
        foreign_files.text_list(value.get("members")),
        foreign_files.text_list(value.get("chats")),
    )
    if not isinstance(value.get("members"), list):
        raise errors.BadInputError(f"{file.rel_path!r} is not a group: it names no members")
    current = text_at(value, "chat_id", "id")
    name = text_at(value, "name").strip() or file.stem
    # Ignore names with a directory in them.
    members_inside, chats_inside = (
        {one for one in names if PurePath(one).name == one}
        for names in (members, [*chats, current])
    )
    # Older versions kept the metadata of its chats here.
    about = {**foreign_files.object_at(value, "past_metadata")}
    about[current] = about.get(current) or value.get("chat_metadata")
    return CharacterGroup(
        name,
        frozenset(members_inside),
        frozenset(chats_inside - {""}),
        {chat: foreign_files.as_object(one) for chat, one in about.items()},
    )


def read_book_links(file: FoundFile) -> BookLinks:
    """Read which books the settings in a file link to characters.

    Raises:
        FamiliarError: It is unreadable, or contains no object.
    """
    value = _read_object(file)
    outer = value.get("world_info_settings")
    info = outer.get("world_info") if isinstance(outer, dict) else value.get("world_info")
    info = foreign_files.as_object(info)
    rows = foreign_files.objects_at(info, "charLore")
    extensions = foreign_files.object_at(value, "extension_settings")
    bank = extensions.get("character_attachments")
    notes = foreign_files.objects_at(foreign_files.object_at(extensions, "note"), "chara")
    personas = foreign_files.object_at(foreign_files.object_at(value, "power_user"), "personas")
    return BookLinks(
        frozenset(foreign_files.text_list(info.get("globalSelect"))),
        {
            text_at(row, "name"): frozenset(foreign_files.text_list(row.get("extraBooks")))
            for row in rows
        },
        {
            name: tuple(text_at(one, "url").lstrip("/") for one in foreign_files.object_list(files))
            for name, files in foreign_files.as_object(bank).items()
        },
        {
            text_at(one, "name"): (text, next((n for n in (1, 2) if one.get("position") == n), 0))
            for one in notes
            if one.get("useChara") and (text := text_at(one, "prompt").strip())
        },
        {picture: text_at(personas, picture) for picture in personas},
    )


def chat_metadata(chat: FoundFile) -> Mapping[str, Any]:
    """Return the metadata in a chat's header; empty if it cannot be read."""
    with suppress(errors.FamiliarError), as_source(chat.path) as source:
        return foreign_files.object_at(source.first, "chat_metadata")
    return {}


def _read_object(file: FoundFile) -> dict[str, Any]:
    value, _ = foreign_files.read_json(foreign_files.read_foreign(file.path), origin=file.rel_path)
    if not isinstance(value, dict):
        raise errors.BadInputError(f"{file.rel_path!r} is not a JSON object")
    return value


Outcome = Literal["imported", "updated", "unchanged", "read", "skipped", "refused"]

OUTCOMES: Final[tuple[Outcome, ...]] = (
    "refused",
    "imported",
    "updated",
    "unchanged",
    "read",
    "skipped",
)
"""All outcomes; what several familiars make of a file comes to the first of theirs."""


NOT_NAMED: Final = "not named by `--only`"
"""The reason of files that belong to other characters than the wanted ones."""


class FileReport(Struct, frozen=True):
    """Outcome for one file.

    Args:
        path: Its path below the folder.
        outcome: `imported` is new, `updated` extends or replaces existing data, `unchanged` was
            already imported, `read` only describes other files, `skipped` is left out on purpose,
            `refused` is unreadable or was rejected.
        reason: Why, unless obvious.
        familiars: The familiars it belongs to.
        incomplete: Whether some of it could not be imported.
    """

    path: str
    kind: Kind
    outcome: Outcome
    reason: str = ""
    familiars: tuple[str, ...] = ()
    incomplete: bool = False


class FamiliarInFolder(Struct, frozen=True):
    """Outcome for one character.

    Args:
        id: The familiar's id.
        character: The character's file.
        outcome: As in `FileReport`.
        turns: Number of turns added.
        already_there: Number of turns that existed before.
        channels: Number of channels they are in.
        memories: Number of lines added of what extensions remember.
        warnings: Oddities.
    """

    id: str
    name: str
    character: str
    outcome: Outcome
    turns: int = 0
    already_there: int = 0
    channels: int = 0
    memories: int = 0
    warnings: tuple[str, ...] = ()


class ImportedFolder(Struct, frozen=True):
    """Result of importing a folder, actual or planned."""

    folder: str
    familiars: tuple[FamiliarInFolder, ...]
    files: tuple[FileReport, ...]

    @property
    def problem(self) -> errors.PartialError | None:
        """The error if the import is incomplete, else None."""
        left = [f for f in self.files if f.outcome == "refused" or f.incomplete]
        mend = "Fix those and run the same command again; nothing is imported twice."
        return incomplete_import([f.path for f in left], mend)  # the report says why


class Register(Struct):
    """Collects the outcome of each file, which several familiars may share."""

    _notes: dict[str, list[FileReport]] = field(default_factory=dict)

    def note(
        self,
        file: FoundFile,
        outcome: Outcome,
        reason: str = "",
        *,
        familiar: str = "",
        incomplete: bool = False,
    ) -> None:
        """Record the outcome of a file, for one familiar."""
        whose = (familiar,) if familiar else ()
        report = FileReport(file.rel_path, file.kind, outcome, reason, whose, incomplete)
        self._notes.setdefault(file.rel_path, []).append(report)

    def knows(self, file: FoundFile) -> bool:
        """Tell whether an outcome of a file was recorded."""
        return file.rel_path in self._notes

    def reports(self) -> tuple[FileReport, ...]:
        """Return one report per file, sorted by path."""
        return tuple(_join_reports(self._notes[path]) for path in sorted(self._notes))


def _join_reports(notes: list[FileReport]) -> FileReport:
    first = min(notes, key=lambda note: OUTCOMES.index(note.outcome))
    reasons = dict.fromkeys(note.reason for note in notes if note.reason)
    return FileReport(
        first.path,
        first.kind,
        first.outcome,
        "; ".join(reasons),
        tuple(dict.fromkeys(name for note in notes for name in note.familiars)),
        any(note.incomplete for note in notes),
    )
