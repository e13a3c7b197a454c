"""The people and times that a question names, and the kind of answer it asks for.

A question asks for one thing, the order of many, a number, the latest, or what changed. The words
in `languages` decide, without a model; the turns for each kind are selected from the search
results. Nothing is stored.
"""

from __future__ import annotations

import json
import re
import sys
from calendar import monthrange
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, tzinfo
from functools import cache, lru_cache
from math import exp, fsum, log
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.languages import CODES, codes_for, dates, questions
from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.text import without_accents
from familiar_cli.base.times.clock import to_utc
from familiar_cli.base.times.spans import Span, Yearly, days_between, folded, times_asked, times_in
from familiar_cli.store import fts
from familiar_cli.store.memory.layout import LORE_DIR, PEOPLE_DIR, path_without_scope
from familiar_cli.store.memory.mentions import BARE, NamePrefix, find_mentions, head_of, key_of

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.store.history.recall import RecallHit

_AFTER_DAYS: Final = 10
_BEFORE_DAYS: Final = 5
_BEFORE: Final = 0.6
_OF_FILE: Final = 0.8
_SHORT_DAYS: Final = 7  # a longer period says little about each of its days

_DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_PERIOD: Final = re.compile(
    r"(?:weekly/(\d{4})-W(\d{2})|monthly/(\d{4})-(\d{2})|yearly/(\d{4}))\.md", re.ASCII
)


def day_in(text: str) -> date | None:
    """Return the first day that `text` names as `2026-01-31`, or None."""
    for match in _DAY.finditer(text):
        try:
            return date(*map(int, match.groups()))
        except ValueError:
            continue
    return None


def period_of(rel_path: str) -> Span | None:
    """Return the week, month or year that a file is about; None for any other file."""
    if "ly/" not in rel_path:  # as of almost all
        return None
    match = _PERIOD.fullmatch(path_without_scope(rel_path))
    if match is None:
        return None
    week_year, week, month_year, month, year = (int(part or 0) for part in match.groups())
    try:
        if week:
            days = (date.fromisocalendar(week_year, week, day) for day in (1, 7))
            return Span(*days)
        if month:
            last = monthrange(month_year, month)[1]
            return Span(date(month_year, month, 1), date(month_year, month, last))
        return Span(date(year, 1, 1), date(year, 12, 31))
    except ValueError:  # `IllegalMonthError` is one, too
        return None


def last_day(rel_path: str) -> str:
    """Return the last day of the week, month or year that a file is about, else an empty string."""
    period = period_of(rel_path)
    return period.last.isoformat() if period else ""


def times_of(text: str, day: date | None) -> list[Span]:
    """Return the times mentioned in a line.

    Args:
        text: The line.
        day: The day it was written, from which `yesterday` counts; None if unknown.
    """
    spans = []
    for one in times_in(folded(text), day):
        if isinstance(one.span, Span):
            spans.append(one.span)
        elif day:
            with suppress(ValueError):
                spans.append(one.span.beside(day, one.tense))
    return [span for span in spans if span != Span(day or date.min, day or date.min)]


def day_span(day: date) -> Span:
    """Return one day as a span."""
    return Span(day, day)


def time_of(
    wanted: Sequence[Span | Yearly], held: Span | None, spoken_of: Iterable[Span] = ()
) -> float:
    """Return a line's closeness to the times in a question, in [0, 1].

    Args:
        wanted: The times.
        held: The day or period of the line's file, if any.
        spoken_of: Times mentioned in the line, which count more.
    """
    of_file = _OF_FILE * time_closeness(wanted, held) if held else 0.0
    return max([of_file, *(time_closeness(wanted, span) for span in spoken_of)])


def time_closeness(wanted: Sequence[Span | Yearly], span: Span) -> float:
    """Return the closeness in time of something to what a question asks for, in [0, 1].

    It is 1 within the time. Later is closer than earlier, since things are told after they
    happened. A long period that includes a short time says little about it.
    """
    return max((_span_closeness(one, span) for one in wanted), default=0.0)


def _span_closeness(target: Span | Yearly, span: Span) -> float:
    if isinstance(target, Yearly):
        try:
            target = target.near(span.first)
        except ValueError:
            return 0.0
    gap = days_between(target, span)
    if gap > 0:
        return exp(-gap / _AFTER_DAYS)
    if gap < 0:
        return _BEFORE * exp(gap / _BEFORE_DAYS)
    days, asked = (span.last - span.first).days, (target.last - target.first).days
    return 1.0 if days <= max(asked, _SHORT_DAYS) else max(asked, _SHORT_DAYS) / days


