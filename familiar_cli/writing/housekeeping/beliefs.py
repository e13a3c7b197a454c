"""Find statements that contradict each other, or that time or the history has made obsolete."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.languages import Beliefs, Phrases, beliefs
from familiar_cli.base.markdown import TextLine, body_start, bullet, comments, replace_spans, scan
from familiar_cli.base.text import counted, fold, sentence_ends
from familiar_cli.store.memory.mentions import without_honorific
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.store.memory.pages.facts import ended_on, goes_on_below, with_end
from familiar_cli.writing.housekeeping.lines import (
    DAY,
    DERIVED,
    MOST_CHARS,
    Corpus,
    Finding,
    MemoryText,
    Options,
    Statement,
    Wordings,
    any_of,
    find_statements,
    goes_on,
    heads_of,
    quote_lines,
    words_in,
)
from familiar_cli.writing.review.pending import PlannedFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    Subject = tuple[str, ...]
    Said = tuple[date, int, str]
    from collections.abc import Collection, Mapping


# Labels for languages without a table. Different things are kept apart: a street is not a
# town, an employer not a profession, a mobile number not any other number.
_OTHERS: Final = {
    "home": """città | vive a | cidade | mora em | bor i | asuu | город | живёт в | живет в
        사는 곳 | घर | शहर""",
    "address": "adres | endereço | адрес | 거주지",
    "job": "lavoro | trabalho | jobb | jobber som | ammatti | работа | профессия | 직업 | नौकरी",
    "employer": "trabalha em | работает в | 직장",
    "age": "età | idade | alder | ikä | возраст | 나이 | उम्र",
    "birthday": """compleanno | aniversário | bursdag | fødselsdag | syntymäpäivä | день рождения
        생일 | जन्मदिन""",
    "status": "stato civile | семейное положение",
    "partner": "배우자",
    "phone": "телефон",
    "email": "이메일",
    "height": "키",
}
STAYING: Final = frozenset({"birthday", "pronouns", "height"})
"""Of these the old value holds as long as nothing else is known."""
_PRONOUNS: Final = ("he", "she", "they", "it", "er", "sie", "il", "elle", "彼", "彼女", "他", "她")
_NAMED: Final = ("home", "employer")

_TABLES: Final = tuple(beliefs())
_ONE_OF: Final = {
    kind: "\n".join(filter(None, (*(t.labels.get(kind) for t in _TABLES), _OTHERS.get(kind))))
    for kind in _TABLES[0].labels
}
_FAVOURITE: Final = "\n".join(filter(None, (table.favourite for table in _TABLES)))
_LABEL: Final = re.compile(
    r"(?:\*\*|__)?(?P<label>[^:：*_\n]{1,40}?)(?:\*\*|__)?[ \t]*[:：](?:\*\*|__)?"
    r"[ \t]*(?P<value>\S.*)"
)
_KINDS: Final = [
    (kind, re.compile(any_of(wordings), re.IGNORECASE)) for kind, wordings in _ONE_OF.items()
]
_FAVOURITES: Final = re.compile(
    r"favou?rite [\w ]{2,30}|lieblings\w{2,30}|好きな\w{1,10}|最喜欢的\w{1,10}", re.IGNORECASE
)
_NOTE: Final = re.compile(
    r"[(（\[][^()（）\[\]]{0,80}[)）\]]"
    rf"|(?:{any_of(chr(10).join((*(t.dating for t in _TABLES), 'с')))}).*$",
    re.IGNORECASE,
)
_WORDS: Final = re.compile(r"\w+")
_MOST_CHARS: Final = 400


def _sentence_pattern(table: Beliefs, verbs: str, form: str) -> re.Pattern[str]:
    """Build the pattern for a sentence form of a table."""
    who, space = f"(?P<who>{table.who})", r"[ \t]+"
    places = {
        "{who}": who,
        "{verb}": f"(?:{any_of(verbs)})",
        "{value}": f"(?P<value>{table.value})",
    }
    made = form.replace(" ", space).replace(f"{{who}}{space}", f"(?:{{who}}{space})?")
    for place, pattern in places.items():
        made = made.replace(place, pattern)
    return re.compile(made, re.IGNORECASE)


_SENTENCES: Final = [
    (kind, _sentence_pattern(table, verbs, form), Wordings.of(table.negations))
    for table in _TABLES
    for kind, verbs, form in table.sentences
] + [("home", _sentence_pattern(_TABLES[0], "bor", "{who} {verb} i {value}"), Wordings.of("ikke"))]
# "lives in a small flat" names no town, "works for three hours" no employer.
_NO_NAME: Final = re.compile(r"\d+\b|" + "|".join(t.no_name for t in _TABLES), re.IGNORECASE)
PAST: Final = "\n".join(table.past for table in _TABLES)
"""Words of a line that says itself that it is over."""
HEADS: Final = heads_of(
    "\n".join(
        (
            *_ONE_OF.values(),
            _FAVOURITE,
            "bor",
            *(verbs for table in _TABLES for _, verbs, _ in table.sentences),
        )
    )
)
"""Words of which a line that says an attribute holds one."""


class Attribute(Struct, frozen=True):
    """An attribute of somebody, as stated by a line.

    Args:
        kind: `home`, `age`, a kind of favourite, ….
        value: Its plain value.
        who: The name in the line, case-folded; empty: none, or a pronoun.
    """

    kind: str
    value: str
    who: str = ""


def find_attribute(text: str) -> Attribute | None:
    """Return the attribute that a statement gives, or None."""
    bare = DAY.sub("", text[:_MOST_CHARS]).lstrip(" :：-–—.,()")
    return _labelled_value(bare) or _sentence_value(bare)


def _labelled_value(bare: str) -> Attribute | None:
    found = _LABEL.match(bare)
    if found is None:
        return None
    label = " ".join(found["label"].split())
    kind = next((name for name, names in _KINDS if names.fullmatch(label)), "")
    if not kind and _FAVOURITES.fullmatch(label):
        kind = fold(label)
    return _make_attribute(kind, found["value"]) if kind else None


def _sentence_value(bare: str) -> Attribute | None:
    plain = _NOTE.sub(" ", bare)
    for kind, sentence, negations in _SENTENCES:
        found = sentence.match(plain)
        if found and not negations.is_in(found[0]):
            who = fold(without_honorific(found["who"] or ""))
            return _make_attribute(kind, found["value"], "" if who in _PRONOUNS else who)
    return None


def _make_attribute(kind: str, words: str, who: str = "") -> Attribute | None:
    if kind in _NAMED and _NO_NAME.match(words):
        return None
    value = " ".join(_WORDS.findall(fold(_NOTE.sub(" ", words))))
    return Attribute(kind, value, who) if value else None


_PAST: Final = Wordings.of(
    PAST, "fino | até | tidligere | entinen | до | раньше | бывший | бывшая | 까지 | 이전"
)
_YEAR_DAYS: Final = 365.25
_MOST_VALUES: Final = 100
_AGE_DIGITS: Final = 3


def check_contradictions(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding per file and attribute with different values on different days."""
    for note in corpus.notes:
        if note.holds_beliefs and not note.known.isdisjoint(HEADS):
            yield from _in_note(note, options)


