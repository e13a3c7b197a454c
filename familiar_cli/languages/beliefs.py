"""How a language states attributes with one value at a time: home, job, age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


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
