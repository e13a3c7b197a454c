"""`ContentSearchProvider`: runs the tiers of search and combines their results.

Whatever the second and third tier do, the results of the first are provided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.jobs import ends_within
from familiar_cli.base.text import USEFUL_TOKENS, one_line
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.context.budget import MESSAGE_TOKENS
from familiar_cli.context.providers.packing import Passage, brief_headings
from familiar_cli.context.providers.people import RECENT_AUTHORS, PeopleSource
from familiar_cli.context.providers.people import SOURCE as PEOPLE
from familiar_cli.context.providers.retrieval import Candidates, Retrieval
from familiar_cli.context.request import ContextRequest, Refill
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan, Subject
from familiar_cli.store.memory.layout import PEOPLE_DIR
from familiar_cli.store.memory.pages.lines import PLAIN, Numbering

if TYPE_CHECKING:
    from familiar_cli.base.languages import Phrases
    from familiar_cli.context.providers.content_filter import Filter, FilterResult
    from familiar_cli.llm.tokens import TokenCounter
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.aliases import Aliases
    from familiar_cli.store.memory.store.store import MemoryStore

SOURCE: Final = "content_search.rag"
PAST: Final = "recall.turns"
PRIORITY: Final = 70
DEPTH: Final = 1
"""It changes at every turn, so it stands right before what is said now, and not above the chat: all
that stands before it can be used again by a server that remembers the beginnings of prompts."""

_OWN_SHARE: Final = 0.5  # share of the layer that people's files leave to what was searched for

LABEL_TOKENS: Final = 20  # approximate overhead of a passage in tokens
_SHARE: Final = 0.8  # share of the deadline after which the results so far are used
_PEOPLE_SHARE: Final = 0.5  # of the deadline, so that the search has the rest however late they are
_FILTER_SHARE: Final = 0.95  # of the filter's own time


class ContentSearchProvider:
    """Provides the files of participants, and passages that match the message.

    Args:
        aliases: Opens the index of names; it is closed after each use.
        counter: The token counter.
        retrieval: Finds passages; None to find none.
        content_filter: Selects among them; None to provide all.
        recent_author_limit: Number of recent speakers of the channel to include.
        deadline_s: Deadline without the filter.
        numbering: The mapping of citations to turns.

    Attributes:
        people: The source of people's files.
    """

    name: Final = "content_search"
    looks_at: Final = (
        f"{PEOPLE_DIR}/<platform>-<id>.md of people who take part or are named, and all text in "
        "memory except the character's own files"
    )

    def __init__(
        self,
        store: MemoryStore,
        history: HistoryStore,
        aliases: Callable[[], Aliases],
        counter: TokenCounter,
        *,
        retrieval: Retrieval | None = None,
        content_filter: Filter | None = None,
        recent_author_limit: int = RECENT_AUTHORS,
        deadline_s: float = 2.0,
        numbering: Numbering = PLAIN,
    ) -> None:
        self.deadline_s = deadline_s + (content_filter.deadline_s if content_filter else 0.0)
        self._search_s = deadline_s
        self._counter = counter
        self._retrieval = retrieval
        self._filter = content_filter
        self.people = PeopleSource(
            store,
            history,
            aliases,
            counter,
            recent_author_limit=recent_author_limit,
            limit_s=_PEOPLE_SHARE * deadline_s,
            on_unread=self._note_behind,
            numbering=numbering,
        )

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the contributions of the tiers, in order."""
        until_s = stopwatch_s() + _SHARE * self._search_s
        people = await self.people.contribute(request)
        if self._retrieval is None or not self._retrieval.k:
            return people
        try:
            found = await self._recall(self._retrieval, request, people, until_s)
            return [*_without_said(people, found), *found]
        except Exception as error:  # noqa: BLE001  # whatever fails here, nobody is forgotten
            return [*people, _problem(f"memory was not searched: {_error_words(error)}")]

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a file is not in a prompt; see `Explains`."""
        by_name = self.people.why_not(subject, request)
        if by_name == "" or self._retrieval is None:
            return by_name
        people = self.people.now(request)
        by_search = self._retrieval.why_not(
            subject, request, _by_path(people), self._room(request, people)
        )
        reasons = [reason for reason in (by_name, by_search) if reason is not None]
        return None if not reasons else "" if "" in reasons else "; and ".join(reasons)

    async def _recall(
        self,
        retrieval: Retrieval,
        request: ContextRequest,
        people: list[Contribution],
        until_s: float,
    ) -> list[Contribution]:
        found, late = self._search_in_time(retrieval, request, people, until_s)
        if found.behind:
            self._note_behind()
        remarks = [_make_remark(remark) for remark in found.remarks]
        if found.pack and self._filter is None:
            repack = partial(self._repack_passages, found.pack)
            request.refills.append(Refill(repack, before_digests=found.before_digests))
        remarks += starmap(_make_remark, found.left)
        late = [*late, *([_problem(found.unread)] if found.unread else [])]
        if not found.passages:
            return [*remarks, *late]
        offered = await self._choose_passages(retrieval, request, people, found)
        return [*offered, *remarks, *late]

    def _note_behind(self) -> None:
        if self._retrieval:
            self._retrieval.memory.finder.note_behind()

    def _search_in_time(
        self,
        retrieval: Retrieval,
        request: ContextRequest,
        people: list[Contribution],
        until_s: float,
    ) -> tuple[Candidates, list[Contribution]]:
        """Search in a thread; at the deadline, use the results so far."""
        founds: list[Callable[[], Candidates]] = []
        room = self._room(request, people)
        look = partial(retrieval.look, request, _by_path(people), room, founds.append)
        late: list[Contribution] = []
        try:
            if not ends_within(look, until_s - stopwatch_s()) and not founds:
                late = [_problem("memory was not searched in time")]
        except FamiliarError as error:
            if not founds:
                raise
            late = [_make_remark(f"searched by words only: {error}")]
        return founds[-1]() if founds else Candidates(behind=True), late

    async def _choose_passages(
        self,
        retrieval: Retrieval,
        request: ContextRequest,
        people: list[Contribution],
        found: Candidates,
    ) -> list[Contribution]:
        if self._filter is None:
            return _offer_passages(found.passages, found.how)
        names = [piece.rel_path for piece in people if piece.rel_path and not piece.problem]
        room = max(self._room(request, people) - LABEL_TOKENS, USEFUL_TOKENS)
        asked = self._filter.choose(request, found.passages, names, retrieval.sight(request), room)
        try:
            chosen = await asyncio.wait_for(asked, _FILTER_SHARE * self._filter.deadline_s)
        except Exception as error:  # noqa: BLE001  # a filter that fails filters nothing
            why = f"the filter failed ({_error_words(error)}), so everything found is used"
            return [*_offer_passages(found.passages, found.how), _problem(why)]
        return _make_contributions(chosen, found, request.phrases)

    def _repack_passages(
        self, pack: Callable[[int], Candidates], offered: Sequence[Contribution], room: int
    ) -> list[Contribution]:
        """Return all contributions with the passages packed into the layer's new room."""
        found = pack(max(room - self._served_tokens(offered), 0))
        packed = _offer_passages(found.passages, found.how)
        packed += starmap(_make_remark, found.left)
        at = next((n for n, piece in enumerate(offered) if _is_found(piece)), len(offered))
        others = [[p for p in part if not _is_found(p)] for part in (offered[:at], offered[at:])]
        return [*_without_said(others[0], packed), *packed, *_without_said(others[1], packed)]

    def _served_tokens(self, pieces: Sequence[Contribution]) -> int:
        """Count the tokens of memory that is served before passages."""
        return sum(
            self._counter.count(piece.text) + MESSAGE_TOKENS
            for piece in pieces
            if piece.text and piece.layer is Layer.content and piece.priority > PRIORITY
        )

    def _room(self, request: ContextRequest, people: Sequence[Contribution]) -> int:
        """Return the tokens available for passages beside the people's files."""
        limit = request.layer_tokens.get(Layer.content, request.budget_tokens)
        taken = self._served_tokens(people)
        return max(limit - taken, int(_OWN_SHARE * limit))


