"""The page of `familiar context --replay`: the old reply and the new one."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from familiar_cli.text import harmless
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from familiar_cli.actions.sent import Replayed, ReplayedReply

_WORDS = re.compile(r"\s+|\S+")
_BESIDE_CHARS = range(100, 1000)  # a pipe is wider: there the replies stand one below the other
_MOST_PAIRS = 20_000_000  # beyond that, comparing word by word takes seconds
_ALIKE = 0.3  # below that, marking what is the same would only speckle the text


def replay_page(found: Replayed) -> RenderableType:
    """Return the whole page."""
    parts: list[RenderableType] = [_what_was_sent(found), plain(""), _facts(found), plain("")]
    if found.then is None:
        why = found.error_then or "its reply is not in the history"
        parts += [plain(f"No earlier reply to compare with: {why}", "yellow"), plain("")]
        parts += [plain("--- now", "cyan"), plain(found.now.text)]
        return Group(*parts)
    old, new, told = _marked(harmless(found.then.text), harmless(found.now.text))
    return Group(*parts, SideBySide(old, new), plain(""), plain(told, "dim"))


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two texts, beside each other where there is room."""

    then: Text
    now: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = (plain("--- then", "cyan"), plain("--- now", "cyan"))
        if options.max_width not in _BESIDE_CHARS:
            yield from (names[0], self.then, plain(""), names[1], self.now)
            return
        table = Table(box=None, expand=True, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(ratio=1, overflow="fold")
        table.add_column(ratio=1, overflow="fold")
        table.add_row(*names)
        table.add_row(self.then, self.now)
        yield table


def _what_was_sent(found: Replayed) -> RenderableType:
    if not found.differences:
        return plain(f"Sent the bytes of turn {found.turn} to the same server again.", "bold")
    lines = [plain(f"Sent the request of turn {found.turn} again, with changes:", "bold")]
    lines += [plain(f"  {difference}") for difference in found.differences]
    if found.sent_model == found.model_then:
        lines.append(plain("  Every byte of the request is identical."))
    else:
        lines.append(plain("  Every other byte of the request is identical."))
    return Group(*lines)


def _facts(found: Replayed) -> RenderableType:
    then, now = _told(found.then), _told(found.now)
    names = ("model", "time", "read", "written", "cost", "ended")
    rows = [
        [plain(name, "dim"), plain(old), plain(new)]
        for name, old, new in zip(names, then, now, strict=True)
        if old or new
    ]
    return columns(rows, ("", "then", "now"))


def _told(reply: ReplayedReply | None) -> tuple[str, ...]:
    if reply is None:
        return ("",) * 6
    usage = reply.usage
    read, written, cost = (
        (usage.prompt_tokens, usage.completion_tokens, usage.cost) if usage else (None, None, None)
    )
    return (
        reply.model,
        "" if reply.elapsed_ms is None else f"{reply.elapsed_ms / 1000:.1f} s",
        "" if read is None else f"{read} tokens",
        "" if written is None else f"{written} tokens",
        "" if cost is None else f"{cost:g}",
        reply.finish_reason or "",
    )


def _marked(then: str, now: str) -> tuple[Text, Text, str]:
    """Return both texts, the words that only one of them has marked, and how alike they are."""
    if then == now:
        return Text(then), Text(now), "The replies are identical."
    old, new = _WORDS.findall(then), _WORDS.findall(now)
    if len(old) * len(new) > _MOST_PAIRS:
        return Text(then), Text(now), "The replies differ."
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    alike = matcher.ratio()
    told = f"{100 * alike:.0f} % alike."
    if alike < _ALIKE:
        return Text(then), Text(now), told
    left, right = Text(), Text()
    for what, i, j, k, m in matcher.get_opcodes():
        left.append("".join(old[i:j]), style="" if what == "equal" else "red")
        right.append("".join(new[k:m]), style="" if what == "equal" else "green")
    return left, right, told
