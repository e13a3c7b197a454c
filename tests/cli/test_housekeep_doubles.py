"""Chats that are kept twice, from `familiar housekeep doubles` to `familiar history restore`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from tests.support.chats import HEAD, robin, save, talk, yuzu
from tests.support.world import data, home, live, run

ROBIN = Author("serve", "robin")
GREETING = "*waves*"


@dataclass
class World:
    store: HistoryStore

    def live(self, channel: str, *lines: str, first: int = 0, person: Author = ROBIN) -> list[int]:
        """Keep lines as the server does, a person's first, and return their turns."""
        kept = []
        for n, line in enumerate(lines, first):
            role, author = ("assistant", None) if n % 2 else ("user", person)
            turn = self.store.append(channel, role, line, author=author, source="serve")
            kept.append(turn.id)
        return kept


@pytest.fixture
def world():
    live("yuzu", notes="# Notes\n")
    with closing(HistoryStore(home() / "yuzu" / "history.db")) as store:
        yield World(store)


def imported(tmp_path, *lines, channel="old") -> None:
    path = save(tmp_path / f"{channel}.jsonl", HEAD, *lines)
    assert run("import-chat", str(path), "--channel", channel).exit_code == 0


def lines(count: int, first: int = 0) -> list[str]:
    return [f"line {n}" for n in range(first, first + count)]


def shown(channel: str, *more: str) -> list[str]:
    turns = data("history", "show", "--channel", channel, *more)["turns"]
    return [turn["content"] for turn in turns]


def test_a_copy_is_withdrawn_by_a_plan_and_the_imported_turns_stay(world, tmp_path) -> None:
    imported(tmp_path, *talk(6))
    copies = world.live("copy", *lines(6), "line 6, live")
    before = data("history", "show", "--channel", "old")
    (finding,) = data("housekeep", "doubles")["findings"]
    assert finding["message"] == "channel 'copy' repeats 6 turns of channel 'old', which stay"
    assert (finding["paths"], finding["can_propose"]) == (["history.db"], True)
    (plan,) = data("housekeep", "doubles", "--propose")["proposed"]
    assert data("housekeep", "doubles", "--propose")["proposed"] == []
    assert f"-turn {copies[0]} repeats turn " in run("review", "show", plan).stdout
    assert data("review", "apply", plan, "--all", "--dry-run")["withdrawn"] == copies[:6]
    assert len(shown("copy")) == 7
    assert data("review", "apply", plan, "--all")["withdrawn"] == copies[:6]
    assert shown("copy") == ["line 6, live"]
    assert shown("copy", "--all") == [*lines(6), "line 6, live"]
    assert data("history", "show", "--channel", "old") == before
    assert data("housekeep", "doubles")["findings"] == []
    assert run("history", "restore", *map(str, copies[:6])).exit_code == 0
    assert len(shown("copy")) == 7


def test_memory_that_cites_a_double_cites_the_turn_that_stays(world, tmp_path) -> None:
    """A fact stands as long as one of the turns does in which it was said."""
    imported(tmp_path, *talk(4))
    copies = world.live("copy", *lines(4), "line 4, live")
    originals = [turn["turn"] for turn in data("history", "show", "--channel", "old")["turns"]]
    page = (
        f"# Notes\n\n- Robin sails. <!-- turns {copies[0]}-{copies[1]} -->\r\n"
        f"- Robin bakes. <!-- turns {originals[2]}, {copies[2]}, {copies[4]} -->\n"
        f"- Robin reads. <!-- turns elsewhere-1:{copies[0]} -->\n"
        f"```\n- Code <!-- turns {copies[0]} -->\n```"
    )
    notes = home() / "yuzu" / "memory" / "notes.md"
    digest = notes.parent / "daily" / "2026-01-01.md"
    digest.parent.mkdir()
    for path, text in ((notes, page), (digest, page)):
        path.write_text(text, encoding="utf-8", newline="")
    (plan,) = data("housekeep", "doubles", "--propose")["proposed"]
    assert data("review", "apply", plan, "--all", "--dry-run")["changed"] == ["notes.md"]
    assert data("review", "apply", plan, "--all")["changed"] == ["notes.md"]
    moved = page.replace(f"{copies[0]}-{copies[1]} -->\r", f"{originals[0]}-{originals[1]} -->\r")
    moved = moved.replace(f"{originals[2]}, {copies[2]}, ", f"{originals[2]}, ")
    assert notes.read_bytes().decode() == moved
    assert digest.read_bytes().decode() == page
    assert data("housekeep", "withdrawn")["findings"] == []
    assert run("memory", "undo").exit_code == 0
    assert notes.read_bytes().decode() == page


