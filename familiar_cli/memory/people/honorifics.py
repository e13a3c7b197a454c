"""Titles that people put to a name when they speak of somebody: `Saraさん`, `지훈님`, `أبو عمر`."""

from __future__ import annotations

from typing import Final

from familiar_cli.folding import fold_word
from familiar_cli.text import one_line

_AFTER: Final = (
    *("さん", "ちゃん", "くん", "君", "さま", "様", "たん", "先生", "先輩", "殿", "氏"),
    *("-san", "-chan", "-kun", "-sama", "小姐", "女士", "同学"),
    *("선생님", "님", "씨", "군", "양"),
)
_BEFORE: Final = (
    *("أبو", "أبي", "أم", "السيد", "السيدة"),
    *("الأستاذ", "الأستاذة", "الدكتور", "الدكتورة"),
)


def without_honorific(name: str) -> str:
    """Return a name, folded, without one title before or after it; a lone title is a name."""
    folded = fold_word(one_line(name))
    for title in map(fold_word, _BEFORE):
        if folded.startswith(title + " "):
            return folded[len(title) :].strip()
    for title in map(fold_word, _AFTER):
        if folded.endswith(title) and folded != title:
            return folded[: -len(title)].strip()
    return folded
