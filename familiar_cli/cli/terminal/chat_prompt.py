"""The input line of a chat: editing, completion, and a dim status line."""

from __future__ import annotations

import asyncio
import math
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Self

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import create_output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from rich.cells import cell_len, set_cell_size

from familiar_cli.base.files import ON_WINDOWS
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.cli.terminal.reply import PROMPT, ctrl_c_interrupts, prompt_stream

_LOOKS_EVERY_S: Final = 0.2
_LATE_CTRL_C_S: Final = 1.5  # for so long after a reply, Ctrl-C was probably meant for the reply

_UNSENT: Final = "typed during the reply, not sent"
_QUIET_S: Final = 0.03  # a pause of this length ends a paste
_LONGEST_PASTE_S: Final = 2.0  # time for keys to arrive after a reply
_NEW_LINE: Final = frozenset({Keys.Enter, Keys.ControlJ})
_EDITING: Final = frozenset(
    {
        Keys.BracketedPaste, Keys.Backspace, Keys.Delete, Keys.Left, Keys.Right, Keys.Home,
        Keys.End, Keys.ControlA, Keys.ControlE, Keys.ControlK, Keys.ControlU, Keys.ControlW,
    }
)  # fmt: skip
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack bg:default"})


@contextmanager
def _printing_above() -> Iterator[None]:
    """Print output above the prompt, except for streams that are redirected."""
    outputs = {"stdout": sys.stdout, "stderr": sys.stderr}
    with patch_stdout(raw=True):
        for name, stream in outputs.items():
            if not stream.isatty():
                setattr(sys, name, stream)
        yield


