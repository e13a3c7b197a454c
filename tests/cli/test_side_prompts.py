"""What models are told of the character when they write memory: its macros are expanded."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.store.history.store import WRITER, HistoryStore
from tests.support.server import Say
from tests.support.world import run
from tests.support.writing import NOTHING, talked

CARD = {
    "description": "{{char}} keeps <BOT>'s lamp for {{user}}. {{random:Calm,Calm}} by day.{{// x}}",
    "personality": "{{Char}}は{{user}}の灯台守。",
}
VOICE = "Ada keeps Ada's lamp for Mia. Calm by day."
REPLY = json.dumps({"summary": "Anna gardened.", "points": []})


@pytest.fixture
def ada():
    root = talked(settings='user_name = "Mia"\nname = "Ada"\n')
    (root / "memory" / "self").mkdir(parents=True, exist_ok=True)
    for field, text in CARD.items():
        path = root / "memory" / "self" / f"{field}.md"
        path.write_text(f"# {field}\n\n{text}", encoding="utf-8")
    return root


def told(server) -> str:
    """Return all that the model was sent last."""
    return "\n".join(m["content"] for m in server.requests[-1].json()["messages"])


def test_the_writer_reads_the_character_with_its_macros_expanded(ada, serve) -> None:
    server = serve(NOTHING)
    assert run("write-memory").exit_code == 0
    assert VOICE in told(server)
    assert "AdaはMiaの灯台守。" in told(server)
    assert "{{" not in told(server)


@pytest.mark.parametrize("argv", [("consolidate", "weekly"), ("distill", "mid")])
def test_consolidation_and_digests_read_it_so_too(ada, serve, argv) -> None:
    with closing(HistoryStore(ada / "history.db")) as history:
        history.move_watermark(WRITER, history.newest_id())
    sessions = ada / "memory" / "sessions"
    sessions.mkdir(exist_ok=True)
    day = datetime(2024, 4, 8, tzinfo=UTC).date()
    (sessions / f"{day}-evening.md").write_text(f"# {day}, evening\n\n- Anna gardened.\n", "utf-8")
    server = serve(Say(REPLY), Say(REPLY))
    assert run("consolidate", "daily").exit_code == 0
    assert run("distill", "short").exit_code == 0
    assert run(*argv).exit_code == 0
    assert VOICE in told(server)
    assert "{{" not in told(server)
