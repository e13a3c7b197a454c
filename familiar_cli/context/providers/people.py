"""The people who take part or are named: their files, and relations of people and topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import tzinfo
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.jobs import ends_within
from familiar_cli.base.markdown import Section, TextLine, sections, title_of
from familiar_cli.base.text import (
    counted,
    cut_to,
    fold,
    framed,
    one_line,
    shorten_list,
    without_accents,
)
from familiar_cli.base.times.clock import to_zone
from familiar_cli.context.budget import percent_of
from familiar_cli.context.request import REFRESH_SHARE, ContextRequest
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan, Subject, held_back
from familiar_cli.store.fts import content_words
from familiar_cli.store.memory.aliases import (
    Aliases,
    SharedName,
    main_account,
    names_of,
    slug_in,
)
from familiar_cli.store.memory.layout import ALIASES_JSON, people_path
from familiar_cli.store.memory.mentions import key_of
from familiar_cli.store.memory.pages.facts import (
    asks_for_past,
    ended_spans,
    heading_of,
    with_days,
    without_ended,
)
from familiar_cli.store.memory.pages.lines import (
    PLAIN,
    EvidenceText,
    Numbering,
    last_turn,
    readable_text,
    turn_count,
    with_references,
    without_references,
)
from familiar_cli.store.memory.pages.visible_lines import sha256_seen, visible_in
from familiar_cli.store.memory.relation_index import Edge, RelationIndex, is_edge_visible

if TYPE_CHECKING:
    from familiar_cli.base.languages import Phrases
    from familiar_cli.base.who.identity import Labels
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.llm.tokens import TokenCounter
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.store.files import MemoryHead
    from familiar_cli.store.memory.store.store import MemoryStore

T = TypeVar("T")

GAP: Final = "…"
_HEAD_SHARE: Final = 0.5
_MOST_CHARS_A_TOKEN: Final = 16  # no text has so few tokens; a longer one need not be counted


class PersonParts(Struct, frozen=True):
    """A file in two parts.

    Args:
        first: The part shown before anything is searched for.
        rest: The other lines, matching ones first if not all fit.
    """

    first: str
    rest: str = ""


def divide_person(
    text: str,
    first_tokens: int,
    all_tokens: int,
    count: Callable[[str], int],
    numbering: Numbering = PLAIN,
    *,
    query: str = "",
) -> PersonParts:
    """Divide a person's file into two parts.

    The first part does not depend on the question, so that prompts keep their beginning: the
    summary, the names and the standing wishes, then lasting and often cited lines, then the newest.
    The rest begins with lines that match the question. Ended lines are left out, unless the
    question is about the past: then they are in the rest.

    Args:
        text: The visible text of the file.
        first_tokens: Maximum tokens of the first part.
        all_tokens: Maximum tokens of both.
        count: Counts tokens.
        numbering: The mapping of citations to turns.
        query: The question.
    """
    past = [readable_text(text[a:b]) for a, b in ended_spans(text)] if asks_for_past(query) else []
    past = _by_fit(past, query, str)[:_MOST_PAST]
    text = without_ended(text)
    whole = readable_text(text)
    if len(whole) <= _MOST_CHARS_A_TOKEN * first_tokens and count(whole) <= first_tokens:
        return PersonParts(whole, "\n".join(past))
    divided = list(sections(with_references(text), 2))
    body = [line for section in divided if not _is_head(section) for line in section.lines]
    shown = _head_text(divided, int(first_tokens * (_HEAD_SHARE if body else 1)), count)
    ranked = _ranked_lines(divided, numbering)
    first = _take_lines(ranked, first_tokens - count(shown), count)
    left = _by_fit((line for line in ranked if line.start not in first), query, _plain_words)
    room = all_tokens - first_tokens - sum(map(count, past))
    rest = _in_order(body, _take_lines(left, room, count))
    return PersonParts(
        f"{shown}\n\n{_in_order(body, first)}".strip(), "\n".join(filter(None, (*past, rest)))
    )


_MOST_PAST: Final = 12  # lines that ended
_HEADS: Final = ("aliases", "wishes")
_FLEETING: Final = ("play", "feelings", "notes", "highlights", "sessions", "people", "topics")
_OFTEN: Final = 4  # cited turns
_MOST_TASTES: Final = 12  # the last likes and dislikes, which come before other lines
_WISHES_SHARE: Final = 0.75  # of the title, the summary, the names and the wishes, at most


def _head_text(divided: Iterable[Section], most: int, count: Callable[[str], int]) -> str:
    """Return the title with the summary, the names, and the wishes, which are truncated last."""
    parts = {True: "", False: ""}
    for section in divided:
        if _is_head(section):
            words = without_references("".join(line.text for line in section.lines))
            parts[heading_of(section) == "wishes"] += words
    above, wishes = (parts[is_wish].rstrip() for is_wish in (False, True))
    wishes = _cut_text(wishes, int(_WISHES_SHARE * most), count)
    above = _cut_text(above, most - count(wishes), count)
    return f"{above}\n\n{wishes}".strip()


def _cut_text(text: str, most: int, count: Callable[[str], int]) -> str:
    is_long = len(text) > _MOST_CHARS_A_TOKEN * most or count(text) > most
    return cut_to(text, most, count) if is_long else text


def _is_head(section: Section) -> bool:
    """Tell whether a section is the title with the summary, the names, or the wishes."""
    return section.level < 2 or heading_of(section) in _HEADS  # noqa: PLR2004


def _ranked_lines(divided: Iterable[Section], numbering: Numbering) -> list[TextLine]:
    """Return the lines with content, most important first, then newest.

    Lines without citations are ranked by their position.
    """
    ranks: dict[TextLine, tuple[bool, bool, int, int]] = {}
    for section in divided:
        heading = heading_of(section)
        told = [line for line in section.lines if line.text.strip() and not line.level]
        tastes = told[-_MOST_TASTES:] if heading == "likes" else ()
        for line in () if _is_head(section) else told:
            often = line in tastes or turn_count(line.text) >= _OFTEN
            newest = last_turn(line.text, numbering) or 0
            ranks[line] = (heading not in _FLEETING, often, newest, line.start)
    return sorted(ranks, key=lambda line: ranks[line], reverse=True)


def _by_fit(lines: Iterable[T], query: str, words: Callable[[T], str]) -> list[T]:
    """Sort lines by the number of words they share with a question."""
    target = " ".join(content_words(query)) if query else ""
    if not target:
        return list(lines)
    return sorted(lines, key=lambda line: -EvidenceText(words(line)).share(target))


def _take_lines(lines: Iterable[TextLine], room: int, count: Callable[[str], int]) -> set[int]:
    """Return the offsets of the first lines that fit."""
    taken: set[int] = set()
    for line in lines:
        room -= count(_plain_words(line)) + 1
        if room < 0:
            break
        taken.add(line.start)
    return taken


def _in_order(lines: Iterable[TextLine], taken: set[int]) -> str:
    """Join lines in their order below their headings, marking gaps."""
    shown: list[str] = []
    heading = ""
    for line in lines:
        if line.level:
            heading = _plain_words(line)
        elif line.start in taken:
            shown += [heading] if heading else []
            shown.append(_plain_words(line))
            heading = ""
        elif line.text.strip() and shown and shown[-1] != GAP:
            shown.append(GAP)
    return "\n".join(shown).removesuffix(f"\n{GAP}")


def _plain_words(line: TextLine) -> str:
    return without_references(line.text).rstrip()


SOURCE: Final = "content_search.people"
PRIORITY: Final = 85
FILE_TOKENS: Final = 800
SPEAKER_TOKENS: Final = 1600
"""The same of who speaks; the rest takes only room that is free."""

NAMED_TOKENS: Final = 120
"""Of who is only named, before the rest: search quotes what is asked about them.

