"""Write the answer to stdout and messages to stderr.

In a pipe, the answer is exact; on a terminal, it is sanitised. With `--json`, stdout carries one
object and nothing else, whether the command succeeded or not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from familiar_cli.base.errors import FamiliarError, PartialError
from familiar_cli.base.files import ON_WINDOWS
from familiar_cli.base.text import counted, harmless, harmless_json, well_formed
from familiar_cli.base.times.clock import iso

if TYPE_CHECKING:
    from rich.console import RenderableType

    from familiar_cli.pages.page import PagePart

    Page = str | PagePart | RenderableType | Sequence[PagePart | RenderableType] | None
    Answer = Page | Callable[[], Page]

ENVELOPE_VERSION = 1
_HALVES: Final = "warning: {} shown as U+FFFD here; files and history keep what was there\n"


class Output(Struct, frozen=True):
    """The output of one command.

    Args:
        command: The command as typed, without its arguments, e.g. `memory cat`.
        as_json: `--json` was given.
        quiet: `--quiet` was given; notes are left out, errors are not.
    """

    command: str
    as_json: bool = False
    quiet: bool = False

    def answer(
        self,
        data: object,
        page: Answer,
        errors: Sequence[FamiliarError] = (),
        *,
        exit_code: int = PartialError.exit_code,
        is_failure: bool = False,
    ) -> None:
        """Print the whole answer: `data` with `--json`, else its page.

        Args:
            data: The envelope's data; a struct contributes its fields.
            page: Text, a page or its parts, None for nothing, or a function that returns or prints
                these.
            errors: What failed in part. They are printed, too, and the command ends.
            exit_code: Its exit code then.
            is_failure: Nothing succeeded: the first error is raised in place of an answer.
        """
        if errors and is_failure:
            errors[0].data = data
            raise errors[0]
        if self.as_json:
            write_json(envelope(self.command, "partial" if errors else "ok", data, errors))
        else:
            shown = page() if callable(page) else page
            if isinstance(shown, str):
                say(shown)
            elif shown is not None:
                from familiar_cli.pages.page import print_page

                print_page(*(shown if isinstance(shown, list) else [shown]))
            for error in errors:
                print_error(error)
        if errors:
            import typer

            raise typer.Exit(exit_code)

    def report(
        self,
        data: object,
        page: Answer,
        errors: Sequence[FamiliarError] = (),
        *,
        exit_code: int = PartialError.exit_code,
        is_failure: bool = False,
    ) -> None:
        """Print what a command has done, as `answer` does; with `--quiet`, only its errors."""
        shown = None if self.quiet else page
        self.answer(data, shown, errors, exit_code=exit_code, is_failure=is_failure)

    def note(self, *texts: str) -> None:
        """Print progress messages on stderr, each on a line of its own."""
        if not self.quiet:
            for text in texts:
                _print_error(text + "\n")

    def warn(self, *texts: str) -> None:
        """Print warnings on stderr."""
        self.note(*(f"warning: {text}" for text in texts))


def is_terminal() -> bool:
    """Tell whether a person can type here and see what they type."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def say(text: str) -> None:
    """Print a line or a page on stdout, ending in a newline; sanitised on a terminal."""
    exact(text if text.endswith("\n") else text + "\n")


def exact(text: str) -> None:
    """Print `text` on stdout unchanged; sanitised on a terminal."""
    _write_to(sys.stdout, harmless(text) if sys.stdout.isatty() else text)


def exact_lines(lines: Iterable[str]) -> None:
    """Print each line as it comes, with a newline, in UTF-8 in a pipe."""
    for line in lines:
        if sys.stdout.isatty():
            exact(line + "\n")
        else:
            sys.stdout.buffer.write((line + "\n").encode("utf-8", errors="surrogatepass"))
    sys.stdout.flush()


def exact_bytes(content: bytes) -> None:
    """Print `content` on stdout: the same bytes in a pipe, sanitised text on a terminal."""
    if sys.stdout.isatty():
        exact(content.decode("utf-8", errors="replace"))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def envelope(
    command: str, status: str, data: object, errors: Sequence[FamiliarError] = ()
) -> dict[str, Any]:
    """Build the object that every command prints with `--json`."""
    return {
        "familiar": ENVELOPE_VERSION,
        "command": command,
        "status": status,
        "data": data,
        "errors": [{"code": e.code, "message": str(e), "hint": e.hint} for e in errors],
    }


def write_json(value: object) -> None:
    """Print `value` as one line of JSON; non-ASCII characters stay if stdout can encode them.

    Halves of characters, which many readers of JSON refuse, are replaced, and that is told.
    """
    import json  # starting is quicker without it

    text = json.dumps(value, ensure_ascii=False, default=_json_value)
    line = well_formed(text)
    if halves := line.count("\ufffd") - text.count("\ufffd"):
        _print_error(_HALVES.format(counted(halves, "half character is", "half characters are")))
    if not _carries_unicode():
        line = json.dumps(json.loads(line))
    _write_to(sys.stdout, harmless_json(line) + "\n")


def print_error(error: FamiliarError) -> None:
    """Print an error and its hint on stderr."""
    _print_error(f"error: {error}\n")
    if error.hint:
        _print_error(f"hint: {error.hint}\n")


def set_up_streams() -> None:
    """Keep closed streams and missing characters of a code page from stopping the program.

    Files and pipes get the same bytes on Windows as elsewhere, unless `PYTHONIOENCODING` names
    another encoding.
    """
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if not reconfigure:
            continue
        if ON_WINDOWS and not stream.isatty():
            name = os.environ.get("PYTHONIOENCODING", "").partition(":")[0]
            reconfigure(encoding=name or "utf-8", newline="\n")
        reconfigure(errors="backslashreplace")


def _carries_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _print_error(text: str) -> None:
    """Print on stderr, ignoring a closed stream."""
    with suppress(OSError):
        _write_to(sys.stderr, harmless(text))


def _write_to(stream: Any, text: str) -> None:  # noqa: ANN401  # whatever stdout has been replaced by
    stream.write(text)
    stream.flush()


def _json_value(value: object) -> object:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be converted to JSON")
