"""Embodiments sync through the tools: nothing is lost, nothing deleted comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.clients import asking
from tests.support.embodiment import Embodiment
from tests.support.world import data, home, live, run

DAY = "daily/2026-01-31_phone.md"
DAILY = {"granularity": "daily", "date": "2026-01-31", "sourceInstance": "phone"}
WEEK = "weekly/2026-W05.md"
WEEKLY = {"granularity": "weekly", "date": "2026-W05"}
SOUL = "self/soul.md"


def memory() -> dict[str, str]:
    root = home() / "ada" / "memory"
    return {f.relative_to(root).as_posix(): f.read_text() for f in root.rglob("*.md")}


def paired(test):
    """Have a test run with two embodiments that have pulled."""

    async def run_it() -> None:
        async with _pair() as (phone, tablet):
            await test(phone, tablet)

    run_it.__name__ = test.__name__
    return run_it


@asynccontextmanager
async def _pair() -> AsyncIterator[tuple[Embodiment, Embodiment]]:
    root = live() / "memory"
    for directory, name, text in (
        ("self", "soul.md", "# Soul\n\n- Calm.\n- Curious.\n"),
        ("weekly", "2026-W05.md", "# Week\n\n- Rain. [via:laptop]\n- Sun. [via:laptop]\n"),
        ("people", "bo.md", "# Bo\n"),
    ):
        (root / directory).mkdir()
        (root / directory / name).write_text(text)
    async with asking(allow_write=True, embodiments=True, client="desk") as client:
        phone, tablet = Embodiment(client, "phone"), Embodiment(client, "tablet")
        await phone.pull()
        await tablet.pull()
        yield phone, tablet


@paired
async def test_a_pull_gives_identity_and_memories_and_then_only_what_is_new(phone, tablet):
    assert phone.texts == {SOUL: memory()[SOUL], WEEK: memory()[WEEK]}
    phone.write(DAY, "- Saw a heron.", **DAILY, chatIds=["c1"])
    await phone.sync()
    page = await tablet._call("sync_pull", {"instanceId": "tablet", "lastSyncToken": tablet.token})
    assert [entry["path"] for entry in page["results"]] == [DAY]
    assert page["results"][0]["text"] == "- Saw a heron. [chat:c1] [via:phone]\n"
    assert page["results"][0]["clock"] == {"phone": 1}


@paired
async def test_a_change_is_taken_and_the_journal_names_who_made_it(phone, tablet):
    phone.write(SOUL, "# Soul\n\n- Calm.\n- Bold.\n")
    made = await phone.sync()
    assert made["results"][0]["status"] == "applied"
    assert memory()[SOUL] == "# Soul\n\n- Calm.\n- Bold.\n"
    assert data("memory", "log", SOUL)["commits"][0]["source"].startswith("mcp:")


@paired
async def test_both_sides_edits_at_once_are_merged(phone, tablet):
    phone.write(SOUL, "# Soul\n\n- Calm.\n- Curious.\n- Loves rain.\n")
    tablet.write(SOUL, "# Soul\n\n- Very calm.\n- Curious.\n")
    await phone.sync()
    made = await tablet.sync()
    assert made["results"][0]["status"] == "merged"
    assert memory()[SOUL] == "# Soul\n\n- Very calm.\n- Curious.\n- Loves rain.\n"
    await phone.sync()
    assert phone.texts == tablet.texts


@paired
async def test_of_two_versions_that_cannot_be_had_both_the_loser_is_kept(phone, tablet):
    phone.write(SOUL, "# Soul\n\n- Fiery.\n- Curious.\n")
    tablet.write(SOUL, "# Soul\n\n- Icy.\n- Curious.\n")
    await phone.sync()
    made = await tablet.sync()
    assert made["results"][0]["status"] == "conflict"
    files = memory()
    both = files[SOUL] + files[made["results"][0]["copy"]]
    assert "Fiery" in both
    assert "Icy" in both


@paired
async def test_a_lost_answer_and_a_repeat_change_nothing(phone, tablet):
    phone.write(DAY, "- Saw a heron.", **DAILY)
    sent = phone.outgoing()
    await phone.push(sent, answer="is lost")
    await tablet.pull()
    tablet.write(DAY, tablet.texts[DAY] + "- Rain.\n")
    await tablet.sync()
    before = memory()
    again = await phone.push(sent)
    assert again["results"][0]["status"] == "stale"
    assert again["results"][0]["text"] == before[DAY]
    assert memory() == before


@paired
async def test_pushes_that_arrive_in_the_wrong_order_lose_nothing(phone, tablet):
    phone.write(DAY, "- One.", **DAILY)
    first = phone.outgoing()
    phone.write(DAY, "- One.\n- Two.")
    second = phone.outgoing()
    await phone.push(second)
    await phone.push(first)
    assert memory()[DAY] == "- One. [via:phone]\n- Two. [via:phone]\n"


@paired
async def test_a_deletion_reaches_everyone_and_is_waited_for_until_all_know(phone, tablet):
    phone.delete(WEEK)
    await phone.sync()
    assert WEEK not in memory()
    tombstone = (await phone._call("sync_status", {}))["results"][-1]
    assert (tombstone["path"], "tablet" in tombstone["waitingFor"]) == (WEEK, True)
    for device in (phone, tablet):
        await device.pull()
        await device.pull()
    assert WEEK not in tablet.texts
    state = await phone._call("sync_status", {})
    assert [one for one in state["results"] if "path" in one] == []


@paired
async def test_an_old_copy_does_not_bring_a_deleted_file_back(phone, tablet):
    old = dict(tablet.files[WEEK])
    phone.delete(WEEK)
    await phone.sync()
    tablet.files[WEEK] = old
    tablet.dirty.append(WEEK)
    made = await tablet.push()
    assert (made["results"][0]["status"], made["results"][0]["deleted"]) == ("stale", True)
    assert WEEK not in memory()
    assert WEEK not in tablet.texts


@paired
async def test_a_deletion_against_an_edit_keeps_the_edit(phone, tablet):
    phone.delete(WEEK)
    tablet.write(WEEK, tablet.texts[WEEK] + "- Wind.\n")
    await phone.sync()
    made = await tablet.sync()
    assert made["results"][0]["status"] == "kept"
    assert "- Wind. [via:tablet]" in memory()[WEEK]
    phone.delete(SOUL)
    tablet.write(SOUL, tablet.texts[SOUL] + "- Kind.\n")
    await tablet.sync()
    made = await phone.sync()
    assert made["results"][0]["status"] == "kept"
    assert "- Kind." in memory()[SOUL]


@paired
async def test_a_wiped_device_neither_wipes_nor_counts_from_one(phone, tablet):
    phone.write(DAY, "- One.", **DAILY)
    await phone.sync()
    before = memory()
    phone.wipe()
    await phone.sync()
    assert phone.texts[DAY] == before[DAY]
    assert memory() == before
    phone.write(DAY, phone.texts[DAY] + "- Two.\n")
    await phone.sync()
    assert phone.files[DAY]["clock"] == {"phone": 2}


@paired
async def test_a_wiped_device_that_writes_before_it_pulls_is_merged(phone, tablet):
    phone.write(DAY, "- One.", **DAILY)
    await phone.sync()
    phone.wipe()
    phone.write(DAY, "- Two.", **DAILY)
    await phone.sync()
    assert memory()[DAY].splitlines() == ["- One. [via:phone]", "- Two. [via:phone]"]


@paired
async def test_a_device_that_was_removed_has_to_pull_first(phone, tablet):
    assert [one["id"] for one in data("sync", "status")["embodiments"]] == ["phone", "tablet"]
    data("sync", "forget", "tablet")
    assert [one["id"] for one in data("sync", "status")["embodiments"]] == ["phone"]
    phone.delete(WEEK)
    await phone.sync()
    tablet.write(WEEK, tablet.texts[WEEK])
    with pytest.raises(RuntimeError, match="call sync_pull"):
        await tablet.push()
    tablet.wipe()
    await tablet.pull()
    assert WEEK not in tablet.texts
    assert WEEK not in memory()


@paired
async def test_a_much_smaller_client_wipes_nothing(phone, tablet):
    for month in range(1, 10):
        phone.write(
            f"monthly/2026-{month:02}.md", "Calm.", granularity="monthly", date=f"2026-{month:02}"
        )
    await phone.sync()
    before = memory()
    for path in list(phone.texts):
        phone.delete(path)
    made = await phone.push()
    assert {one["status"] for one in made["results"]} == {"held"}
    assert memory() == before
    phone.wipe()
    phone.write(SOUL, " ", category="self", filename="soul.md")
    assert (await phone.push())["results"][0]["status"] == "refused"
    assert memory() == before


@paired
async def test_edits_by_hand_and_by_devices_are_told_apart(phone, tablet):
    (home() / "ada" / "memory" / SOUL).write_text("# Soul\n\n- Calm.\n- By hand.\n")
    phone.write(SOUL, "# Soul\n\n- Calm.\n- Curious.\n- By phone.\n")
    await phone.sync()
    text = memory()[SOUL]
    assert "By hand" in text
    assert "By phone" in text


@paired
async def test_what_is_private_neither_leaves_nor_is_lost(phone, tablet):
    secret = "\n## In private: D <!-- private d -->\n\n- Hidden.\n"
    path = home() / "ada" / "memory" / SOUL
    path.write_text(path.read_text() + secret)
    await phone.pull()
    assert "Hidden" not in str(phone.files)
    phone.write(SOUL, "# Soul\n\n- Bold.\n")
    await phone.sync()
    assert memory()[SOUL] == "# Soul\n\n- Bold.\n" + secret


@paired
async def test_names_from_a_device_are_no_paths(phone, tablet):
    phone.write("self/../../x.md", "x", category="self", filename="../../x.md")
    phone.write("weekly/x.md", "x", granularity="weekly", date="../x")
    phone.write(DAY, "- One.", **DAILY)
    made = await phone.push()
    assert sorted(one["status"] for one in made["results"]) == ["applied", "refused", "refused"]


async def test_without_leave_to_write_a_push_is_a_plan():
    live(notes="Tea.\n")
    async with asking(embodiments=True) as client:
        phone = Embodiment(client, "phone")
        await phone.pull()
        phone.write(DAY, "- One.", **DAILY)
        made = await phone.push()
        again = await phone.push()
        phone.write(DAY, "- One.\n- Two.")
        await phone.push()
    assert made["results"][0]["status"] == "planned"
    assert again["results"][0]["plan"] == made["results"][0]["plan"]
    assert DAY not in memory()
    run("review", "apply", made["results"][0]["plan"])
    assert memory()[DAY] == "- One. [via:phone]\n- Two. [via:phone]\n"
    assert data("review", "list")["plans"] == []


@paired
async def test_a_long_pull_comes_in_pages_of_whole_files(phone, tablet):
    text = "- Rain and wind. [via:phone]\n" * 400
    for year in range(1990, 2005):
        phone.write(f"yearly/{year}.md", text, granularity="yearly", date=str(year))
    await phone.sync()
    asked = {"instanceId": "tablet", "lastSyncToken": tablet.token}
    assert "next" in await tablet._call("sync_pull", asked)
    await tablet.sync()
    assert tablet.texts == phone.texts
    assert tablet.texts["yearly/2004.md"] == text