def _in_note(note: MemoryText, options: Options) -> Iterator[Finding]:
    said: dict[tuple[Subject, str], list[Said]] = defaultdict(list)
    for statement in find_statements(note, HEADS, options):
        found = find_attribute(statement.text)
        if found and statement.day and _still_holds(statement):
            key = (_find_subject(statement, found), found.kind)
            said[key].append((statement.day, statement.line, found.value))
    for (_, kind), values in said.items():
        ordered = sorted(values)[-_MOST_VALUES:]
        if not _do_differ(kind, ordered):
            continue
        after = _with_ends(note, kind, ordered, options.phrases)
        yield Finding(
            (note.rel_path,),
            f"{kind}: {len({value for *_, value in values})} values on different days; the newest"
            f" is of {ordered[-1][0]}",
            quote_lines(note, (at for _, at, _ in ordered)),
            repair=() if after == note.text else (PlannedFile(note.rel_path, note.text, after),),
            hint="If the newest is right, say until when the older was, or remove it."
            + (" `--propose` makes a plan that says so." if after != note.text else ""),
        )


def _with_ends(note: MemoryText, kind: str, ordered: list[Said], phrases: Phrases) -> str:
    """Return the file with older values of an attribute marked as ended by the newest.

    Only list items are marked, and only if the newest value is in the same privacy scope.
    """
    day, at, value = ordered[-1]
    older = {n for d, n, v in ordered if d < day and not _do_agree(kind, (d, v), (day, value))}
    lines = {line.number: (line, scopes) for line, scopes in memory_lines.owned_lines(note.text)}
    edits = [
        (line.start, line.end, with_end(line.text, day, phrases))
        for line, scopes in (lines[number] for number in sorted(older))
        if scopes == lines[at][1] and line.is_item and not goes_on_below(note.text, line)
    ]
    return replace_spans(note.text, edits)


