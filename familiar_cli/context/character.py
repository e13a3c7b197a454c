"""Who the familiar is: the files of `self/` as one value, and its example dialogues."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.config.fields import DEFAULT_TIER
from familiar_cli.context.tiers import is_loaded
from familiar_cli.context.types import ExampleLine, Role
from familiar_cli.errors import CharacterUnreadableError, FamiliarError, NotFoundError
from familiar_cli.memory.layout import CARD_JSON
from familiar_cli.memory.pages.self_files import SELF_FILES, TIERS_NOTE, field_text, self_file
from familiar_cli.text import one_line, str_or_empty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from familiar_cli.context.macros import Macros
    from familiar_cli.context.types import Role
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import MemoryFile


DEFAULT_DEPTH: Final = 4
_WHO: Final = ("description", "personality", "scenario")
_ROLES: Final[dict[object, Role]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    0: "system",
    1: "user",
    2: "assistant",
}


@dataclass(frozen=True, slots=True)
class DepthPrompt:
    """A card's text that stands `depth` turns above the end of the chat."""

    prompt: str
    depth: int = DEFAULT_DEPTH
    role: Role = "system"


@dataclass(frozen=True, slots=True)
class FieldOrigin:
    """The file that a field was read from.

    Args:
        rel_path: The memory file.
        sha256: Of the whole file.
        first_line: The line, counted from 1, on which the field's text begins.
    """

    rel_path: str
    sha256: str
    first_line: int = 1


@dataclass(frozen=True, slots=True)
class Character:
    """A character, as its files say.

    Args:
        name: What `{{char}}` becomes.
        texts: The text of each field that has a file, macros as they stand.
        alternate_greetings: What may take the first message's place.
        depth_prompt: What stands between the turns of the chat.
        problems: Files that could not be used, and why.
        origins: The file of each field in `texts`; of the card and the tiers by their paths.
        tiers_note: What a persona says of its tiers.
    """

    name: str
    texts: dict[str, str]
    alternate_greetings: tuple[str, ...] = ()
    depth_prompt: DepthPrompt | None = None
    problems: dict[str, str] = field(default_factory=dict)
    origins: dict[str, FieldOrigin] = field(default_factory=dict)
    tiers_note: str = ""

    def check_readable(self) -> None:
        """Raise `CharacterUnreadableError` when a file of the character cannot be used."""
        if not self.problems:
            return
        rel_path, why = next(iter(self.problems.items()))
        more = len(self.problems) - 1
        raise CharacterUnreadableError(
            f"The character cannot be read: {rel_path}: {why}"
            f"{f' (and {more} more)' if more else ''}; nothing was sent or kept",
            hint=f"Mend or delete {rel_path!r} in the memory directory; `familiar memory log"
            f" {rel_path}` shows its past, `familiar memory restore` brings it back.",
        )

    def who(self, tier: int = DEFAULT_TIER) -> list[str]:
        """Return what a prompt of a tier says of it, without the example dialogues.

        Macros stay as they are, so that it is the same for whoever speaks.
        """
        loaded = (field for field in _WHO if is_loaded(self_file(field).rel_path, tier))
        return [text for field in loaded if (text := self.texts.get(field, "")).strip()]

    @property
    def greetings(self) -> tuple[str, ...]:
        """The first message, then the others that may take its place."""
        first = self.texts.get("first_mes", "")
        return tuple(text for text in (first, *self.alternate_greetings) if text.strip())


def read_character(store: MemoryStore, *, name: str, fallback_name: str) -> Character:
    """Return the character in `store`. A file that cannot be used is a problem, not a failure.

    Args:
        store: The memory.
        name: What `{{char}}` becomes; empty: the card's nickname, else its name.
        fallback_name: The name when there is none anywhere.
    """
    problems: dict[str, str] = {}
    texts, origins = {}, {}
    for entry in SELF_FILES:
        file = _read(store, entry.rel_path, problems)
        if file is not None:
            texts[entry.field] = text = field_text(file.text)
            first_line = 1 + file.text.count("\n", 0, len(file.text) - len(text))
            origins[entry.field] = FieldOrigin(file.rel_path, file.sha256, first_line)
    stored, tiers = (_read(store, path, problems) for path in (CARD_JSON, TIERS_NOTE))
    for file in (stored, tiers):
        if file is not None:
            origins[file.rel_path] = FieldOrigin(file.rel_path, file.sha256)
    card = _card(stored.text if stored else None, problems)
    known = (
        name,
        str_or_empty(card.get("nickname")),
        str_or_empty(card.get("name")),
        fallback_name,
    )
    return Character(
        name=next((one_line(known) for known in known if known.strip()), fallback_name),
        texts=texts,
        alternate_greetings=_greetings(card.get("alternate_greetings")),
        depth_prompt=_depth_prompt(card.get("extensions")),
        problems=problems,
        origins=origins,
        tiers_note=tiers.text.strip() if tiers else "",
    )


