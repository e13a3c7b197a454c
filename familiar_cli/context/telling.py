"""What a person hears of a turn: the reply as it comes, and what they should know besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.errors import BadReplyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.context.pipeline import Replied
    from familiar_cli.context.types import Assembled, Report
    from familiar_cli.llm.types import ChatModel


class Listener:
    """Hears a reply, remembers it, and passes it on for as long as anybody listens.

    Args:
        on_text: Given each piece; None: nobody listens.
        keep: Given each piece first, whoever listens.

    Attributes:
        passed_on: Some of it was.
        gone: Why nobody listens any more.
    """

    def __init__(
        self, on_text: Callable[[str], None] | None, keep: Callable[[str], None] = lambda _: None
    ) -> None:
        self._on_text = on_text
        self._keep = keep
        self._pieces: list[str] = []
        self.passed_on = False
        self.gone: OSError | None = None

    @property
    def text(self) -> str:
        """What came so far."""
        return "".join(self._pieces)

    def __call__(self, piece: str) -> None:
        """Take one piece."""
        self._pieces.append(piece)
        self._keep(piece)
        if self._on_text is None or self.gone is not None:
            return
        self.passed_on = True
        try:
            self._on_text(piece)
        except OSError as error:  # the pipe is closed; the reply is kept all the same
            self.gone = error


def notices(assembled: Assembled, *more: str) -> tuple[str, ...]:
    """Return what is missing in a prompt although it should be there."""
    problems = [
        f"{piece.offered.rel_path or piece.offered.source}: {piece.offered.problem}"
        for piece in assembled.fragments
        if piece.offered.problem
    ]
    reports = reported((*assembled.providers, *assembled.processors))
    return (*filter(None, more), *reports, *problems)


def reported(reports: tuple[Report, ...]) -> list[str]:
    """Return a line for each part that failed or was late."""
    return [f"{r.name} {r.verdict}: {r.reason}" for r in reports if r.verdict != "answered"]


def why_stopped(replied: Replied, model: ChatModel) -> list[str]:
    """Return why a reply ended before its end."""
    match replied.completion.finish_reason:
        case "length" if replied.is_cut:
            mend = "`familiar config set llm.max_tokens N` allows longer ones"
            return [f"The reply was cut at {model.max_tokens} tokens; {mend}"]
        case "content_filter":
            return ["The server's content filter stopped the reply"]
    return []


def no_words(name: str, replied: Replied) -> BadReplyError:
    """Return the error that an empty reply is."""
    why = replied.completion.finish_reason
    return BadReplyError(
        f"The model {name!r} returned an empty reply" + (f" ({why})" if why else ""),
        hint="Try again; `familiar context --last` shows what was sent.",
    )
