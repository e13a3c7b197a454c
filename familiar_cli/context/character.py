"""The character: the files of `self/` as one value, its example dialogues, and macros."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.config.schema import DEFAULT_TIER
from familiar_cli.base.errors import CharacterUnreadableError, FamiliarError, NotFoundError
from familiar_cli.base.macros import macro_name
from familiar_cli.base.text import framed, one_line, str_or_empty
from familiar_cli.base.times.clock import to_zone
from familiar_cli.base.who.identity import Me, Who
from familiar_cli.context.tiers import is_loaded
from familiar_cli.context.types import ExampleLine, Role
from familiar_cli.store.memory.layout import CARD_JSON
from familiar_cli.store.memory.pages.front_matter import (
    SELF_FILES,
    TIERS_NOTE,
    field_text,
    self_file,
)

if TYPE_CHECKING:
    from familiar_cli.base.languages import Phrases
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.memory.store.files import MemoryFile
    from familiar_cli.store.memory.store.store import MemoryStore

MAX_NESTING: Final = 32
MAX_ADDED_CHARS = 500_000  # by macros that stand for texts of the character
MAX_DICE: Final = 1000
# Unicode keeps these for a program's own use; they stand for names until all else is done, so that
# nothing inside a name is ever read as a macro, and a comma in a name parts no list.
_CHAR, _USER, _CHAR_BACK, _USER_BACK, _TRIM = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"
_PERSONA: Final = "\ufdd5"
_OWN: Final = re.compile("[\ufdd0-\ufdd5]")
_NAMES: Final = re.compile(r"\{\{\s*(char|user|persona)\s*\}\}|<(bot|char|user)>", re.IGNORECASE)
PERSONA_MACRO: Final = re.compile(r"\{\{\s*persona\s*\}\}", re.IGNORECASE)
_BRACES: Final = re.compile(r"\{\{|\}\}")
_TURNED: Final = str.maketrans(
    {_CHAR: _CHAR_BACK, _CHAR_BACK: _CHAR, _USER: _USER_BACK, _USER_BACK: _USER}
)
_DICE: Final = re.compile(r"(\d{0,4})d(\d{1,9})|(\d{1,9})", re.IGNORECASE | re.ASCII)
_COMMA: Final = re.compile(r"(?<!\\),")


def _no_value(_body: str) -> None:
    """Find no value."""


class Macros(Struct, frozen=True):
    """The values of macros in one turn.

    Args:
        char: The familiar's name.
        user: The speaker's name.
        seed: Seed of `random` and `roll`, different in each turn.
        pick_seed: Seed of `pick`, which stays the same.
        persona: A description of the speaker; names are expanded in it.
        fields: Texts of the character by the macro that stands for each.
        value: Returns the value of any other macro; None if it has none.
        spent: Characters that these texts and values have added so far; None for none.
    """

    char: str
    user: str
    seed: str = ""
    pick_seed: str = ""
    persona: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    value: Callable[[str], str | None] = _no_value
    spent: list[int] | None = None

    def expand(self, text: str, *, original: str | None = None) -> str:
        """Expand the macros in `text`; unknown ones stay.

        Args:
            text: A text from a card or a setting.
            original: Replaces the first `{{original}}`; further ones become empty.
        """
        if "{{" not in text and "<" not in text:
            return text
        if self.spent is None:
            return replace(self, spent=[0]).expand(text, original=original)
        if original is not None:
            text = _with_original(text, original)
        marked = _NAMES.sub(_escape_mark, _OWN.sub("\ufffd", text))
        done = _Expansion(f"{self.seed}\n{text}", self.pick_seed, self._lookup).run(marked)
        return self._fill_names(re.sub(rf"[\r\n]*{_TRIM}[\r\n]*", "", done))

    def _lookup(self, body: str) -> str | None:
        """Return the value of a macro, in which nothing is read as a macro again."""
        name = body.strip().lower()
        text, spent = self.fields.get(name), self.spent or [0]
        spent[0] += 1 + len(text or "")
        if spent[0] > MAX_ADDED_CHARS:  # texts that name each other grow without end
            return None
        others = {other: said for other, said in self.fields.items() if other != name}
        inner = replace(self, fields=others)
        text_value = self.value(body) if text is None else inner.expand(text).strip()
        spent[0] += len(text_value or "")
        return None if text_value is None else _OWN.sub("\ufffd", text_value)

    def _fill_names(self, text: str) -> str:
        names = {_CHAR: framed(self.char), _USER: framed(self.user)}
        names |= {_CHAR_BACK: names[_CHAR][::-1], _USER_BACK: names[_USER][::-1]}
        if _PERSONA in text:
            names[_PERSONA] = replace(self, persona="").expand(self.persona).strip()
        return _OWN.sub(lambda match: names[match[0]], text)


class _Expansion:
    """The expansion of one text's macros, innermost first."""

    def __init__(
        self, seed: str, pick_seed: str, lookup: Callable[[str], str | None] = _no_value
    ) -> None:
        self._lookup = lookup
        self._random = random.Random(seed)  # noqa: S311  # a die, no secret
        self._pick_seed = pick_seed
        self._picks = 0

    def run(self, text: str) -> str:
        open_parts: list[list[str]] = [[]]
        at = 0
        for brace in _BRACES.finditer(text):
            open_parts[-1].append(text[at : brace.start()])
            at = brace.end()
            if brace[0] == "{{" and len(open_parts) <= MAX_NESTING:
                open_parts.append([])
            elif brace[0] == "}}" and len(open_parts) > 1:
                body = "".join(open_parts.pop())
                open_parts[-1].append(self._value(body))
            else:
                open_parts[-1].append(brace[0])
        open_parts[-1].append(text[at:])
        return "{{".join("".join(parts) for parts in open_parts)

    def _value(self, body: str) -> str:
        if body.lstrip().startswith("//"):
            return ""
        name, colon, rest = body.partition(":")
        name = name.strip().lower()
        if name == "trim" and not colon:
            return _TRIM
        known: dict[str, Callable[[], str]] = {
            "comment": lambda: "",
            "reverse": lambda: rest[::-1].translate(_TURNED),
            "random": lambda: self._random.choice(_choice_options(rest)),
            "pick": lambda: self._pick(rest),
            "roll": lambda: self._roll(rest, "{{" + body + "}}"),
        }
        if colon and name in known:
            return known[name]()
        text = self._lookup(body)
        return "{{" + body + "}}" if text is None else text

    def _pick(self, rest: str) -> str:
        self._picks += 1
        chooser = random.Random(f"{self._pick_seed}\n{self._picks}\n{rest}")  # noqa: S311
        return chooser.choice(_choice_options(rest))

    def _roll(self, rest: str, unknown: str) -> str:
        match = _DICE.fullmatch(rest.strip())
        if not match:
            return unknown
        dice, sides = int(match[1] or 1), int(match[2] or match[3])
        if not sides or not 0 < dice <= MAX_DICE:
            return unknown
        return str(sum(self._random.randint(1, sides) for _ in range(dice)))


