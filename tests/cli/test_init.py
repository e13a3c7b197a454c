"""`familiar init`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from familiar_cli.cli.app import app
from tests.support.cards import as_json, png_card, v2, v3
from tests.support.cases import each


def run(*argv, stdin=None):
    return CliRunner().invoke(app, ["init", *map(str, argv)], input=stdin)


def home() -> Path:
    return Path(os.environ["FAMILIAR_HOME"])


@pytest.fixture
def card(tmp_path):
    path = tmp_path / "ilse.png"
    path.write_bytes(png_card(v2(avatar="x")))
    return path


def test_it_tells_what_was_written_and_kept_and_what_to_type_next(card) -> None:
    result = run("--from-card", card)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "Made Ilse (ilse)"
    assert "  written  self/description.md" in lines
    assert any(line.startswith("In every prompt: description") for line in lines)
    kept = next(line for line in lines if line.startswith("Kept for export, without effect here"))
    assert "; avatar" in kept
    assert result.stderr == 'Next: `familiar ask "Hello"`\n'


def test_json_has_the_keys_of_the_contract(card) -> None:
    result = run("--from-card", card, "--json")
    data = json.loads(result.stdout)["data"]
    assert (data["id"], data["name"], data["is_new"], data["dry_run"]) == (
        "ilse",
        "Ilse",
        True,
        False,
    )
    assert "self/first_mes.md" in data["written"]
    assert (data["unchanged"], data["warnings"]) == ([], [])
    assert "avatar" in data["kept_unmapped"]


def test_the_same_card_again_changes_nothing(card) -> None:
    first = json.loads(run("--from-card", card, "--json").stdout)["data"]
    again = json.loads(run("--from-card", card, "--json").stdout)["data"]
    assert (again["written"], again["unchanged"]) == ([], first["written"])
    assert run("--from-card", card).stdout.startswith("Nothing to change in Ilse (ilse)\n")


def test_another_card_is_refused_with_exit_5_until_overwrite(card) -> None:
    run("--from-card", card)
    card.write_bytes(png_card(v2(description="other")))
    refused = run("--from-card", card)
    assert refused.exit_code == 5
    assert "self/description.md" in refused.stderr
    assert "hint: Add `--overwrite`" in refused.stderr
    taken = run("--from-card", card, "--overwrite")
    assert taken.exit_code == 0
    assert "  overwritten  self/description.md" in taken.stdout


def test_a_dry_run_leaves_not_even_the_directory(card) -> None:
    result = run("--from-card", card, "--dry-run")
    assert result.stdout.startswith("Would make Ilse (ilse)\n")
    assert not home().exists()


def test_a_card_comes_from_standard_input(card) -> None:
    result = run("mine", "--from-card", "-", stdin=card.read_bytes())
    assert result.stdout.startswith("Made Ilse (mine)\n")


def test_warnings_go_to_stderr(card) -> None:
    card.write_bytes(png_card(v2(tags="a,b")))
    assert "warning: 'tags' is text; it is read as a list\n" in run("--from-card", card).stderr


def test_a_second_familiar_is_named_in_the_next_command(card) -> None:
    run("--from-card", card)
    assert "familiar ask --familiar two " in run("two", "--from-card", card).stderr


def test_a_template_takes_its_name_from_the_id() -> None:
    result = run("old-oak", "--template", "narrator")
    assert result.stdout.startswith("Made Old Oak (old-oak)\n")


def test_a_template_alone_has_a_name_of_its_own() -> None:
    assert run("--template", "companion").stdout.startswith("Made Wren (wren)\n")


@pytest.mark.parametrize("argv", [[], ["--from-card", "x.png", "--template", "companion"]])
def test_exactly_one_source_is_a_usage_error_with_a_hint(argv) -> None:
    result = run(*argv)
    assert result.exit_code == 2
    assert "hint: Add `--from-card FILE`" in result.stderr


def test_an_unknown_template_is_not_found() -> None:
    result = run("--template", "companio")
    assert result.exit_code == 4
    assert "hint: Try `--template companion`" in result.stderr


def test_a_missing_file_is_not_found(tmp_path) -> None:
    assert run("--from-card", tmp_path / "no.png").exit_code == 4


def test_a_directory_is_refused(tmp_path) -> None:
    assert run("--from-card", tmp_path).exit_code == 5
    address = run("--from-card", "https://a.example/x.png")
    assert address.exit_code == 2
    assert "`familiar import https://a.example/x.png --allow-network`" in address.stderr


@each("raw", [b"", b"\xff\xd8\xff JPEG", b"{}", b'{"entries": {}}'])
def test_what_is_no_card_is_refused_and_nothing_is_written(tmp_path, raw) -> None:
    (tmp_path / "x.png").write_bytes(raw)
    result = run("--from-card", tmp_path / "x.png")
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr.startswith("error: 'x.png'")
    assert not home().exists()


def test_a_wrong_id_is_a_usage_error(card) -> None:
    result = run("../Ilse", "--from-card", card)
    assert result.exit_code == 2
    assert "hint: Try 'ilse'" in result.stderr


def test_a_home_that_cannot_be_made_fails_with_exit_1(card, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    assert run("--from-card", card, "--home", tmp_path / "file" / "home").exit_code == 1


def test_a_name_from_outside_brings_no_escape_to_the_terminal(tmp_path) -> None:
    (tmp_path / "x.json").write_bytes(as_json(v3(name="\x1b[31mRed [bold]x[/bold]")))
    assert run("--from-card", tmp_path / "x.json").stdout.startswith(
        "Made [31mRed [bold]x[/bold] ("
    )


def test_many_cards_of_one_name_take_ids_that_are_given(card) -> None:
    assert run("one", "--from-card", card).exit_code == 0
    assert run("two", "--from-card", card).exit_code == 0
    assert {"one", "two"} <= {path.name for path in home().iterdir()}
