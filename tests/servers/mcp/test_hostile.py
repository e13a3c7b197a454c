"""Whatever is sent, and whatever is stored, a call ends in an answer that can be read."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from familiar_cli.servers.mcp.catalogue import TOOLS
from familiar_cli.store.history.store import HistoryStore
from tests.support.clients import asking
from tests.support.world import live

NAMES = sorted({name for tool in TOOLS for name in tool.input_schema["properties"]})
LIMITED = [tool.name for tool in TOOLS if "limit" in tool.takes]
PATHS = ["../x", "/etc/passwd", "a/../../b.md", "people", "people/bo.md", ".index/x.md", "\x00.md"]
PATHS += ["con.md", "a:b.md", "file\n.md", "people/bo.md/", "x" * 2000, "\ud800.md", ""]
TEXTS = st.one_of(st.sampled_from([*PATHS, "Bo", "turn:1", "daily"]), st.text(max_size=40))
VALUES = st.one_of(
    TEXTS,
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.lists(TEXTS, max_size=7),
    st.dictionaries(TEXTS, TEXTS, max_size=2),
)


@example(calls=[("why", {"subject": f"turn:{2**70}"}), ("why", {"subject": "x", "turn": 2**70})])
@example(calls=[(name, {"limit": 2**70, "offset": 2**70}) for name in LIMITED])
@example(calls=[(name, {"limit": 1.0, "offset": 1.0}) for name in LIMITED])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from([tool.name for tool in TOOLS]),
            st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_arguments_lead_to_an_answer_and_change_nothing(calls, tmp_path_factory):
    os.environ["FAMILIAR_HOME"] = str(tmp_path_factory.mktemp("home"))
    root = live(**{"people/bo": "# Bo\n\n- Bo likes green tea.\n", "daily/2026-01-05_x": "# D\n"})
    history = HistoryStore(root / "history.db")
    history.append("cli", "user", "Tea?")
    history.close()
    told: list[str] = []

    async def ask() -> None:
        async with asking(tell=told.append) as client:
            for name, arguments in calls:
                found = await client.call_tool(name, _sendable(arguments))
                assert found.content[0].text.strip()
                assert "Traceback" not in found.content[0].text

    asyncio.run(ask())
    assert [word for word in told if "failed: " in word] == []
    assert sorted(p.name for p in (root / "memory").rglob("*.md")) == ["2026-01-05_x.md", "bo.md"]


def _sendable(value: Any) -> Any:
    """Return a value as it comes over a wire: half characters stay behind."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


async def test_names_that_could_steer_a_terminal_or_are_no_text_are_sent_harmless():
    root = live(notes="# \x1b[2JNotes\u202e\n")
    history = HistoryStore(root / "history.db")
    history.append("odd\x1b[2J\ud800", "user", "words \x1b]0;title\x07 \ud83d")
    history.close()
    async with asking() as client:
        for tool in ("recent", "memory_list"):
            found = await client.call_tool(tool, {})
            assert not found.is_error, found.content
            told = json.dumps(found.structured_content) + found.content[0].text
            assert not {"\x1b", "\\u001b", "\u202e", "\\u202e"} & {*told, *told.split()}
            assert "\\u001b" not in told
