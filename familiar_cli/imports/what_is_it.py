"""Detect what a file from outside is, and which command imports it.

A file is recognised by the formats of the registry, a directory by what lies in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal
from zipfile import is_zipfile

from msgspec import Struct

from familiar_cli.base.errors import BadInputError, FamiliarError, NotFoundError, RefusedError
from familiar_cli.base.files import directories_in
from familiar_cli.base.text import typed
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.containers import unpack_members
from familiar_cli.imports.contract import Form, Reading, Recognition, recognise
from familiar_cli.imports.foreign_files import DamagedError, read_foreign
from familiar_cli.imports.import_plan import export_of
from familiar_cli.imports.reading import NO_CHAT, describe_unknown, hint_for
from familiar_cli.imports.source import DOCUMENTS, ForeignFile, as_source
from familiar_cli.store.memory.layout import PERIOD_DIRS, PRIVATE_DIRS, SIGNIFICANT_DIR

Kind = Literal[
    "card",
    "lorebook",
    "chat",
    "folder",
    "persona",
    "memories",
    "vault",
    "export",
    "several",
    "settings",
    "group",
    "archive",
]

_WANTED: Final[dict[Kind, str]] = {
    "card": "a character card",
    "lorebook": "a lorebook",
    "chat": "a chat",
    "folder": "SillyTavern's data folder",
    "persona": "a persona folder",
}
INSIDE: Final = ("default-user", "data/default-user", "public")
"""Where the usual user's data lies: below `data/`, below the program, in versions before 1.12."""

_PARTS: Final = ("characters", "chats")  # directories that together mark a data folder
_CHATS: Final = (".jsonl", ".ndjson")
_CHAT_FILES: Final = (*_CHATS, ".json", ".txt", ".md", ".log", ".csv")
CANDIDATES: Final = frozenset(
    (
        *(*_CHATS, ".json", ".png", ".apng", ".charx", ".byaf", ".af", ".mem"),
        *(".yaml", ".yml", ".txt", ".log", ".csv", ".html", ".zip", ".md"),
    )
)
"""Ends of the files of a directory that are looked at."""

_TIERS: Final = (*PERIOD_DIRS, SIGNIFICANT_DIR)
_IMPORTED_FILES: Final = frozenset({"card", "lorebook", "chat", "memories"})
_MAC_DATA: Final = "__MACOSX"  # of the Finder, beside the files that it packed
_SAMPLE: Final = 20  # most notes to examine
_MOST_FILES: Final = 5_000
_START_BYTES: Final = 4096
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_BEGINNINGS: Final = (b"\x89PNG", b"PK\x03\x04", b"{", b"[{", b"[\n", b"[\r\n", b"[ ")
_OBSIDIAN: Final = ".obsidian"
_KINDS_HINT: Final = (
    "Cards, lorebooks, chats, memories of other assistants, SillyTavern's data folder, persona "
    "folders, memories by day, vaults of Markdown and exports can be imported."
)


class Recognized(Struct, frozen=True):
    """Detected kind of a file or directory.

    Args:
        kind: The kind, in one word.
        title: The kind, in words.
        hint: What to do with it.
        members: For a directory of mixed kinds, each file of a known kind.
        unknown: For such a directory, the other files.
        forms: The common forms that a file can have, in the order of their import.
    """

    kind: Kind
    title: str
    hint: str
    members: tuple[tuple[Path, Recognized], ...] = ()
    unknown: tuple[Path, ...] = ()
    forms: tuple[Form, ...] = ()


@contextmanager
def taken_for(target: Kind, file: str | Path | None) -> Iterator[None]:
    """Make refusals in the block name the right command if the file is something else.

    Args:
        target: The kind that the block expects.
        file: The file or directory; None or `-`: standard input, which is not read twice.

    Raises:
        BadInputError: An error of the block, with a better message.
    """
    try:
        yield
    except RefusedError as error:
        if type(error) not in (RefusedError, BadInputError, DamagedError):  # a limit, or a lock
            raise
        better = (
            None if file in (None, "-") else recognise_instead(target, Path(str(file)).expanduser())
        )
        if better is None:
            raise
        if target == "lorebook" and "card" in str(error):  # this one has no book
            better = BadInputError(str(error), hint=better.hint)
        raise better from error


