"""Macros of character cards: `{{char}}`, `{{random:a,b}}` and their kind.

Only what a card or a setting says is expanded. What people said and what memory holds is data.
See docs/reference/placement-and-budgets.md.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.text import framed

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NESTING: Final = 32
MAX_DICE: Final = 1000
# Unicode keeps these for a program's own use; they stand for names until all else is done, so that
# nothing inside a name is ever read as a macro, and a comma in a name parts no list.
_CHAR, _USER, _CHAR_BACK, _USER_BACK, _TRIM = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"
_PERSONA: Final = "\ufdd5"
_OWN: Final = re.compile("[\ufdd0-\ufdd5]")
_NAMES: Final = re.compile(r"\{\{\s*(char|user|persona)\s*\}\}|<(bot|char|user)>", re.IGNORECASE)
PERSONA_MACRO: Final = re.compile(r"\{\{\s*persona\s*\}\}", re.IGNORECASE)
_BRACES: Final = re.compile(r"\{\{|\}\}")
_TURNED: Final = str.maketrans(
    {_CHAR: _CHAR_BACK, _CHAR_BACK: _CHAR, _USER: _USER_BACK, _USER_BACK: _USER}
)
_DICE: Final = re.compile(r"(\d{0,4})d(\d{1,9})|(\d{1,9})", re.IGNORECASE | re.ASCII)
_COMMA: Final = re.compile(r"(?<!\\),")


@dataclass(frozen=True, slots=True)
class Macros:
    """What macros become in one turn.

    Args:
        char: The familiar's name.
        user: The name of who speaks to it.
        seed: What `random` and `roll` are drawn from: another turn, another seed.
        pick_seed: What `pick` is drawn from: it stays, and so does the choice.
        persona: Who speaks to it, in some sentences; names are expanded in it.
    """

    char: str
    user: str
    seed: str = ""
    pick_seed: str = ""
    persona: str = ""

    def expand(self, text: str, *, original: str | None = None) -> str:
        """Return `text` with its macros expanded; unknown ones stay as they are.

        Args:
            text: What a card or a setting says.
            original: What the first `{{original}}` becomes; further ones become nothing.
        """
        if "{{" not in text and "<" not in text:
            return text
        if original is not None:
            text = _with_original(text, original)
        marked = _NAMES.sub(_mark, _OWN.sub("\ufffd", text))
        done = _Expansion(f"{self.seed}\n{text}", self.pick_seed).run(marked)
        return self._named(re.sub(rf"[\r\n]*{_TRIM}[\r\n]*", "", done))

    def _named(self, text: str) -> str:
        names = {_CHAR: framed(self.char), _USER: framed(self.user)}
        names |= {_CHAR_BACK: names[_CHAR][::-1], _USER_BACK: names[_USER][::-1]}
        if _PERSONA in text:
            names[_PERSONA] = replace(self, persona="").expand(self.persona).strip()
        return _OWN.sub(lambda found: names[found[0]], text)


class _Expansion:
    """One text's macros, from the innermost outwards."""

    def __init__(self, seed: str, pick_seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311  # a die, no secret
        self._pick_seed = pick_seed
        self._picks = 0

    def run(self, text: str) -> str:
        open_parts: list[list[str]] = [[]]
        at = 0
        for brace in _BRACES.finditer(text):
            open_parts[-1].append(text[at : brace.start()])
            at = brace.end()
            if brace[0] == "{{" and len(open_parts) <= MAX_NESTING:
                open_parts.append([])
            elif brace[0] == "}}" and len(open_parts) > 1:
                body = "".join(open_parts.pop())
                open_parts[-1].append(self._value(body))
            else:
                open_parts[-1].append(brace[0])
        open_parts[-1].append(text[at:])
        return "{{".join("".join(parts) for parts in open_parts)

    def _value(self, body: str) -> str:
        if body.lstrip().startswith("//"):
            return ""
        name, colon, rest = body.partition(":")
        name = name.strip().lower()
        if name == "trim" and not colon:
            return _TRIM
        known: dict[str, Callable[[], str]] = {
            "comment": lambda: "",
            "reverse": lambda: rest[::-1].translate(_TURNED),
            "random": lambda: self._random.choice(_options(rest)),
            "pick": lambda: self._pick(rest),
            "roll": lambda: self._roll(rest, "{{" + body + "}}"),
        }
        return known[name]() if colon and name in known else "{{" + body + "}}"

    def _pick(self, rest: str) -> str:
        self._picks += 1
        chooser = random.Random(f"{self._pick_seed}\n{self._picks}\n{rest}")  # noqa: S311
        return chooser.choice(_options(rest))

    def _roll(self, rest: str, unknown: str) -> str:
        found = _DICE.fullmatch(rest.strip())
        if not found:
            return unknown
        dice, sides = int(found[1] or 1), int(found[2] or found[3])
        if not sides or not 0 < dice <= MAX_DICE:
            return unknown
        return str(sum(self._random.randint(1, sides) for _ in range(dice)))


def _with_original(text: str, original: str) -> str:
    pieces = re.split(r"\{\{\s*original\s*\}\}", text, flags=re.IGNORECASE)
    return pieces[0] + "".join([original, *pieces[1:]]) if len(pieces) > 1 else text


def _mark(found: re.Match[str]) -> str:
    marks = {"user": _USER, "persona": _PERSONA}
    return marks.get((found[1] or found[2]).lower(), _CHAR)


def _options(rest: str) -> list[str]:
    """Return the choices of a list: `a,b` with a backslash before a comma that is none; `:a::b`."""
    if rest.startswith(":"):
        return [option.strip() for option in rest[1:].split("::")]
    return [option.strip().replace("\\,", ",") for option in _COMMA.split(rest)]
