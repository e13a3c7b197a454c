"""One person with two accounts, taken apart again, and called by another name."""

from __future__ import annotations

import pytest

from familiar_cli.actions.people import change_people
from familiar_cli.base.errors import NotFoundError, UsageError
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.memory.aliases import main_slug
from familiar_cli.store.memory.pages.visible_lines import visible_in
from tests.support.viewers import viewer_in
from tests.writing.writer.support import ANNAS, BOB, BOBS, World, op, reply

TOPIC = (
    "# Bees\n\n[Bob](../people/discord-7.md) and `[Bob](../people/discord-7.md)` and [a](x.md)\n"
)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.history.close()


@pytest.fixture
def two(world):
    """Anna and Bob, each with a file made from what they said, and a topic that links to Bob."""
    world.say()
    world.say("I sell honey.", BOB)
    bob = op(file=BOBS, lines=["Bob sells honey."], turns=[2])
    feels = op(file=BOBS, lines=["Trusted."], turns=[2], kind="felt")
    world.write(reply(op(), bob, feels))
    world.store.write_file("topics/bees.md", TOPIC)
    return world


def said_by(world):
    return lambda n: world.history.turn(n).author.slug


def merge(world, kept="discord-42", other="discord-7"):
    return change_people.apply_draft(
        world.store, change_people.merge_files(world.store, kept, other), "merge", dry_run=False
    )


def test_a_merge_keeps_all_that_either_file_says(two):
    merge(two)

    text = two.read(ANNAS)
    assert "- Anna keeps bees. <!-- turns 1 -->\n- Bob sells honey. <!-- turns 2 -->" in text
    assert "## Feelings\n\n- Trusted. <!-- turns 2 -->" in text
    assert "- Anna\n- Bob\n" in text


def test_a_merge_keeps_what_it_does_not_know(two):
    """Front matter, what stands above the H1, a second H1, code, what is private up there."""
    odd = (
        "---\npinned: true\ncolour: red\n---\n\nRead this first.\n\n"
        "### In private: DM <!-- private dm -->\n\n- secret up there\n\n"
        "# Bob\n\nSells honey.\n\n## Facts\n\n```\ncode\n\ncode 2\n```\n\n```\nmore\n```\n\n"
        "# Another title\n\n- below another title\n"
    )
    two.store.write_file(BOBS, odd)
    ours = two.read(ANNAS)
    two.store.write_file(ANNAS, f"---\ncolour: blue\n---\n\nAbove Anna.\n\n{ours}")
    merge(two)
    text = two.read(ANNAS)
    both = text + two.read(BOBS)
    lost = [line for line in odd.splitlines() if line not in both]
    assert lost == ["### In private: DM <!-- private dm -->"]  # as an H2 now
    assert "code\n\ncode 2\n```\n```\nmore\n```\n" in text
    assert text.startswith("---\npinned: true\ncolour: blue\n---\n")
    assert text.index("Read this first.") < text.index("Above Anna.") < text.index("# Anna")
    assert "secret up there" not in visible_in(text, NOBODY)
    assert "below another title" in text


def test_what_is_private_stays_private_wherever_it_is_moved(two):
    private = "### In private: DM <!-- private dm -->\n"
    two.store.append_file(BOBS, f"\n## Places\n\n- Oslo\n\n{private}\n- secret of Bob\n")
    two.store.append_file(
        ANNAS, f"\n## Likes\n\n{private}\n- secret of Anna\n\n## Places\n\n- Rome\n"
    )
    merge(two)

    text = two.read(ANNAS)
    assert "secret of Bob" in visible_in(text, viewer_in("dm"))
    assert "secret" not in visible_in(text, NOBODY)
    assert "- Rome\n- Oslo\n" in visible_in(text, NOBODY)


def test_links_lead_to_the_file_that_stays_and_code_stays_as_it_is(two):
    changed = merge(two)

    assert two.read("topics/bees.md") == (
        "# Bees\n\n[Bob](../people/discord-42.md) and `[Bob](../people/discord-7.md)` "
        "and [a](x.md)\n"
    )
    assert set(changed) == {ANNAS, BOBS, "topics/bees.md"}


def test_what_the_other_account_says_later_goes_to_the_one_file(two):
    merge(two)
    two.say("I moved to Oslo.", BOB)

    report = two.write(reply(op(lines=["Lives in Oslo."], turns=[3])))

    assert main_slug(two.store, "discord-7") == "discord-42"
    assert list(report.files) == [ANNAS]
    assert "- Lives in Oslo." in two.read(ANNAS)


def test_a_split_takes_back_what_only_the_other_said(two):
    before = two.read(ANNAS)
    merge(two)

    change = change_people.split_draft(two.store, "discord-7", said_by(two))
    change_people.apply_draft(two.store, change, "split", dry_run=False)

    assert "- Bob sells honey. <!-- turns 2 -->" in two.read(BOBS)
    assert "- Trusted. <!-- turns 2 -->" in two.read(BOBS)
    assert "honey" not in two.read(ANNAS)
    assert "- Bob\n" not in two.read(ANNAS)
    assert "- Anna keeps bees." in before
    assert "- Anna keeps bees." in two.read(ANNAS)
    assert main_slug(two.store, "discord-7") == "discord-7"


