"""Lines of a chat that are equal in all but their place are told apart on every machine."""

from __future__ import annotations

import json

import pytest

from familiar_cli.store.history.imports import Appender, ChatOrigin
from familiar_cli.store.history.matching import ChatPlacement, IncomingLine
from familiar_cli.store.history.rows import Turn
from familiar_cli.sync.turns import take_in
from tests.sync.test_turn_laws import ANNA, START, Machine, exchange

ORIGIN = ChatOrigin("key", "plain", "chat.jsonl", "{}")
LINE = {
    "v": 1,
    "kind": "turn",
    "channel": "chat",
    "role": "user",
    "at": "2026-03-01T00:00:07.000Z",
    "modality": "text",
    "source": "import-chat",
}


@pytest.fixture
def machines(tmp_path):
    made = [Machine(tmp_path, name) for name in ("desk-b2", "lap-a1", "srv-c3")]
    yield made
    for machine in made:
        machine.history.close()


def incoming(text: str, message_id: str = "") -> IncomingLine:
    turn = Turn(0, "chat", ANNA, "user", text, START, "text", "import-chat", False)
    return IncomingLine(turn, b"same", estimated=False, raw="{}", message_id=message_id)


def add(machine: Machine, *lines: IncomingLine) -> None:
    Appender(machine.history, ChatPlacement("chat"), ORIGIN).add(lines)


def shown(machine: Machine) -> list[tuple[object, str]]:
    return machine.view()["standing"].get("chat", [])


def assert_all_the_same(machines: list[Machine], lines: int) -> None:
    exchange(machines)
    exchange(machines)
    views = [(machine.view()["standing"], machine.view()["marks"]) for machine in machines]
    assert views[1:] == views[:-1]
    assert [len(shown(machine)) for machine in machines] == [lines] * len(machines)


def test_a_line_that_another_machine_adds_to_an_equal_one_is_the_second(machines) -> None:
    desk, lap, srv = machines
    srv.bring_in(1)
    srv.export()
    lap.hear(srv)
    lap.bring_in(2)
    assert_all_the_same([desk, lap, srv], 2)


def test_equal_lines_imported_apart_are_each_there_once(machines) -> None:
    desk, lap, srv = machines
    srv.bring_in(1)
    desk.bring_in(2)
    srv.export()
    lap.hear(srv)
    lap.bring_in(2)
    assert_all_the_same(machines, 2)


def test_a_line_that_others_know_as_a_live_turn_is_no_other_line(machines) -> None:
    _, lap, srv = machines
    lap.say("chat", "live")
    lap.export()
    line = incoming("live")
    Appender(lap.history, ChatPlacement("chat"), ORIGIN).describe([(1, line)])
    add(srv, line)
    assert_all_the_same(machines, 2)


def test_a_live_turn_that_nobody_heard_of_is_the_line(machines) -> None:
    _, lap, srv = machines
    lap.say("chat", "live")
    line = incoming("live")
    Appender(lap.history, ChatPlacement("chat"), ORIGIN).describe([(1, line)])
    add(srv, line)
    assert_all_the_same(machines, 1)


def test_one_message_by_its_id_and_by_its_line_is_one_in_any_order(machines) -> None:
    desk, lap, srv = machines
    desk.history.append("chat", "user", "by its id", author=ANNA, at=START, message_id="m")
    lap_line = incoming("by both", "m")
    add(lap, lap_line)
    add(srv, incoming("by its line"))
    assert_all_the_same(machines, 1)


def test_lines_of_an_older_version_count_in_their_order(machines) -> None:
    desk, lap, _ = machines
    lap.bring_in(2)
    imported = {"chat": "key", "raw": "{}"}
    with lap.history.use(create=False) as connection:
        (identity,) = connection.execute("SELECT DISTINCT identity FROM turn_extras").fetchone()
    imported["identity"] = identity.hex()
    told = [
        LINE
        | {"id": n, "content": f"line {n - 1}", "imported": imported}
        | ({"after": f"old-d4:{n - 1}"} if n > 1 else {})
        for n in (1, 2)
    ]
    data = b"".join(json.dumps(one).encode() + b"\n" for one in told)
    take_in(lap.history, lap.name, "turns/old-d4/2026-03.jsonl", data)
    take_in(desk.history, desk.name, "turns/old-d4/2026-03.jsonl", data)
    assert_all_the_same([desk, lap], 2)
