"""A model that follows rules, writes what people said of themselves, and sometimes misbehaves.

It reads the same requests as a real one: what it writes comes from the turns, the sources and the
schema that it is shown, and from nothing else. Every `misbehaves`-th request of a pass is answered
in one of the ways of `FAULTS`, in turn; the same requests always get the same replies.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.llm.types import Completion, ScriptedModel, Usage
from familiar_cli.store import fts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from familiar_cli.llm.types import PreparedRequest

FAULTS: Final = ("bad JSON", "empty", "refusal", "too long", "invented citation", "cut off")
REFUSAL: Final = "I'm sorry, but I can't help with that request."
REPLIES: Final = (
    *("How did that feel?", "I had not expected that.", "Tell me more when you have time."),
    *("Good to know.", "Then I will keep my fingers crossed.", "That sounds like you."),
    *("Oh!", "I am glad that you told me.", "And what comes next?", "Noted, with a smile."),
)
"""What it says where the data has no reply; nothing in it repeats what was said."""
PASSES: Final = ("reply", "writer", "consolidation", "summary")
_TURN: Final = re.compile(
    r"^\[(?P<id>\d+)\] \w{3} [\d-]{10} [\d:]{5}"
    r"(?: (?:#|[A-Z]+:)\S+)? (?P<who>[^:\n]{1,60}): (?P<said>.+)$",
    re.MULTILINE,
)
_LISTED: Final = re.compile(r"^- (?P<path>(?:people|sessions)/\S+?): (?P<rest>.+)$", re.MULTILINE)
_SOURCE: Final = re.compile(r'<source number="(\d+)"[^>]*>\n(.*?)\n</source>', re.DOTALL)
_SUMMED: Final = re.compile(r"^\[[\d: -]+\] [^:]+: (.+)$", re.MULTILINE)
_BEFORE: Final = re.compile(r"Summary so far:\n<<\S+\n(.*?)\n\S+>>", re.DOTALL)
_WORDS: Final = re.compile(r"at most (\d+) words")
_OWN: Final = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|my|me|mine|we|our)\b", re.IGNORECASE)
_WISH: Final = re.compile(
    r"\b(?:please (?:always|never)|always (?:answer|keep|call)|never (?:mention|call|ask))\b",
    re.IGNORECASE,
)
_TASTE: Final = re.compile(
    r"\bI (?:can't stand|don't like|love|like|hate|prefer|dislike)\b", re.IGNORECASE
)
_ONCE: Final = (re.compile(r"\bmoved to [A-Z]"), re.compile(r"\bwork(?:s)? as an? \w+"))
_THIRD: Final = (
    (re.compile(r"\b(?:I'm|I am)\b"), "{who} is"),
    (re.compile(r"\bI've\b"), "{who} has"),
    (re.compile(r"\bI have\b"), "{who} has"),
    (re.compile(r"\bI'll\b"), "{who} will"),
    (re.compile(r"\bI'd\b"), "{who} would"),
    (re.compile(r"\bI\b"), "{who}"),
    (re.compile(r"\b[Mm]y\b"), "{who}'s"),
    (re.compile(r"\b(?:me|mine)\b"), "{who}"),
)
_LEAST_WORDS: Final = 3
_MOST_FACTS: Final = 3


@dataclass
class Calls:
    """What the requests of one pass cost."""

    calls: int = 0
    read: int = 0
    written: int = 0
    faults: Counter[str] = field(default_factory=Counter)


class RuleModel(ScriptedModel):
    """Answers every pass by rule.

    Args:
        count: Counts the tokens of a text.
        month: Tells the month of now.
        misbehaves: Every so many requests of a pass it misbehaves; 0: never.

    Attributes:
        spent: The cost by pass and month.
        says: What it replies next in a chat; empty: something of its own.
    """

    def __init__(
        self, count: Callable[[str], int], month: Callable[[], str], misbehaves: int = 0
    ) -> None:
        super().__init__([], name="rules")
        self._count, self._month, self._every = count, month, misbehaves
        self._asked: Counter[str] = Counter()
        self.spent: dict[tuple[str, str], Calls] = defaultdict(Calls)
        self.says = ""

    def sized(self, context_tokens: int, max_tokens: int) -> RuleModel:
        """Return itself, with the bounds of a slot."""
        self.context_tokens, self.max_tokens = context_tokens, max_tokens
        return self

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """Reply by rule, or misbehave."""
        body = json.loads(request.body)
        messages = [str(message["content"]) for message in body["messages"]]
        name, text = self._answer(body, messages)
        self._asked[name] += 1
        fault = ""
        if self._every and self._asked[name] % self._every == 0:
            fault = FAULTS[(self._asked[name] // self._every - 1) % len(FAULTS)]
            text = misbehave(fault, text, is_chat=name == "reply")
        cost = self.spent[name, self._month()]
        cost.calls += 1
        cost.read += (read := sum(map(self._count, messages)))
        cost.written += (written := self._count(text))
        cost.faults.update([fault] if fault else [])
        reason = "length" if fault == "cut off" else "stop"
        self._replies = [Completion(text, reason, self.name, Usage(read, written))]
        completion = await super().complete(request, on_text, on_event)
        self.requests.clear()
        return completion

    def _answer(self, body: dict[str, Any], messages: Sequence[str]) -> tuple[str, str]:
        schema = json.dumps(body.get("response_format") or {})
        text = "\n".join(messages)
        if '"operations"' in schema or '{"operations": ' in messages[0]:
            return "writer", json.dumps({"operations": list(operations(text, schema))})
        if '"points"' in schema or '{"summary": ' in messages[0]:
            return "consolidation", json.dumps(condensed(text, schema))
        if "running summary" in messages[0]:
            return "summary", folded(text)
        return "reply", self.says or REPLIES[self._asked["reply"] % len(REPLIES)]


def misbehave(fault: str, text: str, *, is_chat: bool) -> str:
    """Return what a model says instead of `text`."""
    match fault:
        case "bad JSON":
            return f"Sure! Here you go:\n{text[: len(text) // 2]} ...and so on"
        case "empty":
            return ""
        case "refusal":
            return REFUSAL
        case "too long":
            return text if is_chat else text + "\n" + "And on and on it goes. " * 400
        case "invented citation" if not is_chat:
            return re.sub(r'("(?:turns|from)": )\[[^\]]*\]', r"\1[999999]", text)
        case _:
            return text[: max(len(text) * 2 // 3, 1)]


def operations(text: str, schema: str) -> Iterator[dict[str, Any]]:
    """Yield what is worth keeping of the turns of a request: facts by person, and summaries."""
    shown = text[text.rfind("## Context") if "## Context" in text else 0 :]
    listed = {m["path"]: m["rest"] for m in _LISTED.finditer(shown)}
    turns = [(int(m["id"]), m["who"].strip(), m["said"]) for m in _TURN.finditer(_turns_of(shown))]
    for path, rest in listed.items():
        if path.startswith("people/"):
            names = [name.strip() for name in rest.split(",")]
            known = _file_lines(shown, path) if '"supersede"' in schema else []
            for section, lines in facts(turns, names).items():
                for number, line in lines[:_MOST_FACTS]:
                    old = next((old for old in known if replaces(line, old)), None)
                    if old:
                        known.remove(old)
                        yield _operation("supersede", path, "", [old, line], [number])
                    else:
                        yield _operation("add_bullets", path, section, [line], [number])
    for path, rest in listed.items():
        if path.startswith("sessions/"):
            ids = _numbers(rest)
            best = sorted(
                (t for t in turns if t[0] in ids and t[2] not in REPLIES),
                key=lambda t: -len(fts.content_words(t[2])),
            )
            told = sorted(best[:3])
            if told:
                summary = " ".join(third(said, who) for _, who, said in told)[:600]
                yield _operation("set_summary", path, "", [summary], [t[0] for t in told])


def replaces(line: str, old: str) -> bool:
    """Return whether a line tells anew what may hold once only: a home, or a job."""
    return line != old and any(once.search(line) and once.search(old) for once in _ONCE)


def facts(
    turns: Sequence[tuple[int, str, str]], names: Sequence[str]
) -> dict[str, list[tuple[int, str]]]:
    """Return what people say of themselves, by section; the telling ones first."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, who, said in turns:
        if not any(who in name or name in who for name in names):
            continue
        for sentence in fts.sentences(said):
            if not _OWN.search(sentence) or len(fts.content_words(sentence)) < _LEAST_WORDS:
                continue
            section = "Likes" if _TASTE.search(sentence) else "Facts"
            section = "Wishes" if _WISH.search(sentence) else section
            found[section].append((number, third(sentence, who)))
    weight = {number: len(fts.content_words(said)) for number, _, said in turns}
    return {title: sorted(lines, key=lambda one: -weight[one[0]]) for title, lines in found.items()}


