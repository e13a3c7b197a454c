"""A program writes memory: plans by default, changes with an undo, and rules for both."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from familiar_cli.actions.memory.write_memories import (
    MemoryAddress,
    Writer,
    create_memory,
    delete_memory,
    take_back,
    update_memory,
)
from familiar_cli.base.errors import NotFoundError, RefusedError, UsageError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import NOBODY, OWNER
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.pages.items import tag_bullets
from familiar_cli.store.memory.pages.visible_lines import outward_text
from familiar_cli.writing.pending import read_pending
from tests.support.world import data, home, live, run

PLANS = Writer(source="mcp:desk", session="5e5510", instance="phone", viewer=NOBODY)
WRITES = replace(PLANS, may_write=True)
DAY = MemoryAddress(granularity="daily", date="2026-01-31", instance="phone")
DAYS_FILE = "daily/2026-01-31_phone.md"
ANNA = """---
pinned: true
---

# Anna

- Anna keeps bees.

## In private: DM:anna <!-- private dm%2D42 -->

- Anna hides the honey.
"""


@pytest.fixture
def ada():
    live(anna=ANNA)
    PLANS.reads._texts.clear()
    with Familiar.load_from_disk(home(), "ada") as familiar:
        yield familiar


def visible(ada) -> dict[str, str]:
    files = ada.memory.walk().files
    return {file.rel_path: ada.memory.read_file(file.rel_path) for file in files}


def test_by_default_a_memory_is_a_plan_and_memory_is_unchanged(ada) -> None:
    before = visible(ada)
    made = create_memory(ada, PLANS, DAY, "- Saw a heron.", chats=["c1"])
    assert made.outcome == "planned"
    assert visible(ada) == before
    plans = data("review", "list")["plans"]
    assert [(plan["id"], plan["source"]) for plan in plans] == [(made.plan_id, "mcp:desk")]


def test_an_applied_plan_is_what_was_asked_for(ada) -> None:
    made = create_memory(ada, PLANS, DAY, "- Saw a heron.", chats=["c1"])
    data("review", "apply", made.plan_id)
    assert visible(ada)[DAYS_FILE] == "- Saw a heron. [chat:c1] [via:phone]\n"


def test_the_same_request_is_the_same_plan(ada) -> None:
    first = create_memory(ada, PLANS, DAY, "- Saw a heron.")
    assert create_memory(ada, PLANS, DAY, "- Saw a heron.").plan_id == first.plan_id
    assert len(data("review", "list")["plans"]) == 1


def test_what_a_client_adds_to_a_day_goes_into_the_plan_that_waits(ada) -> None:
    first = create_memory(ada, PLANS, DAY, "- Saw a heron.")
    later = replace(PLANS, session="1a7e4")
    assert create_memory(ada, later, DAY, "- Rain.").plan_id == first.plan_id
    assert create_memory(ada, later, DAY, "- Rain.").plan_id == first.plan_id
    assert "proposed by mcp:desk" in run("review", "list").stdout
    data("review", "apply", first.plan_id)
    assert visible(ada)[DAYS_FILE] == "- Saw a heron. [via:phone]\n- Rain. [via:phone]\n"


def test_a_day_gets_the_bullets_it_lacks_each_once(ada) -> None:
    create_memory(ada, WRITES, DAY, "- Saw a heron.", chats=["c1"])
    create_memory(ada, WRITES, DAY, "- saw a HERON\n- Rain.", chats=["c1"])
    create_memory(ada, WRITES, DAY, "- Saw a heron.", chats=["c2"])
    assert visible(ada)[DAYS_FILE].splitlines() == [
        "- Saw a heron. [chat:c1] [via:phone]",
        "- Rain. [chat:c1] [via:phone]",
        "- Saw a heron. [chat:c2] [via:phone]",
    ]


def test_other_memories_that_are_there_are_not_overwritten(ada) -> None:
    owners = replace(WRITES, viewer=OWNER)  # moments are the owner's
    place = MemoryAddress(granularity="significant", date="2026-01-31", slug="First Talk")
    create_memory(ada, owners, place, "We met.")
    with pytest.raises(RefusedError, match="already exists"):
        create_memory(ada, owners, place, "We never met.")
    assert create_memory(ada, owners, place, "We met.").outcome == "unchanged"


def test_who_took_part_stands_in_the_front_matter(ada) -> None:
    place = MemoryAddress(granularity="weekly", date="2026-W05")
    create_memory(ada, WRITES, place, "Calm.", participating=["phone", "desk"])
    text = visible(ada)["weekly/2026-W05.md"]
    assert text == '---\nsourceInstance: "phone"\nparticipating: ["desk"]\n---\n\nCalm.\n'


@pytest.mark.parametrize(
    ("granularity", "date"),
    [("daily", "2026-02-30"), ("weekly", "2026-01-31"), ("monthly", "../2026"), ("hourly", "2026")],
)
def test_what_names_no_period_is_refused(ada, granularity, date) -> None:
    with pytest.raises(UsageError):
        create_memory(
            ada, WRITES, MemoryAddress(granularity=granularity, date=date, instance="p"), "x"
        )


@pytest.mark.parametrize("path", ["../x.md", "people/_aliases.json", ".index/x.md", "a/.b.md"])
def test_only_pages_of_memory_are_written(ada, path) -> None:
    with pytest.raises(RefusedError):
        create_memory(ada, WRITES, MemoryAddress(path), "x")


@pytest.mark.parametrize(
    "content",
    [" \n", "---\npinned: true\n---\nx", "The key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"],
)
def test_blank_texts_front_matter_and_secrets_are_refused(ada, content) -> None:
    with pytest.raises(RefusedError):
        create_memory(ada, WRITES, DAY, content)


def test_an_update_keeps_front_matter_and_what_is_private(ada) -> None:
    update_memory(ada, WRITES, MemoryAddress("anna.md"), "# Anna\n\n- Anna keeps wasps.\n")
    assert visible(ada)["anna.md"] == ANNA.replace("bees", "wasps")


def test_a_text_may_be_sent_back_with_the_front_matter_it_was_read_with(ada) -> None:
    whole = ANNA.partition("\n## In private")[0].replace("bees", "wasps")
    update_memory(ada, WRITES, MemoryAddress("anna.md"), whole)
    assert visible(ada)["anna.md"] == ANNA.replace("bees", "wasps")
    with pytest.raises(RefusedError, match="front matter"):
        update_memory(ada, WRITES, MemoryAddress("anna.md"), whole.replace("true", "false"))


def test_each_update_counts_one_version_further(ada) -> None:
    create_memory(ada, WRITES, DAY, "- One.")
    owners = replace(WRITES, viewer=OWNER)  # others are not told of hidden changes
    done = [update_memory(ada, owners, DAY, f"- {n}.", edited_by="desk") for n in "23"]
    assert [one.version for one in done] == [2, 3]
    assert ada.past.log(DAYS_FILE)[0].commit.trailers["Embodiment"] == "desk"


def test_an_update_that_shrinks_by_half_waits_for_a_person(ada) -> None:
    create_memory(ada, WRITES, MemoryAddress("long.md"), "Words. " * 100)
    held = update_memory(ada, WRITES, MemoryAddress("long.md"), "Gone.")
    assert held.outcome == "held"
    assert len(visible(ada)["long.md"]) > 500


def test_of_what_holds_something_private_others_delete_what_they_see(ada) -> None:
    assert delete_memory(ada, WRITES, MemoryAddress("anna.md")).outcome == "deleted"
    left = visible(ada)["anna.md"]
    assert not outward_text(left, NOBODY, "anna.md")
    assert {line for line in ANNA.splitlines() if "private" in line} <= {*left.splitlines()}


def test_the_owner_is_told_that_a_page_holds_the_private_text_of_others(ada) -> None:
    owner = replace(WRITES, viewer=ada.privacy.of_token((), by_owner=True))
    with pytest.raises(RefusedError, match="cannot be deleted"):
        delete_memory(ada, owner, MemoryAddress("anna.md"))


def test_a_deletion_is_a_plan_that_a_person_may_apply(ada) -> None:
    create_memory(ada, WRITES, MemoryAddress("tea.md"), "Tea.")
    made = delete_memory(ada, PLANS, MemoryAddress("tea.md"))
    assert "tea.md" in visible(ada)
    assert data("review", "apply", made.plan_id)["deleted"] == ["tea.md"]
    assert "tea.md" not in visible(ada)
    run("memory", "undo")
    assert "tea.md" in visible(ada)


def test_a_session_takes_back_its_newest_change_or_all(ada) -> None:
    before = visible(ada)
    for number in range(3):
        create_memory(ada, WRITES, MemoryAddress(f"n{number}.md"), f"Number {number}.")
    assert take_back(ada, WRITES).rel_paths == ("n2.md",)
    assert next(iter(ada.past.log())).commit.source == WRITES.source
    assert set(take_back(ada, WRITES, everything=True).rel_paths) == {"n0.md", "n1.md"}
    assert visible(ada) == before
    with pytest.raises(NotFoundError):
        take_back(ada, WRITES)


def test_a_session_takes_back_nothing_of_another(ada) -> None:
    create_memory(ada, WRITES, MemoryAddress("tea.md"), "Tea.")
    with pytest.raises(NotFoundError):
        take_back(ada, replace(WRITES, source="mcp:other"))
    with pytest.raises(NotFoundError):
        take_back(ada, replace(WRITES, session="an0the4"))


def test_a_session_withdraws_its_plans(ada) -> None:
    made = create_memory(ada, PLANS, MemoryAddress("tea.md"), "Tea.")
    assert take_back(ada, PLANS).plans == (made.plan_id,)
    assert data("review", "list")["plans"] == []


def test_the_journal_names_the_client_and_the_embodiment(ada) -> None:
    create_memory(ada, WRITES, DAY, "- Saw a heron.")
    commit = ada.past.log(DAYS_FILE)[0].commit
    assert (commit.source, commit.trailers["Embodiment"]) == ("mcp:desk", "phone")


def test_tags_stand_before_the_turns_that_a_bullet_rests_on() -> None:
    text = "# Day\n\n- Bees. <!-- turns 3 -->\n  And wasps.\n\nNo bullet.\n"
    assert tag_bullets(text, via="my phone", chats=["a"]) == text.replace(
        "- Bees.", "- Bees. [chat:a] [via:my%20phone]"
    )


def test_a_plan_is_known_to_whoever_sees_as_much_as_who_proposed_it(ada) -> None:
    anna = replace(PLANS, viewer=ada.privacy.of_person([Author("discord", "42")]))
    made = [
        create_memory(ada, who, MemoryAddress(f"n{n}.md"), "Hm.").plan_id
        for n, who in enumerate((PLANS, anna))
    ]
    plans = [read_pending(ada.memory, plan_id) for plan_id in made]
    assert [anna.knows(plan) for plan in plans] == [True, True]
    assert [PLANS.knows(plan) for plan in plans] == [True, False]
