"""Decisions of a person at a terminal: hunks of a plan, and a text in their editor."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.base.config.environment import editor
from familiar_cli.base.errors import BadInputError, FamiliarError
from familiar_cli.base.text import bare_lines, harmless
from familiar_cli.pages.terminal import console, plain

if TYPE_CHECKING:
    from rich.text import Text

    from familiar_cli.writing.pending import Hunk, PieceRef, ReviewPlan

_STDERR: Final = 2


@contextmanager
def edit_text(text: str, name: str) -> Iterator[str]:
    """Let the person edit a text, and return it.

    If the result cannot be used it stays in a file, which the error names.

    Args:
        name: File name; its ending tells the editor the type.

    Raises:
        ConfigError: There is no editor.
        FamiliarError: The editor cannot be started, or failed.
        BadInputError: The result is not UTF-8.
    """
    command = editor()
    directory = Path(tempfile.mkdtemp(prefix="familiar-"))
    path, before = directory / name, text.encode()
    stays = False
    try:
        path.write_bytes(before)
        _run_editor(command, path)
        yield _label_text(path)
    except FamiliarError as error:
        stays = path.exists() and path.read_bytes() != before
        if stays:
            error.hint = f"Your text is saved in {str(path)!r}. {error.hint or ''}".rstrip()
        raise
    finally:
        if not stays:
            shutil.rmtree(directory, ignore_errors=True)


def _run_editor(command: list[str], path: Path) -> None:
    # What an editor prints is not the answer, so it must not go to stdout.
    stdout = None if sys.stdout.isatty() else _STDERR
    try:
        with _ctrl_c_is_the_editors():
            # The person's own environment names the program; no shell is involved.
            ended = subprocess.run([*command, str(path)], stdout=stdout, check=False)  # noqa: S603
    except OSError as error:
        why = error.strerror or str(error)
        raise FamiliarError(
            f"The editor {command[0]!r} cannot be started: {why}; nothing was changed",
            hint="Set VISUAL or EDITOR to an installed program.",
        ) from error
    if ended.returncode:
        why = f"exited with status {ended.returncode}"
        raise FamiliarError(f"The editor {command[0]!r} {why}; nothing was changed")


@contextmanager
def _ctrl_c_is_the_editors() -> Iterator[None]:
    """Leave Ctrl-C to the editor, where it has another meaning."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _label_text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"The edited text is not UTF-8: {error}; nothing was changed"
        ) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise FamiliarError(
            f"The edited text cannot be read: {why}; nothing was changed"
        ) from error


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


def ask_pieces(plan: ReviewPlan) -> tuple[set[PieceRef], set[PieceRef]]:
    """Ask about each piece; return the pieces or lines to take and to reject.

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
        for line in bare_lines(hunk.text):
            show.print(_colour_line(line), soft_wrap=True)
        answer = _ask_key(_KEYS)
        if answer == "e" and not _ask_lines(number, hunk, take, reject):
            break
        if answer == "q":
            break
        selection = {"y": take, "a": take, "n": reject, "r": reject}.get(answer)
        if selection is not None:
            selection |= set(range(number, most + 1)) if answer in "ar" else {number}
        if answer in "ar":
            break
    return take, reject


def _ask_lines(number: int, hunk: Hunk, take: set[PieceRef], reject: set[PieceRef]) -> bool:
    """Ask about each line of a piece; return whether to continue with the next piece."""
    changed = [line for line in bare_lines(hunk.text) if line[:1] in {"-", "+"}]
    for line_number, line in enumerate(changed, 1):
        console(sys.stderr).print(_colour_line(line), soft_wrap=True)
        answer = _ask_key(_LINE_KEYS)
        if answer == "q":
            return False
        selection = {"y": take, "n": reject}.get(answer)
        if selection is not None:
            selection.add((number, line_number))
    return True


def ask_line(question: str, default: str) -> str:
    """Ask for a line at the terminal; an empty one means the default.

    Raises:
        EOFError: Ctrl-D was typed.
    """
    _say_aside(f"{question} [{default}]: " if default else f"{question}: ")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip() or default


def ask_yes(question: str) -> bool:
    """Ask until the answer is yes or no; an empty line or Ctrl-D means no."""
    while True:
        try:
            answer = ask_line(f"{question} (y/n)", "n").lower()
        except EOFError:
            _say_aside("\n")
            return False
        if answer in {"y", "yes", "n", "no"}:
            return answer[0] == "y"
        _say_aside(f"{answer!r} is neither y nor n.\n")


def ask_hidden(question: str) -> str:
    """Ask for a line without echo. Raises as `ask_line`."""
    from getpass import getpass  # only needed without a key

    return getpass(f"{question}: ", stream=sys.stderr)


def ask_number(
    question: str,
    choices: Sequence[str],
    names: Sequence[str] = (),
    *,
    default: str = "1",
    takes_url: bool = False,
) -> int | str:
    """Ask for a numbered choice until the answer is valid; return its index from 0, or a URL.

    Raises as `ask_line`.

    Args:
        question: The question.
        choices: The choices.
        names: What may be typed for each choice besides its number; default: the choice.
        default: What an empty line means; empty: nothing.
        takes_url: An address may be typed as well.
    """
    lines = "".join(f"  {number}  {harmless(one)}\n" for number, one in enumerate(choices, 1))
    _say_aside(f"{harmless(question)}\n{lines}")
    known = [name.casefold() for name in names or choices]
    while True:
        answer = ask_line("Number", default)
        if answer.casefold() in known:
            return known.index(answer.casefold())
        if answer.isascii() and answer.isdecimal() and 1 <= int(answer) <= len(choices):
            return int(answer) - 1
        if takes_url and answer.startswith(("http://", "https://")):
            return answer
        _say_aside(f"{answer!r} is none of 1 to {len(choices)}.\n")


def ask_choice(question: str, choices: Sequence[tuple[str, str]], default: str = "") -> str:
    """Ask for one of several values, given with their descriptions; see `ask_number`."""
    values, words = [value for value, _ in choices], [words for _, words in choices]
    return values[int(ask_number(question, words, values, default=default))]


def _ask_key(keys: Mapping[str, str]) -> str:
    """Ask until one of the keys is typed, and return it."""
    while True:
        _say_aside(f"Apply it? [{','.join(keys)}] ")
        line = sys.stdin.readline()
        if not line:  # Ctrl-D
            _say_aside("\n")
            return "q"
        word = line.strip().lower()
        answer = _WORDS.get(word, word)
        if answer != "?" and answer in keys:
            return answer
        _say_aside("".join(f"  {key}  {what}\n" for key, what in keys.items()))


def _say_aside(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _colour_line(line: str) -> Text:
    return plain(line, _STYLES.get(line[:1], ""))