def third(sentence: str, who: str) -> str:
    """Return a sentence in the third person, without a mark that would end it twice."""
    for pattern, words in _THIRD:
        sentence = pattern.sub(words.format(who=who), sentence)
    sentence = sentence.strip().rstrip("!?.")
    return f"{sentence[:1].upper()}{sentence[1:]}."[:230]


def condensed(text: str, schema: str) -> dict[str, Any]:
    """Return the points of the sources: of each its most telling lines."""
    most = [int(n) for n in re.findall(r'"maxItems": (\d+)', schema)]
    points = []
    for number, source in _SOURCE.findall(text):
        lines = [re.sub(r"<!--.*?-->|\[[a-z]+:[^\]]*\]", "", line) for line in source.splitlines()]
        lines = [line.lstrip("-# ").strip() for line in lines if not line.startswith("#")]
        best = sorted(lines, key=lambda line: -len(fts.content_words(line)))[:4]
        best = [line for line in best if len(fts.content_words(line)) >= _LEAST_WORDS]
        points += [{"text": line[:390], "from": [int(number)]} for line in best]
    points = points[: min([*most, 24])]
    summary = " ".join(point["text"] for point in points[:2]) or "Nothing much happened."
    return {"summary": str(summary)[:600], "points": points}


def folded(text: str) -> str:
    """Return the old summary and the most telling new turns, within the words that are asked."""
    found = _BEFORE.search(text)
    before = "" if not found or found[1].startswith("(there is none") else found[1]
    turns = sorted(_SUMMED.findall(text), key=lambda said: -len(fts.content_words(said)))
    most = min([int(n) for n in _WORDS.findall(text)] or [200])
    return " ".join(f"{before} {' '.join(turns[:6])}".split()[-most:]) or "They talked."


def _file_lines(text: str, path: str) -> list[str]:
    """Return the bullets of a memory file that a request shows."""
    found = re.search(rf'<memory file="{re.escape(path)}".*?>\n(.*?)\n</memory>', text, re.DOTALL)
    return re.findall(r"^- (.+)$", found[1], re.MULTILINE) if found else []


def _turns_of(text: str) -> str:
    return text.rpartition("<turns>")[2]


def _numbers(spans: str) -> set[int]:
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:[-–](\d+))?", spans):
        found.update(range(int(first), int(last or first) + 1))
    return found


def _operation(
    op: str, path: str, section: str, lines: list[str], turns: list[int]
) -> dict[str, Any]:
    made = {"op": op, "file": path, "section": section, "lines": lines, "turns": turns}
    return {**made, "kind": "said"}
