"""`familiar housekeep`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json

import pytest

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
    assert result.stderr == "Nothing to tidy up: 10 checks of 1 files found nothing.\n"


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


def test_the_list_of_plans_says_who_proposed_them(root) -> None:
    run("housekeep", "duplicates", "--propose")
    assert "(proposed by housekeeping)" in run("review", "list").stdout


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
