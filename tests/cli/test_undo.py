"""`familiar memory undo` after passes of the memory writer and edits by hand, from argv on."""

from __future__ import annotations

import json

import pytest

from tests.support.world import data, run
from tests.support.writing import ANNAS, EVENING, SESSION, answer, memory, talked

NOTES = "# Notes\n\n- feed the cat\n"


WORDS = "My bees, my tuba, my house in Graz."


def said(*lines: str, turn: int, file: str = ANNAS) -> str:
    return answer(*lines, turns=(turn,), file=file)


@pytest.fixture
def root():
    """A familiar to whom Anna has spoken, and who has a note from before."""
    made = talked(words=WORDS)
    assert run("memory", "write", "notes.md", NOTES).exit_code == 0
    return made


@pytest.fixture
def three_runs(root, serve) -> list[str]:
    """Passes that each learned one thing of Anna and wrote in the same session."""

    def both(*lines: str, turn: int) -> str:
        operations = [
            json.loads(said(*lines, turn=turn, file=file))["operations"][0]
            for file in (ANNAS, SESSION)
        ]
        return json.dumps({"operations": operations})

    serve(
        both("Keeps bees.", turn=1),
        both("Plays the tuba.", turn=3),
        both("Lives in Graz.", turn=5),
    )
    made = []
    for _ in range(3):
        made.append(data("write-memory")["run"])
        talked(at=EVENING, words=WORDS)
    return made


def contents(root) -> dict[str, bytes]:
    files = (path for path in (root / "memory").rglob("*") if path.is_file())
    return {str(p.relative_to(root)): p.read_bytes() for p in files if ".index" not in p.parts}


def newest() -> dict:
    return data("memory", "log")["commits"][0]


class TestPlain:
    def test_after_a_pass_the_fact_goes_and_the_names_with_it(self, root, serve):
        serve(answer("Keeps bees."))
        assert run("write-memory").exit_code == 0
        assert "anna" in memory(root, "people/_aliases.json")

        found = data("memory", "undo")

        assert found["commit"]["source"] == "memory_writer"
        assert found["deleted"] == [ANNAS]
        assert not (root / "memory" / ANNAS).exists()
        assert json.loads(memory(root, "people/_aliases.json")) == {}

    def test_a_plan_that_awaits_review_is_no_change_and_stays(self, root, serve):
        run("memory", "append", "notes.md", "- call Bob\n")
        serve(answer("Keeps bees."))
        plan = data("write-memory", "--review")["pending"]

        assert run("memory", "undo").stdout == "wrote notes.md\n"
        assert [one["id"] for one in data("review", "list")["plans"]] == [plan]

    def test_what_was_written_by_hand_since_then_stays(self, root):
        run("memory", "append", "notes.md", "- call Bob\n")
        (root / "memory" / "mine.md").write_text("my own words\n", encoding="utf-8")
        path = root / "memory" / "notes.md"
        path.write_text("by hand\n" + path.read_text(), encoding="utf-8")

        done = run("memory", "undo")

        assert (done.exit_code, done.stdout) == (0, "wrote notes.md\n")
        assert memory(root, "mine.md") == "my own words\n"
        assert memory(root, "notes.md") == "by hand\n" + NOTES

    def test_an_edit_by_hand_is_taken_back_by_its_id(self, root):
        run("memory", "append", "notes.md", "- call Bob\n")
        (root / "memory" / "mine.md").write_text("my own words\n", encoding="utf-8")
        edit = newest()
        assert edit["message"] == "edited by hand: mine.md"

        assert run("memory", "undo", edit["id"]).stdout == "deleted mine.md\n"

    def test_where_only_edits_by_hand_are_left_it_says_so(self, root):
        (root / "memory" / "notes.md").write_text("all mine\n", encoding="utf-8")

        done = run("memory", "undo")

        assert done.exit_code == 4
        assert "The program has no changes left to undo" in done.stderr
        assert memory(root, "notes.md") == "all mine\n"

    def test_a_change_that_has_no_effect_any_more_is_passed_over(self, root):
        run("memory", "append", "notes.md", "- one\n")
        run("memory", "append", "notes.md", "- two\n")
        (root / "memory" / "notes.md").write_text(NOTES + "- one\n", encoding="utf-8")

        assert run("memory", "undo").exit_code == 0
        assert memory(root, "notes.md") == NOTES


