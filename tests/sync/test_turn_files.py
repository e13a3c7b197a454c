"""Files of turns: what they say, what is taken of them, and what is refused."""

from __future__ import annotations

import json
import shutil

import pytest

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.who.visibility import OWNER, PrivacyRules
from familiar_cli.store.history.lines import BadLineError, encode_line, parse_line
from familiar_cli.store.history.marks import withdraw_turns
from familiar_cli.sync.turns import last_through, new_lines, take_in
from familiar_cli.sync.turns_incoming import InstanceTwiceError, rename_instance, taken_through
from tests.support import pages
from tests.sync.test_turn_laws import START, Machine, exchange

MARCH = "turns/lap-a1/2026-03.jsonl"
TURN = {
    "v": 1,
    "kind": "turn",
    "id": 1,
    "channel": "cli",
    "role": "user",
    "content": "Hi.",
    "at": "2026-03-01T00:00:07.000Z",
    "modality": "text",
    "source": "cli",
}


@pytest.fixture
def lap(tmp_path):
    made = Machine(tmp_path, "lap-a1")
    yield made
    made.history.close()


@pytest.fixture
def desk(tmp_path):
    made = Machine(tmp_path, "desk-b2")
    yield made
    made.history.close()


def lines(*told: dict) -> bytes:
    return b"".join(json.dumps(TURN | one).encode() + b"\n" for one in told)


def words(machine: Machine, channel: str = "cli") -> list[str]:
    return [turn.content for turn in machine.history.recent(channel, 99, viewer=OWNER)]


def test_a_file_only_grows_at_its_end(lap) -> None:
    lap.say("cli", "one")
    lap.export(3)
    before = lap.files[MARCH]
    lap.export(3)
    assert lap.files == {MARCH: before}
    lap.say("cli", "two")
    withdraw_turns(lap.history, [1])
    lap.export(3)
    assert lap.files[MARCH].startswith(before)
    assert [json.loads(line)["kind"] for line in lap.files[MARCH].splitlines()] == [
        "turn",
        "through",
        "turn",
        "mark",
        "through",
    ]


def test_a_clock_that_goes_back_changes_no_older_file(lap) -> None:
    lap.say("cli", "one")
    lap.export(5)
    may = dict(lap.files)
    lap.say("cli", "two")
    lap.export(2)
    assert list(lap.files) == list(may)


def test_a_large_file_is_followed_by_another(lap, desk) -> None:
    for part in range(3):
        for number in range(2):
            lap.say("cli", f"{part}{number}" + "x" * 600_000)
        lap.export(3)
    names = [f"turns/lap-a1/2026-03{part}.jsonl" for part in ("", "_002", "_003")]
    assert sorted(lap.files) == names
    desk.hear(lap)
    assert words(desk) == words(lap)


def test_a_line_without_an_end_is_left_for_later(lap, desk) -> None:
    lap.say("cli", "one")
    lap.say("cli", "two")
    lap.export(3)
    data = lap.files[MARCH]
    cut = data.index(b"\n") + 20
    assert take_in(desk.history, "desk-b2", MARCH, data[:cut]).turns == 1
    through = taken_through(desk.history, "lap-a1", MARCH)
    assert through == data.index(b"\n") + 1
    assert take_in(desk.history, "desk-b2", MARCH, data[through:], through).turns == 1
    assert taken_through(desk.history, "lap-a1", MARCH) == len(data)
    assert take_in(desk.history, "desk-b2", MARCH, data).turns == 0


def test_every_text_comes_back_as_it_was(lap, desk) -> None:
    for text in ("", "a\x00b", "half \udc80 pair", "two\nlines\u2028three", "日本 ✓"):
        lap.history.append("cli", "user", text, at=START, message_id=text)
    exchange([lap, desk])
    assert desk.view() == lap.view()


def test_what_comes_too_early_waits_and_is_not_lost(desk) -> None:
    late = lines({"id": 3, "content": "three", "after": "lap-a1:2", "reply_to": "lap-a1:2"})
    mark = {"v": 1, "kind": "mark", "id": 1, "clock": 1, "turn": "lap-a1:2", "mark": "withdrawn"}
    late += json.dumps({**mark, "value": 1, "at": TURN["at"]}).encode() + b"\n"
    taken = take_in(desk.history, "desk-b2", MARCH, late)
    assert (taken.turns, taken.waiting, words(desk)) == (0, 2, [])
    early = lines({}, {"id": 2, "content": "two", "after": "lap-a1:1"})
    taken = take_in(desk.history, "desk-b2", "turns/lap-a1/2026-02.jsonl", early)
    assert (taken.turns, taken.marks, words(desk)) == (3, 1, ["Hi.", "three"])


