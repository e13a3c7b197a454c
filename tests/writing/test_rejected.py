"""Plans made of files: the record of what a file was made of, and a person's no that holds."""

from __future__ import annotations

import json

import pytest

from familiar_cli.store.memory.layout import REJECTED_DIR
from familiar_cli.writing.pending import (
    PlannedFile,
    Plans,
    ReviewPlan,
    decide_plan,
    note_rejected,
    read_pending,
    read_plans,
    rejected_plans,
    stage_plan,
)

PATH = "weekly/2026-W15.md"
OLD = "---\nsources: old\nblocks: a b\n---\n# Week\n\nAnna gardened.\n\n- one\n- two\n"
NEW = "---\nsources: new\nblocks: a c d\n---\n# Week\n\nAnna rested.\n\n- one\n- two\n- three\n"


def waits(world, before, after, **more) -> ReviewPlan:
    if before is not None:
        world.store.write_file(PATH, before)
    file = PlannedFile(PATH, before, after, has_record=True)
    plan = ReviewPlan(
        "consolidate-2026-W15",
        "r",
        "2026-04-13T05:00:00Z",
        "review",
        "m",
        (0, 0),
        (file,),
        **{"source": "consolidation", "rests_on": "2026-W15 from 7 files", "grounds": "h1", **more},
    )
    with world.store.transaction("consolidation", "a plan") as tx:
        stage_plan(tx, world.store, plan)
    return read_pending(world.store, plan.id)


def test_what_is_stored_of_a_plan_is_read_again(world):
    plan = waits(world, OLD, NEW)
    assert (plan.source, plan.rests_on, plan.grounds) == (
        "consolidation",
        "2026-W15 from 7 files",
        "h1",
    )
    assert plan.files[0].has_record


def test_the_record_is_no_piece_of_its_own(world):
    plan = waits(world, OLD, NEW)
    assert [(h.removed, h.added) for _, h in plan.hunks] == [
        (("Anna gardened.\n",), ("Anna rested.\n",)),
        ((), ("- three\n",)),
    ]


def test_the_record_comes_with_the_first_piece_that_is_taken_and_only_once(world):
    plan = waits(world, OLD, NEW)
    decide_plan(world.store, plan, apply=[2])
    assert world.read(PATH) == NEW.replace("Anna rested.", "Anna gardened.")
    rest = read_pending(world.store, plan.id)
    assert (len(rest.hunks), rest.files[0].record) == (1, ())
    decide_plan(world.store, rest, apply=[1])
    assert world.read(PATH) == NEW


def test_the_record_waits_while_nothing_is_taken(world):
    plan = waits(world, OLD, NEW)
    decide_plan(world.store, plan, reject=[1])
    assert world.read(PATH) == OLD
    decide_plan(world.store, read_pending(world.store, plan.id), apply=[1])
    assert world.read(PATH) == NEW.replace("Anna rested.", "Anna gardened.")


def test_a_new_file_is_taken_whole_with_its_record(world):
    plan = waits(world, None, NEW)
    assert len(plan.hunks) == 1
    decide_plan(world.store, plan, apply=[1])
    assert world.read(PATH) == NEW


def test_a_person_who_edits_elsewhere_meanwhile_keeps_the_edit(world):
    plan = waits(world, OLD, NEW)
    world.store.write_file(PATH, "---\nmine: 1\n" + OLD.removeprefix("---\n") + "\nMine.\n")
    decide_plan(world.store, plan, apply=[1, 2])
    mine = "---\nmine: 1\n" + NEW.removeprefix("---\n") + "\nMine.\n"
    assert world.read(PATH) == mine


def test_a_plan_of_which_nothing_was_taken_is_remembered_as_rejected(world):
    plan = waits(world, OLD, NEW)
    done = decide_plan(world.store, plan, reject=[1])
    assert rejected_plans(world.store) == {}
    done = decide_plan(world.store, done.rest, reject=[1])
    assert (done.changed, done.rest) == ((), None)
    assert rejected_plans(world.store) == {plan.id: "h1"}


def test_a_plan_of_which_something_was_taken_is_not_rejected(world):
    plan = waits(world, OLD, NEW)
    done = decide_plan(world.store, plan, apply=[1])
    decide_plan(world.store, done.rest, reject=[1])
    assert rejected_plans(world.store) == {}


def test_a_plan_that_is_proposed_again_is_no_longer_rejected(world):
    plan = waits(world, OLD, NEW)
    decide_plan(world.store, plan, reject=[1, 2])
    assert read_plans(world.store).is_rejected(plan.id, "h1")
    waits(world, OLD, NEW, grounds="h2")
    assert read_plans(world.store) == Plans(frozenset({plan.id}), {})


def test_a_yes_takes_back_a_no_that_was_left_beside_the_plan(world):
    plan = waits(world, OLD, NEW)
    with world.store.transaction("consolidation", "an earlier no") as tx:
        note_rejected(tx, plan.id, "h0")
    decide_plan(world.store, plan, apply=[1, 2])
    assert rejected_plans(world.store) == {}


def test_asking_again_leaves_out_what_was_rejected_and_keeps_what_waits(world):
    with world.store.transaction("consolidation", "a no") as tx:
        note_rejected(tx, "consolidate-2026-W14", "h0")
    plan = waits(world, OLD, NEW)
    assert read_plans(world.store, again=True) == Plans(frozenset({plan.id}), {})
    assert read_plans(world.store).rejected == {"consolidate-2026-W14": "h0"}


def test_a_plan_made_of_nothing_was_never_rejected():
    assert not Plans((), {"x": ""}).is_rejected("x", "")


def test_a_plan_without_grounds_leaves_nothing_behind(world):
    decide_plan(world.store, waits(world, OLD, NEW, grounds=""), reject=[1, 2])
    assert not world.store.exists(f"{REJECTED_DIR}/consolidate-2026-W15.json")


def test_a_dry_run_rejects_nothing(world):
    decide_plan(world.store, waits(world, OLD, NEW), reject=[1, 2], dry_run=True)
    assert rejected_plans(world.store) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"grounds": 3}', "[" * 5000])
def test_a_damaged_no_is_none(world, content):
    world.store.write_file(f"{REJECTED_DIR}/x.json", content)
    assert rejected_plans(world.store) == {}


def test_a_source_that_a_file_makes_up_is_not_believed(world):
    plan = waits(world, OLD, NEW)
    told = json.loads(world.read(plan.rel_path))
    world.store.write_file(plan.rel_path, json.dumps({**told, "source": "a\nCo-authored-by: b"}))
    assert read_pending(world.store, plan.id).source == "memory_writer"
