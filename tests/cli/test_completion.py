"""What a shell is offered while a command line is typed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import closing

import pytest
import typer
from typer._completion_classes import BashComplete
from typer._completion_shared import get_completion_script

from familiar_cli.base.who.identity import Author
from familiar_cli.cli.app import app
from familiar_cli.cli.commands._completion import SOURCES, SOURCES_OF_COMMAND
from familiar_cli.store.history import HistoryStore
from familiar_cli.sync.participants import SyncParticipants
from familiar_cli.sync.remotes import Remotes
from tests.contracts.test_command_tree import LEAVES
from tests.contracts.test_startup import HEAVY
from tests.support.cases import IS_NIGHT
from tests.support.pages import ROOT
from tests.support.world import home, live, run, spawn

COMMAND = typer.main.get_command(app)


def offered(line: str) -> dict[str, str]:
    """Return the values offered for the last word of a line, with their descriptions."""
    *words, incomplete = line.split(" ")
    shell = BashComplete(COMMAND, {}, "familiar", "_FAMILIAR_COMPLETE")
    return {item.value: item.help or "" for item in shell.get_completions(words, incomplete)}


@pytest.fixture
def ada(tmp_path):
    root = live(**{"notes": "---\npinned: true\n---\n# N\n", "topics/tea": "# T\n"})
    (root / "memory" / "people").mkdir()
    (root / "memory" / "people" / "cli-bob.md").write_text("# Bob\n", "utf-8")
    (root / "memory" / "people" / "_aliases.json").write_text("{}", "utf-8")
    with closing(HistoryStore(root / "history.db")) as history:
        history.append("harbour", "user", "Hello there", author=Author("discord", "42", "", "Anna"))
        history.append(
            "dm-42", "user", "$(touch x) `y`", author=Author("discord", "42", "", "Anna")
        )
        history.append("x;rm -rf $HOME", "user", "Hi", author=Author("discord", "7"))
    run("remind", "add", "Call Bo", "--at", "tomorrow 9:00")
    run("remind", "add", "Call Eve", "--at", "friday 9:00")
    run("task", "add", "Mend the lamp")
    run("todo", "done", "r1")
    run("me", "--as", "scott", "--name", "Scott")
    hub = tmp_path / "hub"
    run("sync", "remote", "add", "hub", str(hub))
    run("sync", "status")
    run("backup", str(tmp_path / "copies"))
    participants = SyncParticipants(Remotes(root / "sync.toml"), approve=False)
    participants.block("laptop-7f3a", "own-0000", ["laptop-7f3a"])
    run("job", "add", "every day 9:00", "--say", "Good morning", "--id", "greet")
    return root


OFFERED = {
    "use ": ["ada"],
    "--familiar ": ["ada"],
    "memory ls --familiar a": ["ada"],
    "ask Hello --channel h": ["harbour"],
    "channel show ": ["dm-42", "harbour"],
    "people show _": [],
    "people show d": ["discord-7", "discord-42"],
    "people merge cli-bob ": ["discord-7", "discord-42", "cli-bob"],
    "ask Hello --as discord:4": ["discord:42"],
    "history edit ": ["3", "2", "1"],
    "review show ": [],
    "memory cat t": ["tasks.md", "topics/tea.md"],
    "memory pin ": ["notes.md", "people/cli-bob.md", "reminders.md", "tasks.md", "topics/tea.md"],
    "memory unpin ": ["notes.md"],
    "memory ls ": ["people", "topics"],
    "job run ": ["greet"],
    "job rm ": ["greet"],
    "todo done ": ["r2", "t1"],
    "todo drop t": ["t1"],
    "ask Hello --as s": ["scott"],
    "me --as ": ["scott"],
    "people forget d": ["discord-7", "discord-42"],
    "people export d": ["discord-7", "discord-42"],
    "sync --remote ": ["hub"],
    "sync remote rm ": ["hub"],
    "sync forget ": ["laptop-7f3a"],
    "sync allow l": ["laptop-7f3a"],
    "config set llm.pre": ["llm.preset"],
    "config set llm.preset ol": ["ollama"],
    "config set memory_writer.dm ": ["private", "share"],
    "channel set harbour author_note.t": ["author_note.text"],
    "channel set harbour --unset mo": ["mode"],
    "channel set harbour mode f": ["full_rp"],
    "channel set harbour --kind g": ["group_dm"],
    "model pull bge-s": ["bge-small-en-v1.5"],
    "model rm ": [],
    "search tea --method d": ["dense"],
    "housekeep li": ["links"],
    "init ": [],
}


def test_each_kind_of_value_is_offered(ada) -> None:
    found = {line: list(offered(line)) for line in OFFERED}
    assert {line: sorted(values) for line, values in found.items()} == {
        line: sorted(values) for line, values in OFFERED.items()
    }


def test_what_a_shell_would_evaluate_is_not_offered_and_descriptions_are_plain(ada) -> None:
    assert set(offered("channel show ")) == {"harbour", "dm-42"}
    assert offered("history edit 2") == {"2": "touch x y"}


def test_backups_of_a_directory_are_offered(ada, tmp_path) -> None:
    (backup,) = offered(f"restore {tmp_path / 'copies'} --backup ")
    assert backup in run("backup", "ls", str(tmp_path / "copies")).stdout


def test_options_before_the_value_choose_home_and_familiar(ada, tmp_path) -> None:
    (home() / "mira" / "memory").mkdir(parents=True)
    (home() / "mira" / "memory" / "moon.md").write_text("# M\n", "utf-8")
    assert set(offered("memory cat --familiar mira ")) == {"moon.md"}
    assert set(offered("--familiar mira memory cat ")) == {"moon.md"}
    assert "notes.md" in offered("--familiar ada memory cat ")
    assert offered(f"memory cat --home {tmp_path} ") == {}


def test_each_value_that_names_something_kept_is_completed() -> None:
    kept = ("ID", "PERSON", "TURN", "PLAN", "KEY", "VALUE", "KEPT", "OTHER", "CHECK", "SLOT")
    others = {"message_id", "run", "name", "recipient", "also", "user"}
    missing, known = [], set()
    for path in LEAVES:
        command = COMMAND
        for name in path:
            command = command.get_command(None, name)
        for param in command.params:
            known |= {param.name, f"{' '.join(path)} {param.name}"}
            metavar = (param.metavar or "").strip("[].…").removeprefix("PLATFORM:")
            if metavar in kept and param.name not in {*SOURCES, *others}:
                missing.append((path, param.name))
    assert missing == []
    assert {*SOURCES, *SOURCES_OF_COMMAND} <= known


@pytest.mark.parametrize("broken", ["character.toml", "history.db", "home"])
def test_where_something_is_broken_nothing_is_said(broken, ada) -> None:
    if broken == "home":
        shutil.rmtree(home())
    else:
        (ada / broken).write_bytes(b"\xff not it = [")
    begun = ("people show", "config set", "channel show", "memory --json", "nosuch")
    for words in begun[:: 1 if IS_NIGHT else 2]:
        line = f"familiar {words} "
        env = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        done = spawn(_FAMILIAR_COMPLETE="complete_bash", **env)
        assert done.stderr == b"", words
        assert b"rror" not in done.stdout, words


def files() -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in home().rglob("*") if p.is_file()}


def test_completing_writes_no_file_and_loads_nothing_heavy(ada) -> None:
    before = files()
    for line in OFFERED:
        offered(line)
    assert files() == before
    code = (
        "import sys\nfrom familiar_cli.cli.app import app\n"
        "try:\n    app(prog_name='familiar')\nfinally:\n    print('|', *sys.modules)"
    )
    line = {"COMP_WORDS": "familiar channel show ", "COMP_CWORD": "3"}
    env = {**os.environ, **line, "_FAMILIAR_COMPLETE": "complete_bash", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    values, _, modules = done.stdout.partition("|")
    assert values.split() == ["dm-42", "harbour"]
    assert (HEAVY - {"sqlite3", "regex"}) & set(modules.split()) == set()


IN_SHELL = {
    "bash": (
        "{script}\nCOMP_WORDS=(familiar people show disc) COMP_CWORD=3\n"
        "_familiar_completion familiar\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    ),
    # Without its menus: what would be in them is printed.
    "zsh": (
        "compdef() {{ :; }}\n_arguments() {{ print -r -- $@ }}\nwords=(familiar people show disc)\n"
        "CURRENT=4\n{script}\n_familiar_completion"
    ),
    "fish": "{script}\ncomplete -C 'familiar people show disc'",
}


@pytest.mark.posix
@pytest.mark.parametrize("shell", IN_SHELL)
def test_a_shell_itself_completes_a_value(shell, ada, tmp_path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "familiar"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec {sys.executable} -m familiar_cli \"$@\"\n"
    )
    program.chmod(0o755)
    script = get_completion_script(
        prog_name="familiar", complete_var="_FAMILIAR_COMPLETE", shell=shell
    )
    typed = IN_SHELL[shell].format(script=script)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([shell, "-c", typed], env=env, capture_output=True, text=True, check=True)
    assert sorted(re.findall(r"discord-\d+", done.stdout)) == ["discord-42", "discord-7"]


@pytest.mark.parametrize(
    ("shell", "shown"),
    [("zsh", '"harbour"'), ("fish", "harbour")],
)
def test_the_other_shells_are_answered_in_their_own_form(shell, shown, ada) -> None:
    env = {"_TYPER_COMPLETE_ARGS": "familiar channel show h"}
    env["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    done = spawn(_FAMILIAR_COMPLETE=f"complete_{shell}", **env)
    assert shown in done.stdout.decode()
