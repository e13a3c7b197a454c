"""Write what shells and `man` read of the program: a man page for each command, and completions.

The build of a wheel calls `write_shell_files`; `python -m tools.shell_files DIR` does the same.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer._completion_shared import get_completion_script

from familiar_cli import __version__
from familiar_cli.cli import app as cli

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPLETIONS = {
    "bash": "share/bash-completion/completions/{0}",
    "zsh": "share/zsh/site-functions/_{0}",
    "fish": "share/fish/vendor_completions.d/{0}.fish",
    "powershell": "share/powershell/completions/{0}.ps1",
}
"""Where each shell looks, below the prefix of an installation."""

NAME = cli.COMMAND_NAMES[0]


def write_shell_files(target: Path) -> list[str]:
    """Write all files below `target`, and return their paths there."""
    files = {f"share/man/man1/{name}.1": text for name, text in man_pages()}
    for command in cli.COMMAND_NAMES:
        variable = f"_{command.replace('-', '_').upper()}_COMPLETE"
        for shell, place in COMPLETIONS.items():
            script = get_completion_script(prog_name=command, complete_var=variable, shell=shell)
            files[place.format(command)] = f"{script}\n"
    for rel_path, text in files.items():
        path = target / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return list(files)


def man_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each man page: `familiar`, `familiar-memory-log` and so on."""
    root: Any = typer.main.get_command(cli.app)
    yield NAME, _man_page(root, [NAME])
    for name in root.list_commands(None):
        yield from _man_pages_below(root.get_command(None, name), [NAME, name])


def _man_pages_below(command: Any, path: list[str]) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    yield "-".join(path), _man_page(command, path)
    for name, below in getattr(command, "commands", {}).items():
        yield from _man_pages_below(below, [*path, name])


def _man_page(command: Any, path: list[str]) -> str:  # noqa: ANN401  # Click's, as Typer vendors it
    """Return the help of one command in the language of `man`."""
    context = command.make_context(" ".join(path), [], resilient_parsing=True)
    context.terminal_width = context.max_content_width = 76
    first, *others = _paragraphs(command.help or "")
    usage = " ".join(context.command.collect_usage_pieces(context))
    parts = [
        f'.TH "{"-".join(path).upper()}" "1" "" "familiar {__version__}" "familiar"',
        ".SH NAME",
        f"{_escaped('-'.join(path))} \\- {_escaped(' '.join(first.split()).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_escaped(' '.join(path))}",
        _escaped(usage),
    ]
    if others:
        parts.append(".SH DESCRIPTION")
    for text in others:
        verbatim = text.startswith("\b")
        lines = _escaped(text.lstrip("\b").strip("\n"))
        parts += [".PP", *([".nf", lines, ".fi"] if verbatim else [lines])]
    parts += _listed(command, context)
    others_named = "the documentation: familiar help WORD"
    return "\n".join([*parts, ".SH SEE ALSO", f"{_escaped(others_named)}", ""])


def _listed(command: Any, context: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield the options and the commands below, each with its help."""
    options = [
        record for p in command.get_params(context) if (record := p.get_help_record(context))
    ]
    below = getattr(command, "commands", {}) or {}
    names = command.list_commands(context) if hasattr(command, "list_commands") else list(below)
    commands = [(name, command.get_command(context, name).get_short_help_str()) for name in names]
    for title, rows in (("OPTIONS", options), ("COMMANDS", commands)):
        if rows:
            yield f".SH {title}"
            for term, text in rows:
                meaning = _escaped(" ".join(text.split())) or r"\&"
                yield f".TP\n.B {_escaped(term)}\n{meaning}"


def _paragraphs(text: str) -> list[str]:
    return re.split(r"\n\n+", text.strip()) or [""]


def _escaped(text: str) -> str:
    """Escape what roff would read as its own: backslashes, dashes, and a dot that begins a line."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)


if __name__ == "__main__":
    print(*write_shell_files(Path(sys.argv[1])), sep="\n")
