"""The evidence by which operations of a batch are judged: participants, turns, files, lore."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.languages import ENGLISH, SLOTS, Phrases, heading_in, section_key
from familiar_cli.base.text import cut_to, fold, framed, sentence_ends, slugify, unfenced
from familiar_cli.base.times.clock import to_zone
from familiar_cli.base.who import visibility
from familiar_cli.base.who.identity import NO_LABELS, Author, Labels, Me, title_of_account
from familiar_cli.store import fts
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.aliases import check_alias
from familiar_cli.store.memory.mentions import key_of
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.store.memory.pages import visible_lines
from familiar_cli.store.memory.pages.facts import with_days, without_ended
from familiar_cli.store.memory.pages.front_matter import is_expression, parse_lore
from familiar_cli.store.memory.pages.lines import KnownTexts
from familiar_cli.store.memory.pages.links import way_to
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.writer.contract import Batch
from familiar_cli.writing.writer.page_text import new_file

if TYPE_CHECKING:
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.writing.pending import Draft

# A batch this full ends at the next quiet gap; an emptier one includes the next conversation,
# too, to avoid a request for every single remark of a slow day.
_ENOUGH: Final = 4


class Caps(Struct, frozen=True):
    """Size limits of a step.

    Args:
        turns: Maximum number of turns.
        tokens: Maximum number of tokens of turns.
        quiet_gap_s: A silence this long ends a conversation.
    """

    turns: int
    tokens: int
    quiet_gap_s: float


def split_steps(
    turns: Iterable[Turn], caps: Caps, cost: Callable[[Turn], int]
) -> Iterator[tuple[Turn, ...]]:
    """Split `turns` into pieces within `caps`, in order and without gaps.

    Only one piece is in memory at a time. A turn that exceeds the limit is a piece of its own.

    Args:
        turns: In id order.
        caps: The size limits.
        cost: Counts the tokens of a turn.
    """
    held: list[Turn] = []
    costs: list[int] = []
    for turn in turns:
        price = min(cost(turn), caps.tokens)
        while held and (len(held) >= caps.turns or sum(costs) + price > caps.tokens):
            at = _quietest_break([*(t.at for t in held), turn.at])
            yield tuple(held[:at])
            del held[:at], costs[:at]
        if held and _is_break(held[-1], turn, caps) and _is_enough(costs, caps):
            yield tuple(held)
            held, costs = [], []
        held.append(turn)
        costs.append(price)
    if held:
        yield tuple(held)


def by_privacy(turns: Sequence[Turn], rules: visibility.PrivacyRules) -> tuple[Batch, ...]:
    """Split turns into a public batch, one of the owner's, and one for each other private scope.

    What the owner said goes to plain paths, like what is public: its lines are as private as the
    turns that they cite.

    Within a batch, turns are ordered by time: imported chats are older than their ids suggest.
    """
    result: dict[str, list[Turn]] = {}
    for turn in sorted(turns, key=lambda turn: (turn.at, turn.id)):
        scope = visibility.PUBLIC if rules.shares else rules.scope_of_turn(turn)
        result.setdefault(scope, []).append(turn)
    return tuple(
        Batch(
            turns=tuple(of_one),
            private=None if scope in {visibility.PUBLIC, visibility.OWNERS} else scope,
            viewer=visibility.Viewer(rules, frozenset({scope} - {visibility.PUBLIC})),
        )
        for scope, of_one in result.items()
    )


def _quietest_break(times: Sequence[datetime]) -> int:
    """Return the index after the longest silence in the second half; the last of equals."""
    size = len(times) - 1
    places = range(max(1, size // 2), size + 1)
    return max(places, key=lambda n: (abs((times[n] - times[n - 1]).total_seconds()), n))


def _is_break(before: Turn, after: Turn, caps: Caps) -> bool:
    """Tell whether a new conversation begins; imported chats may also jump back in time."""
    return abs((after.at - before.at).total_seconds()) >= caps.quiet_gap_s


def _is_enough(costs: Sequence[int], caps: Caps) -> bool:
    return len(costs) * _ENOUGH >= caps.turns or sum(costs) * _ENOUGH >= caps.tokens


_MOST_NAMES: Final = 6


class Person(Struct, frozen=True):
    """A participant.

    Args:
        slug: The person's slug.
        account: Their account, as written in texts.
        label: Their unambiguous name among the participants.
        title: The H1 of their file, if it is new.
        given: The names given by the platform that everybody may know.
        names: Their names here and in their file.
        turns: The ids of their turns.
    """

    slug: str
    account: str
    label: str
    title: str
    given: tuple[str, ...]
    names: tuple[str, ...]
    turns: frozenset[int]

    @property
    def rel_path(self) -> str:
        """Path of their file."""
        return layout.people_path(self.slug)


class Roster(Struct, frozen=True):
    """All participants of a batch, most talkative first."""

    people: tuple[Person, ...]

    def at(self, rel_path: str) -> Person | None:
        """Return the person whose file is `rel_path`, or None."""
        return next((p for p in self.people if p.rel_path == rel_path), None)

    def who_said(self, turn_ids: Iterable[int]) -> tuple[Person, ...]:
        """Return the authors of any of these turns, except the familiar."""
        wanted = set(turn_ids)
        return tuple(p for p in self.people if p.turns & wanted)


def roster_of(
    turns: Iterable[Turn],
    names_in: Callable[[str], tuple[str, ...]],
    main_slug: Callable[[str], str] = lambda slug: slug,
    public: Callable[[Author], Author] = lambda author: author,
    labels: Labels = NO_LABELS,
) -> Roster:
    """Build the roster of a batch.

    Args:
        turns: A batch.
        names_in: Returns the names in a person's file, by path.
        main_slug: Returns the person that an account belongs to.
        public: Returns an author with publicly known names only.
        labels: Display names of people.
    """
    authors: dict[str, list[Author]] = {}
    said: dict[str, set[int]] = {}
    mains: dict[str, str] = {}
    for turn in turns:
        if turn.author:
            slug = mains.setdefault(turn.author.slug, "") or main_slug(turn.author.slug)
            mains[turn.author.slug] = slug
            authors.setdefault(slug, []).append(turn.author)
            said.setdefault(slug, set()).add(turn.id)
    people = []
    for slug, seen in authors.items():
        names, given = _names_of(seen, labels.me), _names_of(map(public, seen), labels.me)
        owner = labels.me.owner(seen[-1])
        if owner and owner.name:
            given = _distinct_names([owner.name, *given])
        account = labels.me.handle(slug)
        title = given[0] if given else title_of_account(slug, account)
        person = Person(
            slug,
            account,
            labels.of(seen[-1]),
            labels.with_account(title, slug) if labels.is_reserved(title, slug) else title,
            tuple(one for one in given if not labels.is_reserved(one, slug)),
            _distinct_names([*(names or [account]), *names_in(layout.people_path(slug))]),
            frozenset(said[slug]),
        )
        people.append(person)
    return Roster(tuple(sorted(people, key=lambda p: -len(p.turns))))


def _names_of(authors: Iterable[Author], me: Me) -> tuple[str, ...]:
    """Return the names of one person, latest first."""
    named = [me.named(author) for author in authors]
    return _distinct_names(n for a in reversed(named) for n in (a.display_name, a.username) if n)


def _distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    by_key: dict[str, str] = {}
    for name in names:
        try:
            text = check_alias(name)
        except UsageError:  # e.g. only emoji, or a hundred words
            continue
        by_key.setdefault(key_of(text), text)
    return tuple(by_key.values())[:_MOST_NAMES]


_HOURS: Final = 6


def slot_of(at: datetime, zone: tzinfo | None) -> str:
    """Return e.g. `2026-04-07-evening`; night is 0-6, morning 6-12, afternoon 12-18, evening 18-24.

    Args:
        at: A moment with a timezone.
        zone: The familiar's timezone; None is the system's.
    """
    local = to_zone(at, zone)
    return f"{local:%Y-%m-%d}-{SLOTS[local.hour // _HOURS]}"


def session_path(slot: str, scope: str = visibility.PUBLIC) -> str:
    """Return the session file of a slot, public or for a private scope."""
    return layout.path_in_scope(f"{layout.SESSIONS_DIR}/{slot}.md", scope)


def session_title(rel_path: str, phrases: Phrases = ENGLISH) -> str:
    """Return the H1 of a session file, e.g. `2026-04-07, evening`, in the given language."""
    date, _, part = rel_path.rpartition("/")[2].removesuffix(".md").rpartition("-")
    return f"{date}{phrases.comma}{phrases.part(part)}"


def session_files(
    turns: Iterable[Turn], zone: tzinfo | None, scope: str = visibility.PUBLIC
) -> dict[str, tuple[int, ...]]:
    """Return the session files for turns of a scope, each with its turns' ids."""
    result: dict[str, list[int]] = {}
    for turn in turns:
        result.setdefault(session_path(slot_of(turn.at, zone), scope), []).append(turn.id)
    return {rel_path: tuple(ids) for rel_path, ids in result.items()}