def instance_in(rel_path: str) -> str:
    """Return the instance in a name such as `daily/2026-01-31_laptop.md`, or an empty string."""
    stem = rel_path.rpartition("/")[2].rpartition(".")[0]
    found = _DAY.match(stem)
    return stem[found.end() + 1 :] if found and stem[found.end() :].startswith("_") else ""


_MOST_NAMES: Final = 100  # of one file
_MIN_WORD_CHARS: Final = 2
_MIN_NICKNAME_CHARS: Final = 3
_MOST_NICKNAMES: Final = 20
_LAST: Final = "\U0010ffff"
_WORD: Final = re.compile(r"[^\W\d_]\w*")


class NamedPeople(Struct, frozen=True):
    """The people that a question names.

    Args:
        names: For each name in the question, the keys of all names that it may stand for.
    """

    names: tuple[frozenset[str], ...] = ()

    def is_named(self, label: str) -> bool:
        """Tell whether a speaker is named, by a whole name or a part of it."""
        if not self.names or not label:
            return False
        own = parts_of(label)
        return any(not names.isdisjoint(own) for names in self.names)

    def words_among(self, words: Iterable[str]) -> set[str]:
        """Return those of `words` that a name consists of, or that shorten one."""
        parts = {part for keys in self.names for key in keys for part in key.split()}
        return {
            word
            for word in words
            if word in parts
            or (len(word) >= _MIN_NICKNAME_CHARS and any(p.startswith(word) for p in parts))
        }

    def share(self, keys: Collection[str]) -> float:
        """Return the share of names in the question that stand for somebody in `keys`."""
        position = sum(not names.isdisjoint(keys) for names in self.names)
        return position / len(self.names) if self.names else 0.0


NOBODY: Final = NamedPeople()


def parts_of(name: str) -> dict[str, bool]:
    """Return the keys that may stand for a name, and whether each is only a part of it."""
    whole = key_of(name)
    if not whole:
        return {}
    parts = {key_of(word) for word in name.split()}
    keys = {part: True for part in sorted(parts) if len(part) >= _MIN_WORD_CHARS}
    return keys | {whole: False}


def put_people(
    connection: sqlite3.Connection,
    document: int,
    *,
    rel_path: str,
    text: str,
    speakers: Iterable[str],
) -> None:
    """Record a file's speakers, and the person it is about."""
    names = list(dict.fromkeys(speakers))
    if rel_path.startswith(f"{PEOPLE_DIR}/"):
        from familiar_cli.store.memory.aliases import names_of  # noqa: PLC0415

        names += names_of(text)
    keys: dict[str, bool] = {}
    for name in names[:_MOST_NAMES]:
        for key, is_part in parts_of(name).items():
            keys[key] = is_part and keys.get(key, True)
    rows = []
    for key, is_part in keys.items():
        start, head = head_of(key)
        rows.append((key, document, start, head.words, head.chars, is_part))
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)


def people_named(connection: sqlite3.Connection, query: str, seen: str = "TRUE") -> NamedPeople:
    """Find the people that `query` names in the index.

    Args:
        connection: The index.
        query: The question.
        seen: The SQL condition on `document_id` for the files that count.
    """

    # Ten thousand names may begin alike, or have the same word, so they are not all looked at.
    def held(column: str, targets: Collection[str]) -> list[str]:
        there = f"EXISTS (SELECT 1 FROM people WHERE {column} = asked.value AND {seen})"  # noqa: S608
        select = f"SELECT value FROM json_each(?) AS asked WHERE {there}"  # noqa: S608
        return [value for (value,) in connection.execute(select, (json.dumps(list(targets)),))]

    def heads(wanted: Collection[str]) -> Mapping[str, NamePrefix]:
        select = (
            f"SELECT words, chars FROM people WHERE head = ? AND words < ? AND {seen}"  # noqa: S608
            " ORDER BY words DESC, chars DESC LIMIT 1"
        )
        result: dict[str, NamePrefix] = {}
        for head in held("head", wanted):
            words, sizes = sys.maxsize, list[tuple[int, int]]()
            while size := connection.execute(select, (head, words)).fetchone():
                sizes.append(size)
                words = size[0]
            result[head] = NamePrefix(sizes[0][0], max(chars for _, chars in sizes))
        return result

    def known(wanted: Collection[str]) -> Collection[str]:
        return set(held("name", wanted))

    def longer(short: str) -> set[str]:
        sql = f"SELECT DISTINCT name FROM people WHERE name > ? AND name < ? AND {seen} LIMIT ?"  # noqa: S608
        cursor = connection.execute(sql, (short, short + _LAST, _MOST_NICKNAMES))
        return {name for (name,) in cursor}

    items = _named_keys(query, heads, known, longer)
    return NamedPeople(tuple(frozenset(_also_called(connection, keys, seen)) for keys in items))


