"""Lines that a newer one supersedes, and what people wish for good."""

from __future__ import annotations

from datetime import timedelta

import pytest

from familiar_cli.base.who.visibility import channel_scope
from familiar_cli.store.memory.pages.facts import without_ended
from familiar_cli.store.memory.pages.lines import Numbering
from familiar_cli.store.memory.pages.visible_lines import private_heading, visible_in
from tests.support.viewers import viewer_in
from tests.writing.writer.support import ANNAS, BOB, EVENING, World, op, rails, reply


def superseding(*lines, turns=(2,), file=ANNAS, **more):
    return reply(op("supersede", file, lines, turns, **more))


OSLO = "Anna lives in Oslo."
BERGEN = "Anna lives in Bergen."


@pytest.fixture
def moved(world):
    """A person's file with a home, and a later turn about another one."""
    world.say("I live in Oslo.")
    world.write(reply(op(lines=[OSLO])))
    world.say("I live in Bergen now.", at=EVENING + timedelta(days=30))
    return world


def test_a_line_that_no_longer_holds_stays_with_its_end_and_the_new_one_below(moved) -> None:
    report = moved.write(superseding(OSLO, BERGEN))
    assert rails(report) == []
    assert (
        "- Anna lives in Oslo. (until May 2026) <!-- turns 1 --> <!-- ended 2026-05-07 -->\n"
        "- Anna lives in Bergen. <!-- turns 2 -->\n"
    ) in moved.read(ANNAS)


def test_the_model_is_not_shown_lines_that_ended_and_cannot_drop_them(moved) -> None:
    moved.write(superseding(OSLO, BERGEN))
    moved.say("And I have a cat.")
    rewrite = op("replace_section", lines=[BERGEN, "Anna has a cat."], turns=[3], section="Facts")
    moved.write(reply(rewrite))
    assert "Oslo" not in moved.prompt
    assert "(until May 2026)" in moved.read(ANNAS)
    assert "has a cat" in moved.read(ANNAS)


def test_what_ended_may_become_true_again(moved) -> None:
    moved.write(superseding(OSLO, BERGEN))
    moved.say("I am back: I live in Oslo.")
    report = moved.write(superseding(BERGEN, OSLO, turns=(3,)))
    assert rails(report) == []
    assert without_ended(moved.read(ANNAS)).count("lives in") == 1
    assert "- Anna lives in Oslo. <!-- turns 3 -->" in moved.read(ANNAS)


def test_only_the_person_supersedes_what_is_known_of_them(moved) -> None:
    moved.say("Anna lives in Paris now.", BOB)
    report = moved.write(superseding(OSLO, "Anna lives in Paris.", turns=(3,)))
    assert rails(report) == ["claim"]
    assert "Paris" not in moved.read(ANNAS)
    assert "until" not in moved.read(ANNAS)


def test_a_line_is_superseded_only_by_newer_turns(world) -> None:
    world.say("I live in Oslo.", at=EVENING)
    world.say("I live in Bergen.", at=EVENING - timedelta(days=400))
    world.store.write_file(ANNAS, "# Anna\n\n- Anna lives in Oslo. <!-- turns 1 -->\n")
    days = Numbering(days=lambda ids, _: {n: EVENING.date() for n in ids})
    report = world.write(superseding(OSLO, BERGEN), numbering=days)
    assert rails(report) == ["supersede"]
    assert "- Anna lives in Oslo. <!-- turns 1 -->\n" in world.read(ANNAS)
    assert "Bergen" not in world.read(ANNAS)


@pytest.mark.parametrize(
    "page",
    [
        "- Anna lives in Rome. <!-- turns 1 -->",
        "- Anna lives in Oslo. <!-- turns 1 -->\n- Anna lives in Oslo. <!-- turns 2 -->",
        "- Anna lives in Oslo. <!-- turns 1 -->\n  - by the sea",
        "## Aliases\n\n- Anna lives in Oslo. <!-- turns 1 -->",
        "## In private: A <!-- private @discord-42 -->\n\n- Anna lives in Oslo. <!-- turns 1 -->",
        "```\n- Anna lives in Oslo. <!-- turns 1 -->\n```",
    ],
)
def test_a_line_that_is_not_there_alone_and_in_public_is_not_superseded(world, page) -> None:
    world.say("I live in Oslo.")
    world.say("I live in Bergen now.")
    world.store.write_file(ANNAS, f"# Anna\n\n{page}\n")
    report = world.write(superseding(OSLO, BERGEN))
    assert rails(report) == ["supersede"]
    assert "ended" not in world.read(ANNAS)


def test_what_a_person_wrote_by_hand_waits_for_review(world) -> None:
    world.say("I live in Oslo.")
    world.say("I live in Bergen now.")
    world.store.write_file(ANNAS, "# Anna\n\n- Anna lives in Oslo.\n")
    report = world.write(superseding(OSLO, BERGEN))
    assert rails(report) == ["by_hand"]
    assert report.pending
    assert "Bergen" not in world.read(ANNAS)


