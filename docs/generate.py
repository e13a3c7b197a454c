"""Write the generated parts of the reference pages; `cog` calls these between its markers."""

from __future__ import annotations

from typing import Any

import typer

from familiar_cli import cli

WIDTH = 88


def commands() -> str:
    """Return the help of every command, as `docs/reference/commands.md` shows it."""
    root: Any = typer.main.get_command(cli.app)
    parts = [_help(root, "familiar")]
    for section, names in cli.CONTENTS.items():
        parts.append(f"## {section}\n")
        for name in names:
            parts.extend(_pages(root.get_command(None, name), f"familiar {name}"))
    return "\n".join(parts)


def _pages(command: Any, path: str) -> list[str]:  # noqa: ANN401  # Click's command, whoever vendors it
    pages = [f"### {path}\n", _help(command, path)]
    for name in getattr(command, "commands", {}):
        pages.extend(_pages(command.commands[name], f"{path} {name}"))
    return pages


def _help(command: Any, path: str) -> str:  # noqa: ANN401
    context = command.make_context(path, [], resilient_parsing=True)
    context.terminal_width = WIDTH
    context.max_content_width = WIDTH
    return f"```text\n{command.get_help(context)}\n```\n"