def people_among(labels: Iterable[str], query: str) -> NamedPeople:
    """Find the people that `query` names, among speakers with these labels."""
    names = {part for label in labels for part in parts_of(label)}
    begun: dict[str, NamePrefix] = {}
    for head, size in map(head_of, names):
        other = begun.get(head, NamePrefix(0, 0))
        begun[head] = NamePrefix(max(other.words, size.words), max(other.chars, size.chars))
    items = _named_keys(
        query,
        lambda heads: {head: begun[head] for head in heads if head in begun},
        names.intersection,
        lambda short: {name for name in names if name.startswith(short) and name != short},
    )
    return NamedPeople(tuple(map(frozenset, items)))


def _named_keys(
    query: str,
    heads: Callable[[Collection[str]], Mapping[str, NamePrefix]],
    known: Callable[[Collection[str]], Collection[str]],
    longer: Callable[[str], set[str]],
) -> list[set[str]]:
    """Return the keys that each name in `query` stands for; `longer` begin with it."""
    result = {mention.key: {mention.key} for mention in find_mentions(query, heads, known)}
    for short in sorted(_may_be_nicknames(query) - result.keys()):
        if names := longer(short):
            result[short] = names
    return list(result.values())


def named_shares(
    connection: sqlite3.Connection, people: NamedPeople, documents: Collection[int]
) -> dict[int, float]:
    """Return the share of the people named who speak or are described in each document."""
    if not people.names:
        return {}
    # A file may have a hundred names, so only those that count are taken out of the index.
    select = (
        "SELECT DISTINCT document_id, CASE WHEN name IN (SELECT value FROM json_each(?)) THEN name"
        " END FROM people WHERE document_id IN"
    )
    question = json.dumps(sorted(set().union(*people.names)))
    holding: dict[int, set[str]] = {}
    for document, name in rows_among(connection, select, sorted(documents), [question]):
        holding.setdefault(document, set()).add(name)
    result = {document: people.share(names) for document, names in holding.items()}
    others = set(documents) - holding.keys()
    for names in people.names if others else ():
        for document in others & _telling_of(connection, names):
            result[document] = result.get(document, 0.0) + 1 / len(people.names)
    return result


def _telling_of(connection: sqlite3.Connection, names: Iterable[str]) -> set[int]:
    """Return the documents that contain one of `names`."""
    target = " OR ".join(filter(None, map(fts.match_all, sorted(names))))
    sql = "SELECT rowid FROM documents_fts WHERE documents_fts MATCH ?"
    return {id_ for (id_,) in connection.execute(sql, (target,))} if target else set()


def _also_called(connection: sqlite3.Connection, keys: set[str], seen: str) -> set[str]:
    """Extend `keys` by the other names of the people whose files have one of them."""
    own = (
        "SELECT DISTINCT document_id FROM people JOIN documents d ON d.id = document_id"  # noqa: S608
        f" WHERE NOT is_part AND d.rel_path GLOB ? AND {seen} AND name IN"
    )
    files = {id_ for (id_,) in rows_among(connection, own, keys, [f"{PEOPLE_DIR}/*"])}
    select = "SELECT name FROM people WHERE NOT is_part AND document_id IN"
    return keys | {name for (name,) in rows_among(connection, select, files)}


def _may_be_nicknames(query: str) -> set[str]:
    """Return the meaningful capitalised words, in lower case."""
    capitals = [word for word in _WORD.findall(query) if word[0].isupper()]
    short = {key_of(word) for word in capitals} - fts.STOP_WORDS
    return {word for word in short if len(word) >= _MIN_NICKNAME_CHARS}


_NAME_WORDS: Final = 4
_ASKED_WORDS: Final = 300  # the first ones of a long message are looked up as names
_MOST_TITLES: Final = 100  # of one file


