"""Parts of a page change alone, days are lists, and nobody's edit is lost."""

# ruff: noqa: E501  # a case a line
from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.memory.pages.items import bullet_items, key_of, merge_day
from tests.support.cases import each
from tests.support.clients import asking, called
from tests.support.world import home, live

TEA = "# Tea\n\n- Green tea.\n\n## Likes\n\n- Rum.\n- Ale.\n\n### Often\n\n- Water.\n\n## Dislikes\n\n- Ale.\n"


def text_of(path: str = "tea.md") -> str:
    return (home() / "ada" / "memory" / path).read_text(encoding="utf-8")


def type_by_hand(text: str, path: str = "tea.md") -> None:
    (home() / "ada" / "memory" / path).write_text(text, encoding="utf-8")


@each(
    "edit, before, after",
    [
        ({"append": "- Gin."}, "## Dislikes\n\n- Ale.\n", "## Dislikes\n\n- Ale.\n- Gin.\n"),
        ({"append": "Words."}, "- Ale.\n", "- Ale.\n\nWords.\n"),
        ({"append": "- Ale.\n- Gin."}, "## Dislikes\n\n- Ale.\n", "## Dislikes\n\n- Ale.\n- Gin.\n"),
        ({"append": "- Gin.", "section": "likes"}, "- Water.\n", "- Water.\n- Gin.\n"),
        ({"append": "- Gin.", "section": "Other"}, "- Ale.\n", "- Ale.\n\n## Other\n\n- Gin.\n"),
        ({"old_text": "Rum", "new_text": "Gin"}, "- Rum.", "- Gin."),
        ({"old_text": "- Rum.", "new_text": ""}, "- Rum.\n", ""),
        ({"old_text": "Ale", "new_text": "Gin", "section": "Dislikes"}, "## Dislikes\n\n- Ale.", "## Dislikes\n\n- Gin."),
        ({"section": "Dislikes", "new_text": "## Dislikes\n- Gin."}, "## Dislikes\n\n- Ale.", "## Dislikes\n\n- Gin."),
        ({"section": "# Often", "new_text": "- Gin."}, "- Water.", "- Gin."),
        ({"operation": "find_replace", "find_text": "Rum", "content": "Gin"}, "- Rum.", "- Gin."),
        ({"operation": "append", "content": "- Gin."}, "## Dislikes\n\n- Ale.\n", "## Dislikes\n\n- Ale.\n- Gin.\n"),
    ],
)  # fmt: skip
async def test_an_edit_changes_what_it_names_and_nothing_else(edit, before, after):
    live(tea=TEA)
    async with asking(allow_write=True) as client:
        await called(client, "memory_edit", path="tea.md", **edit)
    head, found, tail = TEA.rpartition(before)
    assert found
    assert text_of() == head + after + tail


@each(
    "edit, told",
    [
        ({"old_text": "Ale", "new_text": "Gin"}, "2 times"),
        ({"old_text": "Vodka", "new_text": "Gin"}, "does not occur"),
        ({"append": "- Gin.", "checksum": "0" * 12}, "memory_read"),
        ({"append": "password: hunter2hunter2"}, "secrets"),
        ({"append": " "}, "blank"),
        ({"append": "x", "new_text": "y"}, "cannot be combined"),
        ({}, "needs a change to make"),
    ],
)
async def test_an_edit_that_is_not_clear_changes_nothing(edit, told):
    live(tea=TEA)
    async with asking(allow_write=True) as client:
        refused = await client.call_tool("memory_edit", {"path": "tea.md", **edit})
    assert refused.is_error
    assert told in refused.content[0].text
    assert text_of() == TEA


async def test_a_line_of_a_large_file_changes_in_two_calls_and_a_thousand_tokens():
    lines = [f"- {number}: the quick brown fox jumps over it" for number in range(5000)]
    live(tea="\n".join(["# Notes", "", *lines, ""]))
    assert len(text_of()) > 200_000
    async with asking(allow_write=True) as client:
        read = await client.call_tool("memory_read", {"path": "tea.md", "find": "- 4321:"})
        [found] = read.structured_content["results"]
        edit = {"old_text": "4321: the quick", "new_text": "4321: the slow"}
        made = await client.call_tool(
            "memory_edit", {"path": "tea.md", **edit, "checksum": found["checksum"]}
        )
    assert "- 4321: the slow brown fox" in text_of()
    assert len(read.model_dump_json() + made.model_dump_json()) / 4 < 1000


async def test_what_was_typed_since_the_reading_stays_beside_an_edit():
    live(tea=TEA)
    async with asking(allow_write=True) as client:
        read = await called(client, "memory_read", path="tea.md")
        type_by_hand(TEA.replace("- Rum.\n", "- Rum, never hot.\n- Typed.\n"))
        checksum = read["results"][0]["checksum"]
        for edit in ({"append": "- Gin."}, {"old_text": "Water", "new_text": "Milk"}):
            await called(client, "memory_edit", path="tea.md", **edit, checksum=checksum)
    assert {"- Rum, never hot.", "- Typed.", "- Gin.", "- Milk."} <= set(text_of().splitlines())


async def test_what_is_private_is_neither_seen_nor_touched_by_an_edit():
    private = "\n## In private: DM <!-- private dm%2D42 -->\n\n- Bo is ill.\n"
    live(tea=TEA + private)
    async with asking(allow_write=True) as client:
        hidden = await client.call_tool(
            "memory_edit", {"path": "tea.md", "old_text": "ill", "new_text": "x"}
        )
        await called(client, "memory_edit", path="tea.md", append="- Gin.")
    assert hidden.is_error
    assert text_of() == TEA + "- Gin.\n" + private


