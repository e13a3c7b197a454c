"""The third tier: one call of a cheap model that says what of the passages matters.

It may ask for one search through all of memory, and then must answer: two calls at most. It is no
gate: a passage that is strong by itself is shown even if the filter sees nothing in it, and where
its reply makes no sense, or none comes, the passages go on as they were found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import regex

from familiar_cli.context.providers.content_search.filter_prompt import (
    Asked,
    first_messages,
    second_messages,
)
from familiar_cli.context.providers.content_search.filter_reply import FilterChoice, read_reply
from familiar_cli.context.side_model import ask_side_model
from familiar_cli.errors import FamiliarError, LimitError, UsageError
from familiar_cli.jobs import in_thread
from familiar_cli.memory.layout import SELF_DIR
from familiar_cli.memory.pages.links import is_page
from familiar_cli.truncate import cut_to

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from familiar_cli.context.providers.content_search.passages import Passage, Seen, Sight
    from familiar_cli.context.side_model import OpenModel
    from familiar_cli.context.types import ContextRequest
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import GrepHit
    from familiar_cli.tokens import TokenCounter

NAME: Final = "content_filter"
FORWARDED: Final = 2
"""So many passages stand against an empty answer when the best is strong."""

SNIPPET_TOKENS: Final = 150
MOST_LINES: Final = 12  # of what a search gives
LINE_CHARS: Final = 300
MOST_PATTERN_CHARS: Final = 200
_TOKENS_A_WORD: Final = 2


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the filter made of the passages.

    Args:
        answer: Its words; empty: it has none.
        passages: Those that go on as they are.
        sources: The files that the answer was made from.
        shortened: Why the answer is not whole; empty: it is.
        why: What happened, where it is not the usual.
    """

    answer: str = ""
    passages: tuple[Passage, ...] = ()
    sources: tuple[str, ...] = ()
    shortened: str = ""
    why: str = ""