def names_of(rel_path: str, title: str, text: str) -> set[str]:
    """Return the names by which a text may refer to a file, in lower case."""
    from familiar_cli.store.memory.pages.front_matter import (  # noqa: PLC0415  # asking needs none of these
        is_expression,
        listed_aliases,
        parse_lore,
    )
    from familiar_cli.store.memory.pages.links import NAMED_DIRS  # noqa: PLC0415

    top, _, below = rel_path.partition("/")
    if not below or top not in (*NAMED_DIRS, LORE_DIR):
        return set()
    parts = [title, re.sub(r"\([^)]*\)", "", title), *listed_aliases(text)]
    if top == LORE_DIR:
        parts += (key for key in parse_lore(text).keys if not is_expression(key))
    names = {" ".join(fts.words(one)) or "".join(signs_in(one)) for one in parts[:_MOST_TITLES]}
    bare = {f"{BARE}{plain}" for name in names if (plain := without_accents(name)) != name}
    return (names | bare) - {""}


def named_in(connection: sqlite3.Connection, text: str, seen: str = "TRUE") -> dict[int, int]:
    """Return the documents that a text names in whole words, with the word's position.

    `seen` is as for `people_named`.
    """
    asked = fts.words(text)[:_ASKED_WORDS]
    telling = set(fts.content_words(text))
    grams: dict[str, int] = {}
    for start in range(len(asked)):
        for count in range(1, _NAME_WORDS + 1):
            if telling.intersection(asked[start : start + count]):
                grams.setdefault(" ".join(asked[start : start + count]), start)
    result: dict[int, int] = {}
    select = f"SELECT name, document_id FROM names WHERE {seen} AND name IN"  # noqa: S608
    named = [*rows_among(connection, select, grams), *_unspaced_names(connection, asked, seen)]
    named += rows_among(connection, select, signs_in(text))
    names = {name for name, _ in named}
    bare = {key: gram for gram in grams if gram not in names for key in _bare_keys(gram)}
    named += [(bare[key], document) for key, document in rows_among(connection, select, bare)]
    for name, document in named:
        place = grams.get(name, next((n for n, word in enumerate(asked) if name in word), 0))
        result[document] = min(place, result.get(document, place))
    return result


def _unspaced_names(
    connection: sqlite3.Connection, asked: list[str], seen: str
) -> Iterator[tuple[str, int]]:
    """Yield the names within words of scripts that are written without spaces."""
    for word in filter(fts.is_unspaced, asked):
        if len(word) <= _MOST_UNSPACED_CHARS:
            sql = f"SELECT name, document_id FROM names WHERE {seen} AND name IN"  # noqa: S608
            ends = range(2, len(word) + 1)
            parts = {word[start:end] for end in ends for start in range(end - 1)}
            yield from rows_among(connection, sql, parts)
            # A single ideograph is a word where a book makes it a key, and not in other names.
            alone = sql.replace("WHERE", _OF_LORE)
            yield from rows_among(connection, alone, {sign for sign in word if _is_ideograph(sign)})
        else:
            sql = (
                "SELECT name, document_id FROM names"  # noqa: S608
                f" WHERE length(name) > 1 AND instr(?, name) AND {seen}"
            )
            yield from connection.execute(sql, (word,))


_OF_LORE: Final = "JOIN documents ON documents.id = document_id AND rel_path GLOB 'lore/*' WHERE"
_SIGN: Final = r"[\u2190-\u2bff\U0001f000-\U0001faff](?:[\U0001f3fb-\U0001f3ff\ufe0f])*"
_SIGNS: Final = rf"{_SIGN}(?:\u200d{_SIGN})*"


def _is_ideograph(sign: str) -> bool:
    return "\u3400" <= sign <= "\u9fff" or "\U00020000" <= sign <= "\U000323af"


def signs_in(text: str) -> list[str]:
    """Return the emoji in a text, however they are drawn."""
    return [value.replace("\ufe0f", "") for value in re.findall(_SIGNS, text)]


def _bare_keys(gram: str) -> Iterator[str]:
    """Yield the names that words stand for where no name is spelled like them."""
    plain = without_accents(gram)
    yield f"{BARE}{plain}"
    if plain != gram:
        yield plain


_MOST_UNSPACED_CHARS: Final = 40  # so many have 780 parts; for more, all names are read
_ASKED_WORD: Final = re.compile(r"\w+")
_MOST_YEARS: Final = 20
_DAY_MS: Final = 86_400_000
_MOST_CHARS: Final = 2_000
_DIGEST_DAYS: Final = 35  # of so many days a digest tells in any case
_WIDE: Final = frozenset({"order", "summary"})
_DATED: Final = frozenset({"order", "summary", "count", "change", "latest"})
_KINDS: Final = (*sorted(_DATED), "myself", "you")


