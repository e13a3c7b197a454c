"""Facts as rows of pages: said to the reader, with their evidence and the page behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from familiar_cli.actions.memory.facts import KnownFact, fact_words, page_title
from familiar_cli.servers.web.drawing import evidence_links, imported_evidence, render_inline
from familiar_cli.servers.web.html.elements import Html
from familiar_cli.store.memory.layout import PEOPLE_DIR, people_path
from familiar_cli.store.memory.pages.lines import citations_in

if TYPE_CHECKING:
    from familiar_cli.actions.memory.fact_days import DatedFact
    from familiar_cli.servers.web.asking import PageRequest

_MOST_ROWS: Final = 40
_ADVERBS: Final = (
    "also|always|already|never|now|often|once|perhaps|really|recently|sometimes|still|usually"
)
_PRONOUN: Final = re.compile(
    r"\b(?:s?he|hers?|his|hi[ms]self|herself|him|they|them|theirs?|themsel(?:f|ves))\b",
    re.IGNORECASE,
)
_FIRST_VERB: Final = re.compile(rf"\s+(?:(?:{_ADVERBS})\s+)*([a-z]+?)(?:n['’]t)?(?![\w'’-])")
_JOINED_VERB: Final = re.compile(r"(?:[,;]|\b(?:and|but|or|then))(?: \w+)? \w*s(?:n['’]t)?\b")
_ENDING: Final = re.compile(r"(?<=..)(i)es$|(?<=ss|sh|ch|zz|go|do|.x)es$|(?<!s)s$")
_VERBS: Final = {"is": "are", "was": "were", "has": "have", "as": "as", "thus": "thus"}


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


def evidence_of_lines(request: PageRequest, lines: Sequence[str]) -> list[Html]:
    """Return links to the evidence of each line; empty for lines that cite nothing."""
    days = request.familiar.numbering.cited_days(lines, request.viewer)
    return [
        evidence_links(of_line if citations_in(line) else None, request.base)
        for line, of_line in zip(lines, days, strict=True)
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


def in_second_person(words: str, names: Iterable[str]) -> str:
    """Return a sentence that begins with one of the reader's names as it is said to them.

    It stays as it is if a pronoun may mean somebody else, or if more than its first verb may have
    to agree with `you`.
    """
    for name in sorted(filter(None, names), key=len, reverse=True):
        rest = words.removeprefix(name)
        if rest == words or _PRONOUN.search(rest):
            continue
        if re.match(r"['’]s\s", rest):
            return f"Your{rest[2:]}"
        verb = _FIRST_VERB.match(rest)
        if verb and not _JOINED_VERB.search(rest):
            return f"You{rest[: verb.start(1)]}{_verb_of_you(verb[1])}{rest[verb.end(1) :]}"
    return words


def _verb_of_you(verb: str) -> str:
    return _VERBS.get(verb) or _ENDING.sub(lambda ending: "y" if ending[1] else "", verb)


def page_of_file(request: PageRequest, rel_path: str) -> str:
    """Return the address of a file's page; a person has one of their own."""
    if rel_path.startswith(f"{PEOPLE_DIR}/"):
        return request.to("people", rel_path.removeprefix(f"{PEOPLE_DIR}/").removesuffix(".md"))
    return request.to("memory", rel_path)
