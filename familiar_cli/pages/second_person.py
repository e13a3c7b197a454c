"""Facts about the reader, written as they are said to the reader; in English only."""

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
_TIMES: Final = (
    "(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|May|June|July|August|"
    "(?:Septem|Octo|Novem|Decem)ber|Christmas|Easter)s?\\b"
)
_OTHER: Final = re.compile(
    r"\b(?:mother|mom|mum|father|dad|parent|sister|brother|daughter|son|wife|husband|partner|girl"
    r"(?:friend)?|boy(?:friend)?|friend|aunt|uncle|grand\w+|cousin|niece|nephew|boss|colleague|"
    rf"teacher|woman|man|child|kid|baby|teen|neighbou?r|doctor|cat|dog|(?!{_TIMES})[A-Z][a-z]+)\b"
    r"|\b(?:an?|the|another) (?!(?:morning|evening|night|day|week|weekend|month|year|time)\b)\w"
)
_PLURAL: Final = re.compile(r"\b(?:they|theirs?|themsel(?:f|ves))\b", re.IGNORECASE)
_PRONOUN: Final = re.compile(
    r"\b(?:(she|he) (\w+(?: \w+)?)|herself|himself|hers?|his|him)\b", re.IGNORECASE
)
_FEMALE: Final = ("she", "her")
_OBJECT: Final = re.compile(
    r"\b(?:gave|give[ns]?|gives|giving|made|makes?|lets?|help(?:s|ed)?|told|tells?|asked|asks?|taught|"
    r"shows?|showed|brings?|brought|sent|saw|sees?) $"
)
_NO_NOUN: Final = re.compile(
    r"(?: (?:to|a|an|the|and|or|but|with|in|on|at|for|from|by|about|that|as|how|when|who|if|so|"
    r"very|more|feel|again)\b|\W*$|[.,;:!?)])"
)
_AND: Final = re.compile(
    rf"\b(?:and|but|or) ((?:{'|'.join(_ADVERBS)}) [a-z']+|(?:{'|'.join(_VERBS)})\b"
    r"|(?:feel|find|believe|think|enjoy|know|consider|prefer|say|keep|make|take|want|seem)s\b"
    r"|[a-z]+s(?= (?:the|a|an|her|his|their|them|it|him)\b))"
)
_RELATIVE: Final = re.compile(r"\b(?:who|which|that)\b")


def in_second_person(words: str, names: Iterable[str]) -> str:
    """Return a sentence that begins with one of the reader's names as it is said to them.

    Sentences that begin otherwise stay as they are, since who else is meant is not known, and so do
    those in which `she`, `his` or `their` may be somebody else.
    """
    for name in sorted(filter(None, names), key=len, reverse=True):
        if words.startswith(name):
            rest = words[len(name) :]
            if re.match(r"['’]s\s", rest):
                return _with_pronouns("Your", rest[2:]) or words
            if rest[:1].isspace() and not rest.lstrip()[:1].isupper():  # a name of somebody else
                return _with_pronouns("You ", _conjugate_all(rest.strip())) or words
    return words


def _conjugate_all(rest: str) -> str:
    """Make the verbs of a clause agree with `you`: the first, and those joined to it."""

    def joined(match: re.Match[str]) -> str:
        if _RELATIVE.search(rest, 0, match.start()):
            return match[0]
        return match[0].replace(match[1], _conjugate(match[1]))

    return _AND.sub(joined, _conjugate(rest))


def _with_pronouns(subject: str, rest: str) -> str:
    """Return the sentence with pronouns that mean its subject; empty if they may mean others."""
    matches = list(_PRONOUN.finditer(rest))
    genders = {match[0].lower().startswith(_FEMALE) for match in matches}
    is_other = bool(matches and _OTHER.search(rest, 0, matches[-1].start()))
    if is_other or len(genders) > 1 or _PLURAL.search(rest):
        return ""

    def replace(match: re.Match[str]) -> str:
        word = match[0].lower()
        if match[1]:
            new = f"you {_conjugate(match[2])}"
        elif word.endswith("self"):
            new = "yourself"
        elif word == "hers":
            new = "yours"
        elif word == "him" or (word == "her" and _is_object(rest, match)):
            new = "you"
        else:
            new = "your"
        return new.capitalize() if match[0][0].isupper() else new

    return subject + _PRONOUN.sub(replace, rest)


def _is_object(text: str, her: re.Match[str]) -> bool:
    """Tell whether `her` stands for a person, rather than before what she has."""
    return bool(_OBJECT.search(text, 0, her.start()) or _NO_NOUN.match(text, her.end()))


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