@pytest.mark.parametrize("kept", [True, False])
def test_a_rewrite_that_drops_what_a_person_wrote_waits_for_review(world, kept) -> None:
    page = "# Anna\n\nMy oldest friend.\n\n## Facts\n\n- Tall.\n- Bakes. <!-- turns 1 -->\n"
    world.store.write_file(ANNAS, page)
    world.say()
    said = ["Anna keeps bees."]
    report = world.write(
        reply(
            op("set_summary", lines=["My oldest friend.", *said][not kept :]),
            op("replace_section", lines=["Tall.", *said][not kept :], section="Facts"),
        )
    )
    assert rails(report).count("by_hand") == (0 if kept else 2), rails(report)
    assert ("oldest friend" in world.read(ANNAS), "Tall" in world.read(ANNAS)) == (True, True)
    assert ("keeps bees" in world.read(ANNAS)) is kept


def test_a_private_line_is_superseded_in_its_own_section(tmp_path) -> None:
    world = World(tmp_path, private=("dm",))
    world.say("I live in Oslo.", channel="dm")
    world.write(reply(op(lines=[OSLO])))
    world.say("I live in Bergen now.", channel="dm")
    assert rails(world.write(superseding(OSLO, BERGEN))) == []
    page = world.read(ANNAS)
    assert visible_in(page, viewer_in(None, ["dm"])).count("lives in") == 0
    assert "- Anna lives in Bergen. <!-- turns 2 -->" in page
    assert "(until April 2026) <!-- turns 1 --> <!-- ended 2026-04-07 -->" in page
    world.history.close()


WISH = "Anna wants to be answered in German."


def test_a_wish_has_a_section_of_its_own(world) -> None:
    world.say("Please always answer me in German.")
    world.write(reply(op(lines=[WISH], section="Wishes")))
    assert "## Standing wishes\n\n- Anna wants to be answered in German." in world.read(ANNAS)


def test_a_wish_that_somebody_else_states_is_a_claim_and_no_wish(world) -> None:
    world.say("I keep bees.")
    world.say("Anna wants to be answered in German.", BOB)
    world.write(reply(op(lines=[WISH], turns=[2], section="Standing wishes")))
    page = world.read(ANNAS)
    assert "## Standing wishes" not in page
    assert "- Bob says: Anna wants to be answered in German." in page


@pytest.mark.parametrize("kind", ["play", "felt"])
def test_what_is_played_or_felt_is_no_wish(world, kind) -> None:
    world.say("Please always answer me in German.")
    world.write(reply(op(lines=[WISH], section="Wishes", kind=kind)))
    assert "## Standing wishes" not in world.read(ANNAS)


def test_a_private_wish_stays_private_in_a_section_of_its_own(tmp_path) -> None:
    world = World(tmp_path, private=("dm",))
    world.say("Never mention my ex. I keep bees.", channel="dm")
    wish = op(lines=["Never mention Anna's ex."], section="Wishes")
    world.write(reply(wish, op(lines=["Anna keeps bees."])))
    page = world.read(ANNAS)
    mark = private_heading("", channel_scope("dm"))
    mark = mark[mark.index("<!--") :]
    assert f"## Standing wishes {mark}\n\n- Never mention Anna's ex. <!-- turns 1 -->" in page
    assert "#dm" in page.partition("keeps bees")[0].rpartition("## ")[2]
    shown = visible_in(page, viewer_in(None, ["dm"]))
    assert "ex" not in shown.partition("# Anna")[2]
    assert "bees" not in shown
    world.history.close()


DEAF = "There is no voice here."
DATED = "There is no voice here. (as of 2026-04-07; ask again after 2026-05-07)"


@pytest.mark.parametrize(
    "line",
    [DEAF, "Aria cannot see pictures.", "Aria kann hier keine Bilder sehen.", "这里没有语音。"],
)
def test_what_the_familiar_cannot_do_has_a_day_and_is_asked_again(world, line) -> None:
    world.say("我没听到 the picture, Bilder sehen, no voice, 这里没有语音")
    world.write(reply(op(lines=[line])))
    assert f"- {line}" in world.read(ANNAS)
    assert "2026-04-07" in world.read(ANNAS)
    assert "2026-05-07" in world.read(ANNAS)


def test_what_a_person_cannot_do_stands_as_it_is(world) -> None:
    world.say("I cannot see well.")
    world.write(reply(op(lines=["Anna cannot see well."])))
    assert "- Anna cannot see well. <!-- turns 1 -->" in world.read(ANNAS)


def test_a_limit_is_learned_anew_only_after_its_day(world) -> None:
    world.say("No voice here.")
    world.write(reply(op(lines=[DEAF], kind="limit")))
    world.say("Still no voice here.", at=EVENING + timedelta(days=3))
    assert rails(world.write(reply(op(lines=[DEAF], turns=[2])))) == ["duplicate"]
    world.say("There is no voice here, even now.", at=EVENING + timedelta(days=40))
    assert rails(world.write(reply(op(lines=[DATED], turns=[3])))) == []
    renewed = "There is no voice here. (as of 2026-05-17; ask again after 2026-06-16)"
    assert [line for line in world.read(ANNAS).splitlines() if "voice" in line] == [
        f"- {renewed} <!-- turns 3 -->"
    ]


def test_the_familiars_own_word_is_enough_for_what_it_cannot_do(world) -> None:
    world.say("Can you hear me?")
    world.say("No, I cannot hear voices.", author=None)
    assert rails(world.write(reply(op(lines=["Aria cannot hear voices."], turns=[2])))) == ["claim"]
    limit = op(lines=["Aria cannot hear voices."], turns=[2], kind="limit")
    world.say("Oh well, no voices.")
    assert rails(world.write(reply(limit | {"turns": [2, 3]}))) == []
