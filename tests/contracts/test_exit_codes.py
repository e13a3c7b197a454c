"""An exit code tells a script what kind of failure it was; the documentation lists them all."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from familiar_cli.base import errors
from familiar_cli.base.errors import FamiliarError
from familiar_cli.cli import app as cli
from tests.support.cases import each

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json-and-exit-codes.md"
BY_FAMILY = {
    errors.FamiliarError: 1,
    errors.UsageError: 2,
    errors.ConfigError: 3,
    errors.NotFoundError: 4,
    errors.RefusedError: 5,
    errors.ModelError: 6,
    errors.PartialError: 7,
}


def descendants(kind: type[FamiliarError]) -> list[type[FamiliarError]]:
    below = [k for child in kind.__subclasses__() for k in descendants(child)]
    return [kind, *below]


ALL = [kind for kind in descendants(FamiliarError) if kind.__module__ == errors.__name__]


@each("kind", ALL, ids=lambda k: k.__name__)
def test_an_error_ends_in_the_code_of_its_family(kind) -> None:
    families = [family for family in kind.__mro__ if family in BY_FAMILY]
    assert kind.exit_code == BY_FAMILY[families[0]]


@each("kind", ALL, ids=lambda k: k.__name__)
def test_every_error_has_a_code_of_its_own_and_stands_in_the_tree(kind) -> None:
    assert [other for other in ALL if other.code == kind.code] == [kind]
    assert kind.__name__ in errors.__doc__
    assert kind.__doc__


@each("kind", ALL, ids=lambda k: k.__name__)
@each("as_json", [False, True])
def test_the_boundary_turns_an_error_into_text_and_its_exit_code(
    kind, as_json, monkeypatch
) -> None:
    def fail(self, ctx: typer.Context) -> None:
        raise kind("it broke", hint="mend it")

    monkeypatch.setattr(cli.Contents, "invoke", fail)
    result = CliRunner().invoke(cli.app, ["list", *(["--json"] if as_json else [])])
    assert result.exit_code == kind.exit_code
    if as_json:
        error = {"code": kind.code, "message": "it broke", "hint": "mend it"}
        told = json.loads(result.stdout)
        assert (told["data"], told["errors"]) == ({}, [error])
    else:
        assert (result.stdout, result.stderr) == ("", "error: it broke\nhint: mend it\n")


@each("code", sorted({kind.exit_code for kind in ALL} | {0, 130}))
def test_every_exit_code_is_documented(code) -> None:
    assert f"\n| {code} | " in PAGE.read_text("utf-8")
