"""`familiar use`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

from tests.support.world import data, live, run


def test_the_chosen_familiar_is_meant_from_then_on() -> None:
    live("ada")
    live("bo")
    assert run("use", "bo").stdout == "Commands now use bo.\n"
    assert data("status")["familiar"] == "bo"


def test_an_option_still_comes_first() -> None:
    live("ada")
    live("bo")
    run("use", "bo")
    assert data("status", "--familiar", "ada")["familiar"] == "ada"


def test_a_stranger_is_not_chosen_and_the_known_are_named() -> None:
    live("ada")
    result = run("use", "bob")
    assert result.exit_code == 4
    assert "there are: ada" in result.stderr


def test_a_variable_that_overrides_the_choice_is_pointed_out(monkeypatch) -> None:
    live("ada")
    live("bo")
    monkeypatch.setenv("FAMILIAR_ID", "ada")
    assert "FAMILIAR_ID is set" in run("use", "bo").stderr


def test_several_without_a_choice_are_a_question() -> None:
    live("ada")
    live("bo")
    result = run("status")
    assert result.exit_code == 2
    assert "familiar use ada" in result.stderr
