"""Let a person change a text in the editor of their choice."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.config.environment import editor
from familiar_cli.errors import BadInputError, FamiliarError

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDERR: Final = 2


@contextmanager
def edited(text: str, name: str) -> Iterator[str]:
    """Give the text as the person leaves it.

    What they wrote is not lost when it cannot be used: it stays in a file, which the error names.

    Args:
        text: What they begin with.
        name: What the file is called; its ending tells the editor what it is.

    Raises:
        ConfigError: There is no editor.
        FamiliarError: The editor cannot be started, or says that it failed.
        BadInputError: What the person left is not UTF-8.
    """
    command = editor()
    directory = Path(tempfile.mkdtemp(prefix="familiar-"))
    path, before = directory / name, text.encode()
    stays = False
    try:
        path.write_bytes(before)
        _run(command, path)
        yield _text(path)
    except FamiliarError as error:
        stays = path.exists() and path.read_bytes() != before
        if stays:
            error.hint = f"Your text is saved in {str(path)!r}. {error.hint or ''}".rstrip()
        raise
    finally:
        if not stays:
            shutil.rmtree(directory, ignore_errors=True)


def _run(command: list[str], path: Path) -> None:
    # What an editor prints is no answer, so it must not go where the answer goes.
    stdout = None if sys.stdout.isatty() else _STDERR
    try:
        with _ctrl_c_is_the_editors():
            # The person's own environment names the program; no shell reads the words.
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
    """Leave Ctrl-C to the editor, where it means something else."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _text(path: Path) -> str:
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