def _still_holds(statement: Statement) -> bool:
    """Tell whether a line does not itself say that it has ended."""
    text = statement.text
    return "~~" not in text and not ended_on(text) and not _PAST.is_in(text)


def _find_subject(statement: Statement, found: Attribute) -> Subject:
    """Return the subject of a statement: the headings above it, except dates.

    A name in the line is added, unless it is in the title of the file.
    """
    above = tuple(h for h in statement.heading[:3] if not DAY.search(h))
    is_named = found.who and found.who not in words_in(fold(" ".join(statement.heading[:1])))
    return (*above, found.who) if is_named else above


def _do_differ(kind: str, values: list[Said]) -> bool:
    """Tell whether two values from different days contradict each other."""
    return any(
        day != other_day and not _do_agree(kind, (day, value), (other_day, other))
        for at, (day, _, value) in enumerate(values)
        for other_day, _, other in values[at + 1 :]
    )


def _do_agree(kind: str, one: tuple[date, str], other: tuple[date, str]) -> bool:
    """Tell whether two values are compatible: `Oslo` and `Oslo, Norway`, or growing ages."""
    (day, value), (other_day, another) = one, other
    if kind == "age":
        words = f"{value} {another}".split()
        ages = [int(word) for word in words if word.isdecimal() and len(word) <= _AGE_DIGITS]
        years = (other_day - day).days / _YEAR_DAYS
        return len(ages) != 2 or abs(ages[1] - ages[0] - years) <= 1  # noqa: PLR2004
    return _is_within(value, another) or _is_within(another, value)


def _is_within(one: str, other: str) -> bool:
    return f" {one} " in f" {other} " or (not one.isascii() and one in other)


