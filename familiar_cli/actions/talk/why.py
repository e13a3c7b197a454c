"""Explain a reply for a person: a sentence, and the memories that were used."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import takewhile
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.actions.talk.sent import recalled_pieces
from familiar_cli.base import markdown
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import bare_lines, one_line
from familiar_cli.base.times import clock
from familiar_cli.base.times.when import MONTHS
from familiar_cli.context.pipeline import UTTERANCE
from familiar_cli.context.providers.content_search import PAST
from familiar_cli.context.providers.people import RELATIONS_SOURCE
from familiar_cli.context.trace import Trace
from familiar_cli.context.types import Fragment, Layer
from familiar_cli.familiar import Familiar
from familiar_cli.store import fts
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.aliases import slug_in
from familiar_cli.store.search.hits import query_coverage

_MOST_NAMED: Final = 3
_MOST_TURNS: Final = 200  # in one window
_QUOTED_CHARS: Final = 40
_TITLE_CHARS: Final = 60
_HEAD_BYTES: Final = 16_384  # where the title of a file stands
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_WORD: Final = re.compile(r"[^\W\d_](?:[\w'’-]*\w)?")
_HEADING: Final = re.compile(r"\A\[[^\n]*\]\n|\A# [^\n]*\n+")
# How a word before a noun of the question reads in the answer.
_DETERMINERS: Final = {
    **{word: word for word in ("the", "a", "an", "our", "his", "their")},
    "my": "your",
    "your": "my",
}

_PREPOSITIONS: Final = frozenset({"about", "of", "with", "for", "from"})
_NO_TOPICS: Final = """
still tell last first next same other new old good best only very right sure now time day thing way
lot bit kind name
"""
_VAGUE: Final = frozenset(_NO_TOPICS.split())
_SENTENCE_START: Final = re.compile(r"(?:\A|[.!?…:\n]|\n\s*[-*#>]+)[\s\"'“”‘’(*_-]*\Z")

_PAGES: Final = {
    layout.NOTES: "my notes",
    layout.REMINDERS: "a reminder that is due",
    layout.TASKS: "your open tasks",
    layout.SCRATCH: "the scratchpad",
    layout.CONFLICTS_LIST: "the list of conflicts",
    layout.digest_path("short"): "my summary of the latest days",
    layout.digest_path("mid"): "my summary of the last weeks",
    layout.digest_path("long"): "my summary of everything before",
}
_FOLDERS: Final = {
    layout.LORE_DIR: "the lore on {}",
    layout.SIGNIFICANT_DIR: "the moment “{}”",
    layout.SELF_DIR: "what I am: {}",
    **dict.fromkeys((layout.SESSIONS_DIR, *layout.PERIOD_DIRS), "my notes “{}”"),
}


class UsedMemory(Struct, frozen=True):
    """A memory, or a part of a past conversation, that a prompt included.

    Args:
        phrase: Its name within a sentence of the familiar's: `the page on painting`.
        label: Its name in two or three words: `the boat, 25 August`.
        text: The part that the prompt included.
        excerpt: The lines of it that match the question best, as they stand in the file.
        rel_path: Its file; None for a part of a conversation.
        turns: The first and the last turn of that part.
        day: The local day of that part, as `2026-08-25`; empty for a file.
        cause: Why it was included, as in the trace.
    """

    phrase: str
    label: str
    text: str
    excerpt: str = ""
    rel_path: str | None = None
    turns: tuple[int, int] | None = None
    day: str = ""
    cause: str = ""


class ReplyExplanation(Struct, frozen=True):
    """The explanation of a reply.

    Args:
        turn: The turn that was answered; None for a prompt that was not stored.
        sentence: One sentence, in the familiar's voice.
        memories: The memories used, most relevant first.
        problems: Providers that failed or were late, a sentence each.
    """

    turn: int | None
    sentence: str
    memories: tuple[UsedMemory, ...] = ()
    problems: tuple[str, ...] = ()


def explain_reply(familiar: Familiar, trace: Trace) -> ReplyExplanation:
    """Explain which memories the reply of `trace` rests on: a sentence first, then each of them."""
    describer = _Describer(familiar, trace)
    pieces = sorted(recalled_pieces(trace), key=describer.telling_order)
    memories = tuple(_merge_same(map(describer.describe, pieces)))
    problems = tuple(
        f"{report.name} {'was late' if report.verdict == 'late' else 'failed'}: {report.reason}"
        for report in trace.providers
        if report.verdict != "answered"
    )
    sentence = _sentence_of(memories)
    if trace.error:
        sentence = f"There is no complete reply: {one_line(trace.error, 160)}. {sentence}"
    return ReplyExplanation(trace.turn, sentence, memories, problems)


def omit_gone_files(familiar: Familiar, explanation: ReplyExplanation) -> ReplyExplanation:
    """Remove the paths of files that no longer exist, so that nothing links to them."""
    memories = tuple(
        one
        if one.rel_path is None or familiar.memory.exists(one.rel_path)
        else replace(one, rel_path=None)
        for one in explanation.memories
    )
    return replace(explanation, memories=memories)


def _merge_same(memories: Iterable[UsedMemory]) -> list[UsedMemory]:
    """Merge the parts of a file, and equal parts of a day."""
    merged: dict[tuple[str | None, str], UsedMemory] = {}
    for one in memories:
        key = one.rel_path, "" if one.rel_path else one.phrase
        first = merged.get(key)
        if first is None:
            merged[key] = one
            continue
        spans = [span for span in (first.turns, one.turns) if span]
        turns = (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None
        merged[key] = replace(first, text=f"{first.text}\n{one.text}", turns=turns)
    return list(merged.values())


def _sentence_of(memories: Sequence[UsedMemory]) -> str:
    if not memories:
        return "I used nothing from memory, only my character and this conversation."
    # One more is named instead of counted.
    most = _MOST_NAMED if len(memories) > _MOST_NAMED + 1 else len(memories)
    phrases = [one.phrase for one in memories[:most]]
    if left := len(memories) - most:
        phrases.append(f"{left} more")
    if len(phrases) == 1:
        return f"I used {phrases[0]}."
    return f"I used {', '.join(phrases[:-1])}, and {phrases[-1]}."


class _Describer:
    """Describes the memories of one prompt."""

    def __init__(self, familiar: Familiar, trace: Trace) -> None:
        self._familiar = familiar
        asked = familiar.history.turn(trace.turn) if trace.turn is not None else None
        texts = [piece.text for piece in trace.contributions if piece.source == UTTERANCE]
        self._question = "\n".join(texts) or (asked.content if asked else "")
        self._topics = _Topics(self._question, (piece.text for piece in trace.contributions))
        self._me = familiar.me(trace.channel_id)
        self._asker = asked.author if asked else self._me.author

    def telling_order(self, piece: Fragment) -> tuple[int, float]:
        """Sort pieces by relevance; those that match the question come first."""
        ranks = {Layer.content: 0, Layer.desk: 2, Layer.pinned: 3}
        rank = ranks.get(piece.layer, 4) + 3 * (piece.cause == "speaks")
        fits = rank > 0 or piece.cause.startswith("is named")
        is_beside = not (fits or self._topics.shares_words(piece.text))
        return rank + is_beside, -(piece.score or 0.0)

    def describe(self, piece: Fragment) -> UsedMemory:
        """Describe one piece of the prompt."""
        text = _HEADING.sub("", piece.text).strip()
        described = self._describe(piece, text)
        shown = self._lines_in_page(piece.rel_path, text) or bare_lines(text)
        return replace(described, excerpt="\n".join(_best_lines(shown, self._question)))

    def _lines_in_page(self, rel_path: str | None, text: str) -> list[str]:
        """Return the lines of a file that a prompt ran together, as they stand there."""
        if rel_path is None or "\n" in text:
            return []
        try:
            page = bare_lines(self._familiar.memory.read_head(rel_path, _HEAD_BYTES).text)
        except FamiliarError:
            return []
        found = set[str]()
        for line in sorted(page, key=len, reverse=True):  # a key is also a word of a longer line
            if (words := _bare_line(line)) and words in text:
                text = text.replace(words, "", 1)
                found.add(line)
        return [line for line in page if line in found]

    def _describe(self, piece: Fragment, text: str) -> UsedMemory:
        if piece.source == PAST:
            return self._past(piece, text)
        if piece.source == RELATIONS_SOURCE:
            return UsedMemory("how people are related", "relations", text, cause=piece.cause)
        if piece.rel_path is None:
            return UsedMemory("what I put together from memory", "memory", text, cause=piece.cause)
        phrase, label = self._page(piece.rel_path, text)
        return UsedMemory(
            phrase, label, text, rel_path=piece.rel_path, turns=piece.turns, cause=piece.cause
        )

    def _past(self, piece: Fragment, text: str) -> UsedMemory:
        items = _DATE.findall(piece.origin)
        day = items[-1] if items else ""
        when = _day_words(day)
        turn = self._best_turn(piece, text)
        topic = self._topics.topic_in(turn.content if turn else text)
        quoted = _quote(turn.content if turn else text)
        about = f" about {topic}" if topic else f" (“{quoted}”)"
        on_day = f" on {when}" if when else ""
        return UsedMemory(
            phrase=f"what {self._speaker(turn)} said{on_day}{about}",
            label=", ".join(filter(None, (topic or f"“{quoted}”", when))),
            text=text,
            turns=piece.turns,
            day=day,
            cause=piece.cause,
        )

    def _best_turn(self, piece: Fragment, text: str) -> Turn | None:
        """Find the turn in a window that matches the question best."""
        if piece.turns is None:
            return None

        first, last = piece.turns
        numbers = range(first, min(last, first + _MOST_TURNS) + 1)
        turns = filter(None, map(self._familiar.history.turn, numbers))
        shown = [turn for turn in turns if _first_line(turn.content) in text]
        return max(
            shown, key=lambda turn: query_coverage(turn.content, self._question), default=None
        )

    def _speaker(self, turn: Turn | None) -> str:
        if turn is None:
            return "was"
        if turn.role == "assistant":
            return "I"
        if turn.author is None:
            return "somebody"
        return "you" if self._is_asker(turn.author.slug) else self._me.name_of(turn.author)

    def _is_asker(self, slug: str) -> bool:
        if self._asker is None:
            return False
        owner = self._me.owner(self._asker)
        return slug in (owner.slugs if owner else {self._asker.slug})

    def _page(self, rel_path: str, text: str) -> tuple[str, str]:
        """Return a memory file's name within a sentence, and its label."""
        public = layout.path_without_scope(rel_path)
        if public in _PAGES:
            phrase = _PAGES[public]
            return phrase, phrase.removeprefix("my ").removeprefix("a ").removeprefix("the ")
        slug = slug_in(public)
        title = self._title(rel_path, "" if slug else f"{self._question}\n{text}")
        if slug is not None:
            known = "you" if self._is_asker(slug) else title
            return f"what I know about {known}", known
        folder = public.partition("/")[0]
        return _FOLDERS.get(folder, "the page on {}").format(title), title

    def _title(self, rel_path: str, around: str) -> str:
        """Read a file's title; a common word loses the capital of the heading."""
        try:
            title = markdown.title_of(self._familiar.memory.read_head(rel_path, _HEAD_BYTES).text)
        except FamiliarError:
            title = ""
        title = one_line(title or posixpath.splitext(posixpath.basename(rel_path))[0], _TITLE_CHARS)
        lowered = title[:1].lower() + title[1:]
        first = lowered.split(" ", 1)[0]
        is_common = lowered != title and re.search(rf"\b{re.escape(first)}\b", around) is not None
        return lowered if is_common else title


