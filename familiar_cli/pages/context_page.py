"""The pages of `familiar context`: a prompt, an explanation, and another reply."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import groupby
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from familiar_cli.base.text import bare_lines, counted, harmless, one_line
from familiar_cli.context.types import PLACED, Fragment, LayerUse, Report
from familiar_cli.pages.page import (
    Bar,
    Columns,
    IndentedPart,
    Name,
    PagePart,
    Stack,
    Words,
    local_time,
    named_values,
    plain,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from familiar_cli.actions.talk.explain_piece import Why
    from familiar_cli.actions.talk.replay import Replay, ReplayedReply
    from familiar_cli.actions.talk.why import ReplyExplanation
    from familiar_cli.context.trace import Trace, TracedMessage
    from familiar_cli.llm.types import SideCall

_HEADING = "bold"
_WITH_LINES = 100  # columns
_STATE_STYLES = {"kept": "green", "cut": "yellow", "out": "red"}


def context_page(trace: Trace, zone: tzinfo | None) -> PagePart:
    """Render a prompt; times are shown in `zone`, the familiar's."""
    parts: list[PagePart] = [_summary_part(trace, zone)]
    layers = Columns([_layer_row(layer) for layer in trace.layers], right=(2,))
    pieces = [p for p in trace.contributions if p.text or origin_of([p])]
    for title, part in (
        ("Layers", IndentedPart(layers, 2)),
        ("Contributions", Contributions(pieces) if pieces else None),
        ("Left out or shortened", _cuts_part(trace.contributions)),
        ("Placed by a lorebook", _places_part(trace.contributions)),
        ("Providers", _reports_part(trace.providers)),
        ("Processors", _reports_part(trace.processors)),
        ("Calls of other models", _side_calls(trace.side_calls)),
    ):
        if part is not None:
            parts += [plain(""), plain(title, _HEADING), part]
    parts += [plain(""), plain("Messages", _HEADING), *_message_parts(trace.messages)]
    return Stack(*parts)


def _places_part(pieces: Iterable[Fragment]) -> PagePart | None:
    """List the entries that lorebooks have placed in the prompt."""
    placed = [(piece, piece.cause.partition(PLACED)[2]) for piece in pieces if piece.kept]
    rows: list[list[object]] = [[Name(origin_of([p])), words] for p, words in placed if words]
    return _table_part(rows)


def messages_text(messages: Iterable[TracedMessage]) -> str:
    """Render messages as text: a line for each role, followed by the content."""
    return "\n".join(
        f"--- {number} {message.role}\n{harmless(message.content)}\n"
        for number, message in enumerate(messages, start=1)
    )


def state_of(piece: Fragment) -> str:
    """Return `kept`, `cut` (partly in the prompt) or `out`."""
    if not piece.kept:
        return "out"
    return "cut" if piece.reason else "kept"


def turn_words(trace: Trace) -> str:
    """Describe a turn in a few words."""
    if trace.turn is not None:
        return f"turn {trace.turn}"
    return "a dry run: nothing was sent" if trace.request is None else "off the record"


def _summary_part(trace: Trace, zone: tzinfo | None) -> PagePart:
    text = f"{turn_words(trace)}, {trace.modality}"
    rows = [
        ("what", f"{text}, in {trace.channel_id} at {local_time(trace.at, zone)}"),
        ("familiar", trace.familiar),
        ("model", _model_words(trace)),
        ("tokens", f"{trace.used_tokens} of {trace.budget_tokens}, counted by {trace.counter}"),
        *([("budget", trace.budget_reason)] if trace.budget_reason else []),
        ("time", _times_words(trace)),
        *([("client", _client_words(trace))] if trace.client else []),
    ]
    rows += [("error", trace.error)] if trace.error else []
    rows += [("notice", notice) for notice in trace.notices]
    return named_values(rows)


def _client_words(trace: Trace) -> str:
    size = len(trace.client.encode("utf-8", "surrogatepass"))
    return f"a chat program sent {size:,} bytes; `familiar context {trace.turn} --json` has them"


def _model_words(trace: Trace) -> str:
    usage = trace.usage
    if usage is None:
        return trace.model
    counts = (
        (usage.prompt_tokens, "tokens read"),
        (usage.completion_tokens, "written"),
        (usage.cost, "paid"),
    )
    return ", ".join([trace.model, *(f"{count} {what}" for count, what in counts if count)])