class QuestionKind(Struct, frozen=True):
    """The kind of a question.

    Args:
        kinds: Which of `order`, `count`, `latest`, `summary` and `change` it asks for.
        times: The times it names.
        of_people: It asks for what people said, not for what the familiar did.
        of_myself: It concerns the person who asks.
        topic: The topic of a wide question, without the words that make it one; empty for any.
        is_question: It ends as a question does.
        today: The day it is asked.
    """

    kinds: frozenset[str] = frozenset()
    times: tuple[Span | Yearly, ...] = ()
    of_people: bool = False
    of_myself: bool = False
    topic: str = ""
    is_question: bool = False
    today: date = date.min

    @property
    def is_wide(self) -> bool:
        """Tell whether the answer is many turns over a long time, not any single one."""
        counted = "count" in self.kinds and self.of_myself
        of_a_time = self.times and ("change" in self.kinds or (self.is_question and not self.topic))
        return bool(self.kinds & _WIDE or counted or of_a_time)

    @property
    def is_for_turns(self) -> bool:
        """Tell whether turns answer it, and not a digest of the last weeks or of everything."""
        has_topic = not fts.STOP_WORDS.issuperset(self.topic.split())
        if not self.is_wide:
            return self.is_question and has_topic
        return any(map(self._is_long_ago, self.times)) if self.times else has_topic

    def _is_long_ago(self, time: Span | Yearly) -> bool:
        return isinstance(time, Yearly) or (self.today - time.last).days > _DIGEST_DAYS

    @property
    def in_order(self) -> bool:
        """Tell whether the answer is a chronological order."""
        return bool(self.kinds & (_DATED - {"change"})) or self.is_wide

    def between_ms(self, zone: tzinfo | None) -> list[tuple[int, int]]:
        """Return the time ranges, in milliseconds since 1970.

        A time in any year gives a range in each of many years. Several times in a question about an
        order belong to the things that it names, as they were told ("she moved last Saturday"), and
        limit nothing.
        """
        if "order" in self.kinds and len(self.times) > 1:
            return []
        spans = [one for time in self.times for one in _of_all_years(time, self.today)]
        return [(_begin_ms(one.first, zone), _begin_ms(one.last, zone) + _DAY_MS) for one in spans]


def _of_all_years(time: Span | Yearly, today: date) -> list[Span]:
    if isinstance(time, Span):
        return [time]
    spans = []
    for year in range(max(today.year - _MOST_YEARS, date.min.year), today.year + 1):
        with suppress(ValueError):
            spans.append(time.of(year))
    return spans


def _begin_ms(day: date, zone: tzinfo | None) -> int:
    return int(to_utc(datetime.combine(day, time()), zone).timestamp() * 1000)


def asked_by(query: str, today: date) -> QuestionKind:
    """Classify a question, in any of the languages."""
    text = folded(query[:_MOST_CHARS])
    patterns = _patterns(codes_for(text))
    texts = {kind for kind, pattern in patterns if pattern.search(text)}
    times = tuple(times_asked(query, today))
    kinds, topic = frozenset(texts) & _DATED, _topic_of(text, today)
    is_question = query.rstrip().endswith(("?", "？", "؟"))
    return QuestionKind(
        kinds, times, "you" not in texts, "myself" in texts, topic, is_question, today
    )


def _topic_of(text: str, today: date) -> str:
    """Return a folded question without its times and the words that classify it."""
    for value in reversed(times_in(text, today)):
        text = f"{text[: value.start]} {text[value.end :]}"
    for kind in (*sorted(_DATED), "frame"):
        text = _any_language(kind, *codes_for(text)).sub(" ", text)
    return " ".join(fts.words(text))


@cache
def _patterns(codes: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, _any_language(kind, *codes)) for kind in _KINDS)


@cache
def _any_language(kind: str, *codes: str) -> re.Pattern[str]:
    """Return the words for something in some languages, folded."""
    parts = []
    for code in codes:
        words = folded(getattr(questions(code), kind))
        parts.append(rf"(?<!\w)(?:{words})(?!\w)" if dates(code).spaced else f"(?:{words})")
    return re.compile("|".join(parts))


@cache
def wish_words(*codes: str) -> tuple[str, ...]:
    """Return words of which every standing wish contains one; by default in all languages."""
    listed = (questions(code).wish_words.split("|") for code in codes or CODES)
    return tuple(dict.fromkeys(word for words in listed for word in words))


