"""Run the commands that a documentation page shows, and hold their output against the page.

Shown commands stand in ```console blocks: a line `$ familiar …`, then what it prints (stdout and
stderr as a terminal would mix them). A line `...` stands for any lines, `…` inside a line for any
text. `echo`, `|`, `>` and `<` work between commands, so that pages can show pipes.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from familiar_cli.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANY_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(familiar\s[^`]+)`")


@dataclass(frozen=True)
class Step:
    """One shown command and the lines shown below it."""

    command: str
    shown: tuple[str, ...]
    line: int


def steps(page: str) -> list[Step]:
    """Return the commands shown in `page`, top to bottom."""
    found: list[Step] = []
    for block in _BLOCK.finditer(page):
        first = page[: block.start(1)].count("\n") + 1
        for offset, text in enumerate(block.group(1).splitlines()):
            if text.startswith("$ "):
                found.append(Step(text[2:], (), first + offset))
            elif found:
                last = found[-1]
                found[-1] = Step(last.command, (*last.shown, text), last.line)
    return found


def inline(page: str) -> list[tuple[str, ...]]:
    """Return the words of each command in the prose of `page`, without `familiar`.

    `a | b` is several commands. What is left out (`…`) or optional (`[X]`) is not there.
    """
    found = []
    for match in _INLINE.finditer(_ANY_BLOCK.sub("", page)):
        first, *others = " ".join(match[1].split()).split(" | ")
        before = first.rsplit(" ", 1)[0]
        for command in (first, *(f"{before} {other}" for other in others)):
            words = shlex.split(command)[1:]
            found.append(tuple(w for w in words if "…" not in w and w[0] != "["))
    return found


_OTHERS = {"chmod", "git", "ls", "mkdir"}
"""Programs that a page may show beside `familiar` and `echo`."""


def run(
    command: str, directory: Path, env: dict[str, str], *, in_process: bool = False
) -> tuple[int, str]:
    """Run one shown command line in `directory`; return its exit code and all it printed.

    With `in_process`, `familiar` runs here, with the environment and the directory that are.
    """
    carried = b""
    output, code = b"", 0
    for part in _pipeline(command):
        words, source, target = _redirects(part)
        if source:
            carried = (directory / source).read_bytes()
        if words[0] == "echo":
            carried = (" ".join(words[1:]) + "\n").encode()
            if target:
                (directory / target).write_bytes(carried)
            continue
        own = words[0] == "familiar"
        assert own or words[0] in _OTHERS, f"a page may only show familiar, not {command!r}"
        if own and in_process:
            result = CliRunner().invoke(app, words[1:], input=carried, prog_name="familiar")
            code, carried, told = result.exit_code, result.stdout_bytes, result.stderr_bytes
            mixed = result.output_bytes
        else:
            done = subprocess.run(
                [sys.executable, "-m", "familiar_cli", *words[1:]] if own else words,
                cwd=directory,
                env=env,
                input=carried,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if target else subprocess.STDOUT,
                timeout=300,
                check=False,
            )
            code, carried, told = done.returncode, done.stdout, done.stderr
            mixed = carried
        output = told if target else mixed
        if target:
            (directory / target).write_bytes(carried)
    return code, output.decode("utf-8").replace("\r\n", "\n")


def _pipeline(command: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word == "|":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _redirects(words: list[str]) -> tuple[list[str], str | None, str | None]:
    ends: dict[str, str] = {}
    for sign in ("<", ">"):
        if sign in words:
            at = words.index(sign)
            ends[sign] = words[at + 1]
            words = words[:at] + words[at + 2 :]
    return words, ends.get("<"), ends.get(">")


def matches(shown: tuple[str, ...], printed: str) -> bool:
    """Return whether what was printed is what the page shows."""
    pattern = ""
    for line in shown:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*"
        else:
            pieces = [re.escape(piece) for piece in line.rstrip().split("…")]
            pattern += r"[^\n]*".join(pieces) + r"[ ]*\n"
    return (
        re.fullmatch(pattern, printed if not printed or printed.endswith("\n") else printed + "\n")
        is not None
    )
