"""What one has one of at a time: a home, a job, an age. How a line says so, in many languages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from familiar_cli.housekeeping.lines import DAY
from familiar_cli.housekeeping.wording import any_of, heads_of
from familiar_cli.text import fold

# One line of the key may be said instead of another one; what names another thing stands apart: a
# street is no town, an employer no profession, a mobile number no other number.
_ONE_OF: Final = {
    "home": """home | lives in | city | town | residence | wohnort | wohnt in
        ville | habite | habite à | vive en | ciudad | città | vive a | cidade | mora em | bor i
        asuu | город | живёт в | живет в | 居住地 | 城市 | 사는 곳 | المدينة | घर | शहर""",
    "address": """address | adresse | domicile | domicilio | адрес | 住所 | 住まい | 住址 | 거주지
        السكن""",
    "job": """job | works as | occupation | profession | beruf | arbeitet als | métier | trabajo
        empleo | lavoro | trabalho | jobb | jobber som | ammatti | работа | профессия | 仕事
        職業 | 工作 | 职业 | 직업 | المهنة | العمل | नौकरी""",
    "employer": """works at | works for | employer | arbeitet bei | arbeitgeber | travaille à
        travaille chez | employeur | trabaja en | trabalha em | работает в | 勤務先 | 직장""",
    "age": """age | alter | âge | edad | età | idade | alder | ikä | возраст | 年齢 | 年龄 | 나이
        العمر | उम्र""",
    "birthday": """birthday | born on | date of birth | geburtstag | geboren am | anniversaire
        né le | née le | cumpleaños | compleanno | aniversário | bursdag | fødselsdag
        syntymäpäivä | день рождения | 誕生日 | 生日 | 생일 | عيد الميلاد | जन्मदिन""",
    "status": """relationship status | marital status | familienstand | état civil | estado civil
        семейное положение""",
    "partner": """is married to | married to | partner | spouse | husband | wife | verheiratet mit
        conjoint | 配偶者 | 配偶 | 배우자""",
    "phone": "phone | phone number | telefon | téléphone | teléfono | телефон | 電話番号 | 电话",
    "mobile": "mobile | mobile number | handynummer | 手机",
    "email": "email | e-mail | mail address | courriel | correo | メール | 邮箱 | 이메일",
    "pronouns": "pronouns | pronomen | pronoms | pronombres | 代名詞",
    "time zone": """time zone | timezone | zeitzone | fuseau horaire | zona horaria | タイムゾーン
        时区""",
    "diet": "diet | ernährung | régime alimentaire | dieta | 食事制限 | 饮食",
    "height": "height | größe | taille | altura | 身長 | 身高 | 키",
}
STAYING: Final = frozenset({"birthday", "pronouns", "height"})
"""Of these the old value holds as long as nothing else is known."""
_AS_A_SENTENCE: Final = """lives in | works as | works at | works for | is married to | wohnt in
    arbeitet als | arbeitet bei | habite | habite à | vive en | trabaja en | bor i"""
_FAVOURITE: Final = "favorite | favourite | lieblings | 好きな | 最喜欢的"
_DATING: Final = "as of | since | stand | seit | depuis | desde | с"

_LABEL: Final = re.compile(
    r"(?:\*\*|__)?(?P<label>[^:：*_\n]{1,40}?)(?:\*\*|__)?[ \t]*[:：](?:\*\*|__)?"
    r"[ \t]*(?P<value>\S.*)"
)
_PLAIN: Final = re.compile(
    r"(?P<who>(?:he|she|they|it|[A-Z][\w'’-]{1,30})[ \t]+)?"
    rf"(?P<label>{any_of(_AS_A_SENTENCE)})[ \t]+(?P<value>\S.*)",
    re.IGNORECASE,
)
# "lives in a small flat" is no town, "works for three hours" no employer.
_NO_NAME: Final = re.compile(
    r"(?:an?|the|his|her|their|my|our|your|one|two|three|this|that|it|ein\w{0,2}|de[rmn]|une?|la|le"
    r"|una|el|en|et|\d+)\b",
    re.IGNORECASE,
)
_NAMED: Final = ("home", "employer")
_PRONOUNS: Final = ("he", "she", "they", "it")
_KINDS: Final = [
    (kind, re.compile(any_of(wordings), re.IGNORECASE)) for kind, wordings in _ONE_OF.items()
]
_FAVOURITES: Final = re.compile(
    r"favou?rite [\w ]{2,30}|lieblings\w{2,30}|好きな\w{1,10}|最喜欢的\w{1,10}", re.IGNORECASE
)
_NOTE: Final = re.compile(
    rf"[(（\[][^()（）\[\]]{{0,80}}[)）\]]|(?:{any_of(_DATING)}).*$", re.IGNORECASE
)
_WORDS: Final = re.compile(r"\w+")
_MOST_CHARS: Final = 400
HEADS: Final = heads_of("\n".join((*_ONE_OF.values(), _AS_A_SENTENCE, _FAVOURITE)))
"""Words of which a line that says an attribute holds one."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """What a line says of somebody.

    Args:
        kind: `home`, `age`, a favourite of some kind, ….
        value: In plain words.
        who: The name that the line gives, folded; empty: none, or a pronoun.
    """

    kind: str
    value: str
    who: str = ""


def attribute(text: str) -> Attribute | None:
    """Return what a statement is a value of; None for any other statement."""
    bare = DAY.sub("", text[:_MOST_CHARS]).lstrip(" :：-–—.,()")
    found = _LABEL.match(bare) or _PLAIN.match(bare)
    if found is None:
        return None
    label = " ".join(found["label"].split())
    kind = next((name for name, names in _KINDS if names.fullmatch(label)), "")
    if not kind and _FAVOURITES.fullmatch(label):
        kind = fold(label)
    if kind in _NAMED and _NO_NAME.match(found["value"]):
        return None
    value = " ".join(_WORDS.findall(fold(_NOTE.sub(" ", found["value"]))))
    who = fold(found.groupdict().get("who") or "").strip()
    return Attribute(kind, value, "" if who in _PRONOUNS else who) if kind and value else None
