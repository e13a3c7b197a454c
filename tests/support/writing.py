"""For tests of commands that write memory: a familiar with a history, and a server that answers."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from tests.support.world import home, live

ANNA = Author("discord", "42", "anna", "Anna")
EVENING = datetime(2026, 4, 7, 18, 0, tzinfo=UTC)
SESSION = "sessions/2026-04-07-evening.md"
ANNAS = "people/discord-42.md"
NOTHING = '{"operations": []}'


def answer(*lines: str, file: str = ANNAS, turns=(1,), op: str = "add_bullets") -> str:
    """Return a reply that adds `lines` to a file."""
    operation = {"op": op, "file": file, "lines": list(lines), "turns": list(turns)}
    return json.dumps({"operations": [operation]})


def talked(
    count: int = 2,
    *,
    name: str = "ada",
    at: datetime = EVENING,
    settings: str = "",
    words: str = "my bees.",
) -> Path:
    """Make a familiar to whom Anna has said `count` things, a minute apart; return its root.

    The channel is declared public, since nobody else speaks there.
    """
    root = home() / name if (home() / name).exists() else live(name)
    (root / "channels").mkdir(exist_ok=True)
    (root / "channels" / "cli.toml").write_text('kind = "text"\n', encoding="utf-8")
    (root / "character.toml").write_text(f'timezone = "UTC"\n{settings}', encoding="utf-8")
    with closing(HistoryStore(root / "history.db")) as history:
        for n in range(count):
            moment = at + timedelta(minutes=n)
            history.append("cli", "user", f"Remark {n} on {words}", author=ANNA, at=moment)
    return root


def point_at(server, monkeypatch) -> None:
    """Let the familiar's model be `server`."""
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "scripted-1")


def memory(root: Path, rel_path: str) -> str:
    return (root / "memory" / rel_path).read_text(encoding="utf-8")


def environment() -> dict[str, str]:
    """Return what a process of its own needs to run this program."""
    root = Path(__file__).resolve().parents[2]
    return {**os.environ, "PYTHONPATH": str(root)}