class Filter:
    """Chooses among passages.

    Args:
        open_model: Gives the model; asked when it is needed.
        store: The memory.
        counter: What counts tokens.
        char: Gives the familiar's name.
        strong: From this strength on a passage stands by itself.
        answer_tokens: Most tokens of the answer.
        deadline_s: How long it may take.
    """

    def __init__(
        self,
        open_model: OpenModel,
        store: MemoryStore,
        counter: TokenCounter,
        *,
        char: str,
        strong: float,
        answer_tokens: int,
        deadline_s: float,
    ) -> None:
        self.deadline_s = deadline_s
        self.answer_tokens = answer_tokens
        self._open_model = open_model
        self._store = store
        self._counter = counter
        self._char = char
        self._strong = strong

    async def choose(
        self,
        request: ContextRequest,
        passages: Sequence[Passage],
        people: Sequence[str],
        sight: Sight,
        room: int,
    ) -> Chosen:
        """Return what matters of `passages` for what was said.

        Args:
            request: What was said.
            passages: What was found, best first; at least one.
            people: The files of people that are in the prompt already.
            sight: What of memory may be shown.
            room: Most tokens of the answer.

        Raises:
            FamiliarError: There is no reply.
        """
        model, most = self._open_model(), min(room, self.answer_tokens)
        words = max(most // _TOKENS_A_WORD, 10)
        asked = Asked(self._char, words, request.query, passages, people)
        done = await ask_side_model(request, NAME, model, first_messages(asked))
        reply = read_reply(done.text, is_cut=done.finish_reason == "length")
        sources, searched = [passage.name for passage in passages], ""
        if reply.kind == "escalate":
            hidden = {*people, *sources}
            found, searched = await in_thread(partial(self._grep, reply.pattern, sight, hidden))
            lines = "\n".join(f"{path}:{line}: {text}" for path, line, text in found)
            told = second_messages(asked, lines or f"(nothing: {searched})")
            done = await ask_side_model(request, NAME, model, told)
            reply = read_reply(done.text, is_cut=done.finish_reason == "length", forced=True)
            sources += [path for path, _, _ in found]
        return self._chosen(reply, passages, tuple(dict.fromkeys(sources)), searched, most)

    def _chosen(
        self,
        reply: FilterChoice,
        passages: Sequence[Passage],
        sources: tuple[str, ...],
        searched: str,
        most: int,
    ) -> Chosen:
        also = f"; {searched}" if searched else ""
        if reply.kind == "answer":
            text, shortened = self._cut(reply, most)
            return Chosen(text, (), sources, shortened, searched)
        if reply.kind != "nothing":
            why = f"the filter's reply is not valid ({reply.text}), so they are used as found"
            return Chosen(passages=tuple(passages), why=why + also)
        best = passages[0].strength
        if best >= self._strong:
            why = (
                f"the filter found nothing relevant, but the best is strong enough ({best:.2f} of "
                f"filter.strong {self._strong:g}), so the first {FORWARDED} are kept"
            )
            return Chosen(passages=tuple(passages[:FORWARDED]), why=why + also)
        return Chosen(why=f"the filter found nothing relevant in it{also}")

    def _cut(self, reply: FilterChoice, most: int) -> tuple[str, str]:
        shortened = "the filter's answer is incomplete" if reply.is_cut else ""
        if self._counter.count(reply.text) <= most:
            return reply.text, shortened
        cut = cut_to(reply.text, most, self._counter.count)
        return cut or reply.text, f"the filter's answer is longer than {most} tokens"

    def _grep(
        self, pattern: str, sight: Sight, hidden: Collection[str]
    ) -> tuple[list[tuple[str, int, str]], str]:
        """Return file, number and words of lines that match, and what is to be told of it."""
        try:
            hits, told = self._search(pattern)
        except LimitError as error:
            return [], f"its search was stopped: {error}"
        seen: dict[str, Seen | None] = {}
        found: list[tuple[str, int, str]] = []
        for hit in hits:
            words = "" if _is_out(hit.rel_path, hidden) else self._line(hit, sight, seen)
            if words:
                found.append((hit.rel_path, hit.line, words))
            if len(found) == MOST_LINES:
                break
        return found, f"{told} {pattern[:80]!r}: {len(found)} lines"

    def _search(self, pattern: str) -> tuple[Sequence[GrepHit], str]:
        if len(pattern) > MOST_PATTERN_CHARS:
            raise LimitError(f"the pattern has {len(pattern)} characters")
        try:
            return self._store.search(pattern).hits, "it searched for"
        except UsageError:  # a bad expression is meant as plain words
            return self._store.search(regex.escape(pattern)).hits, "it searched for the words"

    def _line(self, hit: GrepHit, sight: Sight, seen: dict[str, Seen | None]) -> str:
        """Return the words of a line that may be shown, around what matched."""
        if hit.rel_path not in seen:
            try:
                seen[hit.rel_path] = sight.of(hit.rel_path, self._store.read_file(hit.rel_path))
            except FamiliarError:
                seen[hit.rel_path] = None
        file = seen[hit.rel_path]
        if file is None or file.why_not:
            return ""
        start = _start_of(file.text, hit.line)
        if file.reason_at(start):
            return ""
        words = file.between(start, start + len(hit.text))
        if len(words) > LINE_CHARS:
            first = max(0, min(hit.start - LINE_CHARS // 3, len(words) - LINE_CHARS))
            words = words[first : first + LINE_CHARS]
        return sight.words(hit.rel_path, words)


def _is_out(rel_path: str, hidden: Collection[str]) -> bool:
    """Return whether a file is shown already, belongs to the character, or is no text."""
    is_text = is_page(rel_path)
    return rel_path in hidden or rel_path.startswith(f"{SELF_DIR}/") or not is_text


def _start_of(text: str, line: int) -> int:
    """Return where the line with this number, from 1, begins."""
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
    return at
