"""The line in which a person types: editing, completion, and a dim line that tells of the rest."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import create_output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from rich.cells import cell_len, set_cell_size

from familiar_cli.ui.reply import PROMPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyPressEvent

_LOOKS_EVERY_S: Final = 0.2
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack bg:default"})


class ChatPrompt:
    """Reads lines from a terminal.

    The prompt stands on stderr, so that stdout carries the replies alone.

    Args:
        past: What was said before, oldest first; the arrow keys lead back to it.
        complete: Given what was typed so far, what may stand there instead, from a place on.
        status: Says what is going on, the most important last; asked several times a second.
    """

    def __init__(
        self,
        past: Sequence[str],
        complete: Callable[[str], tuple[int, Iterable[str]]],
        status: Callable[[], Sequence[str]],
    ) -> None:
        self._status = status
        self._shown: Sequence[str] = ()
        self._session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(past),
            output=create_output(stdout=sys.stderr),
            completer=_Offers(complete),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            key_bindings=_key_bindings(),
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            bottom_toolbar=self._toolbar,
            style=_STYLE,
        )

    def read(self, draft: str = "") -> str | None:
        """Return what is typed; empty when it was dropped with Ctrl-C, None when the person leaves.

        Args:
            draft: What stands there already.
        """
        self._shown = self._status()
        try:
            with patch_stdout(raw=True):
                return self._session.prompt(PROMPT, default=draft, pre_run=self._watch)
        except KeyboardInterrupt:
            return "" if self._session.default_buffer.text or draft else None
        except EOFError:
            return None

    def _watch(self) -> None:
        get_app().create_background_task(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS_EVERY_S)
            now = self._status()
            if now != self._shown:
                self._shown = now
                get_app().invalidate()

    def _toolbar(self) -> str:
        return fit_parts(self._shown, get_app().output.get_size().columns - 1)


def fit_parts(parts: Sequence[str], width: int) -> str:
    """Return parts in one line of so many cells; the first ones go if there is no room for all."""
    line = " · ".join(parts)
    while cell_len(line) > width and len(parts) > 1:
        parts = parts[1:]
        line = " · ".join(parts)
    return set_cell_size(line, min(cell_len(line), width))


class _Offers(Completer):
    """What Tab offers."""

    def __init__(self, complete: Callable[[str], tuple[int, Iterable[str]]]) -> None:
        self._complete = complete

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield what may stand before the cursor."""
        del complete_event
        typed = document.text_before_cursor
        start, offered = self._complete(typed)
        for text in offered:
            yield Completion(text, start_position=start - len(typed))


def _key_bindings() -> KeyBindings:
    """Return the key bindings: Enter sends, but starts a line after a backslash or with Alt."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    def _alt_enter(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