class TestRuns:
    def test_each_can_be_undone_whatever_came_after_it(self, root, three_runs):
        first, _, last = three_runs

        done = run("memory", "undo", "--run", first)

        assert (done.exit_code, done.stdout) == (0, f"wrote {ANNAS}\nwrote {SESSION}\n")
        assert f"Undid: run {first}" in done.stderr
        for rel_path in (ANNAS, SESSION):
            text = memory(root, rel_path)
            assert "bees" not in text
            assert "tuba" in text
            assert "Graz" in text
        assert run("memory", "undo", "--run", last).exit_code == 0
        assert "Graz" not in memory(root, ANNAS)
        assert "tuba" in memory(root, ANNAS)

    def test_by_id_too(self, root, three_runs):
        commits = data("memory", "log", "--source", "memory_writer")["commits"]
        assert len(commits) == 3
        assert run("memory", "undo", commits[1]["id"]).exit_code == 0
        assert "tuba" not in memory(root, SESSION)

    def test_every_step_of_a_run_goes_in_one_change(self, root, serve):
        talked(18, words=WORDS)
        settings = 'timezone = "UTC"\n[memory_writer]\nbatch_turns = 10\n'
        (root / "character.toml").write_text(settings, encoding="utf-8")
        serve(said("Keeps bees.", turn=1), said("Plays the tuba.", turn=11))
        before = contents(root)
        found = data("write-memory")
        assert found["batches"] == 2

        undone = data("memory", "undo", "--run", found["run"])

        assert len(undone["commits"]) == 2
        left = {name: text for name, text in contents(root).items() if not name.endswith(".json")}
        assert left == before
        names, undo, *_ = data("memory", "log")["commits"]
        assert names["source"] == "aliases"
        assert undo["message"] == f"undo run {found['run']}"
        assert run("memory", "undo", undo["id"]).exit_code == 0
        assert "tuba" in memory(root, ANNAS)
        assert "bees" in memory(root, ANNAS)

    def test_again_it_has_no_effect(self, root, three_runs):
        first, *_ = three_runs
        run("memory", "undo", "--run", first)
        before = contents(root)

        again = run("memory", "undo", "--run", first)

        assert again.exit_code == 0
        assert "is no longer in effect" in again.stdout
        assert contents(root) == before

    def test_which_run(self, root):
        unknown = run("memory", "undo", "--run", "20260131T235959-a1b2c3")
        assert unknown.exit_code == 4
        assert "No change belongs to the run '20260131T235959-a1b2c3'" in unknown.stderr
        assert run("memory", "undo", "HEAD", "--run", "x").exit_code == 2


class TestClash:
    def test_it_ends_with_5_names_the_files_and_changes_nothing(self, root, three_runs):
        path = root / "memory" / ANNAS
        path.write_text(path.read_text().replace("bees", "wasps"), encoding="utf-8")
        before = contents(root)

        for dry_run in ([], ["--dry-run"]):
            done = run("memory", "undo", "--run", three_runs[0], *dry_run)
            assert (done.exit_code, done.stdout) == (5, "")
            assert f"Later changes of {ANNAS} touch what" in done.stderr
            assert "wasps" in done.stderr
        found = json.loads(run("memory", "undo", "--run", three_runs[0], "--json").stdout)
        assert found["errors"][0]["code"] == "conflict"
        assert [clash["rel_path"] for clash in found["data"]["clashes"]] == [ANNAS]
        assert contents(root) == before


class TestDryRun:
    def test_it_shows_the_files_and_how_they_would_differ(self, root, three_runs):
        before = contents(root)

        done = run("memory", "undo", "--run", three_runs[1], "--dry-run")

        assert done.exit_code == 0
        assert done.stdout.startswith(f"would write {ANNAS}\nwould write {SESSION}\n--- a/{ANNAS}")
        assert "\n-- Plays the tuba. (Anna)" in done.stdout
        assert f"Would undo: run {three_runs[1]}" in done.stderr
        assert contents(root) == before
        found = data("memory", "undo", "--run", three_runs[1], "--dry-run")
        assert [file["rel_path"] for file in found["files"]] == [ANNAS, SESSION]
        assert "tuba" in found["files"][0]["diff"]


def test_the_turns_of_what_was_undone_are_read_again_only_when_asked_for(root, serve):
    server = serve(answer("Keeps bees."))
    run("write-memory")

    done = run("memory", "undo")

    assert "does not read the turns of an undone change again by itself" in done.stderr
    assert "`familiar write-memory --all`" in done.stderr
    assert data("write-memory")["turns_covered"] == 0
    assert len(server.requests) == 1
    assert data("write-memory", "--all")["turns_covered"] == 2
    assert "Keeps bees." in memory(root, ANNAS)
