"""`familiar init` with personas, and `import-memories`, from argv to exit code."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from familiar_cli.cli.app import app
from tests.support import pages

EXAMPLES = pages.ROOT / "examples"
EMBER = EXAMPLES / "personas" / "noor" / "persona" / "ember"


def run(*argv):
    return CliRunner().invoke(app, [*map(str, argv)])


def data(*argv):
    return json.loads(run(*argv, "--json").stdout)["data"]


def memory(familiar: str) -> Path:
    return Path(os.environ["FAMILIAR_HOME"]) / familiar / "memory"


def test_one_persona_becomes_one_familiar() -> None:
    result = run("init", "--from-persona", EMBER, "--user", "discord:7")
    assert result.exit_code == 0
    assert result.stdout.startswith("Made Ember (ember)\n  written")
    assert "  kept     HELP.md (not used)\n" in result.stdout
    assert (memory("ember") / "people" / "discord-7.md").is_file()


def test_a_users_folder_becomes_a_familiar_for_each_persona() -> None:
    found = data("init", "--from-persona", EXAMPLES / "personas" / "noor")
    assert [one["id"] for one in found["familiars"]] == ["clerk", "ember"]
    again = data("init", "--from-persona", EXAMPLES / "personas" / "noor")
    assert [(one["is_new"], one["written"]) for one in again["familiars"]] == [(False, [])] * 2


def test_an_id_for_several_is_a_usage_error_that_lists_them() -> None:
    result = run("init", "x", "--from-persona", EXAMPLES / "personas")
    assert result.exit_code == 2
    assert "ember" in result.stderr


def test_one_that_is_refused_does_not_stop_the_others() -> None:
    run("init", "clerk", "--template", "workmate")
    result = run("init", "--from-persona", EXAMPLES / "personas", "--json")
    printed = json.loads(result.stdout)
    assert (result.exit_code, printed["status"]) == (7, "partial")
    assert [one["id"] for one in printed["data"]["familiars"]] == ["ember"]
    assert [error["code"] for error in printed["errors"]] == ["refused"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_what_was_left_out_is_named_and_the_exit_code_is_7(tmp_path) -> None:
    (tmp_path / "ida").mkdir()
    (tmp_path / "ida" / "SOUL.md").write_text("kind\n")
    (tmp_path / "ida" / "IDENTITY.md").symlink_to("/etc/passwd")
    result = run("init", "--from-persona", tmp_path / "ida")
    assert result.exit_code == 7
    assert "  left out  IDENTITY.md: it is a symbolic link" in result.stdout
    assert not (memory("ida") / "self" / "description.md").exists()


def test_a_template_takes_the_id_as_its_name() -> None:
    assert run("init", "old-oak", "--template", "keeper").stdout.startswith(
        "Made Old Oak (old-oak)"
    )
    assert run("init", "--template", "workmate").stdout.startswith("Made Juniper (juniper)")


def test_a_nearly_known_template_is_guessed() -> None:
    assert "hint: Try `--template keeper`" in run("init", "--template", "keepr").stderr


def test_a_folder_without_a_persona_is_refused(tmp_path) -> None:
    assert run("init", "--from-persona", tmp_path).exit_code == 5
    assert run("init", "--from-persona", tmp_path / "no").exit_code == 4


def test_a_user_who_is_nobody_is_told_how_to_be_written() -> None:
    result = run("init", "--from-persona", EMBER, "--user", "nonsense")
    assert (result.exit_code, "e.g. `discord:1234`" in result.stderr) == (2, True)
    assert not memory("ember").exists()


def test_two_sources_are_a_usage_error() -> None:
    assert run("init", "--from-persona", EMBER, "--template", "keeper").exit_code == 2


def test_memories_come_in_and_again_change_nothing() -> None:
    run("init", "ember", "--from-persona", EMBER)
    result = run("import-memories", EXAMPLES / "memories")
    assert result.stdout.startswith(
        "Imported 3 daily, 1 weekly, 1 monthly, 1 yearly, 1 significant"
    )
    again = data("import-memories", EXAMPLES / "memories")
    assert (again["written"], len(again["unchanged"])) == ([], 7)
    assert run("import-memories", EXAMPLES / "memories").stdout.startswith("Nothing to import")


def test_a_conflict_of_memories_is_exit_5_with_a_hint() -> None:
    run("init", "ember", "--from-persona", EMBER)
    run("memory", "write", "yearly/2025.md", "Mine.")
    result = run("import-memories", EXAMPLES / "memories")
    assert result.exit_code == 5
    assert "hint: Add `--force`" in result.stderr
