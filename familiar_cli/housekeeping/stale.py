"""Beliefs that time has overtaken: dated long ago, or about a "next week" that is long past."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import DAY, line_text, statements
from familiar_cli.housekeeping.types import Check, Finding, Quote
from familiar_cli.housekeeping.wording import Wordings

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        in a few days | nächste woche | kommende woche | nächstes wochenende
        la semaine prochaine | ce week-end | la próxima semana | la semana que viene
        la prossima settimana | na próxima semana | neste uke | ensi viikolla
        на следующей неделе | الأسبوع القادم | 来週 | 今週末
        下周 | 下週 | 下星期 | 다음 주 | 다음주""",
    _MONTH: """next month | in a few weeks | nächsten monat | kommenden monat | le mois prochain
        el próximo mes | el mes que viene | il prossimo mese | no próximo mês | neste måned
        ensi kuussa | в следующем месяце | الشهر القادم | 来月
        下个月 | 下個月 | 다음 달 | 다음달""",
    _YEAR: """next year | next spring | next summer | next autumn | next fall | next winter
        nächstes jahr | kommendes jahr | l'année prochaine | el próximo año | el año que viene
        l'anno prossimo | no próximo ano | neste år | ensi vuonna | в следующем году
        العام القادم | 来年 | 明年 | 내년""",
}
_SPANS: Final = [(days, Wordings.of(words)) for days, words in _RELATIVE.items()]
# "as of 2024-03", "(2024-03-01)", "Stand: 2024-03" date a belief; a day in the sentence does not.
_NOW: Final = """as of | currently | at the moment | right now | these days | stand | derzeit
    zurzeit | aktuell | actuellement | en ce moment | actualmente | attualmente | atualmente
    for tiden | tällä hetkellä | сейчас | حاليا | 現在 | 目前 | 현재"""
_AS_OF: Final = Wordings.of(_NOW)
_AT_END: Final = re.compile(
    r"[(（\[][^()（）\[\]]{0,24}?\d{4}-\d{2}(?:-\d{2})?[^()（）\[\]]{0,12}[)）\]]\W*$"
)
_OVER: Final = """until | formerly | no longer | died | born | geboren | né | née | bis | jusqu'en
    hasta | まで | 까지"""
_PAST: Final = Wordings.of(_OVER)


def check_stale(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file with beliefs that time has overtaken."""
    for note in corpus.notes:
        spans = [span for span in _SPANS if span[1].may_be_in(note.folded)]
        if not note.holds_beliefs or not (spans or DAY.search(note.text)):
            continue
        said = [s for s in statements(note) if not s.is_record]
        past = [s for s in said if _is_past(s, spans, note, options)]
        old = [s for s in said if s not in past and _is_old(s, options)]
        if past:
            yield _finding(note, past, "speaks of a time to come that is long past", _PAST_HINT)
        if old:
            years = f"older than {options.stale_days} days"
            yield _finding(note, old, f"says how things are, and is {years}", _OLD_HINT)


def _is_past(
    statement: Statement, spans: list[tuple[int, Wordings]], note: Note, options: Options
) -> bool:
    """Tell whether the time that a line speaks of has passed, at the latest it can have been said.

    What bears no day was written by the time its file was last changed.
    """
    said = statement.day or note.modified.date()
    for days, wordings in spans:
        if wordings.is_in(statement.text):
            passed = said + timedelta(days=days + _GRACE_DAYS) < options.today
            return passed and not _is_over(statement)
    return False


def _is_old(statement: Statement, options: Options) -> bool:
    day = statement.own_day
    if day is None or day + timedelta(days=options.stale_days) >= options.today:
        return False
    dated = bool(_AT_END.search(statement.text)) or _AS_OF.is_in(statement.text)
    return dated and not _is_over(statement)


def _is_over(statement: Statement) -> bool:
    """Tell whether a line says itself that it no longer holds, or of a day that stays."""
    return "~~" in statement.text or _PAST.is_in(statement.text)


def _finding(note: Note, found: list[Statement], what: str, hint: str) -> Finding:
    quotes = tuple(Quote(note.rel_path, s.line, line_text(note.text, s.line)) for s in found)
    return Finding(CHECK.name, (note.rel_path,), what, quotes, hint=hint)


_PAST_HINT: Final = "Write what came of it, with its day, or take it out."
_OLD_HINT: Final = "Ask whether it still holds; then give it today's day, or say until when it did."
CHECK: Final = Check("stale", "beliefs that time has overtaken", check_stale)