def test_a_kind_that_is_not_known_here_is_kept_and_no_error(desk) -> None:
    newer = b'{"v":2,"kind":"mood","id":1,"says":"glad"}\n'
    told = newer + lines({"reactions": ["+1"]})
    assert take_in(desk.history, "desk-b2", MARCH, told).turns == 1
    with desk.history.use(create=False) as connection:
        assert (
            connection.execute("SELECT line FROM lines_waiting").fetchone()[0]
            == newer[:-1].decode()
        )
        assert (
            connection.execute("SELECT more FROM elsewhere").fetchone()[0] == '{"reactions":["+1"]}'
        )


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"kind":"turn"}',
        b"[" * 100_000,
        b'{"v":1,"kind":"turn","id":' + b"9" * 5000 + b"}",
        lines({"id": 0})[:-1],
        lines({"id": True})[:-1],
        lines({"id": 2**63})[:-1],
        lines({"role": "root"})[:-1],
        lines({"at": "yesterday"})[:-1],
        lines({"at": "2026-03-01T00:00:07"})[:-1],
        lines({"content": 7})[:-1],
        lines({"author": "me"})[:-1],
        lines({"author": {"platform": "cli"}})[:-1],
        lines({"id": 2, "after": "lap-a1:2"})[:-1],
        lines({"after": "../../etc:1"})[:-1],
        lines({"imported": {"chat": "k", "identity": "zz", "raw": ""}})[:-1],
        lines({"imported": {"chat": "k", "identity": "00", "raw": "{"}})[:-1],
        lines({"imported": {"chat": "k", "identity": "00", "raw": "[]"}})[:-1],
        b'{"v":1,"kind":"chat","id":1,"clock":1,"channel":"c","key":"k","head":"[1]"}',
        b'{"v":1,"kind":"mark","id":1,"clock":1,"turn":"lap-a1:9","mark":"gone","value":1}',
        b'{"v":1,"kind":"mark","id":1,"clock":1,"turn":"lap-a1:9","mark":"hidden","value":7}',
        b'{"v":1,"kind":"through","turn":1,"fact":1,"waiting":[1]}',
    ],
)
def test_a_hostile_line_is_refused_and_what_stood_before_it_is_kept(desk, bad) -> None:
    good = lines({"id": 7, "content": "good"})
    with pytest.raises(BadLineError, match="Line 2 of"):
        take_in(desk.history, "desk-b2", MARCH, good + bad + b"\n" + lines({"id": 8}))
    assert words(desk) == ["good"]
    assert taken_through(desk.history, "lap-a1", MARCH) == len(good)
    other = "turns/srv-c3/2026-03.jsonl"
    assert take_in(desk.history, "desk-b2", other, lines({"content": "other"})).turns == 1


@pytest.mark.parametrize(
    "rel_path", ["turns/x.jsonl", "turns/../2026-03.jsonl", "turns/A/2026-03.jsonl", "memory/a.md"]
)
def test_a_file_with_another_name_is_refused(desk, rel_path) -> None:
    with pytest.raises(BadLineError):
        take_in(desk.history, "desk-b2", rel_path, lines({}))


def test_a_mark_that_puts_a_turn_in_a_foreign_place_is_refused(lap, desk) -> None:
    lap.say("cli", "one")
    lap.say("cli", "two")
    lap.export(3)
    mark = {"v": 1, "kind": "mark", "id": 9, "clock": 9, "turn": "lap-a1:1", "mark": "superseded"}
    forged = json.dumps({**mark, "value": "lap-a1:2", "at": TURN["at"]}).encode() + b"\n"
    desk.hear(lap)
    with pytest.raises(BadLineError, match="place"):
        take_in(desk.history, "desk-b2", "turns/lap-a1/2026-04.jsonl", forged)
    assert words(desk) == ["one", "two"]


def test_a_reply_to_what_never_was_stops_nobody(lap, desk) -> None:
    lap.history.append("cli", "user", "one", reply_to=7, at=START)
    lap.history.append("cli", "user", "two", reply_to=1, at=START)
    exchange([lap, desk])
    assert [turn.reply_to for turn in desk.history.recent("cli", 9, viewer=OWNER)] == [None, 1]