def _times_words(trace: Trace) -> str:
    assembled = f"assembled in {trace.assemble_ms:.0f} ms"
    if trace.reply_ms is None:
        return assembled
    end = f" ({trace.finish_reason})" if trace.finish_reason else ""
    return f"{assembled}, answered in {trace.reply_ms / 1000:.1f} s{end}"


def _layer_row(layer: LayerUse) -> list[object]:
    used, budget = layer.used_tokens, layer.budget_tokens
    style = "red" if used > budget else "" if used else "dim"
    more = layer.share_tokens and budget > layer.share_tokens
    return [
        plain(layer.name, style),
        Bar(used, budget),
        plain(f"{used} of {budget}", style),
        plain(f"its share is {layer.share_tokens}" if more else "", "dim"),
    ]


class Contributions:
    """The contributions of all providers, one row each; narrow terminals omit the files' lines."""

    def __init__(self, pieces: Sequence[Fragment]) -> None:
        self._pieces = pieces

    def lines(self, encoding: str) -> list[str]:
        """See `page.Part`."""
        return self._table(lines=True).lines(encoding)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield cast("RenderableType", self._table(lines=options.max_width >= _WITH_LINES))

    def _table(self, *, lines: bool) -> PagePart:
        alike = groupby(self._pieces, key=row_key)
        rows = [_contribution_row(list(same), lines=lines) for _, same in alike]
        header = ["layer", "source", "from", "prio", "score", "tokens", ""]
        if all(piece.score is None for piece in self._pieces):
            header.remove("score")
            rows = [[*row[:4], *row[5:]] for row in rows]
        return _table_part(rows, header, right=range(3, len(header) - 1)) or plain("")


def row_key(piece: Fragment) -> object:
    """Return the key by which neighbouring pieces share a row, as turns of the chat do."""
    own = id(piece) if piece.turn_id is None else None
    return (piece.layer, piece.source, state_of(piece), own)


def _contribution_row(same: list[Fragment], *, lines: bool) -> list[object]:
    first, state = same[0], state_of(same[0])
    tokens = sum(piece.tokens if piece.kept else piece.offered_tokens for piece in same)
    return [
        first.layer,
        Name(first.source),
        Name(origin_of(same) if lines else first.rel_path or origin_of(same)),
        _span_words([piece.priority for piece in same]),
        plain("" if first.score is None else f"{first.score:.2f}", "dim"),
        plain(tokens, "" if first.kept else "dim"),
        plain(state, _STATE_STYLES[state]),
    ]


def origin_of(same: Sequence[Fragment]) -> str:
    """Return the file and lines, or the turns, of pieces with a common source."""
    turns = [piece.turn_id for piece in same if piece.turn_id is not None]
    first = same[0]
    turns += first.turns or ()
    if turns:
        text = _turns_words(turns)
        return f"{first.origin}, {text}" if first.origin else text
    lines = f":{_span_words(first.lines)}" if first.lines else ""
    return f"{first.rel_path}{lines}" if first.rel_path else first.origin


def _turns_words(turns: Sequence[int]) -> str:
    return f"turn{'s' if len(set(turns)) > 1 else ''} {_span_words(turns)}"