def _with_original(text: str, original: str) -> str:
    pieces = re.split(r"\{\{\s*original\s*\}\}", text, flags=re.IGNORECASE)
    return pieces[0] + "".join([original, *pieces[1:]]) if len(pieces) > 1 else text


def _escape_mark(match: re.Match[str]) -> str:
    marks = {"user": _USER, "persona": _PERSONA}
    return marks.get((match[1] or match[2]).lower(), _CHAR)


def _choice_options(rest: str) -> list[str]:
    """Split a list of choices: `a,b`, where a backslash escapes a comma; or `:a::b`."""
    if rest.startswith(":"):
        return [option.strip() for option in rest[1:].split("::")]
    return [option.strip().replace("\\,", ",") for option in _COMMA.split(rest)]


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


class DepthPrompt(Struct, frozen=True):
    """A text of the card, inserted `depth` turns above the end of the chat."""

    prompt: str
    depth: int = DEFAULT_DEPTH
    role: Role = "system"


class FieldOrigin(Struct, frozen=True):
    """The file of a field.

    Args:
        rel_path: The memory file.
        sha256: Hash of the whole file.
        first_line: First line of the field's text, from 1.
    """

    rel_path: str
    sha256: str
    first_line: int = 1


class Character(Struct, frozen=True):
    """A character, as read from its files.

    Args:
        name: Value of `{{char}}`.
        texts: The text of each field that has a file, with macros unexpanded.
        alternate_greetings: Alternatives to the first message.
        depth_prompt: A text inserted between the turns of the chat.
        problems: Unusable files, and why.
        origins: The file of each field in `texts`; of the card and the tiers by their paths.
        tiers_note: What a persona says about its tiers.
        version: The card's version of it.
    """

    name: str
    texts: dict[str, str]
    alternate_greetings: tuple[str, ...] = ()
    depth_prompt: DepthPrompt | None = None
    problems: dict[str, str] = field(default_factory=dict)
    origins: dict[str, FieldOrigin] = field(default_factory=dict)
    tiers_note: str = ""
    version: str = ""

    def check_readable(self) -> None:
        """Raise `CharacterUnreadableError` if a file of the character is unusable."""
        if not self.problems:
            return
        rel_path, why = next(iter(self.problems.items()))
        more = len(self.problems) - 1
        raise CharacterUnreadableError(
            f"The character cannot be read: {rel_path}: {why}"
            f"{f' (and {more} more)' if more else ''}; nothing was sent or kept",
            hint=f"Repair or delete {rel_path!r} in the memory directory; `familiar memory log"
            f" {rel_path}` shows its history, `familiar memory restore` brings it back.",
        )

    def who(self, tier: int = DEFAULT_TIER) -> list[str]:
        """Return the character's texts for a tier, without the example dialogues.

        Macros are unexpanded, so that the result is the same for all speakers.
        """
        loaded = (field for field in _WHO if is_loaded(self_file(field).rel_path, tier))
        return [text for field in loaded if (text := self.texts.get(field, "")).strip()]

    @property
    def macro_texts(self) -> dict[str, str]:
        """Its texts, by the macro that stands for each."""
        names = {name: name for name in _WHO} | {"mesexamples": "mes_example"}
        return {macro: self.texts.get(name, "") for macro, name in names.items()}

    @property
    def greetings(self) -> tuple[str, ...]:
        """The first message, followed by its alternatives."""
        first = self.texts.get("first_mes", "")
        return tuple(text for text in (first, *self.alternate_greetings) if text.strip())