def test_a_split_gives_back_the_title_that_the_other_name_replaced(two):
    merge(two)
    text = two.read(ANNAS).replace("# Anna\n", "# Bob\n", 1)
    two.store.write_file(ANNAS, text.replace("## Aliases\n\n", "## Aliases\n\n- Bob\n", 1))
    change = change_people.split_draft(two.store, "discord-7", said_by(two))
    change_people.apply_draft(two.store, change, "split", dry_run=False)
    assert two.read(ANNAS).startswith("# Anna\n")
    assert "Bob\n" not in two.read(ANNAS)


def test_merging_twice_or_with_oneself_is_refused(two):
    with pytest.raises(UsageError, match="already one person"):
        change_people.merge_files(two.store, "discord-42", "discord-42")
    merge(two)
    with pytest.raises(UsageError, match="merged into 'discord-42' already"):
        change_people.merge_files(two.store, "discord-42", "discord-7")
    with pytest.raises(UsageError, match="merged into"):
        change_people.merge_files(two.store, "discord-7", "discord-42")


def test_nobody_can_be_split_who_was_not_merged(two):
    with pytest.raises(UsageError, match="has not been merged"):
        change_people.split_draft(two.store, "discord-7", said_by(two))
    with pytest.raises(NotFoundError):
        change_people.merge_files(two.store, "discord-42", "discord-99")


def test_private_lines_stay_private_in_a_merge(two):
    heading = "## In private: DM <!-- private dm -->"
    two.store.append_file(BOBS, f"\n{heading}\n\n- Is ill.\n")

    merge(two)

    assert f"{heading}\n\n- Is ill.\n" in two.read(ANNAS)


def test_a_new_name_stands_in_the_title_the_list_and_the_links(two):
    change = change_people.rename_files(two.store, "discord-7", "bob", "Robert")
    change_people.apply_draft(two.store, change, "rename", dry_run=False)

    assert two.read(BOBS).startswith("# Robert\n\n## Aliases\n\n- Robert\n")
    assert "[Robert](../people/discord-7.md) and `[Bob]" in two.read("topics/bees.md")


def test_wiki_links_follow_a_merge_and_a_new_name(two):
    two.store.write_file("notes.md", "[[discord-7]] [[Bob]] [[Bob|him]] `[[Bob]]`\n")
    change = change_people.rename_files(two.store, "discord-7", "bob", "Robert")
    change_people.apply_draft(two.store, change, "rename", dry_run=False)
    assert two.read("notes.md") == "[[discord-7]] [[Robert]] [[discord-7|him]] `[[Bob]]`\n"
    change_people.apply_draft(
        two.store,
        change_people.merge_files(two.store, "discord-42", "discord-7"),
        "merge",
        dry_run=False,
    )
    told = "[[discord-42]] [[discord-42|Robert]] [[discord-42|him]] `[[Bob]]`\n"
    assert two.read("notes.md") == told


def test_only_a_name_that_they_have_is_renamed(two):
    with pytest.raises(NotFoundError, match="is not called 'Zoe'"):
        change_people.rename_files(two.store, "discord-7", "Zoe", "X")


@pytest.mark.parametrize("page", ["```\n# Bob\n```\n\n{}", "\ufeff{}- Bob\n"])
@pytest.mark.parametrize("title", ["# Bob\n", "Bob\n===\n"])
def test_the_title_changes_and_nothing_that_looks_like_it(two, page, title):
    two.store.write_file(BOBS, page.format(title))
    change_people.apply_draft(
        two.store,
        change_people.rename_files(two.store, "discord-7", "Bob", "Rob"),
        "x",
        dry_run=False,
    )
    assert two.read(BOBS).startswith(page.format(title.replace("Bob", "Rob")))


def test_a_split_leaves_what_rests_on_turns_that_are_not_held_here(two):
    merge(two)
    text = two.read(ANNAS).replace("honey. <!-- turns 2 -->", "honey. <!-- turns 2; x-1:2 -->")
    two.store.write_file(ANNAS, text)

    change = change_people.split_draft(two.store, "discord-7", said_by(two))
    change_people.apply_draft(two.store, change, "split", dry_run=False)

    assert "honey" in two.read(ANNAS)


def test_a_merge_brings_relations_together_in_one_step(two):
    text = two.read(ANNAS)
    section = "\n## Relations\n\n- sister of [Bob](discord-7.md)\n- knows [Cy](discord-3.md)\n"
    two.store.write_file(ANNAS, text + section)
    theirs = "\n## Relations\n\n- knows [Cy](discord-3.md) (since 2024) <!-- turns 2 -->\n"
    two.store.write_file(BOBS, two.read(BOBS) + theirs)
    cys = "# Cy\n\n## Relations\n\n- knows [Anna](discord-42.md)\n- knows [Bob](discord-7.md)\n"
    two.store.write_file("people/discord-3.md", cys)

    merge(two)

    assert two.read(ANNAS).count("discord-3.md") == 1
    assert "sister of" not in two.read(ANNAS)
    cys = "# Cy\n\n## Relations\n\n- knows [Anna](discord-42.md)\n"
    assert two.read("people/discord-3.md") == cys
