"""`familiar review`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from familiar_cli.actions.memory import due_work
from familiar_cli.actions.memory.due_work import DueWork
from familiar_cli.cli.terminal.reply import BackgroundNotices
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.pending import PlannedFile, ReviewPlan, stage_plan, turns_in_review
from tests.support.server import ChatServer
from tests.support.terminals import answering, on_terminal
from tests.support.world import data, own, run
from tests.support.writing import ANNAS, answer, memory, point_at, talked


@pytest.fixture
def root(monkeypatch):
    """A familiar with one plan that waits."""
    made = talked()
    with ChatServer([answer("Keeps bees.", "Sells honey.")]) as server:
        point_at(server, monkeypatch)
        assert run("write-memory", "--review").exit_code == 0
    return made


def test_a_list_shows_what_waits(root):
    done = run("review", "list")

    header, plan = done.stdout.splitlines()
    assert header.split() == ["plan", "made", "from", "pieces", "files", "why"]
    assert ANNAS in plan
    assert "  turns 1-2  " in plan


@pytest.mark.posix
def test_a_list_is_readable_in_forty_columns(root, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    code, shown = on_terminal("review", "list")
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()]
    assert (code, max(map(len, lines)) <= 40) == (0, True)
    assert lines[-2:] == [f"  files   {ANNAS}", "  why     proposed for review"]


def test_a_list_gives_the_familiars_time(root):
    run("config", "set", "timezone", "Asia/Tokyo")
    made = datetime.fromisoformat(data("review", "list")["plans"][0]["created"])
    there = made.astimezone(ZoneInfo("Asia/Tokyo"))
    assert f"  {there:%Y-%m-%d %H:%M}  turns 1-2  " in run("review", "list").stdout


def test_an_empty_list_says_how_to_fill_it():
    talked()

    done = run("review", "list")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "--review" in done.stderr


def test_show_prints_the_pieces_by_number(root):
    done = run("review", "show")

    assert done.stdout.startswith(f"[1] {ANNAS} (new file)\n+# Anna\n")
    assert f"+- Sells honey. (Anna) <!-- turns {own(root)}:1 -->\n" in done.stdout


def test_apply_makes_the_changes_and_the_plan_is_settled(root):
    done = run("review", "apply", "--all")

    assert (done.exit_code, done.stdout) == (0, f"wrote {ANNAS}\n")
    assert "Keeps bees." in memory(root, ANNAS)
    assert data("review", "list")["plans"] == []


def test_apply_takes_one_piece(root):
    found = data("review", "apply", "--hunk", "1")

    assert (found["changed"], found["left"]) == ([ANNAS], 0)


def line_of(words: str) -> str:
    """Return the line of the one piece that holds these words, as `--hunk` takes it."""
    lines = run("review", "show").stdout.splitlines()[1:]
    changed = [line for line in lines if line[:1] in {"+", "-"}]
    return f"1.{next(n for n, line in enumerate(changed, 1) if words in line)}"


def test_one_wrong_line_of_a_piece_is_rejected_and_the_rest_waits(root):
    found = data("review", "reject", "--hunk", line_of("Sells honey."))

    assert (found["changed"], found["left"]) == ([], 1)
    assert data("review", "apply", "--all")["left"] == 0
    assert "Keeps bees." in memory(root, ANNAS)
    assert "Sells honey." not in memory(root, ANNAS)


def test_one_line_of_a_piece_is_applied_and_the_rest_waits(root):
    found = data("review", "apply", "--hunk", line_of("Keeps bees."))

    assert (found["changed"], found["left"]) == ([ANNAS], 2)
    assert memory(root, ANNAS).strip() == f"- Keeps bees. (Anna) <!-- turns {own(root)}:1 -->"
    assert data("review", "apply", "--all")["left"] == 0
    assert memory(root, ANNAS).startswith("# Anna\n")
    assert memory(root, ANNAS).count("\n- ") == 3


def test_a_line_that_goes_can_be_kept(root):
    run("review", "apply", "--all")
    store = MemoryStore(root / "memory")
    before = memory(root, ANNAS)
    file = PlannedFile(ANNAS, before, before.replace("- Keeps bees.", "- Keeps wasps."))
    plan = ReviewPlan("p", "r", "2026-04-07T18:00:00Z", "review", "m", (1, 1), (file,))
    with store.transaction("memory_writer", "plan") as tx:
        stage_plan(tx, store, plan)

    assert data("review", "reject", "--hunk", "1.1")["left"] == 1
    assert data("review", "apply", "--all")["left"] == 0
    assert "- Keeps bees." in memory(root, ANNAS)
    assert "- Keeps wasps." in memory(root, ANNAS)


@pytest.mark.parametrize("hunk", ["x", "1.0", "1.", "1.99", "2", "2.1", "1.2.3"])
def test_a_line_that_is_not_there_is_a_usage_error(root, hunk):
    done = run("review", "reject", "--hunk", hunk)
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert data("review", "list")["plans"][0]["hunks"] == 1


def test_a_dry_run_changes_nothing(root):
    done = run("review", "apply", "--all", "--dry-run")

    assert done.stdout == f"would write {ANNAS}\n"
    assert not (root / "memory" / ANNAS).exists()
    assert len(data("review", "list")["plans"]) == 1


def test_reject_throws_it_away_and_changes_nothing(root):
    done = run("review", "reject")

    assert (done.exit_code, done.stdout) == (0, "")
    assert not (root / "memory" / ANNAS).exists()
    assert data("review", "list")["plans"] == []


def test_a_file_changed_since_is_a_conflict(root):
    run("memory", "write", ANNAS, "# Mine")

    done = run("review", "apply", "--all")

    assert done.exit_code == 5
    assert "has changed since" in done.stderr
    assert memory(root, ANNAS) == "# Mine"


def test_what_is_not_there_is_not_found(root):
    assert run("review", "show", "nobody").exit_code == 4
    assert run("review", "apply", "--hunk", "9").exit_code == 2


def test_a_damaged_plan_can_be_thrown_away(root):
    plan = data("review", "list")["plans"][0]["id"]
    (root / "memory" / "sessions" / ".pending" / f"{plan}.json").write_text("{")

    listed, shown = run("review", "list"), run("review", "show")

    assert (listed.exit_code, listed.stdout, shown.exit_code) == (0, "", 5)
    assert "damaged" in listed.stderr
    assert run("review", "reject", plan).exit_code == 0


@pytest.mark.parametrize("more", [(), ("--json",), ("--all",)])
def test_where_nobody_can_be_asked_the_whole_plan_is_made(root, more):
    assert run("review", "apply", *more).exit_code == 0
    assert (root / "memory" / ANNAS).exists()
    assert run("review", "list").stdout == ""


def test_all_and_some_pieces_exclude_each_other(root):
    assert run("review", "apply", "--all", "--hunk", "1").exit_code == 2
    assert not (root / "memory" / ANNAS).exists()


on_a_terminal = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")


@pytest.fixture
def three(monkeypatch):
    """A familiar with a plan of three pieces, in three files."""
    made = talked()
    files = {f"topics/{name}.md": f"About {name}." for name in ("bees", "honey", "wax")}
    reply = [
        {"op": "create", "file": file, "lines": [f"# {file}", "", f"- {text}"], "turns": [1]}
        for file, text in files.items()
    ]
    with ChatServer([json.dumps({"operations": reply})]) as server:
        point_at(server, monkeypatch)
        assert run("write-memory", "--review").exit_code == 0
    assert data("review", "list")["plans"][0]["hunks"] == 3
    return made


def asked(*answers: str, columns: int = 80) -> tuple[int, str]:
    code, screen = answering(
        "review", "apply", prompt="Apply it? [", answers=list(answers), columns=columns
    )
    return code, re.sub(r"\x1b\[[\d;]*m", "", screen)


def topics(root) -> list[str]:
    return sorted(path.stem for path in (root / "memory" / "topics").glob("*.md"))


def waiting() -> int:
    return sum(plan["hunks"] for plan in data("review", "list")["plans"])


@on_a_terminal
def test_each_piece_is_taken_rejected_or_left_for_later(three):
    code, screen = asked("yes\n", "n\n", "\n")

    assert (code, topics(three), waiting()) == (0, ["bees"], 1)
    assert "[1/3] topics/bees.md (new file)\n+# " in screen
    assert "wrote topics/bees.md\n" in screen
    assert "1 of 3 pieces rejected." in screen
    assert "1 of 3 pieces of plan" in screen


@on_a_terminal
def test_the_lines_of_a_piece_can_be_decided_on_one_by_one(three):
    code, screen = asked("e\n", *["y\n"] * 4, "n\n", "q\n")

    assert (code, topics(three), waiting()) == (0, ["bees"], 2)
    assert "About bees." not in memory(three, "topics/bees.md")
    assert "1 line rejected." in screen


@on_a_terminal
@pytest.mark.parametrize("stop", ["q\n", "\x04"], ids=["q", "Ctrl-D"])
def test_to_stop_half_way_does_what_was_said_and_the_rest_waits(three, stop):
    code, _ = asked("y\n", stop)

    assert (code, topics(three), waiting()) == (0, ["bees"], 2)


@on_a_terminal
def test_ctrl_c_changes_nothing_whatever_was_said_before(three):
    code, screen = asked("y\n", "n\n", "\x03")

    assert (code, topics(three), waiting()) == (130, [], 3)
    assert "Nothing was changed" in screen
    assert "Traceback" not in screen


@on_a_terminal
@pytest.mark.parametrize(("key", "taken"), [("a\n", ["honey", "wax"]), ("R\n", [])])
def test_one_key_answers_for_all_that_follow(three, key, taken):
    code, screen = asked("n\n", key)

    assert (code, topics(three), waiting()) == (0, taken, 0)
    assert "The plan is complete." in screen


@on_a_terminal
def test_any_other_key_lists_the_keys_and_asks_again(three):
    code, screen = asked("maybe\n", "?\n", "q\n")

    assert (code, topics(three), waiting()) == (0, [], 3)
    assert screen.count("  y  apply this piece\n") == 2


@on_a_terminal
def test_a_narrow_terminal_shows_whole_lines_and_the_question(three):
    code, screen = asked("y\n", "y\n", "y\n", columns=20)

    assert (code, topics(three)) == (0, ["bees", "honey", "wax"])
    assert f"\n+About bees. <!-- turns {own(three)}:1 -->\n" in screen


WAITS = "1 plan awaits review: `familiar review list`"
WAITS_FROM = "1 plan, made from 2 turns, awaits review: `familiar review list`"


def test_a_plan_that_waits_is_told_by_status_and_doctor_with_its_turns(root):
    status = data("status")
    assert (status["plans"], status["turns_in_review"]) == (1, 2)
    assert WAITS_FROM in run("status").stdout
    keeping = [c for c in data("doctor", code=7)["checks"] if c["name"] == "keeping"]
    assert [(c["verdict"], c["detail"]) for c in keeping] == [("warn", WAITS_FROM)]
    run("review", "reject")
    assert (data("status")["plans"], data("status")["turns_in_review"]) == (0, 0)
    assert "review" not in run("status").stdout


def test_a_plan_that_waits_is_told_after_a_reply(root, monkeypatch):
    with ChatServer(["Hello."]) as server:
        point_at(server, monkeypatch)
        told = run("ask", "Hi")
        assert f"{WAITS}." in told.stderr
    with ChatServer(["Hello."]) as server:
        point_at(server, monkeypatch)
        run("review", "reject")
        assert "review" not in run("ask", "Hi again").stderr


def test_a_conversation_tells_of_a_plan_once(root, monkeypatch):
    monkeypatch.setattr(due_work, "begin_due_work", lambda *_: DueWork(plans=1))
    told: list[str] = []
    out = SimpleNamespace(note=lambda *texts: told.extend(texts), warn=lambda *_: None)
    notices = BackgroundNotices(out, None)
    for _ in range(2):
        notices.begin(None)
    assert told == [f"{WAITS}."]


def test_turns_of_plans_that_overlap_count_once(root):
    store = MemoryStore(root / "memory")
    for name, turns in (("p", (1, 2)), ("q", (2, 2)), ("r", (0, 0))):
        plan = ReviewPlan(name, "r", "2026-04-07T18:00:00Z", "review", "m", turns, ())
        with store.transaction("memory_writer", "plan") as tx:
            stage_plan(tx, store, plan)
    assert turns_in_review(store) == 2
    assert data("status")["plans"] == 4


def test_forgetting_a_person_leaves_a_plan_its_pieces_about_others(monkeypatch):
    root = talked(1, words="borscht.")
    (root / "channels" / "general.toml").write_text('kind = "text"\n', encoding="utf-8")
    run("hear", "My cat Fjodor sleeps", "--as", "discord:9", "--name", "Bo", "--channel", "general")
    bos = json.loads(answer("Bo has a cat.", file="people/discord-9.md", turns=(2,)))
    both = [answer("Likes borscht."), answer("A cat sleeps.", file="topics/cats.md", turns=(2,))]
    for one in both:
        bos["operations"] += json.loads(one)["operations"]
    with ChatServer([json.dumps(bos)] * 2) as server:
        point_at(server, monkeypatch)
        assert run("write-memory", "--review", "--newest").exit_code == 0
    assert len(data("review", "show")["files"]) == 3

    assert run("people", "export", "Bo", str(root / "bo")).exit_code == 0
    assert "borscht" not in (root / "bo" / "about.md").read_text(encoding="utf-8")
    assert not (root / "bo" / "memory" / "sessions").exists()
    told = run("people", "forget", "Bo", "--yes")

    assert "keeps its pieces about others" in told.stdout, told.stderr
    plan = data("review", "show")
    assert [file["rel_path"] for file in plan["files"]] == [ANNAS]
    assert "cat" not in json.dumps(plan["files"])
    assert run("review", "apply", "--all").exit_code == 0
    assert "borscht" in run("memory", "cat", ANNAS).stdout


def test_plans_that_each_create_a_page_or_add_to_its_end_can_all_be_applied(tmp_path):
    talked()
    files = [tmp_path / f"{name}.txt" for name in ("one", "two", "three")]
    for file, words in zip(files, ("Has a dog", "Plays chess", "Grows leeks"), strict=True):
        file.write_text(f"[2025-03-04] - {words}\n[2025-03-05] - {words} at home\n")
    assert run("import", *map(str, files[:2])).exit_code == 0
    first, second = (plan["id"] for plan in data("review", "list")["plans"])

    told = run("review", "apply", first, "--all").stderr
    assert "The plan is complete." in told
    assert "1 plan awaits review" in told
    assert run("import", str(files[2])).exit_code == 0
    for plan in [one["id"] for one in data("review", "list")["plans"]]:
        done = run("review", "apply", plan, "--all")
        assert done.exit_code == 0, done.stderr

    assert second not in run("review", "list").stdout
    page = run("memory", "cat", "people/cli-user.md").stdout
    assert [page.count(words) for words in ("dog", "chess", "leeks")] == [2, 2, 2]
    assert page.count("\n# ") + page.startswith("# ") == 1