class ChatPrompt:
    """Reads lines from a terminal, which it controls inside a `with` block.

    What is typed or pasted during a reply becomes part of the next draft; it is never sent by
    itself. The prompt is written to stderr, so that stdout carries the replies alone; where stderr
    is redirected, to stdout.

    Args:
        past: Earlier messages, oldest first, for the arrow keys.
        complete: Given the text so far, returns completions and their offset.
        status: Current activity, most important last; called several times a second.
        on_late_ctrl_c: Called when Ctrl-C comes just after the end of a reply.
    """

    def __init__(
        self,
        past: Sequence[str],
        complete: Callable[[str], tuple[int, Iterable[str]]],
        status: Callable[[], Sequence[str]],
        on_late_ctrl_c: Callable[[], None],
    ) -> None:
        self._status = status
        self._on_late_ctrl_c = on_late_ctrl_c
        self._shown: Sequence[str] = ()
        self._quiet_until_s = 0.0
        self._has_early = self._has_ctrl_c = self._was_dropped = False
        self._output = create_output(stdout=prompt_stream())
        self._early = EarlyKeys(create_input(sys.stdin))
        self._session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(past),
            input=self._early.input,
            output=self._output,
            completer=_Offers(complete),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            key_bindings=self._key_bindings(),
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            bottom_toolbar=self._toolbar,
            style=_STYLE,
        )

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._hold_ctrl_c)
        return self

    def __exit__(self, *_: object) -> None:
        self._early.stop()
        self._output.disable_bracketed_paste()
        self._output.flush()
        signal.signal(signal.SIGINT, self._before)

    def read(self, draft: str = "") -> str | None:
        """Read a message; empty if Ctrl-C discarded it, None if the person leaves.

        Args:
            draft: Text in the editor at the start, before what was typed early.
        """
        self._shown = self._status()
        self._has_early = self._early.replay()
        was_dropped, self._was_dropped = self._was_dropped, False
        if self._take_ctrl_c() and was_dropped:
            return None
        try:
            with _printing_above():
                line = self._session.prompt(
                    PROMPT, default=draft, pre_run=self._watch, handle_sigint=False
                )
        except KeyboardInterrupt:
            self._was_dropped = bool(self._session.default_buffer.text or draft)
            return "" if self._was_dropped else None
        except EOFError:
            return None
        self._take_ctrl_c()
        return line

    @contextmanager
    def replying(self) -> Iterator[None]:
        """Let Ctrl-C interrupt a reply, and keep what is typed meanwhile for the next line."""
        self._output.enable_bracketed_paste()
        self._output.flush()
        self._early.start()
        try:
            with ctrl_c_interrupts():
                if self._take_ctrl_c():
                    raise KeyboardInterrupt
                yield
        finally:
            self._quiet_until_s = stopwatch_s() + _LATE_CTRL_C_S

    def _hold_ctrl_c(self, *_: object) -> None:
        """Keep a Ctrl-C that comes between two lines for the next step."""
        self._has_ctrl_c = True

    def _take_ctrl_c(self) -> bool:
        held, self._has_ctrl_c = self._has_ctrl_c, False
        return held

    def _is_late(self) -> bool:
        """Tell whether a reply has just ended, and reset what Ctrl-C does."""
        if stopwatch_s() > self._quiet_until_s:
            return False
        self._quiet_until_s = 0.0
        self._on_late_ctrl_c()
        return True

    def _key_bindings(self) -> KeyBindings:
        """Build the key bindings.

        Enter sends, but inserts a newline after a backslash, with Alt, and within a paste that the
        terminal does not mark as one.
        """
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)

        @keys.add("enter", filter=typing)
        def _enter(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            elif self._is_paste(event):
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=typing)
        def _alt_enter(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", filter=typing)
        def _ctrl_c(event: KeyPressEvent) -> None:
            if event.current_buffer.text or not self._is_late():
                event.app.exit(exception=KeyboardInterrupt)

        return keys

    def _is_paste(self, event: KeyPressEvent) -> bool:
        """Tell whether more keys arrived along with this one, faster than typing.

        What the terminal answers, such as where the cursor is, is not a key.
        """
        has_more = bool(draft_keys(event.key_processor.input_queue))
        waiting = self._early.waiting()
        event.key_processor.feed_multiple(waiting)
        return has_more or any(press.key != Keys.CPRResponse for press in waiting)

    def _watch(self) -> None:
        get_app().create_background_task(self._refresh_toolbar())

    async def _refresh_toolbar(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS_EVERY_S)
            now = self._status()
            if now != self._shown:
                self._shown = now
                get_app().invalidate()

    def _toolbar(self) -> str:
        has_draft = self._has_early and self._session.default_buffer.text
        parts = (*self._shown, _UNSENT) if has_draft else self._shown
        return fit_parts(parts, get_app().output.get_size().columns - 1)


def fit_parts(parts: Sequence[str], width: int) -> str:
    """Join parts into a line of at most `width` cells, dropping the first ones if needed."""
    line = " · ".join(parts)
    while cell_len(line) > width and len(parts) > 1:
        parts = parts[1:]
        line = " · ".join(parts)
    return set_cell_size(line, min(cell_len(line), width))


class _Offers(Completer):
    """The completions for Tab."""

    def __init__(self, complete: Callable[[str], tuple[int, Iterable[str]]]) -> None:
        self._complete = complete

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield completions for the text before the cursor."""
        del complete_event
        typed = document.text_before_cursor
        start, offered = self._complete(typed)
        for text in offered:
            yield Completion(text, start_position=start - len(typed))


class EarlyKeys:
    """Keeps the keys pressed during a reply for the next line.

    Windows keeps them itself, and `prompt_toolkit` takes several at once for a paste.

    Args:
        source: The terminal, whose echo is off meanwhile.
    """

    def __init__(self, source: Input) -> None:
        self.input = source
        self._keys: list[KeyPress] = []
        self._thread: threading.Thread | None = None
        self._wake = os.pipe()

    def start(self) -> None:
        """Start capturing keys."""
        if ON_WINDOWS or self._thread:
            return
        self._thread = threading.Thread(target=self._keep, daemon=True, name="familiar-keys")
        self._thread.start()

    def stop(self) -> None:
        """Release the terminal once it has been quiet for a moment."""
        if self._thread:
            os.write(self._wake[1], b".")
            self._thread.join()
            self._thread = None

    def replay(self) -> bool:
        """Stop, and feed the keys to the next line; return whether there were any."""
        if not self._thread:
            return False
        self.stop()
        keys = draft_keys([*get_typeahead(self.input), *self._keys])
        self._keys = []
        store_typeahead(self.input, keys)
        return bool(keys)

    def waiting(self) -> list[KeyPress]:
        """Read the keys that are waiting."""
        if ON_WINDOWS or not select.select([self.input.fileno()], [], [], 0)[0]:
            return []
        return self.input.read_keys()

    def _keep(self) -> None:
        here, wake = self.input.fileno(), self._wake[0]
        sources, wait_s, until_s = [here, wake], None, math.inf
        while stopwatch_s() < until_s and not self.input.closed:
            ready, _, _ = select.select(sources, [], [], wait_s)
            if here in ready:
                self._keys += self.input.read_keys()
            if wake in ready:
                os.read(wake, 1)
                sources, wait_s, until_s = [here], _QUIET_S, stopwatch_s() + _LONGEST_PASTE_S
            if not ready:
                return


def draft_keys(keys: Iterable[KeyPress]) -> list[KeyPress]:
    """Return the keys that enter a draft; Enter inserts a newline, unless it comes last."""
    kept = []
    for press in keys:
        if press.key in _NEW_LINE:
            kept.append(KeyPress(Keys.BracketedPaste, "\n"))
        elif press.key == Keys.Tab:
            kept.append(KeyPress(Keys.BracketedPaste, "\t"))
        elif press.key in _EDITING or len(press.key) == 1:
            kept.append(press)
    while kept and kept[-1].key == Keys.BracketedPaste:
        last = kept.pop()
        if text := last.data.rstrip("\r\n"):
            return [*kept, KeyPress(Keys.BracketedPaste, text)]
    return kept