def _make_contributions(
    chosen: FilterResult, found: Candidates, phrases: Phrases
) -> list[Contribution]:
    """Return the chosen contributions, and records of the others."""
    kept = {passage.name for passage in chosen.passages}
    pieces = _offer_passages(chosen.passages, found.how, chosen.why)
    if chosen.answer:
        pieces.append(_answer_contribution(chosen, phrases))
    why = "replaced by the filter's answer" if chosen.answer else ""
    left = why or "the filter found nothing relevant in it"
    pieces += [
        _offer_passage(p, found.how, left=left) for p in found.passages if p.name not in kept
    ]
    return [*pieces, *([_make_remark(chosen.why)] if chosen.why else [])]


def _answer_contribution(chosen: FilterResult, phrases: Phrases) -> Contribution:
    made_from = ", ".join(chosen.sources)
    return Contribution(
        layer=Layer.content,
        priority=PRIORITY,
        text=f"{phrases.labelled(phrases.from_memory)}\n{chosen.answer}",
        source=SOURCE,
        place=PromptSpan.depth,
        depth=DEPTH,
        cause=f"the filter's answer, made from {made_from}",
        shortened=chosen.shortened,
    )


def _offer_passages(passages: Sequence[Passage], how: str, why: str = "") -> list[Contribution]:
    return [_offer_passage(passage, how, why) for passage in brief_headings(passages)]