def recognise_instead(target: Kind, path: Path) -> BadInputError | None:
    """Build the error that says what a file really is; None if that is unknown."""
    recognition = what_is(path)
    if recognition is None or recognition.kind == target:
        return None
    if recognition.kind == "archive" and target == "card":  # some are; the error has been stated
        return None
    return BadInputError(
        f"{path.name!r} is {recognition.title}, not {_WANTED[target]}; nothing was imported",
        hint=recognition.hint,
    )


def what_is(path: Path) -> Recognized | None:
    """Recognize a file or directory by its content; None if unknown."""
    return next(iter(readings_of(path)), None)


def readings_of(path: Path) -> list[Recognized]:
    """Return the possible kinds of a file or directory, most certain first."""
    if path.is_dir():
        return _readings_of_directory(path)
    recognition = _recognise_file(path)
    if path.suffix.lower() != ".md":
        return [recognition] if recognition else []
    note = Recognized("vault", "a note", f"Import it: `familiar import {typed(str(path))}`.")
    return [recognition, note] if recognition else [note] if _is_text(path) else []


def _recognise_file(path: Path) -> Recognized | None:
    try:
        with as_source(path) as source:
            for recognition in recognise(source):
                if recognition.is_certain or _has_content(recognition, source):
                    return _as_recognized(recognition, path)
            if source.shape == "archive" and is_zipfile(path):
                hint = f"Import it: `familiar import {typed(str(path))}`."
                return Recognized("archive", "a zip archive", hint)
    except (FamiliarError, OSError):
        pass
    return None


def is_archive(path: Path) -> bool:
    """Tell whether a file is a zip archive that no format reads as a whole."""
    recognition = what_is(path) if path.is_file() and is_zipfile(path) else None
    return recognition is not None and recognition.kind == "archive"


def unpack_archive(path: Path, stack: ExitStack) -> Path:
    """Unpack a zip archive; its files are deleted when `stack` is closed.

    Returns:
        The directory, or the only one in it, since archives often have one for all their files.

    Raises:
        BadInputError: It is damaged, too large, or holds nothing that can be imported.
    """
    scratch = Path(stack.enter_context(TemporaryDirectory(prefix="familiar-")))
    directory = scratch / path.stem
    try:
        unpack_members(read_foreign(path), directory, origin=path.name)
    except BadInputError as error:
        hint = error.hint or "Unpack it, and import the directory."
        raise type(error)(f"{error}; nothing was imported", hint=hint) from error
    if not readings_of(directory):
        raise BadInputError(
            f"{path.name!r} is a zip archive that holds no file that can be imported; nothing was "
            "imported",
            hint=_KINDS_HINT,
        )
    while _root_of_memories(directory) is None:
        inside = [one for one in directory.iterdir() if one.name != _MAC_DATA]
        if len(inside) != 1 or not inside[0].is_dir():
            break
        directory = inside[0]
    return directory


def _as_recognized(recognition: Recognition, path: Path) -> Recognized:
    form = recognition.form
    hint = recognition.format.advice or hint_for(form, str(path))
    return Recognized(form, recognition.title, hint, forms=recognition.forms)


def _has_content(recognition: Recognition, source: ForeignFile) -> bool:
    """Tell whether a file of a possible format holds anything of it."""
    try:
        next(iter(recognition.format.read(source, Reading(Cast(unnamed="familiar")))), None)
    except BadInputError:
        return False
    except RefusedError:  # a chat with somebody else
        pass
    return True


def is_data_folder(path: Path) -> bool:
    """Tell whether a directory must be, or contain, SillyTavern's data folder."""
    places = (path, *(path / inside for inside in INSIDE))
    return any(all((place / part).is_dir() for part in _PARTS) for place in places)