OWN = "<!-- private @cli%2Duser -->"


@each(
    "before, sent, after",
    [
        (f"# Tea {OWN}\n\nRum.\n", "# Tea\n\nGin.\n", f"# Tea {OWN}\n\nGin.\n"),
        (f"# Tea {OWN}\n\nRum.\n", "# Drinks\n\nGin.\n", f"# Drinks {OWN}\n\nGin.\n"),
        (f"# Tea {OWN}\n\nRum.\n", "Gin.\n", f"# Tea {OWN}\nGin.\n"),
        (f"# T\n\n## Own {OWN}\n\nRum.\n", "# T\n\n## Own\n\nA.\n", f"# T\n\n## Own {OWN}\n\nA.\n"),
        (
            "# T\n\n- A. <!-- turns 1 -->\n- B.\n",
            "# T\n\n- A.\n- C.\n",
            "# T\n\n- A. <!-- turns 1 -->\n- C.\n",
        ),
    ],
)
async def test_a_program_that_leaves_out_who_may_see_a_text_publishes_nothing(before, sent, after):
    live(tea=before)
    async with asking(allow_write=True, client="desk") as client:
        await called(client, "memory_read", path="tea.md")
        await called(client, "memory_update", path="tea.md", content=sent)
        assert text_of() == after
        again = await client.call_tool(
            "memory_update", {"path": "tea.md", "content": sent + "- D.\n"}
        )
    assert text_of() == f"{after}- D.\n"
    assert "edited" not in again.content[0].text


async def test_without_leave_to_write_edits_of_one_file_are_one_plan():
    live(tea=TEA)
    async with asking() as client:
        one = await called(client, "memory_edit", path="tea.md", append="- Gin.")
        two = await called(
            client, "memory_edit", path="tea.md", old_text="- Gin.", new_text="- Port."
        )
        listed = await called(client, "plans_list")
    assert text_of() == TEA
    assert one["results"][0]["plan"] == two["results"][0]["plan"]
    [plan] = listed["results"]
    assert "+- Port." in plan["text"]


DAY = {"granularity": "daily", "date": "2026-01-05", "chatIds": ["chat-7"], "instanceId": "desk"}
SENTENCES = [
    "Bo likes green tea.",
    "Anna plays the cello.",
    "Bo likes green tea.",
    "anna plays the cello",
]
TWO = "- Bo likes green tea. [chat:chat-7] [via:desk]\n- Anna plays the cello. [chat:chat-7] [via:desk]\n"


@each(
    "contents",
    [
        SENTENCES,
        ["\n".join(SENTENCES)],
        ["\n\n".join(SENTENCES)],
        [" ".join(SENTENCES[:3])],
        ["- " + "\n- ".join(SENTENCES)],
        ["• " + "\n• ".join(SENTENCES)],
        ["1. " + "\n2. ".join(SENTENCES[:2]), "* " + SENTENCES[1]],
    ],
)
async def test_sentences_sent_to_a_day_become_bullets_with_tags_each_once(contents):
    live()
    async with asking(allow_write=True) as client:
        for content in contents:
            await called(client, "memory_create", **DAY, content=content)
        for content in contents:
            path = "daily/2026-01-05_desk.md"
            await called(client, "memory_edit", path=path, append=content, chatIds=["chat-7"])
    assert text_of("daily/2026-01-05_desk.md") == TWO


async def test_where_a_memory_is_from_stays_in_its_front_matter():
    live()
    place = {"granularity": "daily", "date": "2026-01-05", "instanceId": "desk"}
    async with asking(allow_write=True, embodiments=True) as client:
        for words in ("One.", "Two."):
            await called(
                client,
                "memory_create",
                **place,
                content=words,
                sourceInstance="phone",
                chatIds=["c1"],
            )
        pulled = await called(client, "sync_pull", instanceId="phone")
        told = (await client.call_tool("sync_pull", {"instanceId": "phone"})).content[0].text
    assert re.search(r' clock="[\w-]+: \d+"', told)
    text = text_of("daily/2026-01-05_desk.md")
    assert (
        text
        == '---\nsourceInstance: "phone"\n---\n\n- One. [chat:c1] [via:desk]\n- Two. [chat:c1] [via:desk]\n'
    )
    [day] = [one for one in pulled["results"] if one["path"].startswith("daily/")]
    assert day["chatIds"] == ["c1"]


WORDS = st.sampled_from(["Bo", "likes", "tea", "Anna", "came", "at", "nine", "the", "harbour"])
LINES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
SENT = st.tuples(
    st.sampled_from(["", "- ", "* ", "1. ", "• "]), LINES, st.sampled_from([".", "!", ""])
)
CALLS = st.lists(st.lists(SENT.map("".join), min_size=1, max_size=5), min_size=1, max_size=20)


@given(CALLS, st.sampled_from(["\n", "\n\n", " "]))
def test_in_whatever_way_models_write_each_item_is_one_bullet(calls, gap):
    day = ""
    for lines in calls:
        before = day
        day = merge_day(day, gap.join(lines), via="desk", chats=["c1"])
        assert day.startswith(before)
        assert merge_day(day, gap.join(lines), via="desk", chats=["c1"]) == day
    items = bullet_items(day)
    assert len({key_of(item) for item in items}) == len(items) == len(day.splitlines())
    assert all(item.startswith("- ") and item.endswith(" [chat:c1] [via:desk]\n") for item in items)
