"""The tables of languages: one TOML file for each, read when it is first asked for.

A table holds the words in which people speak of time, the titles, headings and labels of files and
prompts, and the forms of statements about people.

English where that is not clear: also for languages that have no table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from tomllib import loads
from typing import Final, TypeVar

from msgspec import Struct, convert, field

from familiar_cli.base.text import LANGUAGES, fold_letters

T = TypeVar("T")

__all__ = [
    "CODES",
    "ENGLISH",
    "NUMERALS",
    "Language",
    "Phrases",
    "QuestionWords",
    "codes_for",
    "common_words",
    "dates",
    "kinds",
    "phrases",
    "questions",
    "tables",
]


class Language(Struct, frozen=True, eq=False):
    """Words and forms. Alternatives of a word are separated by `|`; case counts for nothing.

    A form is a regular expression with names in braces: `{month}`, `{weekday}` and `{season}` are
    words of the table; `{near}` is a word that means a day, and `{way}` one that means the last,
    this or the next of what stands beside it; `{number}` counts `{unit}`, in the past where the
    form has `{ago}` and in the future where it has `{ahead}`; `{day}`, `{month_number}` and
    `{year}` are digits; `{part}` is the beginning, middle or end of what stands beside it, and
    `{ordinal}` one of its weeks, weekends, days or weekdays. The first forms win. A space stands
    for any number of them.

    Args:
        months: From January on.
        weekdays: From Monday on.
        seasons: Spring, summer, autumn, winter.
        near: How many days from today; negative in the past.
        ways: -1 is the last, 0 this one, 1 the next.
        units: `minute`, `hour`, `day`, `week`, `weekend`, `month`, `year`.
        numbers: Numbers as words, from one on.
        ago: Words that say that it is past.
        ahead: Words that say that it is to come.
        forms: What means a day or a longer time.
        alone: What means a day only where nothing else is said, as in an option.
        clocks: What means a time of day: `{hour}` and `{minute}` are digits, `{am}`, `{pm}` and
            `{half}` words.
        am: Before noon.
        pm: After noon.
        half: Half past.
        parts: Words for the beginning, the middle and the end.
        ordinals: First to fourth, and last.
        past: A regular expression for words that tell of the past, to know which Monday is meant.
        future: The same, of what is to come.
        sides: Regular expressions for what stands before a time and after it, where all `since` or
            `until` it is meant, or all from the time before it (`joined`).
        written: How days and longer times are written, where a text says them as of today: `{day}`
            is a date, `{month}`, `{season}` and `{year}` their names; what stands before `|` is
            left out after another preposition.
        season_names: Spring, summer, autumn, winter, as they stand in `written`.
        spaced: Words have spaces between them.
    """

    months: tuple[str, ...] = ()
    weekdays: tuple[str, ...] = ()
    seasons: tuple[str, ...] = ()
    near: Mapping[int, str] = field(default_factory=dict)
    ways: Mapping[int, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    numbers: tuple[str, ...] = ()
    ago: str = ""
    ahead: str = ""
    forms: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    am: str = ""
    pm: str = ""
    half: str = ""
    parts: tuple[str, ...] = ()
    ordinals: tuple[str, ...] = ()
    past: str = ""
    future: str = ""
    sides: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    season_names: tuple[str, ...] = ()
    spaced: bool = True


class QuestionWords(Struct, frozen=True, kw_only=True, eq=False):
    """How people ask for more than one thing. Regular expressions, but for `wish_words`.

    Args:
        order: For the order of things.
        count: For how many there are.
        latest: For the last of them.
        summary: For all of a long time, in short.
        change: For what is new since some time.
        frame: Words that belong to such a question, and say nothing of what it is about.
        myself: Words for the one who asks.
        you: What asks for things that the familiar said or did.
        wishes: What begins a standing wish, such as `from now on`.
        wish_words: Words, separated by `|`, of which each such wish holds some.
        before: For what was so before, and is no longer.
        limits: What says that something is missing here, or cannot be done.
    """

    order: str
    count: str
    latest: str
    summary: str
    change: str
    frame: str
    myself: str
    you: str
    wishes: str
    wish_words: str
    before: str
    limits: str


SLOTS: Final = ("night", "morning", "afternoon", "evening")
"""The parts of a day as files are named by them, whatever the language; six hours each."""

_TWO: Final = 2
_FEW: Final = 10
_MINUTES_OF: Final = (("day", 1440), ("hour", 60), ("minute", 1))


class Phrases(Struct, frozen=True, kw_only=True, eq=False):
    """The wordings of one language.

    Args:
        code: As in ISO 639.
        months: From January on, as in a date.
        weekdays: From Monday on.
        day_form: A date: `{day}`, `{month}` by name, `{number}` of the month, `{year}`.
        month_form: A month: `{month}` by name, `{year}`.
        first_day: What the first day of a month is called; empty: 1.
        days_form: From a `{first}` date to a `{last}`.
        moment_form: A moment: `{weekday}`, `{iso}` or `{date}`, `{time}`, `{zone}`.
        parts: What the parts of a day are called, in the order of `SLOTS`.
        comma: What stands between two parts of a title.
        colon: What stands between a label and what it labels.
        ago: How many days, hours or minutes ago: for one, two, up to ten, and more; the last form
            there is serves for what comes after it. `{}` is the number.
        just_now: Less than a minute ago.
        headings: The headings of sections that the program writes, by what they hold.
        reminders: The title of the file.
        tasks: The title of the file.
        digests: The titles of the digests: `short`, `mid`, `long`.
        rest_left_out: Ends a session that is cut.
        in_play: Begins a line that tells of roleplay; `{}` is the line.
        claim: What somebody says about somebody else: `{who}` says it, `{line}` is what is said.
        in_private: Begins the heading of what was said in private; a colon and a name follow.
        same_person: Of another account of somebody; `{}` is a link.
        code_block: Above a block of code.
        from_memory: What is quoted from memory.
        said: What is quoted from the past.
        pinned: What is pinned.
        due_reminders: Above reminders.
        due: When something is due; `{}` is a date.
        open_tasks: Above tasks.
        open_conflicts: Above files that two machines changed differently.
        scratchpad: Above the scratchpad.
        earlier: Above the summary.
        earlier_here: Above the summary of a private channel.
        meanwhile: Above what was said elsewhere.
        related: Above how people are related.
        since_when: When something began; `{}` is a date.
        until_when: When something ended; `{}` is a date.
        ask_again: Of what cannot be done: the `{day}` it was said, and from when it is `{later}`.
        somebody: Whose name is not known.
        you: The familiar, spoken to.
        about: Above who somebody is; `{}` is their name.
        pronouns: A name and its pronouns.
        system: Above what a prompt says about itself.
        date_and_time: Before the present moment.
        off_record: Nothing is kept.
        common: The commonest words of the language, by which it is known; of a language that has a
            script of its own, none.
    """

    code: str
    months: tuple[str, ...]
    weekdays: tuple[str, ...]
    day_form: str
    month_form: str
    days_form: str
    moment_form: str
    parts: tuple[str, str, str, str]
    ago: Mapping[str, tuple[str, ...]]
    just_now: str
    headings: Mapping[str, str]
    reminders: str
    tasks: str
    digests: Mapping[str, str]
    rest_left_out: str
    in_play: str
    claim: str
    in_private: str
    same_person: str
    code_block: str
    from_memory: str
    said: str
    pinned: str
    due_reminders: str
    due: str
    open_tasks: str
    open_conflicts: str
    scratchpad: str
    earlier: str
    earlier_here: str
    meanwhile: str
    related: str
    since_when: str
    until_when: str
    ask_again: str
    somebody: str
    you: str
    about: str
    pronouns: str
    system: str
    date_and_time: str
    off_record: str
    first_day: str = ""
    comma: str = ", "
    colon: str = ": "
    common: str = ""

    def day(self, day: date) -> str:
        """Format a date for people: `31 January 2026`."""
        number = self.first_day if day.day == 1 and self.first_day else str(day.day)
        return self.day_form.format(
            day=number, month=self.months[day.month - 1], number=day.month, year=day.year
        )

    def month(self, day: date) -> str:
        """Format the month of a date: `January 2026`."""
        return self.month_form.format(month=self.months[day.month - 1], year=day.year)

    def days(self, first: date, last: date) -> str:
        """Format a range of dates."""
        return self.days_form.format(first=self.day(first), last=self.day(last))

    def moment(self, local: datetime, zone: str) -> str:
        """Format a moment: `Friday, 2026-05-08 at 14:34 EDT`; `zone` is its last part."""
        return self.moment_form.format(
            weekday=self.weekdays[local.weekday()],
            iso=local.date().isoformat(),
            date=self.day(local),
            time=f"{local:%H:%M}",
            zone=zone,
        )

    def part(self, slot: str) -> str:
        """Return the name of a part of the day; `slot` is its name in file names, e.g. `night`."""
        return self.parts[SLOTS.index(slot)] if slot in SLOTS else slot

    def session(self, name: str) -> str:
        """Return the title of a session from its file name, `2026-04-07-evening`.

        English keeps the file name, which is English itself.
        """
        day, _, slot = name.rpartition("-")
        return name if self.part(slot) == slot else f"{day} {self.part(slot)}"

    def since(self, span: timedelta) -> str:
        """Return how long ago something was."""
        minutes = max(int(span.total_seconds() // 60), 0)
        for unit, length in _MINUTES_OF:
            if count := minutes // length:
                return self._counted(self.ago[unit], count)
        return self.just_now

    def labelled(self, kind: str, label: str = "") -> str:
        """Return the line above a quoted piece: `[From memory: Tea]`."""
        return f"[{kind}{self.colon}{label}]" if label else f"[{kind}]"

    def heading(self, holds: str) -> str:
        """Return the H2 of a section of that kind, e.g. `aliases`."""
        return f"## {self.headings[holds]}"

    @staticmethod
    def _counted(forms: tuple[str, ...], count: int) -> str:
        grade = 0 if count == 1 else 1 if count == _TWO else 2 if count <= _FEW else 3
        return forms[min(grade, len(forms) - 1)].format(count)


CODES: Final = LANGUAGES
"""The languages that have a table, `<code>.toml`."""

LATIN: Final = ("en", "de", "es", "fr")
"""Those of which words occur in a text of ASCII characters, in the order of `CODES`."""

NUMERALS: Final = "numerals"
"""The table of what all languages share."""


def codes_for(text: str) -> tuple[str, ...]:
    """Return the languages in whose script `text` may be."""
    return LATIN if text.isascii() else CODES


@cache
def dates(code: str) -> Language:
    """Return a language's words for times.

    Raises:
        KeyError: There is no such table.
    """
    return _part(code, "dates", Language)


@cache
def phrases(code: str) -> Phrases:
    """Return the wordings of a language.

    Raises:
        KeyError: There is no such table.
    """
    return _part(code, "phrases", Phrases)


@cache
def questions(code: str) -> QuestionWords:
    """Return a language's question words.

    Raises:
        KeyError: There is no such table.
    """
    return _part(code, "questions", QuestionWords)


def common_words() -> str:
    """Return common words of many languages, and names that are also words, between spaces."""
    lines = Path(__file__).with_name("common_words.txt").read_text("utf-8").split("\n")
    return " ".join(line for line in lines if not line.startswith("#"))


@cache
def kinds(code: str) -> Mapping[str, str]:
    """Return things of a kind by the names of the kind, one and many; empty without a table."""
    file = Path(__file__).with_name(f"{code}_kinds.txt")
    lines = file.read_text("utf-8").split("\n") if file.is_file() else []
    found: dict[str, str] = {}
    for names, _, things in (line.partition(": ") for line in lines if not line.startswith("#")):
        for name in names.split():
            found[name] = f"{found[name]}, {things}" if name in found else things
    return found


def tables() -> Iterator[Phrases]:
    """Yield the tables of all languages, English first."""
    return map(phrases, CODES)


def _part(code: str, name: str, kind: type[T]) -> T:
    if code not in CODES and code != NUMERALS:
        raise KeyError(code)
    # Only these tables: to read the others takes as long.
    own = [one for one in _read(code).split("\n[") if one.startswith((f"{name}]", f"{name}."))]
    part = {"code": code} | loads("[" + "\n[".join(own))[name]
    return convert(part, kind, strict=False, str_keys=True)


@cache
def _read(code: str) -> str:
    return Path(__file__).with_name(f"{code}.toml").read_text("utf-8")


ENGLISH: Final = phrases("en")


_AROUND: Final = " \t:：*_"


def section_key(title: str) -> str:
    """Return the key of a section title, equal for `Facts`, `fakten:`, `**Datos**`."""
    key = _folded(title)
    return key if key in ENGLISH.headings else _kinds().get(key, key)


def heading_in(title: str) -> str:
    """Return the kind of the section with that title, e.g. `aliases`; empty if unknown."""
    key = section_key(title)
    return key if key in ENGLISH.headings else ""


@cache
def leads(field: str) -> tuple[str, ...]:
    """Return the folded beginning of a label in each language; `field` is a key of a table."""
    return tuple(_folded(getattr(table, field).partition("{}")[0]) for table in tables())


def begins_with(text: str, field: str) -> bool:
    """Tell whether a text begins with a label in any language."""
    return _folded(text).startswith(leads(field))


@cache
def _kinds() -> dict[str, str]:
    return {_folded(title): kind for table in tables() for kind, title in table.headings.items()}


def _folded(title: str) -> str:
    return fold_letters(title).strip(_AROUND)


FIRST_TURNS: Final = 60
"""So many turns at most tell the language of a conversation."""

ENOUGH_CHARS: Final = 600
"""When the first turns have so many, those turns decide; before that, the character does."""

_TURN_CHARS: Final = 120  # of one turn: what somebody pastes is in any language

LEAST_LETTERS: Final = 30
"""Fewer say nothing; a sign of a script without spaces counts for three."""

_WORD: Final = r"[^\W\d_]+(?:['’][^\W\d_]+)?"
_SCRIPTS: Final = {
    "ja": "[\u3041-\u3096\u30a1-\u30fa]",
    "zh": "[\u3400-\u4dbf\u4e00-\u9fff]",
    "ar": "[\u0620-\u064a]",
    "other": (  # from Greek to Thai, the Arabic letters of other languages, Hangul
        "[\u0370-\u05ff\u0671-\u06ff\u0700-\u0e7f\u1100-\u11ff\uac00-\ud7af]"
    ),
    "latin": "[A-Za-z\u00c0-\u024f]",
}
_WIDE: Final = {"ja": 3, "zh": 3}
_MOST: Final = 0.5
_KANA: Final = 0.1  # of all signs, in Japanese; a name or two stand in Chinese, too
_PERSIAN: Final = 0.03
_LEAST_COMMON: Final = 0.12  # of all words
_CLEARLY: Final = 1.4  # times as many as of the language that is next

# Languages that have no table, and that would be taken for one that has.
_OTHERS: Final = """
    o os as um uma não é eu você que de em com para por mais mas ele ela foi isso muito está do da
    | il lo gli di che è sono per con una non ma come più io tu mi ti si della nel anche questo
    | de het een en van ik je niet dat is op te zijn met voor maar hij zij ook wat heb er
    | och att det är jag du inte en ett som på för med han hon men vad har den av
