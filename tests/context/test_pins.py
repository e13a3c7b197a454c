"""Pins of one turn: looked up once, sure of their room first, told when something is missing."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from familiar_cli.context.budget import MESSAGE_TOKENS, Budgeter
from familiar_cli.context.character import Macros
from familiar_cli.context.providers.passages import Sight
from familiar_cli.context.providers.pins import PinnedMemory, PinsProvider
from familiar_cli.context.types import Contribution, Layer, PromptSpan, Subject
from familiar_cli.llm import tokens
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search.build import Pins
from tests.context.support import request

COUNTER = tokens.heuristic()
FRONT = "---\npinned: true\n---\n"


class World:
    def __init__(self, root) -> None:
        self.store = MemoryStore(root)
        self.pins = Pins()
        self.asked = 0
        self.pinned = PinnedMemory(
            self.find,
            self.store,
            COUNTER,
            lambda r: Sight(r.viewer, frozenset, Macros("Ada", "Anna")),
        )

    def find(self) -> Pins:
        self.asked += 1
        return self.pins

    def put(self, **files: str) -> None:
        for stem, text in files.items():
            self.store.write_file(f"{stem}.md", FRONT + text)
        self.pins = Pins(tuple(f"{stem}.md" for stem in sorted(files)))

    def offers(self, **more) -> list[Contribution]:
        return asyncio.run(PinsProvider(self.pinned).contribute(request(**more)))


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path / "memory")


def test_whoever_asks_in_a_turn_the_files_are_looked_up_once(world) -> None:
    world.put(a="# A\n\nWords.\n")
    asked = request()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(world.pinned.of, [asked] * 8))
    assert world.asked == 1
    assert all(one is found[0] for one in found)
    world.pinned.of(request())
    assert world.asked == 2


def test_a_pin_too_large_lets_later_ones_in_before_it(world) -> None:
    world.put(a="word " * 400, b="# B\n\nShort.\n")
    room = {Layer.pinned: 100}
    first, second = world.offers(layer_tokens=room)
    assert (first.rel_path, second.rel_path) == ("b.md", "a.md")
    assert first.priority > second.priority
    assert set(world.pinned.of(request(layer_tokens=room)).shown) == {"b.md"}


def test_those_sure_of_their_room_fit_in_it(world) -> None:
    world.put(**{f"f{n}": "word " * n for n in range(1, 60, 7)})
    for room in range(10, 200, 9):
        shown = world.pinned.of(request(layer_tokens={Layer.pinned: room})).shown
        costs = [MESSAGE_TOKENS + COUNTER.count(piece.text) for piece in shown.values()]
        assert sum(costs) <= room
        pieces = world.offers(layer_tokens={Layer.pinned: room})
        kept = Budgeter(COUNTER).fill(pieces, {Layer.pinned: room}, room + 3).fragments
        assert {f.rel_path for f in kept if f.kept and not f.reason} >= set(shown)


def test_what_a_pin_shows_is_not_shown_again(world) -> None:
    world.put(a="# A\n\nWords.\n")
    (pin,) = world.offers()
    again = Contribution(Layer.content, 70, "Words.", "x", PromptSpan.depth, rel_path="a.md")
    other = Contribution(Layer.content, 70, "More.", "x", PromptSpan.depth, rel_path="b.md")
    filled = Budgeter(COUNTER).fill([again, pin, other], {}, 500).fragments
    assert [fragment.kept for fragment in filled] == [False, True, True]
    assert "pinned" in filled[0].reason
    cut = Budgeter(COUNTER).fill([again, other], {}, 500).fragments
    assert all(fragment.kept for fragment in cut)


def test_a_pin_that_is_cut_leaves_to_others_only_what_it_lacks(world) -> None:
    lines = [f"- The keeper of house number {n} paints ships at night." for n in range(60)]
    world.put(a="# A\n\n" + "\n".join(lines))
    (pin,) = world.offers()

    def quoted(*numbers: int) -> Contribution:
        text = "\n".join(["[From memory: A]", *(lines[n] for n in numbers)])
        return Contribution(Layer.content, 70, text, "x", PromptSpan.depth, rel_path="a.md")

    pieces = [pin, quoted(0, 2), quoted(2, 55), quoted(58)]
    room = {Layer.pinned: 200, Layer.content: 150}
    kept = Budgeter(COUNTER).fill(pieces, room, 400).fragments
    assert kept[0].text
    assert kept[0].reason
    assert [fragment.kept for fragment in kept[1:]] == [False, True, True]


def test_files_that_nobody_had_time_for_are_a_problem_that_is_told(world) -> None:
    world.pins = Pins(unread=3, problems=(("x.md", "it cannot be read"),))
    told, unread = world.offers()
    assert (told.rel_path, told.remark) == ("x.md", "it may be pinned, but it cannot be read")
    assert unread.problem.startswith("3 files not read in time")
    assert "familiar index build" in unread.problem


def test_a_pin_that_is_gone_or_no_text_is_a_problem(world) -> None:
    world.pins = Pins(("gone.md",))
    (piece,) = world.offers()
    assert "gone.md" in piece.problem
    assert not piece.text


def test_it_is_explained_why_a_pin_is_there_or_is_not(world) -> None:
    world.put(a="# A\n\nWords.\n", b="<!-- nothing -->\n")
    provider = PinsProvider(world.pinned)
    assert provider.why_not(Subject("a.md"), request()) == ""
    assert "empty" in (provider.why_not(Subject("b.md"), request()) or "")
    assert provider.why_not(Subject("c.md"), request()) is None
    assert provider.why_not(Subject(turn_id=1), request()) is None
