"""The command tree: every command helps, takes the global options, and agrees with its entry."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from familiar_cli import __version__
from familiar_cli.cli import app as cli
from familiar_cli.cli.commands._contents import (
    CALLED,
    COMMANDS,
    HIDDEN,
    first_screen,
    meant_command,
)
from tests.support.cases import each
from tests.support.world import live, run

ROOT = typer.main.get_command(cli.app)
CHECKOUT = Path(cli.__file__).parents[2]


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


@each("path", LEAVES, ids=" ".join)
def test_every_command_explains_itself(path) -> None:
    result = CliRunner().invoke(cli.app, [*path, "--help"])
    assert result.exit_code == 0
    for option in ("--home", "--familiar", "--json", "--quiet"):
        assert option in result.stdout
    assert not {"<str>", "<int>", "<int range>", "<float>"} & set(
        re.findall("<.*?>", result.stdout)
    )


def test_every_help_fits_sixty_columns() -> None:
    everything = {path[:length] for path in LEAVES for length in range(len(path) + 1)}
    wide = []
    for path in everything:
        command = leaf(path)
        context = command.make_context(" ".join(("familiar", *path)), [], resilient_parsing=True)
        context.terminal_width = context.max_content_width = 60
        wide += [line for line in command.get_help(context).splitlines() if len(line) > 60]
    assert len(everything) > 80
    assert wide == []


@each("path", LEAVES, ids=" ".join)
def test_every_command_shows_an_example(path) -> None:
    result = CliRunner().invoke(cli.app, [*path, "--help"])
    assert f"familiar {' '.join(path)}" in result.stdout.split("Usage:")[1].split("\n", 1)[1]


@each("path", LEAVES, ids=" ".join)
def test_unknown_options_are_usage_errors_in_text_and_in_json(path) -> None:
    text = CliRunner().invoke(cli.app, [*path, "--no-such-option"])
    assert text.exit_code == 2
    assert text.stderr.startswith("error: ")
    as_json = CliRunner().invoke(cli.app, ["--json", *path, "--no-such-option"])
    assert as_json.exit_code == 2
    assert f'"command": "{" ".join(path)}"' in as_json.stdout


def test_the_first_screen_is_30_lines_of_80_columns_with_twelve_entries() -> None:
    lines = CliRunner().invoke(cli.app, ["--help"], terminal_width=80).stdout.splitlines()
    entries = [name for rows in first_screen().values() for name, _ in rows]
    assert len(lines) <= 30
    assert len(entries) == 12
    assert any("write-memory, import-lorebook" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in entries)


def test_help_all_lists_every_command_but_the_hidden_names() -> None:
    shown = run("help", "--all").stdout
    assert all(f"  {name} " in shown for name in COMMANDS if name not in HIDDEN)
    assert "blame · undo" in shown
    assert " remind " not in shown
    listed = {
        one["command"]
        for one in json.loads(run("help", "--all", "--json").stdout)["data"]["commands"]
    }
    assert listed >= {"memory undo", "sync remote add", "todo note"}


@each(
    ("words", "command", "page"),
    [
        ("reminder", "todo", "reminders-and-tasks.md"),
        ("lorebooks", "import-lorebook", "bring-a-lorebook.md"),
        ("regenerate", "again", ""),
        ("timezone", "", "times.md"),
        ("how do I make a backup", "backup", "back-up.md"),
        ("is my data private", "memory publish", "privacy.md"),
        ("how do I move to another computer", "sync", "sync.md"),
        ("voice", "", "channels.md"),
        ("how do I delete a memory", "memory rm", "read-and-change-memory.md"),
    ],
)
def test_help_finds_commands_and_pages_by_what_they_say(words, command, page) -> None:
    found = json.loads(run("help", words, "--json").stdout)["data"]
    assert command in ["", *(one["command"] for one in found["commands"])]
    assert page in "".join(one["path"] for one in found["pages"][:2])


@each("group", ["review", "memory", "people", "config", "job", "distill"])
def test_a_group_alone_shows_what_there_is(group) -> None:
    live("ada")
    assert run(group).stdout.startswith("Usage") is False
    command = json.loads(run(group, "--json").stdout)["command"]
    assert command in {f"{group} list", f"{group} show", f"{group} status"}


def test_help_shows_the_help_of_a_command_first_and_says_when_nothing_is_found() -> None:
    assert run("help", "memory", "undo").stdout.startswith("Usage: familiar memory undo")
    nothing = run("help", "xyzzyq")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "mentions 'xyzzyq'" in nothing.stderr


@each(
    ("typed", "meant"),
    [
        ("chat history", "history"),
        ("regenerate", "again"),
        ("swipe", "again"),
        ("lorebook", "import-lorebook"),
        ("lorebook import", "import-lorebook"),
        ("world info", "import-lorebook"),
        ("import chat", "import-chat"),
        ("reminders", "todo"),
        ("memry", "memory"),
        ("undo", "memory undo"),
        ("qqqqqq", None),
    ],
)
def test_what_other_programs_call_a_command_is_known(typed, meant) -> None:
    assert meant_command(typed.split()) == meant


def test_every_name_of_another_program_leads_to_a_command() -> None:
    assert {name for name in CALLED.values() if leaf(tuple(name.split())) is None} == set()
    assert not {*CALLED} & {*COMMANDS}


def test_two_words_of_which_the_second_is_too_many_are_understood() -> None:
    result = run("chat", "history")
    assert (result.exit_code, result.stderr.splitlines()[1:]) == (
        2,
        ["hint: Did you mean `familiar history`?"],
    )


def test_list_and_ls_are_one_command_everywhere() -> None:
    live("ada")
    for group in ([], ["memory"], ["review"], ["people"], ["history"], ["todo"], ["channel"]):
        told = [json.loads(run(*group, name, "--json").stdout) for name in ("ls", "list")]
        assert told[0]["data"] == told[1]["data"]
        assert [one["command"] for one in told] == [" ".join([*group, n]) for n in ("ls", "list")]


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(cli.app, ["memry", "ls"])
    assert result.exit_code == 2
    assert result.stderr == (
        "error: No such command: 'memry'\nhint: Did you mean `familiar memory`?\n"
    )


@each("path", sorted({path[:1] for path in LEAVES if len(path) > 1}))
def test_a_group_describes_each_command_with_a_whole_sentence(path) -> None:
    described = CliRunner().invoke(cli.app, [*path, "--help"]).stdout.split("Commands:\n")[1]
    assert "..." not in described
    for name in (leaf[1] for leaf in LEAVES if leaf[:1] == path):
        told = re.search(rf"^  {name} +(\S.*)\.$", described, re.MULTILINE)
        assert told, name
        assert len(told[1].split()) > 1


def test_the_contents_name_every_command_module() -> None:
    listed = {module.partition(":")[0] for module, _ in COMMANDS.values()}
    folder = Path(cli.__file__).parent / "commands"
    there = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert listed == there


@each("program", cli.COMMAND_NAMES)
@each(
    ("shell", "its_own"),
    [
        ("bash", "complete -o default -F _{}_completion {}"),
        ("zsh", "#compdef {1}\n\n_{0}_completion()"),
        ("fish", "complete --command {1} --no-files"),
        ("powershell", "Register-ArgumentCompleter -Native -CommandName {1}"),
    ],
)
def test_each_shell_gets_the_completion_that_it_reads(program, shell, its_own) -> None:
    result = CliRunner().invoke(cli.app, ["--show-completion", shell], prog_name=program)
    assert result.exit_code == 0
    assert its_own.format(program.replace("-", "_"), program) in result.stdout


def test_a_shell_without_completion_is_a_usage_error() -> None:
    result = run("--show-completion", "tcsh")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: No completion for 'tcsh'\nhint: Known: bash, zsh, fish, powershell, pwsh.\n",
    )


def test_ctrl_c_ends_with_130(monkeypatch) -> None:
    def interrupt(self, ctx):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.Contents, "invoke", interrupt)
    assert CliRunner().invoke(cli.app, ["list"]).exit_code == 130


@each(
    ("argv", "error", "hint"),
    [
        (
            ["memory", "wirte"],
            "No such command: 'memory wirte'",
            "Did you mean `familiar memory write`?",
        ),
        (["memory", "x"], "No such command: 'memory x'", "Run `familiar memory --help`."),
        (
            ["ask", "Hello", "you"],
            "Unexpected argument (you)",
            "Put a text of several words in quotation marks.",
        ),
        (["me", "Anna"], "Unexpected argument (Anna)", "Did you mean `familiar me --name NAME`?"),
        (
            ["set", "llm.preset", "ollama"],
            "No such command: 'set'",
            "Did you mean `familiar config set`?",
        ),
        (["status", "--jsn"], "No such option: '--jsn'", "Did you mean `--json`?"),
        (["ask", "x", "--user"], "No such option: '--user'", "Run `familiar ask --help`."),
        (["context", "--turn"], "No such option: '--turn'", "Run `familiar context --help`."),
        (["status", "--zzz"], "No such option: '--zzz'", "Run `familiar status --help`."),
        (["context", "--why"], "Option '--why' requires a value", "Run `familiar context --help`."),
        (["daemon", "--poll", "x"], "Invalid value for '--poll': 'x' is not a number", None),
        (["status", "x"], "Unexpected argument (x)", "Run `familiar status --help`."),
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
    assert (result.exit_code, "requires a value" in result.stdout) == (2, True)
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
    wording = "Show what would be done; change nothing"
    assert {path: text for path, text in helps.items() if not text.startswith(wording)} == {}


@each("name", ["\u200b", " ", "\u3164\u2800", "\u202e\u200d"])
@each(
    "argv",
    [("ask", "Hi", "--name"), ("channel", "set", "pier", "--name"), ("people", "alias", "cli:me")],
)
def test_a_name_with_nothing_to_see_is_a_usage_error(argv, name) -> None:
    live("ada")
    result = run(*argv, name)
    assert (result.exit_code, "cannot be a name" in result.stderr) == (2, True)


@pytest.mark.parametrize("argv", [("--json", "--version"), ("--version", "--json")])
def test_the_version_comes_in_an_envelope_too(argv) -> None:
    told = json.loads(run(*argv).stdout)
    assert (told["status"], told["data"]) == (
        "ok",
        {"version": __version__, "commit": cli.find_commit(CHECKOUT)},
    )


def test_a_chat_in_which_nothing_is_said_prints_nothing(serve) -> None:
    serve()
    live("ada")
    result = run("chat", "--json", stdin="")
    assert (result.exit_code, result.stdout) == (0, "")


def test_a_value_that_begins_with_a_dash_reaches_its_option() -> None:
    live("ada")
    for name in ("-x", "--json", "-3 degrees", "- Anna -"):
        prompt = run("ask", "Hi", "--dry-run", f"--name={name}", "--json")
        assert prompt.exit_code == 0, prompt.output
        assert name.strip("- ") in json.dumps(json.loads(prompt.stdout)["data"]["messages"])


def test_the_first_screen_fits_a_narrow_terminal() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "familiar_cli", "--help"],
        env=os.environ | {"COLUMNS": "40"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert max(map(len, shown.splitlines())) <= 40