_DAY: Final = 1
_WEEK: Final = 14
_MONTH: Final = 62
_YEAR: Final = 731
_GRACE_DAYS: Final = 7
# Days after which the time referred to has certainly passed.
_RELATIVE: Final = {
    _DAY: """tomorrow | tonight | übermorgen | demain | i morgen | huomenna | domani | amanhã
        завтра | غدا | 明日 | あした | 明天 | 내일""",
    _WEEK: """next week | this weekend | next weekend | next monday | next tuesday
        next wednesday | next thursday | next friday | next saturday | next sunday
        nächste woche | kommende woche | nächstes wochenende
        la semaine prochaine | ce week-end | la próxima semana | la semana que viene
        la prossima settimana | na próxima semana | neste uke | ensi viikolla
        на следующей неделе | الأسبوع القادم | 来週 | 今週末
        下周 | 下週 | 下星期 | 다음 주 | 다음주""",
    _MONTH: """next month | nächsten monat | kommenden monat | le mois prochain
        el próximo mes | el mes que viene | il prossimo mese | no próximo mês | neste måned
        ensi kuussa | в следующем месяце | الشهر القادم | 来月
        下个月 | 下個月 | 다음 달 | 다음달""",
    _YEAR: """next year | next spring | next summer | next autumn | next fall | next winter
        nächstes jahr | kommendes jahr | l'année prochaine | el próximo año | el año que viene
        l'anno prossimo | no próximo ano | neste år | ensi vuonna | в следующем году
        العام القادم | 来年 | 明年 | 내년""",
}
_SPANS: Final = [(days, Wordings.of(words)) for days, words in _RELATIVE.items()]
# Wordings that limit a statement to some time.
_NOW: Final = Wordings.of("""
    as of | currently | at the moment | right now | these days | derzeit
    zurzeit | aktuell | actuellement | en ce moment | actualmente | attualmente | atualmente
    for tiden | tällä hetkellä | сейчас | حاليا | 現在 | 目前 | 현재
    years old | months old | jahre alt | ans | años | anni | anos | лет | 歳 | 岁 | 살
""")
# Lines that state a start or end, or a permanent date.
_OVER: Final = Wordings.of("""
    until | since | formerly | no longer | used to | was | were | had | died | born
    geboren | seit | war | né | née | depuis | était | bis | jusqu'en | hasta | desde | era
    с | был | была | まで | から | 까지 | 부터
""")
# Habits, goodbyes and stories ("the next day") do not refer to the future.
_NO_PLAN: Final = Wordings.of("""
    every | each | always | usually | never | often | whenever | the next
    immer | jeden | jede | jedes | toujours | chaque | siempre | cada | sempre | ogni
    всегда | каждый | каждую | いつも | 毎 | 总是 | 每
    see you | talk to you | talk again | chat again | until tomorrow | good night | bis morgen
    à demain | hasta mañana | a domani | до завтра | また明日 | 明天见 | 明天見 | 내일 봐
""")
_SPAN_HEADS: Final = frozenset[str]().union(*(wordings.heads for _, wordings in _SPANS))
STALE_WORDS: Final = _SPAN_HEADS | _NOW.heads | HEADS


