"""What the table of a language holds: words of time, and forms of statements about people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Language:
    """Words and forms. Alternatives of a word are separated by `|`; case counts for nothing.

    A form is a regular expression with names in braces: `{month}`, `{weekday}` and `{season}` are
    words of the table; `{near}` is a word that means a day, and `{way}` one that means the last,
    this or the next of what stands beside it; `{number}` counts `{unit}`, in the past where the
    form has `{ago}` and in the future where it has `{ahead}`; `{day}`, `{month_number}` and
    `{year}` are digits. The first forms win. A space stands for any number of them.

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
    spaced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Beliefs:
    """Wordings of statements. Alternatives are separated by `|`, or stand on lines of their own.

    Args:
        labels: What stands before a colon, by the kind of thing: `Wohnort: Köln`.
        sentences: A kind, its verbs, and the form of a sentence: a regular expression in which
            `{who}`, `{verb}` and `{value}` stand. `{who}` may be missing in a text.
        who: A regular expression for who it is about.
        value: A regular expression for the value.
        no_name: A regular expression for a value that names no place and no firm, such as `a flat`.
        past: Words that say that it is over.
        negations: Words of a sentence that says that it is not so.
        favourite: What a label begins with that names a favourite.
        dating: Words between a value and since when it is.
    """

    labels: Mapping[str, str]
    sentences: tuple[tuple[str, str, str], ...]
    past: str
    negations: str
    who: str = r"(?:[^\W\d_][\w'’-]{1,30})"
    value: str = r"\S.*"
    no_name: str = r"(?!)"
    favourite: str = ""
    dating: str = ""
