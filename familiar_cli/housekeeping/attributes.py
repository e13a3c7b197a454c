"""Attributes with one value at a time (home, job, age), and how lines state them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import DAY
from familiar_cli.housekeeping.wording import Wordings, any_of, heads_of
from familiar_cli.languages import beliefs
from familiar_cli.memory.people.honorifics import without_honorific
from familiar_cli.text import fold

if TYPE_CHECKING:
    from familiar_cli.languages.beliefs import Beliefs

# Labels in languages that have no table. What names another thing stands apart: a street is no
# town, an employer no profession, a mobile number no other number.
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


def _sentence(table: Beliefs, verbs: str, form: str) -> re.Pattern[str]:
    """Return what finds a sentence of a table."""
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
    (kind, _sentence(table, verbs, form), Wordings.of(table.negations))
    for table in _TABLES
    for kind, verbs, form in table.sentences
] + [("home", _sentence(_TABLES[0], "bor", "{who} {verb} i {value}"), Wordings.of("ikke"))]
# "lives in a small flat" is no town, "works for three hours" no employer.
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
    return _labelled(bare) or _said(bare)


def _labelled(bare: str) -> Attribute | None:
    found = _LABEL.match(bare)
    if found is None:
        return None
    label = " ".join(found["label"].split())
    kind = next((name for name, names in _KINDS if names.fullmatch(label)), "")
    if not kind and _FAVOURITES.fullmatch(label):
        kind = fold(label)
    return _attribute(kind, found["value"]) if kind else None


def _said(bare: str) -> Attribute | None:
    plain = _NOTE.sub(" ", bare)
    for kind, sentence, negations in _SENTENCES:
        found = sentence.match(plain)
        if found and not negations.is_in(found[0]):
            who = fold(without_honorific(found["who"] or ""))
            return _attribute(kind, found["value"], "" if who in _PRONOUNS else who)
    return None


def _attribute(kind: str, words: str, who: str = "") -> Attribute | None:
    if kind in _NAMED and _NO_NAME.match(words):
        return None
    value = " ".join(_WORDS.findall(fold(_NOTE.sub(" ", words))))
    return Attribute(kind, value, who) if value else None