def _readings_of_directory(path: Path) -> list[Recognized]:  # noqa: PLR0911  # one for each kind
    if sure := _recognise_directory(path):
        return [sure]
    name = typed(str(path))
    vault = Recognized("vault", "a vault of notes", f"Import it: `familiar import {name}`.")
    source = ForeignFile(path, str(path))
    recognitions = [_as_recognized(one, path) for one in recognise(source, "memories")]
    if (path / _OBSIDIAN).is_dir():
        return [vault, *recognitions]
    if recognitions:
        return [*recognitions, vault] if any(path.rglob("*.md")) else recognitions
    parts = _parts_of(path)
    files = _list_files(path, parts)
    is_mixed = any(file.suffix.lower() != ".md" and may_be_known(file) for file in files)
    kinds = [known.kind for _, known in parts]
    if kinds.count("folder") > 1 or (kinds == ["folder"] and not is_mixed):
        return [_data_folder(name)]
    if not is_mixed and set(kinds) <= {"memories", "vault"}:  # directories of one vault
        parts, files = [], _list_files(path)
    notes = [file for file in files if file.suffix.lower() == ".md"]
    if set(kinds) <= {"memories", "vault"} and (root := _root_of_memories(path)):
        hint = f"Import it: `familiar import-memories {name}`."
        memories = Recognized("memories", "memories by day, week, month and year", hint)
        return [vault, memories] if _has_other_notes(root, notes) else [memories]
    others = [f for f in files if f not in notes and may_be_known(f)]
    if not notes or others or parts:
        return _of_members(path, others, files, [vault] if notes else [], parts)
    chats = sum(_is_transcript(file) for file in notes[:_SAMPLE])
    if chats == len(notes[:_SAMPLE]):
        return [_chats_in(name)]
    return [vault, _chats_in(name)] if chats else [vault]


def _recognise_directory(path: Path) -> Recognized | None:
    """Recognise a directory whose kind is unambiguous."""
    name = typed(str(path))
    if export_of(path):
        hint = f"Import it: `familiar import {name}`."
        return Recognized("export", "an export of familiars", hint)
    if is_data_folder(path):
        return _data_folder(name)
    if _has_persona(path):
        hint = f"Make a familiar from it: `familiar init --from-persona {name}`."
        return Recognized("persona", "a persona folder", hint)
    return None


def _parts_of(path: Path) -> list[tuple[Path, Recognized]]:
    """Return the directories in a directory that are imported as a whole."""
    parts = []
    for part in directories_in(path, lambda one: one.name[0] != "."):
        if known := _recognise_directory(part):
            parts.append((part, known))
        elif (part / _OBSIDIAN).is_dir() or any((part / tier).is_dir() for tier in _TIERS):
            parts.append((part, _readings_of_directory(part)[0]))
    return parts


def may_be_known(file: Path) -> bool:
    """Tell whether a file may be importable, by its name or, for any other name, its beginning."""
    if file.suffix.lower() in CANDIDATES:
        return True
    try:
        if not file.is_file():  # a pipe, say
            return False
        with file.open("rb") as stream:
            return stream.read(_START_BYTES).lstrip(_BLANK).startswith(_BEGINNINGS)
    except OSError:
        return False


def _data_folder(name: str) -> Recognized:
    hint = f"Import all of it: `familiar import-sillytavern {name}`."
    return Recognized("folder", "SillyTavern's data folder", hint)


def _chats_in(name: str) -> Recognized:
    return Recognized("chat", "a directory of chats", f"Import it: `familiar import-chat {name}`.")


def _of_members(
    path: Path,
    files: Sequence[Path],
    every: Sequence[Path],
    otherwise: list[Recognized],
    parts: Sequence[tuple[Path, Recognized]],
) -> list[Recognized]:
    """Return the possible kinds of a directory, judged by its files.

    Args:
        path: The directory.
        files: Its candidate files.
        every: All of its files; among the notes may be what a program remembers.
        otherwise: The result if none of them is recognised.
        parts: Directories in it that are imported as a whole; their files are not in `every`.
    """
    if not parts and all(file.suffix.lower() in _CHATS for file in files):
        return [_chats_in(typed(str(path)))] if files else otherwise
    items = [(file, recognition) for file in files if (recognition := what_is(file))]
    members = [*parts, *((file, known) for file, known in items if known.kind in _IMPORTED_FILES)]
    if members or not otherwise:  # beside notes alone, an archive is an attachment
        packed = (file for file, known in items if known.kind == "archive")
        archives = [file for file in packed if file.suffix.lower() == ".zip"]
        members += [(file, known) for file, known in items if file in archives]
    is_of_chats = all(
        known.kind == "chat" and "card" not in known.forms and file.suffix.lower() in _CHAT_FILES
        for file, known in members
    )
    if members and is_of_chats and (len(members) > 1 or not otherwise):
        return [_chats_in(typed(str(path)))]
    if not members:
        return otherwise
    notes = [file for file in every if file.suffix.lower() == ".md"]
    lists = [(note, known) for note in notes if (known := _recognise_file(note))]
    members += [(note, known) for note, known in lists if known.kind == "memories"]
    known_files = {file for file, _ in members}
    rest = tuple(file for file in every if file not in known_files)
    hint = f"Import it: `familiar import {typed(str(path))}`."
    title = "a directory of files to import"
    return [Recognized("several", title, hint, tuple(members), rest), *otherwise]