def who_of(
    character: Character, me: Me, phrases: Phrases, *, system_prompt: str, pick_seed: str
) -> Who:
    """Describe a familiar to the model that writes its memory, with macros expanded.

    Args:
        me: The owner.
        phrases: Phrases of its language.
        system_prompt: The configured main instruction.
        pick_seed: Seed of `{{pick:…}}`.
    """
    macros = Macros(
        character.name,
        me.name or me.stands_for_name,
        pick_seed=pick_seed,
        persona=me.persona(phrases),
        fields=character.macro_texts,
    )
    main = macros.expand(system_prompt)
    texts = {
        field: macros.expand(text, original=main)
        for field, text in character.texts.items()
        if field != "first_mes"
    }
    voice = (texts.get(field, "").strip() for field in ("description", "personality"))
    return Who(character.name, "\n\n".join(filter(None, voice)), (main, *texts.values()), phrases)


def read_character(store: MemoryStore, *, name: str, fallback_name: str) -> Character:
    """Read the character in `store`. An unusable file becomes a problem, not an error.

    Args:
        name: Value of `{{char}}`; empty for the card's nickname, else its name.
        fallback_name: The name if there is none.
    """
    problems: dict[str, str] = {}
    texts, origins = {}, {}
    for entry in SELF_FILES:
        file = _read_field(store, entry.rel_path, problems)
        if file is not None:
            texts[entry.field] = text = field_text(file.text)
            first_line = 1 + file.text.count("\n", 0, len(file.text) - len(text))
            origins[entry.field] = FieldOrigin(file.rel_path, file.sha256, first_line)
    stored, tiers = (_read_field(store, path, problems) for path in (CARD_JSON, TIERS_NOTE))
    for file in (stored, tiers):
        if file is not None:
            origins[file.rel_path] = FieldOrigin(file.rel_path, file.sha256)
    card = _read_card(stored.text if stored else None, problems)
    known = (
        name,
        str_or_empty(card.get("nickname")),
        str_or_empty(card.get("name")),
        fallback_name,
    )
    return Character(
        name=next((one_line(known) for known in known if known.strip()), fallback_name),
        texts=texts,
        alternate_greetings=_as_greetings(card.get("alternate_greetings")),
        depth_prompt=_depth_prompt(card.get("extensions")),
        problems=problems,
        origins=origins,
        tiers_note=tiers.text.strip() if tiers else "",
        version=str_or_empty(card.get("character_version")),
    )


