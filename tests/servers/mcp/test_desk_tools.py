"""Reminders, tasks, notes, moments and waiting plans, for agents."""

from __future__ import annotations

from tests.support.clients import asking, called
from tests.support.world import data, home, live


def memory() -> dict[str, str]:
    root = home() / "ada" / "memory"
    return {f.relative_to(root).as_posix(): f.read_text() for f in root.rglob("*.md")}


async def test_reminders_tasks_and_notes_are_added_listed_and_done():
    live()
    async with asking(allow_write=True) as client:
        await called(client, "todo", action="add", text="Call Bo", when="2026-01-05 09:00")
        await called(client, "todo", text="Buy milk")
        await called(client, "todo", action="add", kind="note", text="Bo has a boat")
        listed = await called(client, "todo")
        await called(client, "todo", action="done", id="t1")
        await called(client, "todo", text="Water the plants", when="every monday 9:00")
        weekly = await called(client, "todo", kind="reminder")
        tasks = await called(client, "todo", kind="task")
        wrong = await client.call_tool("todo", {"action": "done", "id": "t9"})
    assert [one["kind"] for one in listed["results"]] == ["reminder", "task", "note"]
    assert listed["results"][0]["due"] is True  # its time has come
    assert [one["id"] for one in weekly["results"]] == ["r1", "r2"]
    assert weekly["results"][1]["every"] == "every monday 09:00"
    assert [one["status"] for one in tasks["results"]] == ["done"]
    assert wrong.is_error
    assert "`familiar" not in wrong.content[0].text
    assert memory()["scratch.md"] == "Bo has a boat\n"


async def test_a_reminder_that_became_due_is_told_once_and_a_private_one_not_at_all():
    private = "\n## In private: DM <!-- private dm%2D42 -->\n\n- [ ] Secret @2026-01-02 09:00\n"
    live(reminders=f"# Reminders\n\n- [ ] Call Bo @2026-01-05 09:00\n{private}", notes="tea")
    async with asking() as client:
        first = await called(client, "memory_list")
        again = await called(client, "memory_list")
    assert [note for note in first["notes"] if "due" in note] == [
        "1 reminder became due; `todo` lists what is due."
    ]
    assert not any("due" in note for note in again.get("notes", []))


async def test_what_is_private_on_a_list_is_not_shown_and_stays():
    private = "\n## In private: DM <!-- private dm%2D42 -->\n\n- [ ] A present for Bo\n"
    live(tasks=f"# Tasks\n\n- [ ] Milk\n{private}")
    async with asking(allow_write=True) as client:
        await called(client, "todo", text="Bread")
        listed = await called(client, "todo")
    assert [one["text"] for one in listed["results"]] == ["Milk", "Bread"]
    assert memory()["tasks.md"] == f"# Tasks\n\n- [ ] Milk\n- [ ] Bread\n{private}"


async def test_a_moment_has_a_file_of_its_own_and_the_same_twice_is_one():
    live()
    async with asking(allow_write=True) as client:
        for text in ("We saw the sea.", "We saw the sea.", "We saw the sea.\n\nAgain."):
            await called(client, "remember", text=text, date="2026-04-07")
    assert set(memory()) == {
        "significant/2026-04-07_we-saw-the-sea.md",
        "significant/2026-04-07_we-saw-the-sea-2.md",
    }


async def test_a_path_with_a_waiting_plan_says_so_to_every_session():
    live()
    page = {"path": "people/bo.md", "content": "# Bo\n"}
    async with asking() as one, asking() as two:
        made = await called(one, "memory_create", **page)
        same = await called(one, "memory_create", **page)
        plan = made["results"][0]["plan"]
        for client in (one, two):
            refused = await client.call_tool("memory_create", {**page, "content": "# Robert\n"})
            assert refused.is_error
            assert plan in refused.content[0].text
        await called(one, "memory_update", path="people/bo.md", content="# Robert\n")
        listed = await called(two, "plans_list")
    assert same["results"][0]["plan"] == plan
    [shown] = listed["results"]
    assert (shown["plan"], shown["status"], shown["yours"]) == (plan, "waiting", False)
    assert "+# Robert" in shown["text"]


async def test_what_a_person_decided_is_told():
    live(tea="# Tea\n")
    async with asking() as client:
        plans = [
            (await called(client, "memory_create", path=path, content="Words."))["results"][0][
                "plan"
            ]
            for path in ("one.md", "two.md")
        ]
        data("review", "apply", plans[0])
        data("review", "reject", plans[1])
        listed = await called(client, "plans_list")
    assert {(one["plan"], one["status"]) for one in listed["results"]} == {
        (plans[0], "applied"),
        (plans[1], "rejected"),
    }


async def test_a_plan_about_private_things_is_not_shown():
    private = "# Tea\n\n## In private: DM <!-- private dm%2D42 -->\n\n- Bo is ill.\n"
    live(tea=private)
    async with asking(channel_id="dm-42") as own:
        await called(own, "memory_edit", path="tea.md", old_text="ill", new_text="well")
    async with asking() as client:
        listed = await client.call_tool("plans_list", {})
    assert "tea.md" not in str(listed)


async def test_hints_name_tools_and_never_commands():
    live(tea="# Tea\n")
    calls = [
        ("recent", {"channel": "x"}),
        ("why", {"subject": "turn:4"}),
        ("memory_read", {"path": "x.md"}),
        ("memory_undo", {}),
        ("todo", {"action": "done", "id": "r1"}),
        ("memory_consolidate", {"targetDate": "2026-W05"}),
        ("memory_write", {}),
        ("memory_search", {"query": "tea"}),
        ("person", {"name": "Bo"}),
        ("sync_push", {"instance": {"id": "phone"}}),
    ]
    async with asking() as client:
        for tool, arguments in calls:
            told = await client.call_tool(tool, arguments)
            assert "`familiar " not in str(told), told


async def test_an_embodiment_is_registered_only_where_a_person_allows_it():
    live(tea="# Tea\n")
    async with asking() as client:
        pulled = await called(client, "sync_pull", instanceId="phone")
        refused = await client.call_tool("sync_push", {"instance": {"id": "phone"}})
        known = await called(client, "sync_status")
    assert "--embodiments" in pulled["notes"][0]
    assert refused.is_error
    assert known["results"] == []
