"""`familiar context` and `familiar why`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.base.errors import UsageError
from familiar_cli.cli.commands import _base
from familiar_cli.pages.emit import Output, exact_bytes

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.familiar import Familiar

app = _base.App()
why_app = _base.App()


@why_app.command()
def why(
    ctx: typer.Context,
    turn: Annotated[str | None, typer.Argument()] = None,
    *,
    every: Annotated[bool, typer.Option("--all")] = False,
) -> None:
    """Explain a reply in one sentence, and show the lines of memory that fit it best.

    `familiar context` shows everything that was sent, and why the rest was left out.

    \b
    familiar why
    familiar why 12 --all

    Args:
        turn ([TURN]): Turn: a number, or CHANNEL:NUMBER as a search prints it; default: the newest.
        every: Show all memories in the prompt, each with all of its text there.
    """
    from familiar_cli.actions.talk.sent import find_trace
    from familiar_cli.actions.talk.why import explain_reply
    from familiar_cli.pages.context_page import reply_page

    with _base.familiar_of(ctx) as familiar:
        explanation = explain_reply(familiar, find_trace(familiar, turn))
        _base.output(ctx).answer(explanation, reply_page(explanation, whole=every))


@app.command()
def context(
    ctx: typer.Context,
    turn: Annotated[str | None, typer.Argument()] = None,
    *,
    last: Annotated[bool, typer.Option("--last")] = False,
    messages: Annotated[bool, typer.Option("--messages")] = False,
    raw: Annotated[bool, typer.Option("--raw")] = False,
    diff: str | None = None,
    why: str | None = None,
    html: str | None = None,
    force: Annotated[bool, typer.Option("--force")] = False,
    replay: Annotated[bool, typer.Option("--replay")] = False,
    slot: str | None = None,
    model: str | None = None,
) -> None:
    """Show what was sent to the model, where it came from, and what was left out.

    \b
    familiar context --last
    familiar context 12 --messages
    familiar context --raw > request.json
    familiar context 12 --diff 10
    familiar context 12 --why people/cli-anna.md
    familiar context 12 --replay --model another-model
    familiar context --html turn.html

    Args:
        turn ([TURN]): Turn: a number, or CHANNEL:NUMBER as a search prints it.
        last: Show the newest turn (the default).
        messages: Print only the messages.
        raw: Print the exact bytes that were sent.
        diff (N): Compare with the messages of turn N.
        why (PATH): Explain why a memory file, or `turn:12`, was included or left out.
        html (FILE|-): Write an HTML page to FILE.
        force: With --html: overwrite FILE if it exists.
        replay: Send it again and show both replies; nothing is kept.
        slot (S): With --replay: use the model of this slot.
        model (M): With --replay: use this model.
    """
    ways = (raw, messages, diff is not None, why is not None, replay)
    _check(ctx, last and turn is not None, *ways, html is not None)
    _check_only_with("--html", html is not None, force)
    _check_only_with("--replay", replay, slot, model)
    from familiar_cli.actions.talk.sent import find_trace, sent_of
    from familiar_cli.pages.context_page import context_page, messages_text

    out = _base.output(ctx)
    with _base.familiar_of(ctx) as familiar:
        trace = find_trace(familiar, turn)
        if raw:
            exact_bytes(sent_of(trace).body)
        elif diff is not None:
            _diff(out, familiar, trace, diff)
        elif why is not None:
            _why(out, familiar, trace, why)
        elif replay:
            _replay(out, familiar, trace, slot, model)
        elif html is not None:
            from familiar_cli.servers.web.html.page import page

            _base.answer_html(out, page(trace), html, {"turn": trace.turn}, "path", force=force)
        elif messages:
            out.answer(trace.to_json(), messages_text(trace.messages))
        else:
            out.answer(trace.to_json(), context_page(trace, familiar.zone))


def _check(ctx: typer.Context, both: bool, raw: bool, *ways: bool) -> None:
    if both:
        raise UsageError("TURN and --last cannot be combined", hint="Use only one.")
    if sum([raw, *ways, _base.globals_of(ctx).as_json and raw]) > 1:
        raise UsageError(
            "--messages, --raw, --diff, --why, --replay and --html cannot be combined, nor can "
            "--raw and --json",
            hint="Use only one.",
        )


def _check_only_with(way: str, given: bool, *needs: object) -> None:
    if any(need is not None and need is not False for need in needs) and not given:
        raise UsageError(f"This option requires {way}", hint=f"Add {way}.")


def _diff(out: Output, familiar: Familiar, trace: Trace, against: str) -> None:
    from familiar_cli.actions.talk.sent import find_trace, messages_diff

    older = find_trace(familiar, against)
    text = messages_diff(older, trace)
    data = {"turn": trace.turn, "against": older.turn, "diff": text}
    out.answer(data, text or None)
    if not text:
        out.note(f"The same messages were sent for turns {older.turn} and {trace.turn}.")


def _why(out: Output, familiar: Familiar, trace: Trace, asked: str) -> None:
    from familiar_cli.actions.talk.explain_piece import explain_piece
    from familiar_cli.base.who.visibility import OWNER
    from familiar_cli.pages.context_page import why_page

    explanation = explain_piece(familiar, trace, asked, viewer=OWNER)
    out.answer(explanation, why_page(explanation))


def _replay(
    out: Output, familiar: Familiar, trace: Trace, slot: str | None, model: str | None
) -> None:
    from familiar_cli.actions.talk.replay import replay_trace
    from familiar_cli.pages.context_page import replay_page

    out.note(f"Sending the request of turn {trace.turn} again…")
    found = _base.run_async(replay_trace(familiar, trace, slot=slot, model=model, on_wait=out.note))
    out.answer(found.to_json(), replay_page(found))
