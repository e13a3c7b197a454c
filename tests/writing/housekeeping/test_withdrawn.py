"""Lines of memory that rest on turns which no longer stand."""

from __future__ import annotations

from contextlib import closing

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history import marks as standing
from familiar_cli.store.memory.pages.lines import Numbering
from tests.support.world import data, live, run

BEES = "- Anna keeps bees. <!-- turns 1-2 -->\n"
PAGE = f"""# Anna

She lives by the sea. <!-- turns 1, 3 -->

## Facts

{BEES}- Anna has a cat. <!-- turns 2-4 -->
- Anna likes tea. <!-- turns 4 -->
- Anna has children: <!-- turns 1 -->
  - Bo
"""
GONE = {1: "turn 1 was withdrawn", 2: "turn 2 was replaced by turn 9"}


def fallen(turns) -> dict[int, str]:
    return {turn: GONE[turn] for turn in turns if turn in GONE}


def test_a_line_is_taken_out_or_keeps_the_turns_that_stand(look) -> None:
    (finding,) = look("withdrawn", {"people/anna.md": PAGE}, fallen=fallen)

    (repair,) = finding.repair
    assert repair.after == (
        PAGE.replace(BEES, "").replace("1, 3", "3").replace("turns 2-4", "turns 3-4")
    )
    assert [quote.line for quote in finding.evidence] == [3, 7, 8, 10]
    assert finding.message == (
        "2 lines are based on replaced or withdrawn turns, and 2 more in part: "
        "turn 1 was withdrawn, turn 2 was replaced by turn 9"
    )
    assert "takes out 1 line and keeps 2 lines" in finding.hint
    assert "Edit line 10 by hand." in finding.hint


def test_what_rests_on_turns_that_stand_or_is_made_again_is_no_finding(look) -> None:
    files = {
        "people/anna.md": "- Tea <!-- turns 3 -->\n\n```\n- Code <!-- turns 1 -->\n```\n",
        "daily/2026-01-01.md": BEES,
    }
    assert look("withdrawn", files, fallen=fallen) == ()


def test_what_days_weeks_and_digests_repeat_is_found_with_it_and_what_else_is_said_stays(look):
    dog = "Robin has a brown dog called Biscuit"
    stays = "# Long\n\n- Robin has a black cat called Inky.\n- Robin came by.\n"
    files = {
        "sessions/2026-01-01-evening.md": f"# Day\n\n- {dog}. <!-- turns 1 -->\n"
        "- Robin came by. <!-- turns 3 -->\n",
        "daily/2026-01-01.md": f"- {dog}. [chat:cli] [via:desk] <!-- turns 1 -->\n",
        "digest/long.md": f"{stays}- Robin told of Biscuit, his brown dog. <!-- from mid -->\n",
        "weekly/2026-W01.md": f"Robin came by. {dog}.\n\n```\n{dog}\n```\n",
    }
    found = {finding.paths[0]: finding for finding in look("withdrawn", files, fallen=fallen)}
    assert found.keys() == files.keys()
    assert found["daily/2026-01-01.md"].repair[0].after == ""
    assert found["digest/long.md"].repair[0].after == stays
    assert found["weekly/2026-W01.md"].repair == ()
    assert "Edit line 1 by hand" in found["weekly/2026-W01.md"].hint


def test_a_withdrawn_turn_leaves_memory_by_way_of_the_desk() -> None:
    root = live("ada", notes=f"# Notes\n\n{BEES}- Tea <!-- turns 2 -->\n")
    with closing(HistoryStore(root / "history.db")) as store:
        for text in ("I keep bees.", "And I like tea."):
            store.append("cli", "user", text, author=Author("x", "1"))
        store.move_watermark("memory_writer", 2)
        standing.withdraw_turns(store, [1])

    (finding,) = data("housekeep", "withdrawn", "--propose")["findings"]
    assert finding["message"].startswith("1 line is based in part")
    assert "withdrawn" in run("doctor").stdout
    run("review", "apply", finding["plan_id"], "--all")
    notes = (root / "memory" / "notes.md").read_text("utf-8")
    assert notes == "# Notes\n\n- Anna keeps bees. <!-- turns 2 -->\n- Tea <!-- turns 2 -->\n"
    assert "familiar housekeep withdrawn" in run("history", "withdraw", "2").stderr


def test_only_turns_that_are_held_here_can_have_fallen(look) -> None:
    there = Numbering("desk-9c2d", "laptop-7f3a", lambda _, ids: {5: 1} if 5 in ids else {})
    lines = "- Bees <!-- turns 1, 5; server-1:1 -->\n- Tea <!-- turns 1; desk-9c2d:3 -->\n"

    (finding,) = look("withdrawn", {"notes.md": lines}, fallen=fallen, numbering=there)

    assert finding.repair[0].after == lines.replace("1, 5", "1")
