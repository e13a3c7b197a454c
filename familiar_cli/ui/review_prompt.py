"""Ask a person about each piece of a plan, on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from familiar_cli.ui.terminal import console, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.text import Text

    from familiar_cli.review.pending import Hunk, PieceRef, ReviewPlan

_KEYS: Final = {
    "y": "apply this piece",
    "n": "reject it",
    "l": "leave it for later (the default)",
    "a": "apply it and all after it",
    "r": "reject it and all after it",
    "e": "decide on each of its lines",
    "q": "stop; apply your choices so far and leave the rest for later (also Ctrl-D)",
    "?": "show this list; Ctrl-C quits and changes nothing",
}
_LINE_KEYS: Final = {
    "y": "apply this line",
    "n": "reject it",
    "l": "leave it for later (the default)",
    "q": _KEYS["q"],
    "?": _KEYS["?"],
}
_WORDS: Final = {"": "l", "yes": "y", "no": "n"}
_STYLES: Final = {"+": "green", "-": "red", " ": "dim"}


def can_ask() -> bool:
    """Return whether a person can be asked: questions go to stderr, answers come from stdin."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_pieces(plan: ReviewPlan) -> tuple[set[PieceRef], set[PieceRef]]:
    """Ask about each piece; return which of them, or of their lines, to take and to reject.

    Raises:
        KeyboardInterrupt: Ctrl-C was typed.
    """
    take: set[PieceRef] = set()
    reject: set[PieceRef] = set()
    show = console(sys.stderr)
    most = len(plan.hunks)
    for number, (file, hunk) in enumerate(plan.hunks, 1):
        new = " (new file)" if file.before is None else ""
        show.print(plain(f"\n[{number}/{most}] {file.rel_path}{new}", "bold"), soft_wrap=True)
        for line in hunk.text.splitlines():
            show.print(_coloured(line), soft_wrap=True)
        answer = _answer(_KEYS)
        if answer == "e" and not _ask_lines(number, hunk, take, reject):
            break
        if answer == "q":
            break
        chosen = {"y": take, "a": take, "n": reject, "r": reject}.get(answer)
        if chosen is not None:
            chosen |= set(range(number, most + 1)) if answer in "ar" else {number}
        if answer in "ar":
            break
    return take, reject


def _ask_lines(number: int, hunk: Hunk, take: set[PieceRef], reject: set[PieceRef]) -> bool:
    """Ask about each line of a piece; return whether to go on with the next piece."""
    changed = [line for line in hunk.text.splitlines() if line[:1] in {"-", "+"}]
    for line_number, line in enumerate(changed, 1):
        console(sys.stderr).print(_coloured(line), soft_wrap=True)
        answer = _answer(_LINE_KEYS)
        if answer == "q":
            return False
        chosen = {"y": take, "n": reject}.get(answer)
        if chosen is not None:
            chosen.add((number, line_number))
    return True


def _answer(keys: Mapping[str, str]) -> str:
    """Return one of the keys, asking until there is one."""
    while True:
        _tell(f"Apply it? [{','.join(keys)}] ")
        line = sys.stdin.readline()
        if not line:  # Ctrl-D
            _tell("\n")
            return "q"
        word = line.strip().lower()
        answer = _WORDS.get(word, word)
        if answer != "?" and answer in keys:
            return answer
        _tell("".join(f"  {key}  {what}\n" for key, what in keys.items()))


def _tell(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _coloured(line: str) -> Text:
    return plain(line, _STYLES.get(line[:1], ""))
