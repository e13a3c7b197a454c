"""Writing tools: plans unless the server may write, and an undo for the session."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack

from tests.support.clients import asking
from tests.support.world import data, home, live

HERON = {
    "granularity": "daily",
    "date": "2026-01-31",
    "content": "- Saw a heron.",
    "chatIds": ["c1"],
    "instanceId": "phone",
}
DAYS_FILE = "daily/2026-01-31_phone.md"


def memory() -> dict[str, str]:
    root = home() / "ada" / "memory"
    return {f.relative_to(root).as_posix(): f.read_text() for f in root.rglob("*.md")}


async def test_without_leave_to_write_a_memory_is_a_plan_that_review_lists():
    live(tea="Tea.\n")
    async with asking() as client:
        made = await client.call_tool("memory_create", HERON)
    result = made.structured_content["results"][0]
    assert result["status"] == "planned"
    assert [plan["id"] for plan in data("review", "list")["plans"]] == [result["plan"]]
    assert memory() == {"tea.md": "Tea.\n"}
    data("review", "apply", result["plan"])
    assert memory()[DAYS_FILE] == "- Saw a heron. [chat:c1] [via:phone]\n"


async def test_with_leave_to_write_a_session_writes_and_takes_back():
    live(tea="Tea.\n")
    async with asking(allow_write=True, client="desk") as client:
        await client.call_tool("memory_create", HERON)
        await client.call_tool("memory_update", {"path": "tea.md", "content": "Green tea."})
        assert memory()["tea.md"] == "Green tea.\n"
        await client.call_tool("memory_delete", {"path": "tea.md"})
        assert "tea.md" not in memory()
        await client.call_tool("memory_undo", {})
        assert memory()["tea.md"] == "Green tea.\n"
        done = await client.call_tool("memory_undo", {"all": True})
    assert memory() == {"tea.md": "Tea.\n"}
    assert "Undid 2 files" in done.content[0].text


async def test_a_refusal_says_what_stayed_unchanged():
    live(tea="Tea.\n")
    async with asking(allow_write=True) as client:
        made = await client.call_tool("memory_create", {"path": "../x.md", "content": "x"})
        blank = await client.call_tool("memory_update", {"path": "tea.md", "content": " "})
    assert made.is_error
    assert blank.is_error
    assert "nothing was changed" in blank.content[0].text
    assert memory() == {"tea.md": "Tea.\n"}


async def test_consolidating_without_a_model_says_so():
    root = live() / "memory" / "daily"
    root.mkdir()
    for day in range(5, 12):
        (root / f"2026-01-{day:02}_phone.md").write_text("- Saw a heron.\n")
    async with asking() as client:
        made = await client.call_tool("memory_consolidate", {"targetDate": "2026-W02"})
    assert "weekly/2026-W02.md" not in memory()
    assert made.is_error or made.structured_content["notes"]


async def test_sixteen_clients_at_once_lose_nothing():
    live()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(asking(allow_write=True)) for _ in range(16)]
        made = await asyncio.gather(
            *(
                client.call_tool("memory_create", HERON | {"content": f"- Bird {number}."})
                for number, client in enumerate(clients)
            )
        )
    assert not [one.content[0].text for one in made if one.is_error]
    lines = memory()[DAYS_FILE].splitlines()
    assert sorted(lines) == sorted(f"- Bird {n}. [chat:c1] [via:phone]" for n in range(16))


async def test_a_memory_without_a_place_goes_to_today():
    live()
    async with asking(allow_write=True, client="Desk Client") as client:
        made = await client.call_tool("memory_create", {"content": "- Saw a heron."})
    path = made.structured_content["results"][0]["path"]
    assert re.fullmatch(r"daily/\d{4}-\d\d-\d\d_[a-z-]+\.md", path)
    assert memory()[path].startswith("- Saw a heron. [via:")


class TestAHandEdit:
    """What a person typed is never overwritten or deleted unseen."""

    @staticmethod
    def typed(text: str) -> None:
        (home() / "ada" / "memory" / "tea.md").write_text(text)

    async def test_made_after_memory_read_survives_memory_update(self):
        live(tea="# Tea\n\n- Green tea.\n")
        async with asking(allow_write=True) as client:
            await client.call_tool("memory_read", {"path": "tea.md"})
            self.typed("# Tea\n\n- Green tea.\n- Typed.\n")
            new = "# Tea\n\n- Green tea.\n- Black tea.\n"
            made = await client.call_tool("memory_update", {"path": "tea.md", "content": new})
            assert memory()["tea.md"] == "# Tea\n\n- Green tea.\n- Typed.\n- Black tea.\n"
            assert "edited after" in made.content[0].text
            again = new + "- Oolong.\n"  # it still does not know what was typed
            await client.call_tool("memory_update", {"path": "tea.md", "content": again})
        assert {"- Typed.", "- Black tea.", "- Oolong."} <= set(memory()["tea.md"].splitlines())

    async def test_of_the_same_line_stays_beside_the_new_one(self):
        live(tea="- Green tea.\n")
        async with asking(allow_write=True) as client:
            await client.call_tool("memory_read", {"path": "tea.md"})
            self.typed("- Green tea, never hot.\n")
            sent = {"path": "tea.md", "content": "- Green tea at noon.\n"}
            await client.call_tool("memory_update", sent)
        assert memory()["tea.md"] == "- Green tea, never hot.\n- Green tea at noon.\n"

    async def test_survives_an_update_by_who_never_read_it(self):
        live(tea="- Green tea.\n")
        data("memory", "append", "other.md", "x")  # the journal begins
        self.typed("- Green tea.\n- Typed.\n")
        async with asking(allow_write=True) as client:
            sent = {"path": "tea.md", "content": "- Black tea.\n"}
            await client.call_tool("memory_update", sent)
        assert memory()["tea.md"] == "- Black tea.\n- Typed.\n"

    async def test_is_not_deleted_unseen(self):
        live(tea="- Green tea.\n")
        async with asking(allow_write=True) as client:
            await client.call_tool("memory_read", {"path": "tea.md"})
            self.typed("- Green tea.\n- Typed.\n")
            refused = await client.call_tool("memory_delete", {"path": "tea.md"})
            assert refused.is_error
            assert "memory_read" in refused.content[0].text
            assert "tea.md" in memory()
            await client.call_tool("memory_read", {"path": "tea.md"})
            await client.call_tool("memory_delete", {"path": "tea.md"})
        assert "tea.md" not in memory()

    async def test_goes_where_the_update_itself_removes_it(self):
        live(tea="- Green tea.\n- Old.\n")
        async with asking(allow_write=True) as client:
            self.typed("- Green tea.\n- Old.\n- Typed.\n")
            await client.call_tool("memory_read", {"path": "tea.md"})
            sent = {"path": "tea.md", "content": "- Green tea.\n- Old.\n"}
            await client.call_tool("memory_update", sent)
        assert memory()["tea.md"] == "- Green tea.\n- Old.\n"
