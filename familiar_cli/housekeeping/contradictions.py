"""Statements of one thing with different values on different days, such as two homes.

Only what has one value at a time is compared: a home, a job, an age, a favourite. And only where
both statements bear a day of their own, so that a person can see which of them is the newer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import DAY, line_text, statements
from familiar_cli.housekeeping.types import Check, Finding, Quote
from familiar_cli.housekeeping.wording import Wordings, any_of
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.lines import Statement
    from familiar_cli.housekeeping.types import Corpus, Note, Options

# What one has one of at a time, in the words of several languages.
_ONE_OF: Final = {
    "home": """home | lives in | city | town | address | residence | wohnort | wohnt in | adresse
        ville | habite | habite à | domicile | vive en | ciudad | domicilio | città | vive a
        cidade | mora em | bor i | asuu | город | живёт в | живет в | адрес | 住所 | 住まい
        居住地 | 住址 | 城市 | 사는 곳 | 거주지 | المدينة | السكن | घर | शहर""",
    "job": """job | works as | works at | works for | employer | occupation | profession | beruf
        arbeitet als | arbeitet bei | arbeitgeber | métier | travaille à | travaille chez
        employeur | trabajo | trabaja en | empleo | lavoro | trabalho | trabalha em | jobb
        jobber som | ammatti | работа | работает в | профессия | 仕事 | 職業 | 勤務先 | 工作
        职业 | 직업 | 직장 | المهنة | العمل | नौकरी""",
    "age": """age | alter | âge | edad | età | idade | alder | ikä | возраст | 年齢 | 年龄 | 나이
        العمر | उम्र""",
    "birthday": """birthday | born on | date of birth | geburtstag | geboren am | anniversaire
        né le | née le | cumpleaños | compleanno | aniversário | bursdag | fødselsdag
        syntymäpäivä | день рождения | 誕生日 | 生日 | 생일 | عيد الميلاد | जन्मदिन""",
    "status": """relationship status | marital status | is married to | married to | partner
        spouse | husband | wife | familienstand | verheiratet mit | état civil | conjoint
        estado civil | семейное положение | 配偶者 | 配偶 | 배우자""",
    "phone": """phone | phone number | mobile | telefon | handynummer | téléphone | teléfono
        telefono | telefone | телефон | 電話番号 | 电话 | 手机 | 전화번호 | الهاتف""",
    "email": "email | e-mail | mail address | courriel | correo | メール | 邮箱 | 이메일",
    "pronouns": "pronouns | pronomen | pronoms | pronombres | 代名詞",
    "time zone": """time zone | timezone | zeitzone | fuseau horaire | zona horaria | タイムゾーン
        时区""",
    "diet": "diet | ernährung | régime alimentaire | dieta | 食事制限 | 饮食",
    "height": "height | größe | taille | altura | 身長 | 身高 | 키",
}
_AS_A_SENTENCE: Final = """lives in | works as | works at | works for | is married to | wohnt in
    arbeitet als | arbeitet bei | habite | habite à | vive en | trabaja en | bor i"""
_IN_THE_PAST: Final = """until | formerly | previously | used to | no longer | was | former | before
    bis | früher | ehemals | jusqu'en | jusqu'à | avant | anciennement | hasta | antes | fino
    até | tidligere | entinen | до | раньше | бывший | бывшая
    まで | 以前 | 之前 | 曾 | 까지 | 이전"""
_DATING: Final = "as of | since | stand | seit | depuis | desde | с"

_LABEL: Final = re.compile(
    r"(?:\*\*|__)?(?P<label>[^:：*_\n]{1,40}?)(?:\*\*|__)?[ \t]*[:：](?:\*\*|__)?"
    r"[ \t]*(?P<value>\S.*)"
)
_PLAIN: Final = re.compile(
    r"(?:(?:he|she|they|it|[A-Z][\w'’-]{1,30})[ \t]+)?"
    rf"(?P<label>{any_of(_AS_A_SENTENCE)})[ \t]+(?P<value>\S.*)",
    re.IGNORECASE,
)
_KINDS: Final = [
    (kind, re.compile(any_of(wordings), re.IGNORECASE)) for kind, wordings in _ONE_OF.items()
]
_FAVOURITES: Final = re.compile(
    r"favou?rite [\w ]{2,30}|lieblings\w{2,30}|好きな\w{1,10}|最喜欢的\w{1,10}", re.IGNORECASE
)
_NOTE: Final = re.compile(
    rf"[(（\[][^()（）\[\]]{{0,80}}[)）\]]|(?:{any_of(_DATING)}).*$", re.IGNORECASE
)
_PAST: Final = Wordings.of(_IN_THE_PAST)
_LABELS: Final = Wordings.of(
    "\n".join(
        (*_ONE_OF.values(), _AS_A_SENTENCE, "favorite | favourite | lieblings | 好きな | 最喜欢的")
    )
)
_WORDS: Final = re.compile(r"\w+")


def check_contradictions(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each attribute of one file with different values on different days."""
    del options
    for note in corpus.notes:
        if note.holds_beliefs and _LABELS.may_be_in(note.folded) and DAY.search(note.text):
            yield from _in_note(note)


def _in_note(note: Note) -> Iterator[Finding]:
    said: dict[tuple[tuple[str, ...], str], list[tuple[Statement, str]]] = defaultdict(list)
    for statement in statements(note):
        found = _attribute(statement)
        if found and "~~" not in statement.text and not _PAST.is_in(statement.text):
            kind, value = found
            said[_subject(statement), kind].append((statement, value))
    for (_, kind), values in said.items():
        if len({value for _, value in values}) < 2 or not _differ(values):  # noqa: PLR2004
            continue
        ordered = sorted(values, key=lambda one: (one[0].day is None, one[0].day, one[0].line))
        newest = ordered[-1][0]
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            f"{kind}: {len({v for _, v in values})} values on different days; the newest is of "
            f"{newest.day}",
            tuple(Quote(note.rel_path, s.line, line_text(note.text, s.line)) for s, _ in ordered),
            hint="If the newest holds now, say until when the older did, or take it out.",
        )


def _subject(statement: Statement) -> tuple[str, ...]:
    """Return whom a statement is about: the headings above it, but for those that only date it."""
    return tuple(h for h in statement.heading[:3] if not DAY.search(h))


def _attribute(statement: Statement) -> tuple[str, str] | None:
    """Return what a statement is a value of, and the value; None for any other statement."""
    if statement.day is None:
        return None
    text = DAY.sub("", statement.text).lstrip(" :：-–—.,")
    found = _LABEL.match(text) or _PLAIN.match(text)
    if found is None:
        return None
    label = " ".join(found["label"].split())
    kind = next((name for name, names in _KINDS if names.fullmatch(label)), "")
    if not kind and _FAVOURITES.fullmatch(label):
        kind = fold(label)
    value = " ".join(_WORDS.findall(fold(_NOTE.sub(" ", found["value"]))))
    return (kind, value) if kind and value else None


def _differ(values: list[tuple[Statement, str]]) -> bool:
    """Tell whether two values really differ, on days that differ: `Oslo` is in `Oslo, Norway`."""
    return any(
        a.day != b.day and not (_within(one, other) or _within(other, one))
        for at, (a, one) in enumerate(values)
        for b, other in values[at + 1 :]
    )


def _within(one: str, other: str) -> bool:
    return f" {one} " in f" {other} " or (not one.isascii() and one in other)


CHECK: Final = Check(
    "contradictions", "one thing with different values on different days", check_contradictions
)
