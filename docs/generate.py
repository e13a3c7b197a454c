"""Write the generated parts of the reference pages; `cog` calls these between its markers."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import typer

from familiar_cli import cli
from familiar_cli.config.modes import MODES
from familiar_cli.config.settings import all_settings
from familiar_cli.context.limits import LOCAL_TOKENS, PERCENT

if TYPE_CHECKING:
    from familiar_cli.config.settings import Setting

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


def settings() -> str:
    """Return a table of the settings of each section, as `docs/reference/settings.md` shows it."""
    parts: list[str] = []
    rows = [s for s in all_settings().values() if not s.key.startswith("llm.slots.")]
    for section, members in groupby(rows, key=lambda setting: setting.section):
        parts.append(f"## `[{section}]`\n" if section else "## At the top of the file\n")
        parts.append("| setting | may be | default | meaning |\n|---|---|---|---|")
        parts.extend(_setting(member) for member in members)
        parts.append("")
    return "\n".join(parts)


def modes() -> str:
    """Return what each mode of a channel means, as the reference of budgets shows it."""
    rows = [
        f"| `{mode}` | {usual.about} | {usual.total_tokens:,} | {usual.recent_turns} "
        f"| {_switch(usual.stepped_thinking)} | {_switch(usual.recast)} |"
        for mode, usual in MODES.items()
    ]
    head = "| mode | for | tokens | recent turns | stepped thinking | recast |\n" + "|---" * 6 + "|"
    local = f"| preset `local`, whatever the mode | | at most {LOCAL_TOKENS:,} | | | |"
    return "\n".join([head, *rows, local])


def layers() -> str:
    """Return each layer's share, in percent and in the tokens of each mode."""
    totals = [usual.total_tokens for usual in MODES.values()] + [LOCAL_TOKENS]
    names = [f"`{mode}`" for mode in MODES] + ["`local`"]
    head = f"| layer | at most, of the whole | {' | '.join(names)} | setting |"
    rows = [
        f"| `{layer}` | {percent} % | "
        + " | ".join(f"{total * percent // 100:,}" for total in totals)
        + f" | `budget.{layer}` |"
        for layer, percent in PERCENT.items()
    ]
    return "\n".join([head, "|---" * (len(names) + 3) + "|", *rows])


def _switch(on: bool) -> str:  # noqa: FBT001
    return "on" if on else "off"


def _setting(setting: Setting) -> str:
    name = setting.key.rpartition(".")[2]
    meaning = setting.doc + (f"; `{setting.env}` overrides it" if setting.env else "")
    default = f"`{setting.default}`" if setting.default != "" else "empty"
    return f"| `{name}` | {setting.allowed} | {default} | {meaning} |"