def _read(store: MemoryStore, rel_path: str, problems: dict[str, str]) -> MemoryFile | None:
    try:
        return store.read(rel_path)
    except NotFoundError:
        path = store.root / rel_path
        there = next((p for p in (path.parent, path) if _is_odd(p, path)), None)
        if there is not None:
            rel = there.relative_to(store.root).as_posix()
            problems[rel] = f"{rel!r} is no {'file' if there == path else 'directory'}"
        return None
    except FamiliarError as error:
        problems[rel_path] = str(error)
        return None


def _is_odd(path: Path, file: Path) -> bool:
    """Tell whether something is at `path` that is neither the file nor a directory on its way."""
    return (path.is_symlink() or path.exists()) and (path == file or not path.is_dir())


def _card(text: str | None, problems: dict[str, str]) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        data = json.loads(text)["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        data = None
    if not isinstance(data, dict):
        problems[CARD_JSON] = f"{CARD_JSON!r} is not in the format that `familiar init` writes"
        return {}
    return data


def _greetings(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(text for text in listed if isinstance(text, str))


def _depth_prompt(extensions: object) -> DepthPrompt | None:
    found = extensions.get("depth_prompt") if isinstance(extensions, dict) else None
    prompt = str_or_empty(found.get("prompt")) if isinstance(found, dict) else ""
    if not isinstance(found, dict) or not prompt.strip():
        return None
    try:
        depth = int(found.get("depth", DEFAULT_DEPTH))
    except (TypeError, ValueError, OverflowError):
        depth = DEFAULT_DEPTH
    role = found.get("role")
    named = role.lower() if isinstance(role, str) else role
    known = isinstance(named, str | int)
    return DepthPrompt(prompt, max(depth, 0), _ROLES.get(named, "system") if known else "system")


_START: Final = re.compile(r"^[ \t]*<START>[ \t]*", re.IGNORECASE | re.MULTILINE)
_USER: Final = r"\{\{\s*user\s*\}\}|<user>"
_CHAR: Final = r"\{\{\s*char\s*\}\}|<bot>|<char>"


def example_blocks(text: str, macros: Macros) -> list[tuple[ExampleLine, ...]]:
    """Return the blocks between `<START>` marks, each as messages, macros expanded.

    A line that begins with a name and a colon begins a message; the name goes, the role says it.
    What stands before the first name is narration.
    """
    return [block for _, block in numbered_blocks(text, macros)]


def numbered_blocks(
    text: str, macros: Macros
) -> Iterator[tuple[tuple[int, int], tuple[ExampleLine, ...]]]:
    """Yield the same blocks, each with its first and last line in `text`, counted from 1."""
    speaker = re.compile(
        rf"^[ \t]*(?:(?P<user>{_USER}|{re.escape(macros.user)})"
        rf"|(?P<char>{_CHAR}|{re.escape(macros.char)}))[ \t]*:[ \t]*",
        re.IGNORECASE | re.MULTILINE,
    )
    line = at = 0  # so many lines end before the character `at`
    for raw, start in _parts(text):
        block = _lines(raw, speaker, macros)
        if not block:
            continue
        begin, end = start + len(raw) - len(raw.lstrip()), start + len(raw.rstrip())
        first = line + text.count("\n", at, begin)
        line, at = first + text.count("\n", begin, end), end
        yield (first + 1, line + 1), block


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """Yield what stands between the `<START>` marks, and where it begins."""
    start = 0
    for mark in _START.finditer(text):
        yield text[start : mark.start()], start
        start = mark.end()
    yield text[start:], start


def _lines(block: str, speaker: re.Pattern[str], macros: Macros) -> tuple[ExampleLine, ...]:
    found = list(speaker.finditer(block))
    ends = [match.start() for match in found[1:]] + [len(block)]
    lines = [ExampleLine("system", block[: found[0].start()] if found else block)]
    for match, end in zip(found, ends, strict=False):
        role: Role = "user" if match["user"] is not None else "assistant"
        lines.append(ExampleLine(role, block[match.end() : end]))
    expanded = (replace(line, text=macros.expand(line.text).strip()) for line in lines)
    return tuple(line for line in expanded if line.text)