"""


def language_in(texts: Iterable[str], character: Callable[[], Iterable[str]]) -> tuple[str, bool]:
    """Return a familiar's language code, and whether its turns have settled it.

    Args:
        texts: Its first turns, oldest first.
        character: Gives the texts that make it who it is.
    """
    first: list[str] = []
    weight = 0
    for turn in texts:
        first.append(turn[:_TURN_CHARS])
        weight += sum(_weights(first[-1]).values())
        if weight >= ENOUGH_CHARS:
            return language_of("\n".join(first)) or ENGLISH.code, True
    own = language_of("\n".join(character()))
    return own or language_of("\n".join(first)) or ENGLISH.code, False


def language_of(text: str) -> str | None:
    """Detect the language of a text; None if it is too short."""
    weights = _weights(text)
    total = sum(weights.values())
    if total < LEAST_LETTERS:
        return None
    wide = weights["ja"] + weights["zh"]
    if wide > _MOST * total:
        return "ja" if weights["ja"] > _KANA * wide else "zh"
    if weights["ar"] > _MOST * total:
        persian = len(re.findall("[پچژگکیےںٹڈ]", text))
        return ENGLISH.code if persian > _PERSIAN * weights["ar"] else "ar"
    return _by_words(text) if weights["latin"] > _MOST * total else ENGLISH.code


def _weights(text: str) -> dict[str, int]:
    """Return the share of each script in a text."""
    return {
        name: len(re.findall(script, text)) * _WIDE.get(name, 1)
        for name, script in _SCRIPTS.items()
    }


def _by_words(text: str) -> str:
    words = Counter(word.casefold().replace("’", "'") for word in re.findall(_WORD, text))
    shares = {
        code: sum(words[word] for word in common) / words.total()
        for code, common in _common().items()
    }
    best, next_best = sorted(shares, key=lambda code: (-shares[code], code))[:2]
    is_clear = shares[best] >= max(_LEAST_COMMON, _CLEARLY * shares[next_best])
    return best if is_clear and not best.startswith("-") else ENGLISH.code


@cache
def _common() -> Mapping[str, frozenset[str]]:
    known = {table.code: frozenset(table.common.split()) for table in tables() if table.common}
    others = {f"-{n}": frozenset(words.split()) for n, words in enumerate(_OTHERS.split("|"))}
    return known | others