def own_session(rel_path: str, batch: Batch, text: str | None) -> str:
    """Return the session file of a batch: a public one of its own where the other is private."""
    if batch.private is not None or batch.viewer.is_owner:
        return rel_path
    is_hidden = text and not visible_lines.visible_in(text, batch.viewer, rel_path)
    return layout.path_in_scope(rel_path, visibility.SHARED) if is_hidden else rel_path


_STEM_CHARS: Final = 4
_LEAST_WORD_CHARS: Final = 3
_FEW_WORDS: Final = 4  # "Yes, both of them" says something only together with the question


class ShownFile(Struct, frozen=True):
    """A memory file as the model saw it.

    Args:
        text: Its full text on disk.
        sha256: Hash of the file.
        shown: The text that the model saw: with dates instead of references, and without parts of
            other channels.
        whole: Whether the model saw everything it may change.
        parts: Otherwise, the keys of the sections it saw completely; "" is the summary.
    """

    rel_path: str
    text: str
    sha256: str
    shown: str
    whole: bool
    parts: frozenset[str] = frozenset()

    def holds(self, section: str) -> bool:
        """Tell whether the model saw a section completely; empty: the summary."""
        return self.whole or (section_key(section) if section else "") in self.parts


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of content words; of unspaced scripts, all character pairs."""
    words = (word for word in fts.words(fts.indexable(text)) if word not in fts.STOP_WORDS)
    return frozenset(
        word[:_STEM_CHARS] for word in words if len(word) >= _LEAST_WORD_CHARS or not word.isascii()
    )


def seen_of(
    text: str,
    rel_path: str,
    viewer: visibility.Viewer,
    numbering: memory_lines.Numbering,
    phrases: Phrases,
) -> str:
    """Return the current lines of a file that a viewer may see, with dates."""
    seen = without_ended(visible_lines.visible_in(text, viewer, rel_path))
    return memory_lines.without_references(with_days(seen, numbering, viewer, phrases))


class Grounds(Struct, frozen=True, dict=True):
    """Evidence used to validate a plan.

    Args:
        batch: The turns.
        roster: Their authors.
        sessions: The session files of the batch, each with its turns.
        shown: The memory files that the model saw, by path.
        prompt_texts: The prompt's own instructions, and the familiar's character.
        others: Returns the slugs of everyone with a name.
        labels: Display names of people, and the familiar's name.
        private_label: Name of the private channel, or of whose channels they are; empty for public
            turns.
        strict: Whether the model is small, so that its lines must share words with the turns.
        zone: The familiar's timezone; None: the system's.
        topics: All existing topics.
        phrases: Titles and headings to write.
        numbering: How turns are cited.
        lore: The entries of lorebooks that were shown with these turns.
    """

    batch: Batch
    roster: Roster
    sessions: Mapping[str, tuple[int, ...]]
    shown: Mapping[str, ShownFile]
    prompt_texts: tuple[str, ...]
    others: Callable[[str], tuple[str, ...]]
    labels: Labels
    private_label: str = ""
    strict: bool = False
    zone: tzinfo | None = None
    topics: Sequence[str] = ()
    phrases: Phrases = ENGLISH
    numbering: memory_lines.Numbering = memory_lines.PLAIN
    lore: tuple[ShownLore, ...] = ()
    _stems_by_turn: dict[int, frozenset[str]] = field(default_factory=dict)
    _recalled: dict[str, memory_lines.KnownTexts] = field(default_factory=dict)
    _lines: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def lore_rail(self) -> LoreRail:
        """The rail for lore; the familiar's own words are no evidence either."""
        text = " ".join(turn.content for turn in self.batch.turns if turn.role == "user")
        return LoreRail(self.lore, stems_of, stems_of(text) | self._common | self._stems_of_names)

    @cached_property
    def turns(self) -> dict[int, Turn]:
        """The turns by id."""
        return {turn.id: turn for turn in self.batch.turns}

    @cached_property
    def instructions(self) -> memory_lines.KnownTexts:
        """Text of the prompt itself."""
        return memory_lines.KnownTexts(self.prompt_texts)

    @cached_property
    def scripts(self) -> frozenset[str]:
        """All writing systems used by the people, the character or the memory shown."""
        contents = (turn.content for turn in self.batch.turns)
        names = (name for person in self.roster.people for name in person.names)
        return memory_lines.scripts_in(
            [*contents, *names, self.labels.familiar, *(s.shown for s in self.shown.values())]
        )

    def support(self, text: str, turn_ids: Iterable[int], *, alone: bool = False) -> set[int]:
        """Filter turns to those that share a word with `text`.

        A turn of a few words answers the one before it in its channel, so that one's words count,
        too.

        Args:
            text: A line.
            turn_ids: The turns it cites.
            alone: Count only the turns' own words, and no names of people.
        """
        targets, turns = stems_of(text) - self._common, self.turns
        if not alone:
            return {n for n in turn_ids if n in turns and targets & self._stems(turns[n])}
        targets -= self._stems_of_names
        return {n for n in turn_ids if n in turns and targets & stems_of(turns[n].content)}

    def unsaid_words(self, text: str, turn_ids: Iterable[int]) -> str:
        """Return the first word of `text` that no person said in these turns; empty: all were.

        Names of people and words of every line's form count as said.
        """
        contents = (self.turns[n].content for n in turn_ids if self.turns[n].role == "user")
        known = stems_of(" ".join(contents)) | self._common | self._stems_of_names
        return next((word for word in fts.words(text) if stems_of(word) - known), "")

    def says_more_than_names(self, text: str) -> bool:
        """Tell whether a line has any words besides names and numbers."""
        words = stems_of(text) - self._stems_of_names
        return any(not word.isdigit() for word in words)

    def _stems(self, turn: Turn) -> frozenset[str]:
        """Return the word stems that a turn supports."""
        if turn.id not in self._stems_by_turn:
            stems = stems_of(turn.content)
            if len(stems - self._common) < _FEW_WORDS:
                here = [t for t in self.batch.turns if t.channel_id == turn.channel_id]
                before = here[: here.index(turn)][-1:]
                stems = stems.union(*(stems_of(one.content) for one in before))
            self._stems_by_turn[turn.id] = stems
        return self._stems_by_turn[turn.id]

    @cached_property
    def _common(self) -> frozenset[str]:
        return stems_of(self.phrases.common)

    @cached_property
    def _stems_of_names(self) -> frozenset[str]:
        named = [name for person in self.roster.people for name in person.names]
        return stems_of(" ".join([*named, self.labels.familiar]))

    def topic(self, rel_path: str) -> str | None:
        """Resolve a path to an existing topic, or None.

        Titles are accepted, too. A name without a directory matches a topic in any, preferably one
        that the model saw.
        """
        if rel_path in self.topics:
            return rel_path
        directory, name = posixpath.split(rel_path)
        stem = slugify(name.removesuffix(".md"))
        called = [path for path in self._topics_by_stem.get(stem, ()) if stem]
        in_it = [path for path in called if fold(posixpath.dirname(path)) == fold(directory)]
        if not in_it and directory in self.topic_directories - {layout.TOPICS_DIR}:
            return None
        return min(in_it or called, key=lambda path: (path not in self.shown, path), default=None)

    @cached_property
    def topic_directories(self) -> frozenset[str]:
        """All directories of topics."""
        return frozenset((layout.TOPICS_DIR, *map(posixpath.dirname, self.topics)))

    @cached_property
    def _topics_by_stem(self) -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for path in self.topics:
            stem = slugify(posixpath.basename(path).removesuffix(".md"))
            named.setdefault(stem, []).append(path)
        return named

    def recalled(self, rel_path: str) -> memory_lines.KnownTexts:
        """Return the lines of memory shown from files other than `rel_path`."""
        if rel_path not in self._recalled:
            others = (s.shown for s in self.shown.values() if s.rel_path != rel_path)
            self._recalled[rel_path] = memory_lines.KnownTexts(others)
        return self._recalled[rel_path]

    def lines_of(self, rel_path: str) -> frozenset[str]:
        """Return the normalised lines of a file, as far as the batch may know them."""
        if rel_path not in self._lines:
            file = self.shown.get(rel_path)
            seen = self.seen(file.text, rel_path) if file else ""
            self._lines[rel_path] = memory_lines.normal_lines(seen)
        return self._lines[rel_path]

    def seen(self, text: str, rel_path: str) -> str:
        """Return the part of a file that those may see who may see the batch."""
        return visible_lines.visible_in(text, self.batch.viewer, rel_path)

    def session_path(self, rel_path: str) -> str:
        """Return the session file of the batch that stands for a plain path."""
        scope = self.batch.private or visibility.PUBLIC
        return next(
            (path for path in self.sessions if layout.path_without_scope(path) == rel_path),
            layout.path_in_scope(rel_path, scope),
        )

    def private_heading(self, section: str = "") -> str:
        """Return the heading for facts from a private batch; wishes have one of their own."""
        assert self.batch.private is not None
        scope = self.batch.private
        if heading_in(section) == "wishes":
            return visible_lines.private_wishes_heading(scope, self.phrases)
        return visible_lines.private_heading(
            self.private_label or visibility.split_scope(scope)[1], scope, self.phrases
        )

    def without_day(self, text: str, rel_path: str) -> str:
        """Strip the date that the model copied from a line of the file."""
        file = self.shown.get(rel_path)
        bare, _, day = text.rpartition(" (")
        copied = file and memory_lines.normal_line(bare) and f"({day}" in file.shown
        return (
            bare if copied and memory_lines.normal_line(bare) in self.lines_of(rel_path) else text
        )

    def said_at(self, line: str, turn_ids: Iterable[int]) -> tuple[date | None, date, bool]:
        """Return the dates of a line of memory and of cited turns, and whether the turns are newer.

        The date of the line is None if its turns are missing or hidden.
        """
        numbering = self.numbering
        (old,) = numbering.newest_days([line], self.batch.viewer)
        at, last = max((to_zone(self.turns[n].at, self.zone).date(), n) for n in turn_ids)
        before = memory_lines.last_turn(line, numbering) or 0
        return old, at, (old or at, before) < (at, last)

    def words_of(self, turn_ids: Iterable[int]) -> list[str]:
        """Return the texts of these turns."""
        return [self.turns[n].content for n in turn_ids if n in self.turns]

    def day_said(self, turn_ids: Iterable[int]) -> date:
        """Return the date of the newest of these turns."""
        at = max(self.turns[n].at for n in turn_ids)
        return to_zone(at, self.zone).date()

    def day_of(self, words: str, turn_ids: Iterable[int]) -> date | None:
        """Return the date on which `words` such as "yesterday" were said, or None if uncertain.

        That is the date of the cited turns that contain them, or of the whole batch if it has only
        one.
        """
        said = [self.turns[n] for n in turn_ids if fold(words) in fold(self.turns[n].content)]
        days = {to_zone(turn.at, self.zone).date() for turn in said or self.batch.turns}
        return days.pop() if len(days) == 1 else None


