"""English facts about the reader, said to the reader: `Robin paints` becomes `You paint`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_VERBS: Final = {"is": "are", "was": "were", "has": "have", "does": "do", "isn't": "aren't",
                 "wasn't": "weren't", "hasn't": "haven't", "doesn't": "don't"}  # fmt: skip
_ADVERBS: Final = frozenset({"also", "always", "already", "never", "now", "often", "once", "really",
                             "recently", "sometimes", "still", "usually"})  # fmt: skip
_SAME: Final = frozenset({"as", "thus", "perhaps", "always"})  # no verbs
_SIBILANTS: Final = ("sses", "shes", "ches", "xes", "zzes")
_OWN: Final = re.compile(r"\b(?:her|his|their) own\b")
_SELF: Final = re.compile(r"\b(?:her|him|them)self\b")


def in_second_person(words: str, names: Iterable[str]) -> str:
    """Return a sentence that begins with one of the reader's names as it is said to them.

    Sentences that begin otherwise stay as they are, since who else is meant is not known.
    """
    for name in sorted(filter(None, names), key=len, reverse=True):
        if words.startswith(name):
            rest = words[len(name) :]
            if re.match(r"['’]s\s", rest):
                return _with_pronouns(f"Your{rest[2:]}")
            if rest[:1].isspace() and not rest.lstrip()[:1].isupper():  # a name of somebody else
                return _with_pronouns(f"You {_conjugate(rest.strip())}")
    return words


def _conjugate(rest: str) -> str:
    """Make the verb that a clause begins with agree with `you`."""
    first, space, more = rest.partition(" ")
    if first.lower() in _ADVERBS and more:
        return f"{first} {_conjugate(more)}"
    return f"{_verb_of_you(first)}{space}{more}"


def _verb_of_you(verb: str) -> str:
    if verb in _VERBS:
        return _VERBS[verb]
    if not verb.isalpha() or not verb.endswith("s") or verb.endswith("ss") or verb in _SAME:
        return verb
    if verb.endswith("ies") and len(verb) > len("ties"):
        return f"{verb[:-3]}y"
    return verb[:-2] if verb.endswith((*_SIBILANTS, "goes", "does")) else verb[:-1]


def _with_pronouns(sentence: str) -> str:
    return _SELF.sub("yourself", _OWN.sub("your own", sentence))
