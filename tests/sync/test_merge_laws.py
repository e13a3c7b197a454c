"""Whatever several machines do, and in whichever order they hear of it, they come to one memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.memory.merge.content import merge_content
from familiar_cli.store.memory.pages.visible_lines import visible_in
from familiar_cli.sync.joining import merge_heads
from tests.sync.machines import FACT, START, Machines

if TYPE_CHECKING:
    from collections.abc import Sequence

Step = tuple[bool, int, int, int, int]
SMALL = st.integers(0, 60)
STEPS = st.lists(st.tuples(st.booleans(), SMALL, SMALL, SMALL, SMALL), min_size=1, max_size=25)
COUNTS = st.integers(2, 5)
ORDERS = st.permutations(range(5))


def lived(count: int, steps: Sequence[Step]) -> Machines:
    machines = Machines(count)
    for is_edit, at, what, where, which in steps:
        if is_edit:
            machines.edit(at, what, where, which)
        else:
            machines.learn(at, what)
    return machines


@given(COUNTS, STEPS, ORDERS)
def test_all_machines_come_to_one_memory(count: int, steps: list[Step], order: list[int]) -> None:
    machines = lived(count, steps)

    machines.settle(order)

    first, *others = [machines.files(machine) for machine in machines.all]
    assert all(files == first for files in others)


@given(COUNTS, STEPS, ORDERS)
def test_heads_are_merged_the_same_in_any_order(
    count: int, steps: list[Step], order: list[int]
) -> None:
    machines = lived(count, steps)
    heads = [machine.head for machine in machines.all]
    turned = sorted(heads, key=lambda head: order[heads.index(head)])

    once = merge_heads(heads, machines.past)

    assert merge_heads([*turned, *turned], machines.past) == once


@given(st.lists(st.tuples(*[SMALL] * 4), min_size=1, max_size=8), st.integers(3, 5), st.data())
def test_some_first_and_the_rest_later_is_all_at_once(
    edits: list[tuple[int, int, int, int]], count: int, data: st.DataObject
) -> None:
    machines = Machines(count)
    for edit in edits:
        machines.edit(*edit)
    heads = [machine.head for machine in machines.all]
    some = data.draw(st.lists(st.sampled_from(heads), min_size=1, unique=True))
    past = machines.past

    part = merge_heads(some, past)
    joint = past.add(past.files(part.files, part.blobs), some, instance="m9", source="sync")

    assert merge_heads([joint, *heads], past).files == merge_heads(heads, past).files


@given(COUNTS, STEPS, ORDERS)
def test_no_line_is_lost_that_somebody_added_and_nobody_took_out(
    count: int, steps: list[Step], order: list[int]
) -> None:
    machines = lived(count, steps)

    machines.settle(order)

    text = b"\n".join(machines.files(machines.all[0]).values()).decode()
    assert machines.added - machines.taken_out <= set(FACT.findall(text))


@given(COUNTS, STEPS, ORDERS)
def test_private_lines_stay_private(count: int, steps: list[Step], order: list[int]) -> None:
    machines = lived(count, steps)

    machines.settle(order)

    for content in machines.files(machines.all[0]).values():
        assert "secret-" not in visible_in(content.decode(), NOBODY)


@given(SMALL, SMALL)
def test_a_line_that_one_took_out_and_nobody_changed_is_gone(where: int, which: int) -> None:
    machines = Machines(2)
    machines.edit(0, 4, where, which)
    machines.edit(1, 0, where + 1, which)
    (gone,) = machines.taken_out

    machines.settle([0, 1])

    text = b"\n".join(machines.files(machines.all[0]).values()).decode()
    assert gone not in FACT.findall(text)


@given(STEPS)
def test_a_file_merged_with_itself_or_with_what_it_came_from_is_the_same(steps: list[Step]) -> None:
    machines = Machines(1)
    for _, at, what, where, which in steps:
        machines.edit(at, what, where, which)
    for path, content in machines.files(machines.all[0]).items():
        base = START.get(path, b"")
        assert merge_content(path, base, content, content).content == content
        assert merge_content(path, base, content, base).content == content
        assert merge_content(path, base, base, content).content == content