Measured with `benchmarks.life`: prompts hold as much of the answers' words as with more, and, where
`budget.content` is small, more of the evidence."""

WAITING_PRIORITY: Final = 66
"""Of who is only named, where a person has set the tokens of memory: quotes fill them first."""

REST_PRIORITY: Final = 65
"""Of the rest of a long file, which is served after what was searched for."""

_SPEAKS: Final = "speaks"

_SHARE: Final = 0.5  # of the layer, for the files of those who take part
_LEAST_TOKENS: Final = 100
_SHARERS: Final = 3
_CHARS_A_TOKEN: Final = 4  # about
RECENT_AUTHORS: Final = 5
MOST_NAMED: Final = 20  # files of people who are named; a prompt has no room for more
_CUT: Final = (
    "the summary, the names, the wishes, and the lasting and newest facts: the file is longer "
    "than its share"
)
_REST: Final = "more of a long file, with the best matches first"
_DEPTH: Final = 1  # where passages of memory stand, so that the prompt keeps its beginning
_NAMES_SHARE: Final = 0.6  # of the time, for finding names


class _Gathered(Struct):
    """The results so far, which remain available at a timeout."""

    sharers: int = 1
    most: int = FILE_TOKENS
    priority: int = PRIORITY
    pieces: list[Contribution] = field(default_factory=list)
    problems: list[Contribution] = field(default_factory=list)


class PeopleSource:
    """Provides people's files.

    Args:
        aliases: Opens the index of names; it is closed after each use.
        counter: The token counter.
        recent_author_limit: Number of recent speakers to include.
        limit_s: After this time, the results so far are used.
        on_unread: Called if files were not read in time.
        numbering: The mapping of citations to turns.
    """

    def __init__(
        self,
        store: MemoryStore,
        history: HistoryStore,
        aliases: Callable[[], Aliases],
        counter: TokenCounter,
        *,
        recent_author_limit: int,
        limit_s: float,
        on_unread: Callable[[], None],
        numbering: Numbering = PLAIN,
    ) -> None:
        self._store = store
        self._history = history
        self._aliases = aliases
        self._counter = counter
        self._recent_author_limit = recent_author_limit
        self._limit_s = limit_s
        self._on_unread = on_unread
        self._numbering = numbering
        self._named: tuple[ContextRequest, list[SharedName], list[str]] | None = None
        self._lock = Lock()

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the files, in the order of who matters most, and what went wrong."""
        present, named = _Gathered(), _Gathered()
        late = [
            *self._within(1 - _NAMES_SHARE, "the files", self._take_present, request, present),
            *self._within(_NAMES_SHARE, "the names", self._take_named, request, named),
        ]
        rel_paths = {piece.rel_path for piece in present.pieces}
        others = [piece for piece in named.pieces if piece.rel_path not in rel_paths]
        pieces = _told_apart([*present.pieces, *others], request.labels)
        return [*pieces, *present.problems, *named.problems, *late]

    def now(self, request: ContextRequest) -> list[Contribution]:
        """Return the files that would be offered, without a time limit."""
        gathered = _Gathered()
        self._take_present(request, gathered)
        self._take_named(request, gathered)
        contributions = {(piece.rel_path, piece.priority): piece for piece in gathered.pieces}
        return list(contributions.values())

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a person's file would not be offered; see `Explains`."""
        slug = slug_in(subject.rel_path or "")
        if slug is None:
            return None
        if slug in dict(self._present(request)):
            return ""
        names, _ = self._names_in(request)
        if slug in dict(_named_people(names)):
            return ""
        last = f"is not among the {self._recent_author_limit} last speakers here"
        return f"its person does not speak, {last}, and is not named in what was said"

    def _within(
        self,
        share: float,
        what: str,
        take: Callable[[ContextRequest, _Gathered], None],
        request: ContextRequest,
        gathered: _Gathered,
    ) -> list[Contribution]:
        """Gather in a thread within a share of the time limit; return notices."""
        try:
            if ends_within(partial(take, request, gathered), share * self._limit_s):
                return []
        except FamiliarError as error:
            return [_problem_contribution(None, f"{what} could not be read: {error}")]
        return [_problem_contribution(None, f"{what} were not read in time; some may be missing")]

    def _take_present(self, request: ContextRequest, gathered: _Gathered) -> None:
        present = self._present(request)
        gathered.sharers = min(len(present), _SHARERS)
        for slug, cause in present:
            self._take(slug, cause, request, gathered)

    def _take_named(self, request: ContextRequest, gathered: _Gathered) -> None:
        names, notices = self._names_in(request)
        gathered.problems += [_problem_contribution(ALIASES_JSON, notice) for notice in notices]
        causes = list(_named_people(names))
        gathered.sharers, gathered.most = min(len(causes), _SHARERS), NAMED_TOKENS
        gathered.priority = WAITING_PRIORITY if request.is_content_set else PRIORITY
        for slug, cause in causes[:MOST_NAMED]:
            self._take(slug, cause, request, gathered)
        if causes[MOST_NAMED:]:
            more = len(causes) - MOST_NAMED
            gathered.problems.append(
                _problem_contribution(
                    None, f"{more} more people are named; their files were not read"
                )
            )

    def _present(self, request: ContextRequest) -> list[tuple[str, str]]:
        """Return the slugs of the participants with reasons, most important first."""
        return taking_part(self._history, request, self._recent_author_limit)

    def slugs_in(self, request: ContextRequest) -> list[str]:
        """Return the slugs of the people named in the message.

        Raises:
            FamiliarError: The index of names cannot be used.
        """
        return [slug for names in self._names_in(request)[0] for slug in names.slugs]

    def _names_in(self, request: ContextRequest) -> tuple[list[SharedName], list[str]]:
        """Return the people named in the message, and notices; looked up once for each request."""
        with self._lock:
            if self._named is None or self._named[0] is not request:
                self._named = request, *self._find_names(request)
            return self._named[1:]

    def _find_names(self, request: ContextRequest) -> tuple[list[SharedName], list[str]]:
        with closing(self._aliases()) as aliases:
            unread = aliases.refresh(within_s=REFRESH_SHARE * self._limit_s)
            names = self._known_names(aliases.find(request.query), request.viewer)
            notices = [notice.removeprefix(f"{ALIASES_JSON}: ") for notice in aliases.looks_wrong()]
        if unread:
            self._on_unread()
            late = f"the names in {counted(unread, 'file')} were not read in time"
            notices += [late] * request.viewer.is_owner
        shared = [named for named in names if len(named.slugs) > 1]
        parts = [
            f"{named.name!r} is {shorten_list(named.slugs, 3)}; all of them are meant"
            for named in shared
        ]
        return names, [*notices, *parts]

    def _known_names(self, names: Iterable[SharedName], viewer: Viewer) -> list[SharedName]:
        """Return the names of people, without those that a viewer does not see on their pages."""

        def is_known(name: str, slug: str) -> bool:
            path = people_path(slug)
            try:
                text = self._store.read_head(path, self._store.limits.max_file_bytes).text
            except FamiliarError:
                return False
            known = names_of(visible_in(text, viewer, path))
            return without_accents(name) in (without_accents(key_of(one)) for one in known)

        if viewer.is_owner:
            return [*names]
        known = (replace(n, slugs=tuple(s for s in n.slugs if is_known(n.name, s))) for n in names)
        return [one for one in known if one.slugs]

    def _take(self, slug: str, cause: str, request: ContextRequest, gathered: _Gathered) -> None:
        rel_path = people_path(slug)
        try:
            head = self._store.read_head(rel_path, self._store.limits.max_file_bytes)
            other = main_account(head.text)
            if other and other != slug:  # another account of somebody
                if all(piece.rel_path != people_path(other) for piece in gathered.pieces):
                    head = self._store.read_head(
                        people_path(other), self._store.limits.max_file_bytes
                    )
                else:
                    return
        except NotFoundError:
            return
        except FamiliarError as error:
            gathered.problems.append(_problem_contribution(rel_path, str(error)))
        else:
            gathered.pieces += self._pieces(head, cause, request, gathered)
            if not head.is_whole:
                why = f"has {head.size_bytes:,} bytes, more than memory.max_file_bytes allows"
                gathered.problems.append(
                    _problem_contribution(rel_path, f"{why}; only its beginning is read")
                )

    def _pieces(
        self, head: MemoryHead, cause: str, request: ContextRequest, gathered: _Gathered
    ) -> list[Contribution]:
        # Private text is shown where it was said; of the turns that a line rests on,
        # no more than their day.
        visible = visible_in(head.text, request.viewer, head.rel_path)
        if not visible.strip() and visible != head.text:
            return []  # not even that there is such a page
        seen = with_days(visible, self._numbering, request.viewer, request.phrases)
        total = request.budget_tokens
        # What somebody sets beyond the usual share is for what search finds.
        usual = total * percent_of(Layer.content, total) // 100
        limit = request.layer_tokens.get(Layer.content)
        room = total if limit is None else min(limit, usual)
        share = max(int(_SHARE * room) // max(gathered.sharers, 1), _LEAST_TOKENS)
        share = min(share, gathered.most)
        count = self._counter.count
        most = SPEAKER_TOKENS if cause == _SPEAKS else FILE_TOKENS
        parts = divide_person(seen, share, most, count, self._numbering, query=request.query)
        is_all = head.is_whole and not parts.rest and parts.first == readable_text(seen)
        kept_back = "" if visible == head.text else held_back(request.viewer)
        first = Contribution(
            layer=Layer.content,
            priority=gathered.priority,
            text=parts.first,
            source=SOURCE,
            place=PromptSpan.world_after,
            rel_path=head.rel_path,
            fit=Fit.queue,
            lines=(1, 1 + (parts.first if is_all else visible.rstrip()).count("\n")),
            sha256=sha256_seen(head.text, head.sha256, request.viewer, head.rel_path),
            cause=cause,
            shortened=kept_back if is_all else _CUT,
            whole_tokens=0 if is_all else len(seen) // _CHARS_A_TOKEN,
        )
        if not parts.rest:
            return [first]
        title = f"# {title_of(parts.first)}\n" if title_of(parts.first) else ""
        rest = replace(
            first,
            text=f"{title}{parts.rest}",
            priority=REST_PRIORITY,
            place=PromptSpan.depth,
            depth=_DEPTH,
            cause=_REST,
        )
        return [first, rest]


def _told_apart(pieces: list[Contribution], labels: Labels) -> list[Contribution]:
    """Return the files; a title shared by two, or with the familiar, gets the account added."""
    titled = {piece.rel_path: _piece_title(piece) for piece in pieces if _piece_title(piece)}
    owners = Counter(fold(title) for title in titled.values())
    return [
        _with_account(piece, labels)
        if labels.is_ambiguous(_piece_title(piece), slug_in(piece.rel_path or "") or "")
        or owners[fold(_piece_title(piece))] > 1
        else piece
        for piece in pieces
    ]


def _piece_title(piece: Contribution) -> str:
    return title_of(piece.text) if piece.text.startswith("# ") else ""


def _with_account(piece: Contribution, labels: Labels) -> Contribution:
    slug = slug_in(piece.rel_path or "")
    _, newline, rest = piece.text.partition("\n")
    head = f"# {labels.with_account(framed(_piece_title(piece)), slug or '')}"
    return replace(piece, text=f"{head}{newline}{rest}") if slug and _piece_title(piece) else piece


def _named_people(names: list[SharedName]) -> Iterator[tuple[str, str]]:
    """Yield each named person once, with the name used."""
    seen: set[str] = set()
    for entry in names:
        for slug in entry.slugs:
            if slug not in seen:
                seen.add(slug)
                yield slug, f"is named: {entry.name!r}"


def _problem_contribution(rel_path: str | None, why: str) -> Contribution:
    return Contribution(
        layer=Layer.content,
        priority=0,
        text="",
        source=SOURCE,
        place=PromptSpan.world_after,
        rel_path=rel_path,
        problem=why,
    )


def taking_part(
    history: HistoryStore, request: ContextRequest, limit: int = RECENT_AUTHORS
) -> list[tuple[str, str]]:
    """Return the slugs of the participants with reasons, most important first.

    Args:
        limit: Number of recent speakers to include.
    """
    result: dict[str, str] = {}
    if request.author:
        result[request.author.slug] = _SPEAKS
    for turn in reversed(request.pending_turns):
        if turn.author:
            result.setdefault(turn.author.slug, "has spoken since the last reply")
    for author in history.recent_distinct_authors(request.channel_id, limit, viewer=request.viewer):
        result.setdefault(author.slug, "spoke here recently")
    return list(result.items())


RELATIONS_SOURCE: Final = "people.relations"
RELATIONS_PRIORITY: Final = 84
MOST_TOKENS: Final = 150
"""Of all lines together, with the one above them."""

_MOST_TITLE_CHARS: Final = 60
_MOST_PEOPLE: Final = 20


class RelationsProvider(Struct, eq=False):
    """Provides relations. They are data: nothing in them is expanded.

    Args:
        present: Returns the slugs of the participants, most important first.
        named: Returns the slugs of the people named in the message.
        graph: Opens the graph; it is closed after each use.
        counter: The token counter.
        on_unread: Called if pages were not read in time.
        zone: The familiar's timezone; None for the system's.
    """

    name = "relations"
    looks_at = "the section Relations in the files of people who take part or are named"

    present: Callable[[ContextRequest], Iterable[str]]
    named: Callable[[ContextRequest], Iterable[str]]
    graph: Callable[[], RelationIndex]
    counter: TokenCounter
    on_unread: Callable[[], None]
    zone: tzinfo | None = None
    deadline_s: float = 2.0

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the lines as one piece, or what went wrong."""
        try:
            names = [people_path(slug) for slug in self.named(request)]
            present = [people_path(slug) for slug in self.present(request)]
            people = list(dict.fromkeys([*names, *present]))[:_MOST_PEOPLE]
            with closing(self.graph()) as graph:
                unread = graph.refresh(within_s=REFRESH_SHARE * self.deadline_s)
                people = list(dict.fromkeys(map(graph.main, people)))
                edges = self._visible_edges(graph, people, request)
                titles = graph.titles({path for e in edges for path in (e.source, e.target)})
        except FamiliarError as error:
            return [_person_contribution(problem=str(error))]
        if unread:
            self.on_unread()
        late = f"the relations of {counted(unread, 'page')} were not read in time"
        pieces = [_person_contribution(problem=late)] if unread and request.viewer.is_owner else []
        if edges:
            pieces.append(self._piece_of_edges(edges, titles, people, request.phrases))
        return pieces

    def _visible_edges(
        self, graph: RelationIndex, people: list[str], request: ContextRequest
    ) -> list[Edge]:
        """Return the visible relations, each once: lasting ones first, then by importance."""
        today = to_zone(request.at, self.zone).date().isoformat()
        may = [
            edge
            for edge in graph.edges(people)
            if not edge.is_link and is_edge_visible(edge, request.viewer)
        ]
        place = {path: number for number, path in enumerate(people)}

        def rank(edge: Edge) -> tuple[bool, int, str, int]:
            near = min(place.get(edge.source, len(place)), place.get(edge.target, len(place)))
            return has_ended(edge, today), near, edge.source, edge.line

        return graph.once(sorted(may, key=rank))

    def _piece_of_edges(
        self, edges: list[Edge], titles: dict[str, str], people: list[str], phrases: Phrases
    ) -> Contribution:
        lines, text = [phrases.related], phrases.related
        for edge in edges:
            longer = "\n".join([*lines, line_of(edge, titles, phrases)])
            if self.counter.count(longer) > MOST_TOKENS:
                break
            lines.append(line_of(edge, titles, phrases))
            text = longer
        count = len(lines) - 1
        sources = {edge.source for edge in edges[:count]}
        left = len(edges) - count
        return _person_contribution(
            text if count else "",
            rel_path=sources.pop() if len(sources) == 1 else None,
            cause=f"{', '.join(people[:3])} take part or are named",
            shortened=f"{left} of {len(edges)} relations found no room in {MOST_TOKENS} tokens"
            if left
            else "",
        )


def has_ended(edge: Edge, today: str) -> bool:
    """Tell whether a relation is over; the year or month of its end counts as over."""
    return bool(edge.until) and edge.until <= today


def line_of(edge: Edge, titles: dict[str, str], phrases: Phrases) -> str:
    """Format a relation in one line: `- Mika: sister of Robin (since 2024-03)`."""
    when = [phrases.since_when.format(edge.since)] if edge.since else []
    when += [phrases.until_when.format(edge.until)] if edge.until else []
    note = f" ({phrases.comma.join(when)})" if when else ""
    one, other = (_person_title(path, titles) for path in (edge.source, edge.target))
    return f"- {one}{phrases.colon}{edge.relation} {other}{note}"


def _person_title(rel_path: str, titles: dict[str, str]) -> str:
    name = rel_path.rpartition("/")[2].removesuffix(".md")
    return one_line(titles.get(rel_path) or name, _MOST_TITLE_CHARS)


def _person_contribution(
    text: str = "",
    *,
    rel_path: str | None = None,
    cause: str = "",
    shortened: str = "",
    problem: str = "",
) -> Contribution:
    return Contribution(
        layer=Layer.content,
        priority=RELATIONS_PRIORITY,
        text=text,
        source=RELATIONS_SOURCE,
        place=PromptSpan.world_after,
        rel_path=rel_path,
        cause=cause,
        shortened=shortened,
        problem=problem,
    )