def _read_field(store: MemoryStore, rel_path: str, problems: dict[str, str]) -> MemoryFile | None:
    try:
        return store.read(rel_path)
    except NotFoundError:
        path = store.root / rel_path
        there = next((p for p in (path.parent, path) if _is_odd(p, path)), None)
        if there is not None:
            rel = there.relative_to(store.root).as_posix()
            problems[rel] = f"{rel!r} is not a {'file' if there == path else 'directory'}"
        return None
    except FamiliarError as error:
        problems[rel_path] = str(error)
        return None


def _is_odd(path: Path, file: Path) -> bool:
    """Tell whether something is at `path` that is neither the file nor a directory on its way."""
    return (path.is_symlink() or path.exists()) and (path == file or not path.is_dir())


def _read_card(text: str | None, problems: dict[str, str]) -> dict[str, Any]:
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


def _as_greetings(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(text for text in listed if isinstance(text, str))


def _depth_prompt(extensions: object) -> DepthPrompt | None:
    value = extensions.get("depth_prompt") if isinstance(extensions, dict) else None
    prompt = str_or_empty(value.get("prompt")) if isinstance(value, dict) else ""
    if not isinstance(value, dict) or not prompt.strip():
        return None
    try:
        depth = int(value.get("depth", DEFAULT_DEPTH))
    except (TypeError, ValueError, OverflowError):
        depth = DEFAULT_DEPTH
    role = value.get("role")
    named = role.lower() if isinstance(role, str) else role
    known = isinstance(named, str | int)
    return DepthPrompt(prompt, max(depth, 0), _ROLES.get(named, "system") if known else "system")


_START: Final = re.compile(r"^[ \t]*<START>[ \t]*", re.IGNORECASE | re.MULTILINE)
_USER_LABEL: Final = r"\{\{\s*user\s*\}\}|<user>"
_CHAR_LABEL: Final = r"\{\{\s*char\s*\}\}|<bot>|<char>"


def example_blocks(text: str, macros: Macros) -> list[tuple[ExampleLine, ...]]:
    """Split the blocks between `<START>` marks into messages, with macros expanded.

    A line that begins with a name and a colon begins a message, whose role replaces the name. Text
    before the first name is narration.
    """
    return [block for _, block in numbered_blocks(text, macros)]


def numbered_blocks(
    text: str, macros: Macros
) -> Iterator[tuple[tuple[int, int], tuple[ExampleLine, ...]]]:
    """Yield the same blocks with their first and last line in `text`, from 1."""
    speaker = re.compile(
        rf"^[ \t]*(?:(?P<user>{_USER_LABEL}|{re.escape(macros.user)})"
        rf"|(?P<char>{_CHAR_LABEL}|{re.escape(macros.char)}))[ \t]*:[ \t]*",
        re.IGNORECASE | re.MULTILINE,
    )
    line = at = 0  # so many lines end before the character `at`
    for raw, start in _example_parts(text):
        block = _example_lines(raw, speaker, macros)
        if not block:
            continue
        begin, end = start + len(raw) - len(raw.lstrip()), start + len(raw.rstrip())
        first = line + text.count("\n", at, begin)
        line, at = first + text.count("\n", begin, end), end
        yield (first + 1, line + 1), block


def _example_parts(text: str) -> Iterator[tuple[str, int]]:
    """Yield the parts between the `<START>` marks with their offsets."""
    start = 0
    for mark in _START.finditer(text):
        yield text[start : mark.start()], start
        start = mark.end()
    yield text[start:], start


def _example_lines(block: str, speaker: re.Pattern[str], macros: Macros) -> tuple[ExampleLine, ...]:
    matches = list(speaker.finditer(block))
    ends = [match.start() for match in matches[1:]] + [len(block)]
    lines = [ExampleLine("system", block[: matches[0].start()] if matches else block)]
    for match, end in zip(matches, ends, strict=False):
        role: Role = "user" if match["user"] is not None else "assistant"
        lines.append(ExampleLine(role, block[match.end() : end]))
    expanded = (replace(line, text=macros.expand(line.text).strip()) for line in lines)
    return tuple(line for line in expanded if line.text)


_DAYS: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905
_MONTHS: Final = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_FORMAT: Final = re.compile(
    r"\[([^\]]*)\]|YYYY|YY|MMMM|MMM|MM|M|DD|D|dddd|ddd|HH|H|hh|h|mm|m|ss|s|A|a"
)
_OFFSET: Final = re.compile(r"time_utc\s*([+-]\d{1,2})", re.IGNORECASE)
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


class TurnValues:
    """Values of macros in one turn.

    Args:
        character: The character.
        request: The request.
        zone: The familiar's timezone.
        recent: Returns the newest turns before the message, oldest first.
    """

    def __init__(
        self,
        character: Character,
        request: ContextRequest,
        zone: tzinfo | None,
        recent: Callable[[], Sequence[Turn]],
    ) -> None:
        self._character = character
        self._request = request
        self._at = to_zone(request.at, zone)
        self._recent = recent

    def value(self, body: str) -> str | None:
        """Return the value of a macro; None if it has none of these."""
        name = macro_name(body)
        at, char = self._at, self._character.name
        plain: dict[str, Callable[[], str]] = {
            "time": lambda: format_time(at, "h:mm A"),
            "date": lambda: format_time(at, "MMMM D, YYYY"),
            "weekday": lambda: format_time(at, "dddd"),
            "isotime": lambda: format_time(at, "HH:mm"),
            "isodate": lambda: format_time(at, "YYYY-MM-DD"),
            "datetimeformat": lambda: format_time(at, body.strip()[len(name) :].strip(" :")),
            "time_utc": lambda: self._time_elsewhere(body),
            "newline": lambda: "\n",
            "noop": str,
            "group": lambda: char,
            "charifnotgroup": lambda: char,
            "char_version": lambda: self._character.version,
            "lastmessage": lambda: self._request.utterance or self._newest(),
            "lastusermessage": lambda: self._request.utterance or self._newest("user"),
            "lastcharmessage": lambda: self._newest("assistant"),
            "idle_duration": self._idle,
        }
        return plain[name]() if name in plain else None

    def _time_elsewhere(self, body: str) -> str:
        found = _OFFSET.match(body.strip())
        hours = max(-23, min(int(found[1]), 23)) if found else 0
        zone = timezone(timedelta(hours=hours))
        return format_time(to_zone(self._request.at, zone), "h:mm A")

    def _newest(self, role: str = "") -> str:
        turns = (turn for turn in reversed(self._recent()) if role in ("", turn.role))
        return next((turn.content for turn in turns), "")

    def _idle(self) -> str:
        turns = (turn for turn in reversed(self._recent()) if turn.role == "user")
        last = next(turns, None)
        return in_words(self._request.at - last.at) if last else "just now"


def format_time(at: datetime, pattern: str) -> str:
    """Write a time in a pattern such as `DD.MM.YYYY HH:mm`; text in brackets stays."""
    hour = at.hour % 12 or 12
    values = {
        "YYYY": f"{at.year:04}",
        "YY": f"{at.year % 100:02}",
        "MMMM": _MONTHS[at.month - 1],
        "MMM": _MONTHS[at.month - 1][:3],
        "MM": f"{at.month:02}",
        "M": str(at.month),
        "DD": f"{at.day:02}",
        "D": str(at.day),
        "dddd": _DAYS[at.weekday()],
        "ddd": _DAYS[at.weekday()][:3],
        "HH": f"{at.hour:02}",
        "H": str(at.hour),
        "hh": f"{hour:02}",
        "h": str(hour),
        "mm": f"{at.minute:02}",
        "m": str(at.minute),
        "ss": f"{at.second:02}",
        "s": str(at.second),
        "A": "AM" if at.hour < 12 else "PM",  # noqa: PLR2004
        "a": "am" if at.hour < 12 else "pm",  # noqa: PLR2004
    }
    return _FORMAT.sub(
        lambda match: match[1] if match[1] is not None else values[match[0]], pattern
    )


def in_words(duration: timedelta) -> str:
    """Write a duration in its largest unit, such as `3 hours`."""
    seconds = max(int(duration.total_seconds()), 0)
    for size, unit in _UNITS:
        if seconds >= size:
            number = seconds // size
            return f"{number} {unit}{'s' if number > 1 else ''}"
    return "a few seconds"
