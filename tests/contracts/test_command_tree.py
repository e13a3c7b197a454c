"""The command tree: every command helps, takes the global options, and agrees with its entry."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from familiar_cli import cli
from tests.support.world import live, run

ROOT = typer.main.get_command(cli.app)


def leaves(command, path=()) -> list[tuple[str, ...]]:
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names:
        return [path]
    return [
        leaf for name in names for leaf in leaves(command.get_command(None, name), (*path, name))
    ]


LEAVES = leaves(ROOT)


def leaf(path: tuple[str, ...]):
    command = ROOT
    for name in path:
        command = command.get_command(None, name)
    return command


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_explains_itself(path) -> None:
    result = CliRunner().invoke(cli.app, [*path, "--help"])
    assert result.exit_code == 0
    for option in ("--home", "--familiar", "--json", "--quiet"):
        assert option in result.stdout
    assert not {"<str>", "<int>", "<int range>", "<float>"} & set(
        re.findall("<.*?>", result.stdout)
    )


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_shows_an_example(path) -> None:
    result = CliRunner().invoke(cli.app, [*path, "--help"])
    assert f"familiar {' '.join(path)}" in result.stdout.split("Usage:")[1].split("\n", 1)[1]


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_unknown_options_are_usage_errors_in_text_and_in_json(path) -> None:
    text = CliRunner().invoke(cli.app, [*path, "--no-such-option"])
    assert text.exit_code == 2
    assert text.stderr.startswith("error: ")
    as_json = CliRunner().invoke(cli.app, ["--json", *path, "--no-such-option"])
    assert as_json.exit_code == 2
    assert f'"command": "{" ".join(path)}"' in as_json.stdout


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(cli.app, ["memry", "ls"])
    assert result.exit_code == 2
    assert result.stderr == (
        "error: There is no command 'memry'\nhint: Did you mean `familiar memory`?\n"
    )


def test_the_contents_name_every_command_module() -> None:
    listed = {module for section in cli.CONTENTS.values() for module, _ in section.values()}
    folder = __import__("pathlib").Path(cli.__file__).parent / "commands"
    there = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert listed == there


def test_ctrl_c_ends_with_130(monkeypatch) -> None:
    def interrupt(self, ctx):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.Contents, "invoke", interrupt)
    assert CliRunner().invoke(cli.app, ["list"]).exit_code == 130


@pytest.mark.parametrize(
    ("argv", "error", "hint"),
    [
        (
            ["memory", "wirte"],
            "There is no command 'memory wirte'",
            "Did you mean `familiar memory write`?",
        ),
        (["memory", "x"], "There is no command 'memory x'", "Run `familiar memory --help`."),
        (["status", "--jsn"], "There is no option '--jsn'", "Did you mean `--json`?"),
        (["ask", "x", "--user"], "There is no option '--user'", "Run `familiar ask --help`."),
        (["status", "--zzz"], "There is no option '--zzz'", "Run `familiar status --help`."),
        (["context", "--why"], "Option '--why' wants a value", "Run `familiar context --help`."),
        (["context", "x"], "Invalid value for '[TURN]': 'x' is not a whole number", None),
        (["daemon", "--poll", "x"], "Invalid value for '--poll': 'x' is not a number", None),
        (["status", "x"], "More words than it takes: (x)", "Run `familiar status --help`."),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong_and_what_to_type(argv, error, hint) -> None:
    result = run(*argv)
    lines = result.stderr.splitlines()
    assert (result.exit_code, lines[0]) == (2, f"error: {error}")
    assert hint is None or lines[1] == f"hint: {hint}"


@pytest.mark.parametrize("argv", [["context", "--html", "--json"], ["--home", "--json", "status"]])
def test_no_option_is_taken_for_the_value_of_another(argv, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*argv)
    assert (result.exit_code, "wants a value" in result.stdout) == (2, True)
    assert not list(tmp_path.iterdir())


def test_a_negative_number_is_a_value_and_no_option() -> None:
    live("ada")
    assert run("memory", "write", "a.md", "-3").exit_code == 0
    assert run("memory", "cat", "a.md").stdout == "-3"
    assert "at least 0" in run("config", "set", "history.recent_turns", "-3").stderr


def test_a_dry_run_is_explained_in_the_same_words_everywhere() -> None:
    helps = {
        " ".join(path): option.help
        for path in LEAVES
        for option in leaf(path).params
        if "--dry-run" in option.opts
    }
    assert len(helps) > 30
    wording = "Show what would be done, and change nothing"
    assert {path: text for path, text in helps.items() if not text.startswith(wording)} == {}
