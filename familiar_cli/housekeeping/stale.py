"""Beliefs that time has overtaken: dated long ago, or about a "next week" that is long past.

Only what changes goes out of date: a home, an age, what is so "currently". That somebody went to a
race, or likes painting, stays true however long ago it was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.attributes import HEADS, STAYING, attribute
from familiar_cli.housekeeping.lines import quotes, statements
from familiar_cli.housekeeping.types import Check, Finding
from familiar_cli.housekeeping.wording import Wordings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from familiar_cli.housekeeping.lines import Statement
    from familiar_cli.housekeeping.types import Corpus, Note, Options

_DAY: Final = 1
_WEEK: Final = 14
_MONTH: Final = 62
_YEAR: Final = 731
_GRACE_DAYS: Final = 7
# How many days after it was said the time that is meant has passed for certain.
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
# What says itself that it holds at some time only.
_NOW: Final = Wordings.of("""
    as of | currently | at the moment | right now | these days | derzeit
    zurzeit | aktuell | actuellement | en ce moment | actualmente | attualmente | atualmente
    for tiden | tällä hetkellä | сейчас | حاليا | 現在 | 目前 | 현재
    years old | months old | jahre alt | ans | años | anni | anos | лет | 歳 | 岁 | 살
""")
# A line that says since or until when it holds, or of a day that stays.
_OVER: Final = Wordings.of("""
    until | since | formerly | no longer | used to | was | were | had | died | born
    geboren | seit | war | né | née | depuis | était | bis | jusqu'en | hasta | desde | era
    с | был | была | まで | から | 까지 | 부터
""")
# What is so every time, a goodbye, and a story ("the next day") speak of no time to come.
_NO_PLAN: Final = Wordings.of("""
    every | each | always | usually | never | often | whenever | the next
    immer | jeden | jede | jedes | toujours | chaque | siempre | cada | sempre | ogni
    всегда | каждый | каждую | いつも | 毎 | 总是 | 每
    see you | talk to you | talk again | chat again | until tomorrow | good night | bis morgen
    à demain | hasta mañana | a domani | до завтра | また明日 | 明天见 | 明天見 | 내일 봐
""")
_SPAN_HEADS: Final = frozenset[str]().union(*(wordings.heads for _, wordings in _SPANS))
_WORDS: Final = _SPAN_HEADS | _NOW.heads | HEADS


def check_stale(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file with beliefs that time has overtaken."""
    for note in corpus.notes:
        if not note.holds_beliefs or note.known.isdisjoint(_WORDS):
            continue
        said = [s for s in statements(note, _WORDS, options) if _is_belief(s)]
        past = [s for s in said if _is_past(s, note, options)]
        lines = {s.line for s in past}
        old = [s for s in said if s.line not in lines and _is_old(s, options)]
        if past:
            yield _finding(note, past, "mentions a future time that has long passed", _PAST_HINT)
        if old:
            years = f"older than {options.stale_days} days"
            yield _finding(note, old, f"describes the present, and is {years}", _OLD_HINT)


def _is_belief(statement: Statement) -> bool:
    """Tell whether a line claims something, and not that it was so until some day or on one."""
    text = statement.text
    is_question = text.endswith(("?", "？", "؟"))
    return not (is_question or statement.is_record or "~~" in text or _OVER.is_in(text))


def _is_past(statement: Statement, note: Note, options: Options) -> bool:
    """Tell whether the time that a line speaks of has passed, at the latest it can have been said.

    What has no day was written, at the latest, when its file was last changed.
    """
    said = _written(statement, note)
    for days, wordings in _SPANS:
        if wordings.is_in(statement.text):
            passed = (options.today - said).days > days + _GRACE_DAYS
            return passed and not _NO_PLAN.is_in(statement.text)
    return False


def _is_old(statement: Statement, options: Options) -> bool:
    """Tell whether a line of a day long ago says what changes: a home, an age, what is now."""
    day = statement.own_day
    if day is None or (options.today - day).days <= options.stale_days:
        return False
    found = attribute(statement.text)
    return _NOW.is_in(statement.text) or (found is not None and found.kind not in STAYING)


def _finding(note: Note, found: list[Statement], what: str, hint: str) -> Finding:
    days = sorted({_written(statement, note).isoformat() for statement in found})
    told = " to ".join(dict.fromkeys((days[0], days[-1])))
    evidence = quotes(note, (statement.line for statement in found))
    return Finding(CHECK.name, (note.rel_path,), f"{what}: of {told}", evidence, hint=hint)


def _written(statement: Statement, note: Note) -> date:
    return statement.day or note.modified.date()


_PAST_HINT: Final = "Write what came of it, with the date, or remove it."
_OLD_HINT: Final = (
    "Ask whether it is still true; then give it today's date, or say until when it was."
)
CHECK: Final = Check("stale", "Out of date", check_stale, _WORDS)