def _offer_passage(passage: Passage, how: str, why: str = "", *, left: str = "") -> Contribution:
    cause = f"matches what was said, by {how}: strength {passage.strength:.2f}"
    piece = Contribution(
        layer=Layer.content,
        priority=PRIORITY,
        text=f"{passage.heading}\n{passage.text}",
        source=PAST if passage.turns else SOURCE,
        place=PromptSpan.depth,
        depth=DEPTH,
        rel_path=passage.rel_path,
        turns=passage.turns,
        origin=passage.origin,
        fit=Fit.queue,
        lines=passage.lines,
        sha256=passage.sha256,
        score=passage.score,
        cause=f"{cause}; {why}" if why else cause,
        shortened="its matching passages" if passage.is_cut else "",
        whole_tokens=passage.whole_tokens,
        remark=left,
    )
    return passage.place(piece, body=passage.text) if passage.place else piece


def _is_found(piece: Contribution) -> bool:
    """Tell whether a piece is a passage, or the record of one that did not fit."""
    where = piece.rel_path or piece.origin
    return piece.source in {SOURCE, PAST} and not piece.problem and bool(piece.text or where)


def _make_remark(words: str, rel_path: str | None = None, origin: str = "") -> Contribution:
    """Record a notice, or why a file or a conversation is not in the prompt."""
    return Contribution(
        Layer.content,
        PRIORITY,
        "",
        PAST if origin else SOURCE,
        PromptSpan.depth,
        depth=DEPTH,
        rel_path=rel_path,
        origin=origin,
        remark=words,
    )


def _problem(words: str) -> Contribution:
    return Contribution(Layer.content, 0, "", SOURCE, PromptSpan.depth, depth=DEPTH, problem=words)


def _by_path(pieces: Sequence[Contribution]) -> dict[str, Contribution]:
    return {
        piece.rel_path: piece
        for piece in pieces
        if piece.rel_path and not piece.problem and piece.priority > PRIORITY
    }


def _without_said(
    people: Sequence[Contribution], found: Sequence[Contribution]
) -> list[Contribution]:
    """Return people's files without the lines that are quoted in the rest."""
    quoted = {line for piece in found for line in piece.text.split("\n")}
    return [
        replace(piece, text=_without_quoted(quoted, piece.text))
        if piece.source == PEOPLE and piece.priority < PRIORITY
        else piece
        for piece in people
    ]


def _without_quoted(quoted: Collection[str], text: str) -> str:
    """Remove the quoted lines from a text; empty if nothing else remains."""
    left = [line for line in text.split("\n") if line not in quoted]
    is_empty = all(line.startswith("#") or not any(map(str.isalnum, line)) for line in left)
    return "" if is_empty else "\n".join(left)


def _error_words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    said = str(error) if isinstance(error, FamiliarError) else f"{type(error).__name__}: {error}"
    return one_line(said, 200)