def check_stale(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding per file with statements that are out of date."""
    for note in corpus.notes:
        if not note.holds_beliefs or note.known.isdisjoint(STALE_WORDS):
            continue
        said = [s for s in find_statements(note, STALE_WORDS, options) if _is_belief(s)]
        past = [s for s in said if _is_past(s, note, options)]
        lines = {s.line for s in past}
        old = [s for s in said if s.line not in lines and _is_old(s, options)]
        if past:
            yield _make_finding(
                note, past, "mentions a future time that has long passed", _PAST_HINT
            )
        if old:
            years = f"older than {options.stale_days} days"
            yield _make_finding(note, old, f"describes the present, and is {years}", _OLD_HINT)


def _is_belief(statement: Statement) -> bool:
    """Tell whether a line claims something that is not limited to the past or to one day."""
    text = statement.text
    is_question = text.endswith(("?", "？", "؟"))
    is_over = "~~" in text or ended_on(text) or _OVER.is_in(text)
    return not (is_question or statement.is_record or is_over)


def _is_past(statement: Statement, note: MemoryText, options: Options) -> bool:
    """Tell whether the time a line refers to has passed, given when it was said at the latest.

    A line without a date is at most as new as the last change of its file.
    """
    said = _written_day(statement, note)
    for days, wordings in _SPANS:
        if wordings.is_in(statement.text):
            passed = (options.today - said).days > days + _GRACE_DAYS
            return passed and not _NO_PLAN.is_in(statement.text)
    return False


def _is_old(statement: Statement, options: Options) -> bool:
    """Tell whether an old line states something changeable: a home, an age, a current state."""
    day = statement.own_day
    if day is None or (options.today - day).days <= options.stale_days:
        return False
    found = find_attribute(statement.text)
    return _NOW.is_in(statement.text) or (found is not None and found.kind not in STAYING)


def _make_finding(note: MemoryText, found: list[Statement], what: str, hint: str) -> Finding:
    days = sorted({_written_day(statement, note).isoformat() for statement in found})
    told = " to ".join(dict.fromkeys((days[0], days[-1])))
    evidence = quote_lines(note, (statement.line for statement in found))
    return Finding((note.rel_path,), f"{what}: of {told}", evidence, hint=hint)


def _written_day(statement: Statement, note: MemoryText) -> date:
    return statement.day or note.modified.date()


_PAST_HINT: Final = "Write what came of it, with the date, or remove it."
_OLD_HINT: Final = (
    "Ask whether it is still true; then give it today's date, or say until when it was."
)


_LEAST_SHARE: Final = 0.5  # share of a withdrawn line's words in a sentence that repeats it
_MOST_REASONS: Final = 3
_MOST_TURNS: Final = 1_000  # per line; a typo could cite millions


def check_withdrawn(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield files with lines based on withdrawn turns, and digests that repeat them."""
    numbering = options.numbering
    gone, standing = list[str](), list[str]()
    for note in corpus.notes:
        if note.directory in DERIVED or "<!-- turn" not in note.text:
            continue
        lines = [
            (line, memory_lines.turn_ids(line.text, numbering)) for line in _citing_lines(note)
        ]
        fallen = options.fallen({turn for _, turns in lines for turn in turns})
        for line, _ in lines:
            is_gone = fallen and not numbering.without(memory_lines.citations_in(line.text), fallen)
            (gone if is_gone else standing).append(line.text)
        if fallen:
            yield _withdrawn_finding(note, lines, fallen, numbering)
    if gone:
        repeated = _Repeated(gone, standing)
        for note in corpus.notes:
            if note.directory in DERIVED:
                yield from _find_repeating(note, repeated)


class _Repeated:
    """Recognises sentences that repeat only withdrawn lines.

    Args:
        gone: Lines without any standing turn.
        standing: Other lines that cite turns.
    """

    def __init__(self, gone: list[str], standing: list[str]) -> None:
        self._gone = [
            (text, memory_lines.EvidenceText(text))
            for text in map(memory_lines.without_references, gone)
        ]
        self._standing = [
            memory_lines.EvidenceText(memory_lines.without_references(text)) for text in standing
        ]

    def is_said(self, sentence: str) -> bool:
        """Tell whether a sentence repeats a withdrawn line and no other one."""
        said = memory_lines.EvidenceText(sentence)
        shares = [
            evidence.share(sentence)
            for text, evidence in self._gone
            if said.share(text) >= _LEAST_SHARE
        ]
        most = max(shares, default=0.0)
        return most >= memory_lines.SAID_SHARE and all(
            one.share(sentence) < most for one in self._standing
        )


def _find_repeating(note: MemoryText, repeated: _Repeated) -> Iterator[Finding]:
    """Yield a finding if a generated file repeats withdrawn lines."""
    texts = note.text.split("\n")
    whole, by_hand = list[int](), list[int]()
    start = note.text.count("\n", 0, body_start(note.text))
    for line in scan(note.text):
        if line.level or line.in_code or line.number <= start or len(line.text) > MOST_CHARS:
            continue
        text = memory_lines.TAG.sub(
            "", memory_lines.shown_between(line.text, 0, len(line.text), comments(line.text))
        ).strip(" \t\r-*+")
        parts = [text[a:b] for a, b in pairwise([0, *sentence_ends(text), len(text)])]
        said = [repeated.is_said(part) for part in parts if part.strip()]
        if not any(said):
            continue
        is_alone = all(said) and not _stands_over_others(texts, line.number - 1)
        (whole if is_alone else by_hand).append(line.number)
    if not (whole or by_hand):
        return
    gone = set(whole)
    after = "\n".join(text for number, text in enumerate(texts, 1) if number not in gone)
    count = len(whole) + len(by_hand)
    yield Finding(
        (note.rel_path,),
        f"{counted(count, 'line')} {'repeats' if count == 1 else 'repeat'} what rests on turns "
        "that no longer stand",
        quote_lines(note, sorted([*whole, *by_hand])),
        repair=(PlannedFile(note.rel_path, note.text, after),) if whole else (),
        hint=_hint(whole, [], by_hand),
    )


def _citing_lines(note: MemoryText) -> Iterator[TextLine]:
    """Yield the lines of a file that cite turns, unless they cite implausibly many."""
    for line in scan(note.text):
        is_cited = "<!-- turn" in line.text and not line.in_code
        if is_cited and memory_lines.turn_count(line.text) <= _MOST_TURNS:
            yield line


def _withdrawn_finding(
    note: MemoryText,
    resting: list[tuple[TextLine, tuple[int, ...]]],
    fallen: Mapping[int, str],
    numbering: memory_lines.Numbering,
) -> Finding:
    texts = note.text.split("\n")
    now = dict(enumerate(texts))
    whole, parts, by_hand = list[int](), list[int](), list[int]()
    for line, turns in resting:
        if not any(turn in fallen for turn in turns):
            continue
        left = numbering.without(memory_lines.citations_in(line.text), fallen)
        at = line.number - 1
        if left:
            parts.append(line.number)
            now[at] = memory_lines.citing(texts[at], left)
        elif line.level or _stands_over_others(texts, at):
            by_hand.append(line.number)
        else:
            whole.append(line.number)
            del now[at]
    numbers = sorted([*whole, *parts, *by_hand])
    after = "\n".join(now.values())
    gone = {turn for _, turns in resting for turn in turns if turn in fallen}
    return Finding(
        (note.rel_path,),
        f"{_finding_line(whole, parts, by_hand)}: {_reason_words(gone, fallen)}",
        quote_lines(note, numbers),
        repair=(PlannedFile(note.rel_path, note.text, after),) if whole or parts else (),
        hint=_hint(whole, parts, by_hand),
    )


def _stands_over_others(texts: list[str], at: int) -> bool:
    """Tell whether a bullet has nested lines, so that it cannot be removed alone."""
    item = bullet(texts[at])
    return item is not None and goes_on(texts, at, len(item.indent.expandtabs(4)))


def _finding_line(whole: list[int], parts: list[int], by_hand: list[int]) -> str:
    alone, some = len(whole) + len(by_hand), len(parts)
    if not alone:
        return f"{counted(some, 'line')} {_rest_words(some)} in part on turns that no longer stand"
    and_some = f", and {some} more in part" if some else ""
    return f"{counted(alone, 'line')} {_rest_words(alone)} on turns that no longer stand{and_some}"


def _rest_words(count: int) -> str:
    return "rests" if count == 1 else "rest"


def _reason_words(gone: Collection[int], fallen: Mapping[int, str]) -> str:
    told = [fallen[turn] for turn in sorted(gone)]
    more = len(told) - _MOST_REASONS
    return ", ".join([*told[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else [])])


def _hint(whole: list[int], parts: list[int], by_hand: list[int]) -> str:
    plans = [
        *([f"takes out {counted(len(whole), 'line')}"] if whole else []),
        *([f"keeps {counted(len(parts), 'line')} on the other turns"] if parts else []),
    ]
    hints = [f"`--propose` makes a plan that {' and '.join(plans)}."] if plans else []
    if by_hand:
        lines = "line" if len(by_hand) == 1 else "lines"
        hints.append(f"Edit {lines} {', '.join(map(str, by_hand))} by hand.")
    return " ".join(hints)
