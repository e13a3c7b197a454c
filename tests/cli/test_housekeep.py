"""`familiar housekeep`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.pages.lines import citation_comment
from familiar_cli.writing.housekeeping.run import TITLES
from tests.support.server import ChatServer, Say
from tests.support.terminals import on_terminal
from tests.support.world import data, live, run

BEES = "- Keeps three bees in a box\n"
PAGE = f"# Notes\n\n{BEES}- keeps three bees, in a box.\n\nTea\n\n## Later\n\n- pass\u200bword\n"


@pytest.fixture
def root():
    return live("ada", notes=PAGE)


def test_an_empty_result_says_so_and_is_no_error() -> None:
    live("ada", notes="# Notes\n\nTea.\n")
    result = run("housekeep")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Nothing to tidy up: 13 checks of 1 file found nothing.\n"


def test_findings_are_shown_with_their_lines_and_nothing_changes(root) -> None:
    result = run("housekeep")
    assert result.exit_code == 0
    assert "    notes.md:4: - keeps three bees, in a box.\n" in result.stdout
    assert "\u200b" not in result.stdout
    assert (root / "memory" / "notes.md").read_text("utf-8") == PAGE
    assert sorted(p.name for p in (root / "memory").iterdir()) == ["notes.md"]


def test_json_has_the_keys_of_the_contract(root) -> None:
    found = data("housekeep", "duplicates")
    assert set(found) >= {"findings", "checks", "files", "proposed", "skipped"}
    (finding,) = found["findings"]
    assert set(finding) >= {"check", "paths", "evidence", "plan_id", "message", "hint"}
    assert finding["paths"] == ["notes.md"]
    assert finding["evidence"][0] == {
        "rel_path": "notes.md",
        "line": 3,
        "text": "- Keeps three bees in a box",
    }
    assert finding["plan_id"] is None


def test_a_model_judges_nothing_that_was_said_in_private(serve) -> None:
    private = "# Notes\n\n## In private: Anna <!-- private dm -->\n\n"
    live("ada", open=PAGE, notes=private + BEES.replace("bees", "gold bars") * 2)
    server = serve(Say(json.dumps({"judgements": [NOT]})))
    found = data("housekeep", "duplicates", "--judge")["findings"]
    assert {one["paths"][0]: one["judgement"] is None for one in found} == {
        "notes.md": True,
        "open.md": False,
    }
    assert "gold" not in str(server.requests[0].json()["messages"])


def test_proposals_are_plans_for_review_and_wait_only_once(root) -> None:
    found = data("housekeep", "duplicates", "orders", "--propose")
    plans = [one["plan_id"] for one in found["findings"]]
    assert all(plans)
    assert sorted(found["proposed"]) == sorted(plans)
    again = data("housekeep", "duplicates", "orders", "--propose")
    assert (again["proposed"], [one["plan_id"] for one in again["findings"]]) == ([], plans)
    assert (root / "memory" / "notes.md").read_text("utf-8") == PAGE
    for plan in plans:
        assert run("review", "apply", plan, "--all").exit_code == 0
    text = (root / "memory" / "notes.md").read_text("utf-8")
    assert text == PAGE.replace("- keeps three bees, in a box.\n", "").replace("\u200b", "")
    assert data("housekeep", "duplicates", "orders")["findings"] == []


def test_a_plan_that_was_rejected_is_made_again_only_when_asked_or_when_its_file_changes(
    root,
) -> None:
    (plan,) = data("housekeep", "duplicates", "--propose")["proposed"]
    assert run("review", "reject", plan).exit_code == 0
    again = data("housekeep", "duplicates", "--propose")
    assert again["proposed"] == []
    assert [(one["plan_id"], one["rejected"]) for one in again["findings"]] == [(None, True)]
    shown = run("housekeep", "duplicates", "--propose").stdout
    assert "you rejected its plan; --propose --redo makes it again" in shown
    assert data("housekeep", "duplicates", "--propose", "--redo")["proposed"] == [plan]
    assert [one["rejected"] for one in data("housekeep", "duplicates")["findings"]] == [False]
    assert run("review", "reject", plan).exit_code == 0
    assert run("memory", "append", "notes.md", "- She hums.").exit_code == 0
    (other,) = data("housekeep", "duplicates", "--propose")["proposed"]
    assert other != plan


def test_redo_goes_with_propose(root) -> None:
    refused = run("housekeep", "--redo")
    assert refused.exit_code == 2
    assert "familiar housekeep --propose --redo" in refused.stderr


def test_a_plan_that_waits_is_told_of_without_proposing(root) -> None:
    (plan,) = data("housekeep", "duplicates", "--propose")["proposed"]
    assert [one["plan_id"] for one in data("housekeep", "duplicates")["findings"]] == [plan]


def test_the_list_of_plans_says_who_proposed_them(root) -> None:
    run("housekeep", "duplicates", "--propose")
    assert "  proposed by housekeeping\n" in run("review", "list").stdout


def test_since_leaves_out_what_was_not_touched(root) -> None:
    assert data("housekeep", "--since", "2999-01-01")["findings"] == []
    assert run("housekeep", "--since", "soon").exit_code == 2


def test_an_unknown_check_is_not_found(root) -> None:
    result = run("housekeep", "secret")
    assert result.exit_code == 4
    assert "hint: Did you mean `familiar housekeep secrets`?" in result.stderr


def test_a_file_that_is_no_text_is_named_and_stops_nothing(root) -> None:
    (root / "memory" / "x.md").write_bytes(b"\xff")
    result = run("housekeep", "duplicates")
    assert result.exit_code == 0
    assert "warning: x.md" in result.stderr


def test_a_model_that_cannot_answer_is_told_beside_the_findings(root) -> None:
    (root / "character.toml").write_text(
        '[llm]\npreset = "custom"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\nretries = 0\n'
    )
    result = run("housekeep", "duplicates", "--judge", "--json")
    printed = json.loads(result.stdout)
    assert (result.exit_code, printed["status"]) == (7, "partial")
    assert len(printed["data"]["findings"]) == 1
    assert printed["errors"][0]["code"].startswith("model")


NOT = {"number": 1, "verdict": "not", "reason": "The check is wrong."}


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (json.dumps({"judgements": [NOT, {**NOT, "number": 2}, {**NOT, "number": 3}]}), 0),
        (json.dumps({"judgements": []}), 7),
        (json.dumps({"judgements": [{**NOT, "number": 9}]}), 7),
        (json.dumps({"judgements": [{**NOT, "verdict": "delete it"}]}), 7),
        (json.dumps({"findings": [], "judgements": None}), 7),
        ('{"judgements": [{"number": 1, "verdict": "re', 7),
        ("[" * 5_000, 7),
        ("I found nothing to tidy up. All is well!", 7),
        ("", 7),
    ],
)
def test_no_answer_of_a_model_hides_or_invents_a_finding(root, reply, code) -> None:
    alone = data("housekeep")["findings"]
    with ChatServer([Say(reply)]) as server:
        (root / "character.toml").write_text(
            f'[llm]\npreset = "custom"\nbase_url = "{server.base_url}"\nmodel = "m"\nretries = 0\n'
        )
        asked = data("housekeep", "--judge", code=code)["findings"]
    assert [{**one, "judgement": None} for one in asked] == alone
    assert len(alone) == 2


def test_the_day_of_a_turn_dates_what_rests_on_it(root) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        turn = history.append("cli", "user", "hi", at=datetime(2024, 3, 1, 12, tzinfo=UTC))
    text = f"# A\n\n- Goes to Rome next week <!-- turns {turn.id} -->\n"
    (root / "memory" / "notes.md").write_bytes(text.encode())
    (finding,) = data("housekeep")["findings"]
    assert finding["message"] == "mentions a future time that has long passed: of 2024-03-01"


def test_a_history_that_cannot_be_read_is_named_and_hides_no_finding(root) -> None:
    (root / "history.db").write_bytes(b"no database" * 1000)
    (root / "memory" / "b.md").write_bytes(b"- Goes away next week <!-- turns 1 -->\n")
    found = data("housekeep")
    assert [one["rel_path"] for one in found["skipped"]] == ["history.db"]
    assert len(found["findings"]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_is_told_what_is_being_done_and_a_pipe_is_not(root, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    code, shown = on_terminal("housekeep")
    assert (code, "files) …" in shown or "reading …" in shown) == (0, True), shown
    assert "reading" not in run("housekeep").stderr


def test_the_help_names_every_check() -> None:
    shown = run("housekeep", "--help").stdout.replace("│", "")  # old versions of Typer draw boxes
    words = shown.split("Checks: ")[-1].split(";")[0]
    assert [name.strip() for name in words.split(",")] == list(TITLES)


def test_the_journal_and_the_plans_name_the_same_run(root) -> None:
    (plan, *_) = data("housekeep", "duplicates", "--propose")["proposed"]
    (commit,) = data("memory", "log", "--source", "housekeeping")["commits"]
    assert commit["run"]
    assert data("review", "show", plan)["run"] == commit["run"]


def test_doctor_and_housekeeping_find_the_same_lines_of_withdrawn_turns() -> None:
    root = live("ada")
    assert run("hear", "I love herring", "--as", "discord:42", "--channel", "town").exit_code == 0
    with Familiar(FamiliarPaths(root)) as familiar:
        assert familiar.instance  # and an id, with which its turns are cited
        cited = citation_comment(familiar.numbering.cite([1]))
    assert ":" in cited
    (root / "memory" / "notes.md").write_text(f"# Notes\n\n- Anna loves herring. {cited}\n")
    assert run("history", "withdraw", "1").exit_code == 0
    assert data("housekeep", "withdrawn")["findings"]
    (told,) = [one for one in data("doctor")["checks"] if one["name"] == "withdrawn"]
    assert (told["verdict"], "notes.md" in told["detail"]) == ("warn", True)