def _root_of_memories(path: Path) -> Path | None:
    """Return the root of a tree of memories at a directory or below it, or None."""
    roots = [path / below for below in ("", "memories", "data/memories")]
    return next((root for root in roots if any((root / tier).is_dir() for tier in _TIERS)), None)


def _has_other_notes(root: Path, notes: Sequence[Path]) -> bool:
    """Tell whether a directory has notes outside the tree of memories at its top."""
    tiers = [root / tier for tier in _TIERS]
    others = [note for note in notes if not any(tier in note.parents for tier in tiers)]
    return any(root in note.parents and note.stem.casefold() != "readme" for note in others)


def _has_persona(path: Path) -> bool:
    from familiar_cli.imports.personas import find_personas  # noqa: PLC0415

    try:
        return bool(find_personas(path))
    except FamiliarError:
        return False


def _list_files(path: Path, parts: Sequence[tuple[Path, Recognized]] = ()) -> list[Path]:
    """Return the files below a directory that matter, except hidden ones and those of its parts."""
    paths, outside = list[Path](), {part for part, _ in parts}
    for here, directories, names in os.walk(path):
        directories[:] = sorted(
            name
            for name in directories
            if name not in PRIVATE_DIRS and name[0] != "." and Path(here, name) not in outside
        )
        paths.extend(Path(here, name) for name in sorted(names) if name[0] != ".")
        if len(paths) > _MOST_FILES:
            break
    return paths


def _is_transcript(file: Path) -> bool:
    recognition = _recognise_file(file)
    return recognition is not None and recognition.kind == "chat"


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            start = stream.read(_START_BYTES)
            start.decode("utf-8-sig", errors="strict" if len(start) < _START_BYTES else "ignore")
    except (OSError, UnicodeDecodeError):
        return False
    return bool(start.strip()) and b"\0" not in start


def explain_unknown(path: Path) -> FamiliarError:
    """Return the error for a file or directory that cannot be imported, with the reason."""
    if not os.path.lexists(path):
        return NotFoundError(f"No such file or directory: {str(path)!r}", hint="Check the path.")
    if path.is_dir():
        is_empty = not _list_files(path)
        what = "is empty" if is_empty else "holds no file that can be imported"
        return BadInputError(f"{str(path)!r} {what}; nothing was imported", hint=_KINDS_HINT)
    return why_unknown(path)[1]


def why_unknown(path: Path) -> tuple[str, FamiliarError]:
    """Return why a file cannot be imported, and the error; no reason if it cannot be read.

    The error of a damaged file is a `DamagedError`.
    """
    try:
        with as_source(path) as source:
            why = _why_unknown(source)
            reason = str(why).replace(repr(source.name), "it")
            as_text = f" `familiar import {typed(str(path))} --kind memories` reads any text."
            hint = f"{_KINDS_HINT}{as_text if source.shape == 'text' else ''}"
    except FamiliarError as error:
        return "", error
    reason = reason.removesuffix("; nothing was imported").removesuffix(", not a chat")
    kind = DamagedError if isinstance(why, DamagedError) else BadInputError
    return reason, kind(
        f"{path.name!r} cannot be imported ({reason}); nothing was imported",
        hint=why.hint if why.hint != NO_CHAT else hint,
    )


def _why_unknown(source: ForeignFile) -> FamiliarError:
    is_text = source.shape in ("text", "empty") or source.start.startswith(DOCUMENTS)
    is_whole = not is_text and source.suffix not in _CHATS
    if is_whole and isinstance(source.card_file, FamiliarError):
        return source.card_file
    return describe_unknown(source)