def test_a_counter_that_was_driven_up_stops_nobody(lap, desk) -> None:
    lap.say("cli", "one")
    exchange([lap, desk])
    mark = {"v": 1, "kind": "channel-mark", "id": 1, "clock": 2**53 - 1, "channel": "x"}
    forged = json.dumps({**mark, "at": TURN["at"]}).encode() + b"\n"
    take_in(desk.history, "desk-b2", "turns/srv-c3/2026-03.jsonl", forged)
    withdraw_turns(desk.history, [1])
    exchange([desk, lap])
    assert words(lap) == words(desk) == []
    assert desk.history.count(everything=True) == 1


def test_a_turn_that_is_another_one_here_is_never_overwritten(desk) -> None:
    take_in(desk.history, "desk-b2", MARCH, lines({}))
    with pytest.raises(InstanceTwiceError) as caught:
        take_in(desk.history, "desk-b2", MARCH, lines({"content": "Other."}))
    assert str(caught.value.name) == "lap-a1:1"
    assert words(desk) == ["Hi."]


def test_a_machine_notices_that_another_one_speaks_in_its_name(desk) -> None:
    desk.say("cli", "mine")
    desk.export(3)
    own = "turns/desk-b2/2026-03.jsonl"
    assert take_in(desk.history, "desk-b2", own, desk.files[own]).turns == 0
    with pytest.raises(InstanceTwiceError):
        take_in(desk.history, "desk-b2", own, lines({"content": "not mine"}))
    with pytest.raises(InstanceTwiceError):
        take_in(desk.history, "desk-b2", own, lines({"id": 5}))
    assert words(desk) == ["mine"]


def test_of_two_copies_of_one_machine_nothing_is_lost_and_nothing_is_there_twice(
    lap, desk, tmp_path
) -> None:
    desk.say("cli", "desk")
    desk.export()
    for text in ("shared one", "shared two"):
        lap.say("cli", text)
    withdraw_turns(lap.history, [1])
    lap.hear(desk)
    lap.history.close()
    twin = Machine(tmp_path, "aaa-77")
    shutil.copytree(tmp_path / "lap-a1", tmp_path / "aaa-77")
    lap.say("cli", "lap alone")
    twin.say("cli", "twin alone")
    lap.swipe(2, "lap swipe")
    lap.export()
    rename_instance(twin.history, "lap-a1", "aaa-77")
    twin.hear(lap)
    exchange([lap, twin, desk])
    assert lap.view() == twin.view() == desk.view()
    assert len(lap.view()["turns"]) == 6
    twin.history.close()


def test_the_last_line_of_a_file_says_how_far_it_reaches(lap) -> None:
    lap.say("cli", "one")
    lap.export(3)
    assert last_through(MARCH, lap.files[MARCH]).turn == 1
    with pytest.raises(BadLineError):
        last_through(MARCH, lines({}))


def test_lines_are_read_as_they_were_written(lap) -> None:
    lap.bring_in(3)
    lap.swipe(0, "x")
    lap.export(3)
    for line in lap.files[MARCH].splitlines(keepends=True):
        told = parse_line(line)
        assert told is not None
        assert encode_line(told) == line


def test_a_history_without_a_turn_has_no_lines_and_is_not_made(lap) -> None:
    assert new_lines(lap.history, "lap-a1")[1] == b""
    assert not lap.history.path.exists()


def test_a_summary_that_ended_after_a_turn_that_came_late_is_made_again(lap, desk) -> None:
    from familiar_cli.store.history.summaries import PUBLIC, Summaries, Summary

    for machine in (lap, desk):
        for number in range(3):
            machine.say("cli", f"{machine.name} {number}")
    summaries = Summaries(lap.history)
    for last in (2, 3):
        summaries.keep(Summary(PUBLIC, last, f"up to {last}", START, "m"), ["cli"])
    desk.export()
    lap.hear(desk)
    assert words(lap)[0] == "desk-b2 0"
    assert summaries.latest(PUBLIC, PrivacyRules()) is None
    assert issubclass(InstanceTwiceError, FamiliarError)


def test_the_lines_in_the_documentation_can_be_read() -> None:
    page = (pages.ROOT / "docs/reference/turn-files.md").read_text("utf-8")
    shown = [line for line in page.splitlines() if line.startswith('{"v"')]
    assert [encode_line(parse_line(line)).decode() for line in shown] == [
        f"{line}\n" for line in shown
    ]