_EXCERPT_LINES: Final = 3


def _bare_line(line: str) -> str:
    return line.partition("<!--")[0].strip().lstrip("-*#> ").strip()


def _best_lines(lines: Sequence[str], question: str) -> list[str]:
    """Choose the line that matches a question best, under its heading, with what follows it."""
    shown = [line.rstrip() for line in lines if line.strip()]
    if len(shown) <= _EXCERPT_LINES:
        return shown
    ranked = [n for n, line in enumerate(shown) if not line.startswith("#")] or [0]
    best = max(ranked, key=lambda n: query_coverage(shown[n], question))
    above = [line for line in shown[:best] if line.startswith("#")][-1:]
    end = best + _EXCERPT_LINES - len(above)
    after = list(takewhile(lambda line: not line.startswith("#"), shown[best:end]))
    return [*above, *after]


class _Topics:
    """Finds what a question and a memory are both about.

    Args:
        texts: All texts of the prompt; a word in few of them is a better topic.
    """

    def __init__(self, question: str, texts: Iterable[str]) -> None:
        self._question = question
        self._content = set(fts.content_words(question))
        self._spread = Counter(word for text in texts for word in set(fts.words(text)))

    def shares_words(self, text: str) -> bool:
        """Tell whether a text has any word that matters in the question."""
        return not self._content.isdisjoint(fts.words(text))

    def topic_in(self, text: str) -> str:
        """Return a name, else the rarest noun, that both share, as the answer would call it.

        A noun is known by an article, a possessive or a preposition before it; empty: there is
        nothing of the kind.
        """
        shared = self._content & set(fts.words(text)) - _VAGUE
        items: list[tuple[bool, int, int, str]] = []
        for match in _WORD.finditer(self._question):
            folded = fts.words(match[0])
            if not folded or fts.is_unspaced(match[0]) or not shared.issuperset(folded):
                continue
            is_name = _is_name(match[0], self._question, text)
            shown = match[0] if is_name else self._noun(match, text, shared)
            if shown:
                spread = max(self._spread[word] for word in folded)
                items.append((not is_name, spread, -match.start(), shown))
        return min(items)[-1] if items else ""

    def _noun(self, match: re.Match[str], text: str, shared: set[str]) -> str:
        """Return a noun with its article or possessive, or alone after a preposition."""
        word = match[0].lower()
        before = _WORD.findall(self._question[: match.start()].lower())[-2:]
        after = _WORD.match(self._question, match.end() + 1)
        if after and shared.issuperset(fts.words(after[0])):
            return ""  # it describes the noun that follows
        if before and before[-1] in _DETERMINERS:
            return f"{_DETERMINERS[before[-1]]} {word}"
        if before and before[0] in _DETERMINERS and f"{before[-1]} {word}" in text.lower():
            return f"{_DETERMINERS[before[0]]} {before[-1]} {word}"
        places = (re.findall(rf"(\w+) {re.escape(word)}\b", text.lower()), before[-1:])
        ahead = {one for words in places for one in words}
        if not ahead.isdisjoint(_DETERMINERS):
            return f"the {word}"
        return "" if ahead.isdisjoint(_PREPOSITIONS) else word


def _is_name(word: str, *texts: str) -> bool:
    """Tell whether a word has a capital inside a sentence, and nowhere a small letter."""
    if len(word) == 1 or not word[0].isupper() or word.startswith(("I'", "I’")):
        return False
    items = [
        (match[0][0].isupper(), bool(_SENTENCE_START.search(text[: match.start()])))
        for text in texts
        for match in re.finditer(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
    ]
    is_upper = all(upper for upper, _ in items)
    return is_upper and any(not starts for _, starts in items)


def _day_words(day: str) -> str:
    """Format a day as `25 August`, with the year if it is not the current one."""
    if not day:
        return ""
    meant = date.fromisoformat(day)
    year = "" if meant.year == clock.now().year else f" {meant.year}"
    return f"{meant.day} {MONTHS[meant.month - 1]}{year}"


def _first_line(content: str) -> str:
    return content.strip().partition("\n")[0].strip()


def _quote(text: str) -> str:
    quoted = one_line(text.partition(": ")[2] or text, _QUOTED_CHARS)
    whole = quoted.rpartition(" ")[0].rstrip(",;:-") if quoted.endswith("…") else ""
    return f"{whole} …" if len(whole) > _QUOTED_CHARS // 2 else quoted
