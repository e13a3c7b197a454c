"""What is installed: the distribution's name, and the names that the program is started by."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from familiar_cli import __version__, cli

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def started(argv, monkeypatch, capsys) -> str:
    monkeypatch.setattr("sys.argv", argv)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_version_stands_in_the_project_and_in_the_package() -> None:
    assert PROJECT["version"] == __version__


def test_all_commands_start_the_same_program() -> None:
    assert PROJECT["scripts"] == dict.fromkeys(cli.COMMAND_NAMES, "familiar_cli.__main__:main")


def test_hints_install_this_distribution_or_a_library_that_it_can_do_without() -> None:
    sources = (ROOT / "familiar_cli").rglob("*.py")
    hints = [
        name
        for path in sources
        for name in re.findall(
            r"pip install (?:--upgrade )?['\"]?([\w-]+)", path.read_text(encoding="utf-8")
        )
    ]
    assert set(hints) == {PROJECT["name"], "tiktoken"} == {"familiar-memory", "tiktoken"}


@pytest.mark.parametrize(
    ("started_by", "name"),
    [
        ("/usr/bin/familiar", "familiar"),
        ("/usr/bin/familiar-memory", "familiar-memory"),
        ("familiar-memory.exe", "familiar-memory"),
        ("/lib/familiar_cli/__main__.py", "familiar"),
    ],
)
def test_usage_names_the_command_that_was_typed(started_by, name, monkeypatch, capsys) -> None:
    shown = started([started_by, "memory", "--help"], monkeypatch, capsys)
    assert f"Usage: {name} memory [OPTIONS]" in shown


@pytest.mark.parametrize("name", cli.COMMAND_NAMES)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_the_command_that_was_typed(name, shell, monkeypatch, capsys) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    script = started([f"/usr/bin/{name}", "--show-completion"], monkeypatch, capsys)
    assert f"_{name.replace('-', '_').upper()}_COMPLETE=complete_{shell}" in script
    assert re.search(rf"(compdef|complete) .*{name}\b(?!-)", script)