@lru_cache(maxsize=4096)  # the same turns are asked of every message
def is_standing_wish(text: str) -> bool:
    """Tell whether a text asks for something to be done, or not done, from now on."""
    said = folded(text[:_MOST_CHARS])
    speech = f" {' '.join(_ASKED_WORD.findall(said))} "
    return any(
        _any_language("wishes", code).search(said)
        for code in CODES
        if any(phrase in speech for phrase in _wish_phrases(code))
    )


def states_limit(text: str) -> bool:
    """Tell whether a text says that something is missing here, or cannot be done."""
    said = folded(text[:_MOST_CHARS])
    return _any_language("limits", *codes_for(said)).search(said) is not None


@cache
def _wish_phrases(code: str) -> tuple[str, ...]:
    edge = " " if dates(code).spaced else ""
    return tuple(f"{edge}{folded(phrase)}{edge}" for phrase in wish_words(code))


_SESSION_GAP_S: Final = 6 * 3600
OF_NOVELTY: Final = 0.3
OF_RANK: Final = 0.3
OF_LATEST: Final = 0.3
LATEST_FLOOR: Final = 0.4
"""Of a question for the last of something, the share of the best score from which a turn fits."""


OF_PEOPLE: Final = 0.15
"""Added to what people said, where who speaks asks about themselves."""


def spread_scores(turns: Sequence[RecallHit], scores: Sequence[float]) -> list[float]:
    """Adjust the scores of `turns` so that the best ones are spread over the whole time.

    A turn with new information comes before one that continues it, and the best turn of each
    session before the second best of another.

    Args:
        turns: The turns found.
    """
    novelty = _novelty([one.turn.content for one in turns], [one.turn.at for one in turns])
    top = max(scores, default=0.0) or 1.0
    raw = [score / top + OF_NOVELTY * new for score, new in zip(scores, novelty, strict=True)]
    ranks = _session_ranks(turns, raw)
    return [score - OF_RANK * (1 - 1 / (1 + rank)) for score, rank in zip(raw, ranks, strict=True)]


def latest_scores(turns: Sequence[RecallHit], scores: Sequence[float]) -> list[float]:
    """Adjust the scores of `turns` in favour of later ones among those that match well."""
    least = LATEST_FLOOR * max(scores, default=0.0)
    fit = sorted((turns[n].turn.at, n) for n, score in enumerate(scores) if score >= least)
    gains = {n: OF_LATEST * place / len(fit) for place, (_, n) in enumerate(fit, 1)}
    return [score + gains.get(n, 0.0) for n, score in enumerate(scores)]


def people_first_scores(turns: Sequence[RecallHit], scores: Sequence[float]) -> list[float]:
    """Adjust scores in favour of what people said over what the familiar did."""
    return [
        score + OF_PEOPLE * (one.turn.role == "user")
        for one, score in zip(turns, scores, strict=True)
    ]


def _novelty(texts: Sequence[str], moments: Sequence[datetime]) -> list[float]:
    """Return the share of each text that is new compared with earlier ones, in [0, 1]."""
    words = [set(fts.content_words(text)) for text in texts]
    counts = Counter(word for some in words for word in some)
    seen: set[str] = set()
    raw = [0.0] * len(texts)
    for n in sorted(range(len(texts)), key=lambda n: moments[n]):
        new = words[n] - seen
        raw[n] = fsum(log(1 + counts[word]) for word in new if counts[word] > 1)
        seen |= words[n]
    top = max(raw, default=0.0) or 1.0
    return [value / top for value in raw]


def _session_ranks(turns: Sequence[RecallHit], scores: Sequence[float]) -> list[int]:
    """Rank each turn within its session; the best has 0."""
    order = sorted(range(len(turns)), key=lambda n: (turns[n].turn.channel_id, turns[n].turn.at))
    sessions: list[list[int]] = []
    for n in order:
        one = turns[n].turn
        last = turns[sessions[-1][-1]].turn if sessions else one
        gap_s = (one.at - last.at).total_seconds()
        if not sessions or last.channel_id != one.channel_id or gap_s >= _SESSION_GAP_S:
            sessions.append([])
        sessions[-1].append(n)
    ranks = [0] * len(turns)
    for session in sessions:
        for rank, n in enumerate(sorted(session, key=lambda n: -scores[n])):
            ranks[n] = rank
    return ranks
