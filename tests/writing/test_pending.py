"""Plans that wait: what is taken, what is rejected, and what goes on waiting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError, ConflictError, NotFoundError, UsageError
from familiar_cli.store.memory.layout import PENDING_DIR
from familiar_cli.writing import pending
from familiar_cli.writing.pending import decide_plan, read_pending
from tests.writing.writer.support import ANNAS, BOB, BOBS, NOTHING, SESSION, op, reply

OLD = "# Anna\n\nA baker.\n\n## Facts\n\n- one\n- two\n- three\n- four\n- five\n"


@pytest.fixture
def plan(world):
    """A plan that changes Anna's file in two places, and begins Bob's."""
    world.store.write_file(ANNAS, OLD)
    world.say()
    world.say("So do I.", BOB)
    answer = reply(
        op("set_summary", lines=["A baker who keeps bees."]),
        op(),
        op(file=BOBS, lines=["Bob keeps bees."], turns=[2]),
    )
    report = world.write(answer, mode="review")
    assert (report.outcome, world.watermark) == ("review", 2)
    return read_pending(world.store, report.pending)


def test_a_plan_changes_nothing_until_it_is_taken(world, plan):
    assert world.read(ANNAS) == OLD
    assert not world.store.exists(BOBS)
    assert world.store.plan_ids() == [plan.id]


def test_a_plan_taken_whole_is_gone_and_done(world, plan):
    done = decide_plan(world.store, plan, apply=range(1, len(plan.hunks) + 1))

    assert (done.changed, done.rest, world.store.plan_ids()) == ((ANNAS, BOBS), None, [])
    assert "A baker who keeps bees." in world.read(ANNAS)
    assert "- five\n- Anna keeps bees. <!-- turns 1 -->\n" in world.read(ANNAS)


def test_one_piece_is_taken_and_the_others_go_on_waiting(world, plan):
    done = decide_plan(world.store, plan, apply=[1])

    assert done.changed == (ANNAS,)
    assert len(done.rest.hunks) == len(plan.hunks) - 1
    rest = read_pending(world.store, plan.id)
    decide_plan(world.store, rest, apply=range(1, len(rest.hunks) + 1))
    assert world.read(ANNAS) == plan.files[0].after
    assert world.read(BOBS) == plan.files[1].after


def test_a_rejected_piece_is_gone_and_the_others_stay(world, plan):
    decide_plan(world.store, plan, reject=[1])
    rest = read_pending(world.store, plan.id)
    decide_plan(world.store, rest, apply=range(1, len(rest.hunks) + 1))

    assert "A baker.\n" in world.read(ANNAS)
    assert "- Anna keeps bees." in world.read(ANNAS)


def test_a_rejected_plan_changes_nothing_and_is_gone(world, plan):
    decide_plan(world.store, plan, reject=range(1, len(plan.hunks) + 1))

    assert (world.read(ANNAS), world.store.plan_ids()) == (OLD, [])


def test_a_file_changed_elsewhere_since_takes_the_plan(world, plan):
    world.store.write_file(ANNAS, "Front.\n\n" + OLD)

    decide_plan(world.store, plan, apply=range(1, len(plan.hunks) + 1))

    assert world.read(ANNAS).startswith("Front.\n\n# Anna\n\nA baker who keeps bees.")


def test_a_file_changed_in_the_same_place_since_is_a_conflict_and_nothing_changes(world, plan):
    mine = OLD.replace("A baker.", "A painter.")
    world.store.write_file(ANNAS, mine)

    with pytest.raises(ConflictError, match="in the same place"):
        decide_plan(world.store, plan, apply=range(1, len(plan.hunks) + 1))

    assert (world.read(ANNAS), world.store.exists(BOBS)) == (mine, False)
    assert world.store.plan_ids() == [plan.id]


def test_a_new_file_that_is_there_by_now_under_another_title_is_a_conflict(world, plan):
    world.store.write_file(BOBS, "# Robert\n")

    with pytest.raises(ConflictError):
        decide_plan(world.store, plan, apply=range(1, len(plan.hunks) + 1))


def test_a_dry_run_decides_nothing(world, plan):
    decide_plan(world.store, plan, apply=[1], dry_run=True)

    assert (world.read(ANNAS), world.store.plan_ids()) == (OLD, [plan.id])


def test_a_piece_that_is_not_there_is_refused(world, plan):
    with pytest.raises(UsageError, match="has no piece 99"):
        decide_plan(world.store, plan, apply=[99])


def test_a_plan_of_several_steps_is_one_plan(world):
    world.talk(20)
    later = op("set_summary", SESSION, ["Of gardens."], [20])

    report = world.write(reply(op()), *[NOTHING] * 1, reply(later), mode="review", batch_turns=8)

    assert world.store.plan_ids() == [report.pending]
    plan = read_pending(world.store, report.pending)
    assert (plan.turns, [f.rel_path for f in plan.files]) == ((1, 20), [ANNAS, SESSION])


def test_what_a_rule_held_can_be_taken(world):
    long = "# Anna\n\n" + "She has lived by the sea for many years. " * 10 + "\n"
    world.store.write_file(ANNAS, long)
    world.say()
    report = world.write(reply(op("set_summary", lines=["Anna keeps bees."])))
    plan = read_pending(world.store, report.pending)

    decide_plan(world.store, plan, apply=range(1, len(plan.hunks) + 1))

    assert (plan.why, world.read(ANNAS)) == (
        "held",
        "# Anna\n\nAnna keeps bees. <!-- turns 1 -->\n\n## Aliases\n\n- Anna\n",
    )


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": 3}', "[" * 5000])
def test_a_damaged_plan_is_told_of(world, content):
    world.store.write_file(f"{PENDING_DIR}/x.json", content)

    with pytest.raises(BadInputError, match="damaged"):
        read_pending(world.store, "x")


@pytest.mark.parametrize("name", ["", "../x", "x/y", "nobody"])
def test_a_plan_that_is_not_there_is_not_found(world, name):
    with pytest.raises(NotFoundError):
        read_pending(world.store, name)


texts = st.lists(st.sampled_from("abcde\u2028é "), max_size=12).map("\n".join) | st.text(
    max_size=30
)


@given(before=texts, after=texts)
def test_all_pieces_together_make_the_change(before, after) -> None:
    assert pending.apply_hunks(before, pending.split_hunks(before, after)) == after


@given(before=texts, after=texts, data=st.data())
def test_pieces_taken_in_two_goes_make_the_same(before, after, data) -> None:
    every = pending.split_hunks(before, after)
    first = [h for h in every if data.draw(st.booleans())]
    half = pending.apply_hunks(before, first)

    assert half is not None
    assert pending.apply_hunks(half, pending.split_hunks(half, after)) == after


def test_a_line_typed_since_stays_beside_a_piece_that_is_applied(world, plan):
    world.store.write_file(ANNAS, OLD + "- typed\n")

    decide_plan(world.store, plan, apply=range(1, len(plan.hunks) + 1))

    assert {"- five", "- typed", "- Anna keeps bees. <!-- turns 1 -->"} <= set(
        world.read(ANNAS).splitlines()
    )
