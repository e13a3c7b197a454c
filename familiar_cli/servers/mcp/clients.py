"""Settings that MCP clients need in order to start the server."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import typed

CLIENTS: Final = ("claude-desktop", "claude-code", "cursor", "zed")

_CLAUDE_DESKTOP: Final = {
    "darwin": "~/Library/Application Support/Claude/claude_desktop_config.json",
    "win32": "%APPDATA%\\Claude\\claude_desktop_config.json",
}


class ClientConfig(Struct, frozen=True):
    """Settings of one client.

    Args:
        where: The settings file.
        config: What to add to that file.
        command: A command that adds it; empty if there is none.
    """

    client: str
    where: str
    config: dict[str, Any]
    command: str = ""

    @property
    def text(self) -> str:
        """The settings to copy."""
        return json.dumps(self.config, indent=2, ensure_ascii=False) + "\n"


def config_for(client: str, home: Path, familiar_id: str, more: Sequence[str]) -> ClientConfig:
    """Build a client's settings for one familiar.

    Args:
        client: One of `CLIENTS`.
        home: The familiar's home; clients start the server in any directory.
        more: Further options of `familiar mcp`.

    Raises:
        UsageError: No such client.
    """
    if client not in CLIENTS:
        raise UsageError(f"Unknown client: {client!r}", hint=f"Known: {', '.join(CLIENTS)}.")
    program = _program()
    args = ["mcp", "--home", str(home.resolve()), "--familiar", familiar_id, *more]
    entry = {"command": program, "args": args}
    name = f"familiar-{familiar_id}"
    if client == "zed":
        config = {"context_servers": {name: {"source": "custom", **entry, "env": {}}}}
        return ClientConfig(client, "~/.config/zed/settings.json", config)
    if client == "cursor":
        return ClientConfig(client, "~/.cursor/mcp.json", {"mcpServers": {name: entry}})
    if client == "claude-code":
        config = {"mcpServers": {name: {"type": "stdio", **entry, "env": {}}}}
        words = " ".join(typed(word) for word in (program, *args))
        return ClientConfig(client, ".mcp.json", config, f"claude mcp add {name} -- {words}")
    usual = "~/.config/Claude/claude_desktop_config.json"
    where = _CLAUDE_DESKTOP.get(sys.platform, usual)
    return ClientConfig(client, where, {"mcpServers": {name: entry}})


def _program() -> str:
    """Return this program's path, since clients do not search `PATH` as a shell does."""
    beside = Path(sys.argv[0])
    if beside.stem == "familiar" and beside.is_file():
        return os.path.abspath(beside)  # noqa: PTH100  # links are not resolved
    return shutil.which("familiar") or "familiar"