def _span_words(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


def _cuts_part(pieces: Sequence[Fragment]) -> PagePart | None:
    cut = [piece for piece in pieces if piece.reason]
    rows: list[list[object]] = []
    for _, group in groupby(cut, key=lambda piece: (row_key(piece), piece.reason)):
        same = list(group)
        offered = sum(piece.offered_tokens for piece in same)
        sent = sum(piece.tokens for piece in same if piece.kept)
        lost = f"{sent} of {offered} tokens" if sent else f"{offered} tokens"
        origin = origin_of(same) or same[0].source
        rows.append([Name(origin), plain(lost, "dim"), same[0].reason])
    return _table_part(rows)


def _reports_part(reports: Sequence[Report]) -> PagePart | None:
    rows: list[list[object]] = [
        [
            report.name,
            plain(report.verdict, "" if report.verdict == "answered" else "red"),
            f"{report.elapsed_ms:.1f} ms",
            report.reason,
        ]
        for report in reports
    ]
    return _table_part(rows, right=(2,))


def _side_calls(calls: Sequence[SideCall]) -> PagePart | None:
    rows: list[list[object]] = [
        [call.name, call.model, f"{call.elapsed_ms:.1f} ms", plain(call.error, "red")]
        for call in calls
    ]
    return _table_part(rows, right=(2,))


def _table_part(
    rows: list[list[object]], header: Iterable[str] = (), *, right: Iterable[int] = ()
) -> PagePart | None:
    return IndentedPart(Columns(rows, tuple(header), tuple(right)), 2) if rows else None


def _message_parts(messages: Sequence[TracedMessage]) -> Iterator[PagePart]:
    for number, message in enumerate(messages, start=1):
        yield plain(f"--- {number} {message.role}", "cyan")
        yield plain(message.content)
        yield plain("")


_EXCERPT_CHARS: Final = 200


def recall_page(fragments: Sequence[Fragment]) -> PagePart:
    """Render the search of the past."""
    parts: list[PagePart] = []
    for piece in fragments:
        head = plain(origin_of([piece]) or piece.source, "bold")
        score = "" if piece.score is None else f", score {piece.score:.2f}"
        head.append(f"  {counted(piece.tokens, 'token')}{score}", "dim")
        parts += [head, IndentedPart(plain(one_line(piece.text, _EXCERPT_CHARS), "dim"), 2)]
    return Stack(*parts)


# Lines of an explanation; with the notes below it, it stays within 25 of 80 columns.
_PAGE_LINES: Final = 22

_LINE_CHARS: Final = 76


def reply_page(explanation: ReplyExplanation, *, whole: bool = False) -> PagePart:
    """Explain a reply: a sentence, then the best lines of the memories used.

    Args:
        explanation: The explanation.
        whole: Show all memories, with all their text.
    """
    parts: list[PagePart] = [plain(explanation.sentence, "bold")]
    left = _PAGE_LINES - len(explanation.sentence) // _LINE_CHARS - len(explanation.problems)
    for number, one in enumerate(explanation.memories):
        lines = [_clip_line(line) for line in bare_lines(one.excerpt)]
        left -= len(lines) + 2
        if left < 0 and not whole:
            more = counted(len(explanation.memories) - number, "more memory", "more memories")
            parts += [plain(""), plain(f"{more}: `familiar why --all`", "dim")]
            break
        turns = _turns_words(one.turns) if one.turns else ""
        head = plain(f"{one.label[:1].upper()}{one.label[1:]}", "cyan")
        head.append(f"  {one.rel_path or turns}", "dim")
        text = one.text if whole else "\n".join(lines)
        parts += [plain(""), head, IndentedPart(plain(text), 2)]
    parts += [plain(f"Not all of memory was read: {why}", "yellow") for why in explanation.problems]
    return Stack(*parts)


def _clip_line(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return indent + one_line(line, _LINE_CHARS - len(indent))


_VERDICTS = {
    "kept": "is in {prompt}.",
    "cut": "is only partly in {prompt}.",
    "out": "was offered, but left out of {prompt}.",
    "absent": "is not in {prompt}; no part of it was offered.",
}
_MOST_RIVALS = 12


def why_page(explanation: Why) -> PagePart:
    """Render the explanation of a file or turn."""
    prompt = "the prompt" if explanation.turn is None else f"the prompt of turn {explanation.turn}"
    verdict = _VERDICTS[explanation.verdict].format(prompt=prompt)
    parts: list[PagePart] = [plain(f"{explanation.subject} {verdict}", "bold")]
    parts += [plain(f"  {reason}") for reason in explanation.reasons]
    parts += [plain(f"  {explanation.since}", "yellow")] if explanation.since else []
    if explanation.contributions:
        parts += [
            plain(""),
            plain("Offered pieces", "bold"),
            _piece_table(explanation.contributions),
        ]
        parts += [plain(""), plain("Charged to", "bold"), _paid_from(explanation)]
    if explanation.rivals:
        parts += [plain(""), plain("Served before it", "bold"), _rival_table(explanation.rivals)]
    return Stack(*parts)


def _piece_table(pieces: Sequence[Fragment]) -> PagePart:
    rows: list[list[object]] = [
        [
            Name(piece.source),
            Name(origin_of([piece])),
            plain(f"priority {piece.priority}", "dim"),
            plain("" if piece.score is None else f"score {piece.score:.2f}", "dim"),
            f"{piece.tokens} of {piece.offered_tokens} tokens",
            state_of(piece),
            plain(piece.cause, "dim"),
        ]
        for piece in pieces
    ]
    return IndentedPart(Columns(rows), 2)


def _paid_from(explanation: Why) -> PagePart:
    rows: list[list[object]] = [
        [
            layer.name,
            Bar(layer.used_tokens, layer.budget_tokens),
            f"{layer.used_tokens} of {layer.budget_tokens} tokens",
        ]
        for layer in explanation.layers
    ]
    return IndentedPart(Columns(rows), 2)


def _rival_table(pieces: Sequence[Fragment]) -> PagePart:
    fragments = pieces[:_MOST_RIVALS]
    rows: list[list[object]] = [
        [
            Name(piece.source),
            Name(origin_of([piece])),
            plain(f"priority {piece.priority}", "dim"),
            f"{piece.tokens} tokens",
        ]
        for piece in fragments
    ]
    more = len(pieces) - len(fragments)
    rest = [plain(f"and {more} more", "dim")] if more else []
    return IndentedPart(Stack(Columns(rows), *rest), 2)


_WORDS = re.compile(r"\s+|\S+")
_BESIDE_CHARS = range(100, 1000)  # pipes are wider, and show the replies one below the other
_MOST_PAIRS = 20_000_000  # longer texts take seconds to compare word by word
_ALIKE = 0.3  # of less similar texts, marks would only speckle the text


def replay_page(replay: Replay) -> PagePart:
    """Render a comparison of two replies."""
    parts: list[PagePart] = [_what_was_sent(replay), plain(""), _replay_facts(replay), plain("")]
    if replay.then is None:
        why = replay.error_then or "its reply is not in the history"
        parts += [plain(f"No earlier reply to compare with: {why}", "yellow"), plain("")]
        parts += [plain("--- now", "cyan"), plain(replay.now.text)]
        return Stack(*parts)
    old, new, told = _mark_differences(harmless(replay.then.text), harmless(replay.now.text))
    return Stack(*parts, SideBySide(old, new), plain(""), plain(told, "dim"))


class SideBySide(Struct, frozen=True):
    """Two texts, side by side if there is room."""

    then: Words
    now: Words

    def lines(self, encoding: str) -> list[str]:
        """See `PagePart`."""
        return self._stack_texts().lines(encoding)

    def _stack_texts(self) -> Stack:
        heads = (plain("--- then", "cyan"), plain("--- now", "cyan"))
        return Stack(heads[0], self.then, plain(""), heads[1], self.now)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table

        if options.max_width not in _BESIDE_CHARS:
            yield self._stack_texts()
            return
        table = Table(box=None, expand=True, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(ratio=1, overflow="fold")
        table.add_column(ratio=1, overflow="fold")
        table.add_row(plain("--- then", "cyan"), plain("--- now", "cyan"))
        table.add_row(self.then, self.now)
        yield table


def _what_was_sent(replay: Replay) -> PagePart:
    if not replay.differences:
        return plain(
            f"Sent the request of turn {replay.turn} to the same server again, byte for byte.",
            "bold",
        )
    lines = [plain(f"Sent the request of turn {replay.turn} again, with changes:", "bold")]
    lines += [plain(f"  {difference}") for difference in replay.differences]
    other = "" if replay.sent_model == replay.model_then else "other "
    lines.append(plain(f"  Every {other}byte of the request is identical."))
    return Stack(*lines)


def _replay_facts(replay: Replay) -> PagePart:
    then, now = _node_words(replay.then), _node_words(replay.now)
    names = ("model", "time", "read", "written", "cost", "ended")
    rows = [
        [plain(name, "dim"), old, new]
        for name, old, new in zip(names, then, now, strict=True)
        if old or new
    ]
    return Columns(rows, ("", "then", "now"))


def _node_words(reply: ReplayedReply | None) -> tuple[str, ...]:
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


def _mark_differences(then: str, now: str) -> tuple[Words, Words, str]:
    """Return both texts with their differences marked, and their similarity."""
    if then == now:
        return plain(then), plain(now), "The replies are identical."
    old, new = _WORDS.findall(then), _WORDS.findall(now)
    if len(old) * len(new) > _MOST_PAIRS:
        return plain(then), plain(now), "The replies differ."
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    alike = matcher.ratio()
    text = f"{100 * alike:.0f} % alike."
    if alike < _ALIKE:
        return plain(then), plain(now), text
    left, right = Words([]), Words([])
    for what, i, j, k, m in matcher.get_opcodes():
        left.append("".join(old[i:j]), "" if what == "equal" else "red")
        right.append("".join(new[k:m]), "" if what == "equal" else "green")
    return left, right, text
