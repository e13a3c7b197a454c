"""Facts as rows of pages: said to the reader, with their evidence and the page behind them."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from familiar_cli.actions.memory.facts import fact_words, page_title
from familiar_cli.servers.web.drawing import evidence_links, imported_evidence, render_inline
from familiar_cli.store.memory.layout import PEOPLE_DIR, people_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from familiar_cli.actions.memory.fact_days import DatedFact
    from familiar_cli.actions.memory.facts import KnownFact
    from familiar_cli.servers.web.asking import PageRequest
    from familiar_cli.servers.web.html.elements import Html

_MOST_ROWS: Final = 40


def fact_rows(
    request: PageRequest, facts: Iterable[KnownFact]
) -> list[tuple[KnownFact, Html, Html]]:
    """Return facts with their words as HTML, said to the owner, and links to their evidence."""
    say = words_to_reader(request)
    return [
        (
            fact,
            render_inline(say(fact.words), fact.rel_path, request.base),
            imported_evidence(fact.imported_day)
            if fact.is_imported and not fact.days
            else evidence_links(fact.days, request.base),
        )
        for fact in facts
    ]


def dated_rows(
    request: PageRequest, facts: Sequence[DatedFact]
) -> list[tuple[Html, Html, str, str]]:
    """Return facts as HTML, said to the owner, with evidence, title and address."""
    shown = facts[:_MOST_ROWS]
    citations = request.familiar.numbering.cited_days([fact.line for fact in shown], request.viewer)
    say, title = words_to_reader(request), cache(partial(page_title, request.familiar.memory))
    words = [fact_words(fact.line) for fact in shown]
    return [
        (
            render_inline(say(text), fact.rel_path, request.base),
            evidence_links(days, request.base),
            title(fact.rel_path),
            page_of_file(request, fact.rel_path),
        )
        for fact, text, days in zip(shown, words, citations, strict=True)
    ]


def words_to_reader(request: PageRequest) -> Callable[[str], str]:
    """Return a function that puts facts about the owner into the second person, in English."""
    familiar = request.familiar
    if familiar.language != "en":
        return str
    mine = [people_path(slug) for slug in familiar.me().slugs]
    titles = [page_title(familiar.memory, path) for path in mine if familiar.memory.exists(path)]
    names = {name for title in titles for name in (title, title.partition(" ")[0])}
    return lambda words: in_second_person(words, names)


def page_of_file(request: PageRequest, rel_path: str) -> str:
    """Return the address of a file's page; a person has one of their own."""
    if rel_path.startswith(f"{PEOPLE_DIR}/"):
        return request.to("people", rel_path.removeprefix(f"{PEOPLE_DIR}/").removesuffix(".md"))
    return request.to("memory", rel_path)


_VERBS: Final = {"is": "are", "was": "were", "has": "have", "does": "do", "isn't": "aren't",
                 "wasn't": "weren't", "hasn't": "haven't", "doesn't": "don't"}  # fmt: skip
_ADVERBS: Final = frozenset({"also", "always", "already", "never", "now", "often", "once", "really",
                             "recently", "sometimes", "still", "usually"})  # fmt: skip
_SAME: Final = frozenset({"as", "thus", "perhaps", "always"})  # no verbs
_SIBILANTS: Final = ("sses", "shes", "ches", "xes", "zzes")
_OTHER: Final = re.compile(
    r"\b(?:mother|mom|mum|father|dad|parent|sister|brother|daughter|son|wife|husband|partner|girl"
    r"(?:friend)?|boy(?:friend)?|friend|aunt|uncle|grand\w+|cousin|niece|nephew|boss|colleague|"
    r"teacher|woman|man|child|kid|baby|teen|neighbou?r|doctor|cat|dog|[A-Z][a-z]+)\b"
)
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
    those in which `she` or `his` may be somebody else.
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
    if len(genders) > 1 or (matches and _OTHER.search(rest, 0, matches[-1].start())):
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
