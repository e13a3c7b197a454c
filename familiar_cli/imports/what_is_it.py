"""What a file from outside is, whatever it was given for, and which command takes it.

Asked when a reader has refused a file: each of the readers is tried on it, and says by its content
whether it is one of theirs.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.errors import BadInputError, FamiliarError, RefusedError
from familiar_cli.text import typed

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["card", "lorebook", "chat", "folder", "persona", "settings", "group", "archive"]

_WANTED: Final[dict[Kind, str]] = {
    "card": "a character card",
    "lorebook": "a lorebook",
    "chat": "a chat",
    "folder": "SillyTavern's data folder",
    "persona": "a persona folder",
}
INSIDE: Final = ("default-user", "data/default-user", "public")
"""Where the usual user's data lies: below `data/`, below the program, in versions before 1.12."""

_PARTS: Final = ("characters", "chats")  # directories that only a data folder has both of
_PERSONA: Final = ("IDENTITY.md", "SOUL.md", "PROTOCOLS.md")
_CHATS: Final = (".jsonl", ".ndjson")
_NO_CHATS: Final = (".yaml", ".yml")  # a key and its value look like a speaker and their words


@dataclass(frozen=True, slots=True)
class Recognized:
    """What a file or directory is.

    Args:
        kind: In one word.
        title: In words.
        hint: What to do with it.
    """

    kind: Kind
    title: str
    hint: str


@contextmanager
def taken_for(wanted: Kind, file: str | Path | None) -> Iterator[None]:
    """Let a refusal in the block name the right command, if the file is something else.

    Args:
        wanted: What the block takes it for.
        file: The file or directory; None or `-`: standard input, which is not read twice.

    Raises:
        BadInputError: What the block raises, in better words.
    """
    try:
        yield
    except RefusedError as error:
        if type(error) not in (RefusedError, BadInputError):  # a limit, or a lock
            raise
        better = (
            None if file in (None, "-") else recognise_instead(wanted, Path(str(file)).expanduser())
        )
        if better is None:
            raise
        if wanted == "lorebook" and "card" in str(error):  # it may hold a book, but this does not
            better = BadInputError(str(error), hint=better.hint)
        raise better from error


def recognise_instead(wanted: Kind, path: Path) -> BadInputError | None:
    """Return the error that a file or directory is something else; None: nobody knows it."""
    found = what_is(path)
    if found is None or found.kind == wanted:
        return None
    if (found.kind, wanted) == ("archive", "card"):  # some cards are; what is wrong was said
        return None
    return BadInputError(
        f"{path.name!r} is {found.title}, not {_WANTED[wanted]}; nothing was imported",
        hint=found.hint,
    )


def what_is(path: Path) -> Recognized | None:
    """Recognize a file or directory by its content; None if unknown."""
    if path.is_dir():
        return _recognise_directory(path)
    for kind in (
        _recognise_settings,
        _recognise_card,
        _recognise_archive,
        _service_chat,
        _recognise_lorebook,
    ):
        try:
            found = kind(path)
        except (FamiliarError, OSError):
            continue
        if found:
            return found
    return None


def is_data_folder(path: Path) -> bool:
    """Tell whether a directory can only be SillyTavern's data folder, or holds one."""
    places = (path, *(path / inside for inside in INSIDE))
    return any(all((place / part).is_dir() for part in _PARTS) for place in places)


def _recognise_directory(path: Path) -> Recognized | None:
    name = typed(str(path))
    if is_data_folder(path):
        return Recognized(
            "folder",
            "SillyTavern's data folder",
            f"Import all of it: `familiar import-sillytavern {name}`.",
        )
    if any((path / file).is_file() for file in _PERSONA):
        hint = f"Make a familiar of it: `familiar init --from-persona {name}`."
        return Recognized("persona", "a persona folder", hint)
    try:
        has_chats = any(entry.suffix.lower() in _CHATS for entry in path.iterdir())
    except OSError:
        has_chats = False
    if has_chats:
        return Recognized(
            "chat", "a directory of chats", f"Import it: `familiar import-chat {name}`."
        )
    return None


def _recognise_settings(path: Path) -> Recognized | None:
    value = _whole_object(path)
    name = typed(str(path))
    if isinstance(value.get("power_user"), dict):
        return Recognized(
            "settings",
            "SillyTavern's settings",
            f"To take your persona from it: `familiar me --from-sillytavern {name}`.",
        )
    if isinstance(value.get("members"), list) and {"chat_id", "chats"} & value.keys():
        return Recognized(
            "group",
            "a SillyTavern group",
            "Import the whole data folder: `familiar import-sillytavern DIR`.",
        )
    return None


def _recognise_card(path: Path) -> Recognized | None:
    from familiar_cli.imports.cards import read_card  # noqa: PLC0415  # only after a refusal
    from familiar_cli.imports.foreign_files import read_foreign  # noqa: PLC0415

    read_card(read_foreign(path), origin=path.name)
    hint = f"Make a familiar of it: `familiar init --from-card {typed(str(path))}`."
    return Recognized("card", "a character card", hint)


def _recognise_archive(path: Path) -> Recognized | None:
    with path.open("rb") as stream:
        if not stream.read(4).startswith(b"PK\x03\x04"):
            return None
    return Recognized(
        "archive", "a zip archive", "Unpack it, and give a file or directory from it."
    )


def _service_chat(path: Path) -> Recognized | None:
    from familiar_cli.imports.chat_formats import read_chats  # noqa: PLC0415
    from familiar_cli.imports.foreign_chat import (  # noqa: PLC0415
        TITLES,
        ForeignChat,
        Reading,
        as_source,
    )

    if path.suffix.lower() in _NO_CHATS:
        return None
    title = "a chat"
    try:
        with as_source(path) as source:
            first = next(read_chats(source, Reading()), None)
            title += f" ({TITLES[first.format]})" if isinstance(first, ForeignChat) else ""
    except BadInputError:
        return None
    except RefusedError:  # a chat with somebody else
        pass
    return Recognized("chat", title, f"Import it: `familiar import-chat {typed(str(path))}`.")


def _recognise_lorebook(path: Path) -> Recognized | None:
    from familiar_cli.imports.foreign_files import read_foreign  # noqa: PLC0415
    from familiar_cli.imports.import_lorebook import load_book  # noqa: PLC0415

    load_book(read_foreign(path), origin=path.name)
    hint = f"Import it: `familiar import-lorebook {typed(str(path))}`."
    return Recognized("lorebook", "a lorebook", hint)


def _whole_object(path: Path) -> dict[str, Any]:
    """Return the object that a whole file of JSON is; an empty one for any other file."""
    from familiar_cli.imports.foreign_files import read_foreign, read_json  # noqa: PLC0415

    if path.suffix.lower() != ".json":
        return {}
    value, _ = read_json(read_foreign(path), origin=path.name)
    return value if isinstance(value, dict) else {}
