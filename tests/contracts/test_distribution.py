"""What is installed: the distribution's name, and the names that the program is started by."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from familiar_cli import __version__, cli
from tests.contracts.test_command_tree import LEAVES
from tools.shell_files import COMPLETIONS, write_shell_files

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


def test_each_command_has_a_man_page_and_each_shell_a_completion(tmp_path) -> None:
    files = write_shell_files(tmp_path)
    pages = {path for path in files if path.endswith(".1")}
    wanted = {f"share/man/man1/familiar-{'-'.join(leaf)}.1" for leaf in LEAVES}
    assert wanted <= pages
    assert len(files) - len(pages) == len(cli.COMMAND_NAMES) * len(COMPLETIONS)
    page = (tmp_path / "share/man/man1/familiar-memory-log.1").read_text("utf-8")
    assert page.startswith('.TH "FAMILIAR-MEMORY-LOG" "1"')
    assert "familiar memory log people/alice.md \\-\\-since 7d" in page
    bash = (tmp_path / "share/bash-completion/completions/familiar").read_text("utf-8")
    assert "_FAMILIAR_COMPLETE=complete_bash" in bash


def test_a_checkout_names_its_commit_and_an_installed_package_does_not(tmp_path) -> None:
    assert cli.find_commit(tmp_path) == ""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for argv in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *argv], check=True)
    (tmp_path / "notes.md").write_text("x")
    assert re.fullmatch("[0-9a-f]{10}", cli.find_commit(tmp_path))
