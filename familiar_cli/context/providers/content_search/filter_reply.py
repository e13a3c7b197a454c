"""What a reply of the filter means. Small models keep to no form, so there is a rule for each case.

See docs/explanation/how-search-works.md, "What a filter may answer".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from familiar_cli.markdown import scan
from familiar_cli.truncate import sentence_ends

Kind = Literal["answer", "nothing", "escalate", "malformed"]

_MARK: Final = re.compile(
    r"^[ \t>*_#`-]*(answer|escalate)[*_`]*[ \t]*[:：][*_`]*", re.IGNORECASE | re.MULTILINE
)
_GREP: Final = re.compile(r"(?:^|[;\s])[*_`]*grep[*_`]*[ \t]*[:：][*_`]*[ \t]*", re.IGNORECASE)
_THOUGHT: Final = re.compile(
    r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE
)
_NOTHING: Final = frozenset(
    ("", "none", "empty", "nothing", "n/a", "no answer", "nothing relevant", "none relevant")
)
_WRAPPING: Final = " \t\r\n.()[]<>*_`\"'-–—"


@dataclass(frozen=True, slots=True)
class FilterChoice:
    """What a reply means.

    Args:
        kind: `answer`, `nothing` (no passage fits), `escalate`, or `malformed`.
        text: The answer; of an escalation, its reason; of a malformed reply, what is wrong.
        pattern: What to search for.
        is_cut: Its end is missing.
    """

    kind: Kind
    text: str = ""
    pattern: str = ""
    is_cut: bool = False


def read_reply(text: str, *, is_cut: bool = False, forced: bool = False) -> FilterChoice:
    """Return what a reply means.

    Args:
        text: The reply.
        is_cut: The model was stopped at its limit.
        forced: An answer was asked for; there is no further search.
    """
    lines = scan(_THOUGHT.sub("", text))
    said = "".join("\n" if line.is_fence else line.text for line in lines)
    parts = _parts(said)
    if not parts:
        return FilterChoice("malformed", "its reply has neither ANSWER nor ESCALATE")
    if "answer" in parts and (parts["answer"] or "escalate" not in parts or forced):
        return _answer(parts["answer"], is_cut=is_cut)
    if forced:
        return FilterChoice("malformed", "it asked for a second search")
    return _escalation(parts["escalate"])


def _parts(said: str) -> dict[str, str]:
    """Return what follows each mark, up to the next one; of two alike the first that says much."""
    marks = list(_MARK.finditer(said))
    ends = [*(mark.start() for mark in marks[1:]), len(said)]
    parts: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=False):
        name = mark[1].lower()
        parts[name] = parts.get(name) or _told(said[mark.end() : end])
    return parts


def _told(text: str) -> str:
    """Return what was said; words that say that there is nothing are nothing."""
    return "" if text.strip(_WRAPPING).lower() in _NOTHING else text.strip()


def _answer(text: str, *, is_cut: bool) -> FilterChoice:
    if not text:
        return FilterChoice("nothing")
    if not is_cut:
        return FilterChoice("answer", text)
    ends = list(sentence_ends(text))
    return FilterChoice("answer", text[: ends[-1]].strip() if ends else text, is_cut=True)


def _escalation(said: str) -> FilterChoice:
    found = _GREP.search(said)
    pattern = _pattern(said[found.end() :]) if found else ""
    if not found or not pattern:
        return FilterChoice("malformed", "it wants to search, but does not say for what")
    return FilterChoice("escalate", said[: found.start()].strip(" ;\n"), pattern)


def _pattern(said: str) -> str:
    """Return the first line of what is to be searched for, without what is wrapped around it."""
    line = said.strip().partition("\n")[0].strip()
    for wrap in ("`", '"', "'"):
        if len(line) > 2 and line[0] == line[-1] == wrap:  # noqa: PLR2004  # both, and something inside
            return line[1:-1]
    return line