def test_of_two_live_chats_the_older_one_stays(world) -> None:
    world.live("first", *lines(4))
    copies = world.live("second", *lines(4))
    world.live("third", *lines(4))
    found = data("housekeep", "doubles", "--propose")
    assert [one["message"] for one in found["findings"]] == [
        f"channel '{name}' repeats 4 turns of channel 'first', which stay"
        for name in ("second", "third")
    ]
    plan = found["findings"][0]["plan_id"]
    assert data("review", "apply", plan, "--hunk", "1.2")["withdrawn"] == [copies[1]]
    assert shown("second") == ["line 0", "line 2", "line 3"]
    assert data("review", "apply", plan, "--all")["withdrawn"] == [copies[0], *copies[2:]]


@pytest.mark.parametrize(
    ("kept", "copy"),
    [
        (lines(2), lines(2)),
        (lines(4), ["line 0", "other", "line 2", "line 3"]),
        (["hm", *lines(3)], ["hm", "line 0", "else", "more"]),
    ],
)
def test_two_lines_in_a_row_are_a_coincidence(world, kept, copy) -> None:
    world.live("first", *kept)
    world.live("second", *copy)
    assert data("housekeep", "doubles")["findings"] == []


def test_a_greeting_does_not_count(world, tmp_path) -> None:
    imported(tmp_path, yuzu(GREETING), robin("Hello"), yuzu("Hi."), robin("Tea?"))
    world.live("short", GREETING, "Hello", "Hi.", "Coffee?", first=1)
    assert data("housekeep", "doubles")["findings"] == []
    world.live("long", GREETING, "Hello", "Hi.", "Tea?", first=1)
    (finding,) = data("housekeep", "doubles")["findings"]
    assert "'long' repeats 4 turns" in finding["message"]


def test_what_was_said_twice_in_one_copy_is_doubled_once(world) -> None:
    world.live("first", *lines(4))
    world.live("second", *lines(4), *lines(4))
    (finding,) = data("housekeep", "doubles")["findings"]
    assert "repeats 4 turns" in finding["message"]


def test_two_people_who_say_the_same_are_two(world) -> None:
    world.live("first", *lines(4))
    world.live("second", *lines(4), person=Author("serve", "anna"))
    assert data("housekeep", "doubles")["findings"] == []


def test_a_plan_whose_original_was_withdrawn_since_changes_nothing(world) -> None:
    first = world.live("first", *lines(4))
    world.live("second", *lines(4))
    (plan,) = data("housekeep", "doubles", "--propose")["proposed"]
    assert run("history", "withdraw", str(first[2])).exit_code == 0
    refused = run("review", "apply", plan, "--all")
    assert refused.exit_code not in {0, 1, 2}
    assert "is no longer a duplicate of turn" in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert len(shown("second")) == 4
    assert data("review", "list")["plans"][0]["id"] == plan


def test_a_rejected_plan_leaves_the_doubles_alone(world) -> None:
    world.live("first", *lines(4))
    world.live("second", *lines(4))
    (plan,) = data("housekeep", "doubles", "--propose")["proposed"]
    assert data("review", "reject", plan)["withdrawn"] == []
    again = data("housekeep", "doubles", "--propose")
    assert (again["proposed"], again["findings"][0]["rejected"]) == ([], True)
    assert len(shown("second")) == 4
