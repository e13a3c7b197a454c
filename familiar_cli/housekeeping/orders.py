"""Text that looks as if it wanted to give orders to a model, and text that hides from a person."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import line_at
from familiar_cli.housekeeping.types import Check, Edit, Finding, Quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options

_PHRASES: Final = (
    (
        r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,30}"
        r"\b(?:previous|prior|above|earlier|preceding|your|system)\b[^.\n]{0,20}"
        r"\b(?:instructions?|prompts?|rules|guidelines|messages?)\b"
    ),
    (
        r"\b(?:reveal|print|repeat|output|show)\b[^.\n]{0,20}"
        r"\b(?:your|the)\s+(?:system prompt|hidden instructions?|initial prompt)\b"
    ),
    r"\byou are now (?:dan\b|in developer mode|jailbroken|unrestricted)",
    r"\bdo not (?:tell|inform|mention (?:this|it) to) the user\b",
    r"\b(?:new|updated) (?:system )?instructions?\s*:",
    r"\bignorier\w*\s+(?:alle|sämtliche|die|deine)[^.\n]{0,20}(?:anweisungen|instruktionen|regeln)",
    r"\bvergiss\s+(?:alle|die|deine)[^.\n]{0,20}(?:anweisungen|instruktionen|regeln)",
    r"\bignore[rz]?\s+(?:toutes\s+)?(?:les|tes|vos)\s+(?:instructions|consignes)",
    r"\bignora\s+(?:todas\s+)?(?:las|tus)\s+instrucciones",
    r"\bignor[ae]\s+(?:todas\s+)?(?:as|suas)\s+instruções",
    r"\bignora\s+(?:tutte\s+)?le\s+(?:tue\s+)?istruzioni",
    r"игнорируй\w*\s+(?:все\s+)?(?:предыдущие|прошлые|свои)?\s*(?:инструкции|указания)",
    r"(?:忽略|无视|無視)[^。\n]{0,8}(?:指令|指示|说明|說明|提示词|规则)",
    r"(?:これまで|以前|上記|前|すべて)の?[^。\n]{0,6}(?:指示|命令|ルール)を?[^。\n]{0,6}(?:無視|忘れ)",
    r"이전[^.\n]{0,6}(?:지시|명령)[^.\n]{0,8}무시",
    r"تجاهل\s+(?:جميع\s+|كل\s+)?(?:التعليمات|الأوامر)",
    r"<\|(?:im_start|im_end|system|assistant|endoftext)\|>|\[/?INST\]|<</?SYS>>",
    r"^(?:#{1,6}\s*)?(?:system|assistant|developer)(?: prompt| message)?\s*:\s*\S",
)
_ORDER: Final = re.compile("|".join(f"(?:{p})" for p in _PHRASES), re.IGNORECASE | re.MULTILINE)
_LITERALS: Final = (
    *("instru", "prompt", "rules", "guideline", "message", "you are now", "the user", "system"),
    *("assistant", "developer", "anweis", "regel", "consigne", "istruz", "инструкц", "указан"),
    *("指令", "指示", "说明", "說明", "提示", "规则", "命令", "ルール", "지시", "명령"),
    *("التعليمات", "الأوامر", "<|", "[inst", "[/inst", "<sys>", "</sys>"),
)
"""One of these, folded, is in every text that `_ORDER` finds anything in."""
_COMMENT: Final = re.compile(r"<!--(.*?)-->", re.DOTALL)
_IN_COMMENT: Final = re.compile(
    r"\b(?:you (?:must|should|will|are)|assistant|system prompt|instructions?|do not (?:tell|say)"
    r"|always (?:say|reply|answer)|never (?:say|tell|mention))\b",
    re.IGNORECASE,
)
# Marks that turn text around; letters of the "tag" block but in flags; marks of no width, where no
# script needs them: those that join or part letters are needed beside letters of many scripts.
_HIDDEN: Final = re.compile(
    "[\u202a-\u202e\u2066-\u2069]+"
    "|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+"
    "|(?<!^)\ufeff+|[\u200b\u2060-\u2064\u00ad]{2,}|(?<=[A-Za-z0-9])[\u200b-\u200d\u2060-\u2064]+(?=[A-Za-z0-9])"
    "|[\u200b-\u200d\u2060-\u2064]{4,}"
)
_MAY_HIDE: Final = re.compile(
    "[\u00ad\u200b-\u200d\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_SHOWN: Final = 80


def check_orders(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file and each way in which it looks so."""
    del options
    for note in (*corpus.notes, *corpus.hidden):
        if note.directory != "self" or note.is_hidden:
            yield from _orders(note)
        yield from _comments(note)
        yield from _hidden(note)


def without_hidden(text: str) -> str:
    """Return `text` without the marks that hide in it."""
    return _HIDDEN.sub("", text)


def _orders(note: Note) -> Iterator[Finding]:
    if not any(literal in note.folded for literal in _LITERALS):
        return
    quotes = [
        Quote(note.rel_path, number, line)
        for number, line in enumerate(note.text.splitlines(), 1)
        if _ORDER.search(line)
    ]
    if quotes and _ORDER.search(_COMMENT.sub("", note.text)):
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            "looks like an attempt to give orders to a model",
            tuple(quotes),
            hint="If nobody means it as a note, take the line out.",
        )


def _comments(note: Note) -> Iterator[Finding]:
    if "<!--" not in note.text:
        return
    found = [c for c in _COMMENT.finditer(note.text) if _speaks(c[1])]
    if found:
        after = _COMMENT.sub(lambda c: "" if _speaks(c[1]) else c[0], note.text)
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            "a comment that a reader does not see speaks to a model",
            tuple(_quote(note, c.start(), c[0]) for c in found),
            repair=_repair(note, after),
            hint="`--propose` makes a plan that takes the comment out.",
        )


def _hidden(note: Note) -> Iterator[Finding]:
    if not _MAY_HIDE.search(note.text):
        return
    found = list(_HIDDEN.finditer(note.text))
    if found:
        names = sorted({f"U+{ord(char):04X}" for match in found for char in match[0]})
        shown = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")  # noqa: PLR2004
        by_line = {line_at(note.text, match.start()): match for match in found}
        lines = note.text.splitlines()
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            f"holds marks that a reader does not see: {shown}",
            tuple(
                Quote(note.rel_path, number, _visible(lines[number - 1]))
                for number in by_line
                if number <= len(lines)
            ),
            repair=_repair(note, without_hidden(note.text)),
            hint="`--propose` makes a plan that takes them out.",
        )


def _speaks(comment: str) -> bool:
    return bool(_ORDER.search(comment) or _IN_COMMENT.search(comment))


def _visible(line: str) -> str:
    return _HIDDEN.sub(lambda m: "".join(f"<U+{ord(c):04X}>" for c in m[0][:8]), line)


def _repair(note: Note, after: str) -> tuple[Edit, ...]:
    return () if note.is_hidden else (Edit(note.rel_path, note.text, after),)


def _quote(note: Note, offset: int, text: str) -> Quote:
    shown = " ".join(text.split())
    return Quote(note.rel_path, line_at(note.text, offset), shown[:_SHOWN])


CHECK: Final = Check(
    "orders", "text that tries to give orders to a model, or hides from a reader", check_orders
)