# As requested in prompts: a summary of some sentences per
# session, and a fact about each person every few turns.
_SUMMARY_CHARS: Final = 300
_LINE: Final = "- " + "a fact that is told in so many words " * 3 + "\n"
_TURNS_OF_FACT: Final = 8
_MOST_FACTS: Final = 3


def expect_reply(draft: Draft, grounds: Grounds) -> None:
    """Grow a batch's files in `draft` by the expected size of a model's output."""
    facts = min(1 + len(grounds.batch.turns) // _TURNS_OF_FACT, _MOST_FACTS)
    summary = (_LINE * 3)[:_SUMMARY_CHARS]
    for rel_path, more in (
        *((path, summary) for path in grounds.sessions),
        *((person.rel_path, _LINE * facts) for person in grounds.roster.people),
    ):
        try:
            text = draft.text(rel_path) or new_file(rel_path)
            draft.put(rel_path, f"{text}\n{more}")
        except FamiliarError:
            continue  # unreadable, so it is not shown either


LORE_RULE: Final = """\
- Lore is background from a lorebook about the world of these turns. It is not evidence: do not \
keep anything that only the lore says. If a line is about something that it names, use that name."""
_MOST_ENTRIES: Final = 8
_ENTRY_TOKENS: Final = 80
_LEAST_NAME_CHARS: Final = 3
_LINK: Final = re.compile(r"\[[^\[\]]*\]\([^()]*\)|\[\[[^\[\]]*\]\]|`[^`]*`")


class ShownLore(Struct, frozen=True):
    """An entry that was in the prompt of one of the turns.

    Args:
        names: Its title and plain keys, longest first.
    """

    rel_path: str
    title: str
    names: tuple[str, ...]
    text: str


def read_lore(store: MemoryStore, rel_paths: Iterable[str]) -> tuple[ShownLore, ...]:
    """Read the entries at these paths, skipping those that no longer exist."""
    items: list[ShownLore] = []
    for rel_path in rel_paths:
        try:
            page = parse_lore(store.read_file(rel_path))
        except FamiliarError:
            continue
        names = [name for name in (page.title or "", *page.keys) if not is_expression(name)]
        names = sorted({name.strip() for name in names}, key=lambda name: (-len(name), name))
        long = tuple(n for n in names if len(n) >= _LEAST_NAME_CHARS or (not n.isascii() and n))
        items.append(ShownLore(rel_path, page.title or "", long, page.body))
    return tuple(items)


def lore_section(entries: Sequence[ShownLore], count: Callable[[str], int]) -> str:
    """Return the part of a prompt that shows entries, each shortened."""
    parts = []
    for entry in entries[:_MOST_ENTRIES]:
        text = unfenced(entry.text).strip()
        text = text if count(text) <= _ENTRY_TOKENS else cut_to(text, _ENTRY_TOKENS, count)
        parts.append(f'<lore name="{framed(entry.title)}">\n{text}\n</lore>')
    return "\n\n".join(["## Lore that was shown", *parts]) if parts else ""


class LoreRail(Struct, frozen=True, dict=True):
    """Separates what only lorebook entries say from what people said.

    Args:
        stems: Returns the stems of a text's content words.
        said: The stems of what people said, and of what every line may hold.
    """

    entries: tuple[ShownLore, ...]
    stems: Callable[[str], frozenset[str]]
    said: frozenset[str]

    @cached_property
    def _known(self) -> KnownTexts:
        return KnownTexts(entry.text for entry in self.entries)

    @cached_property
    def _entry_stems(self) -> frozenset[str]:
        return self.stems(" ".join(entry.text for entry in self.entries))

    @cached_property
    def _name_stems(self) -> frozenset[str]:
        return self.stems(" ".join(name for entry in self.entries for name in entry.names))

    def split(self, text: str) -> tuple[str, str]:
        """Split a text into sentences people may have said and sentences only lore says."""
        kept, lore = "", ""
        for sentence in _sentences(text) if self.entries else [text]:
            if self._is_lore(sentence):
                lore += sentence
            else:
                kept += sentence
        return (kept.strip(), lore.strip()) if lore else (text, "")

    def _is_lore(self, sentence: str) -> bool:
        if not self.entries:
            return False
        words = self.stems(sentence) - self._name_stems
        new = (words - self.said) & self._entry_stems
        return self._known.has(sentence) or (bool(new) and 2 * len(new) >= len(words))

    def link(self, text: str, rel_path: str) -> str:
        """Link the first mention of each entry in a line of the file `rel_path`."""
        for entry in self.entries:
            way = way_to(entry.rel_path, rel_path)
            if f"]({way})" in text:
                continue
            taken = [found.span() for found in _LINK.finditer(text)]
            mentions = (found for name in entry.names for found in _mentions(name, text))
            free = (
                mention
                for mention in mentions
                if not any(start < mention.end() and mention.start() < end for start, end in taken)
            )
            if match := next(free, None):
                text = f"{text[: match.start()]}[{match[0]}]({way}){text[match.end() :]}"
        return text


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for end in (*sentence_ends(text), len(text)):
        if text[start:end]:
            yield text[start:end]
        start = max(start, end)


def _mentions(name: str, text: str) -> Iterator[re.Match[str]]:
    edge = r"\b" if name[0].isascii() and name[0].isalnum() else ""
    last = r"\b" if name[-1].isascii() and name[-1].isalnum() else ""
    return re.finditer(rf"{edge}{re.escape(name)}{last}", text, re.IGNORECASE)
