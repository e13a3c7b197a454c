"""What is installed: the distribution's name, and the names that the program is started by."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from familiar_cli import __version__
from familiar_cli.base.config import environment
from familiar_cli.cli import app as cli
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


def test_no_hint_is_for_one_kind_of_installation_only() -> None:
    sources = [p for p in (ROOT / "familiar_cli").rglob("*.py") if p.name != "environment.py"]
    assert [p.name for p in sources if re.search(r"pip install \S", p.read_text("utf-8"))] == []
    assert PROJECT["name"] == environment.DISTRIBUTION


RECEIPT = """[tool]
requirements = [
    { name = "familiar-memory", extras = ["local"] },
    { name = "s3fs" },
]
"""
ANEW = "uv tool install --with s3fs 'familiar-memory[local,mcp]'"
HINTS = {
    "uv tool": ("uv-receipt.toml", RECEIPT, ANEW),
    "pipx": ("pipx_metadata.json", "{}", "pipx inject familiar-memory 'familiar-memory[mcp]'"),
    "uv venv": ("pyvenv.cfg", "home = /\nuv = 0.9.1\n", "uv pip install 'familiar-memory[mcp]'"),
    "venv": ("pyvenv.cfg", "home = /\n", "pip install 'familiar-memory[mcp]'"),
}


@pytest.mark.parametrize("kind", HINTS)
def test_a_hint_has_the_command_of_this_installation(kind, tmp_path, monkeypatch) -> None:
    name, text, command = HINTS[kind]
    (tmp_path / name).write_text(text)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "lib" / "package" / "c" / "e.py"))
    assert environment.install_command("mcp") == command
    assert "mcp" not in environment.install_command()


def test_a_checkout_is_synced_or_installed_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    assert environment.install_command("mcp") == "pip install -e '.[mcp]'"
    (tmp_path / "pyvenv.cfg").write_text("uv = 0.9.1\n")
    assert environment.install_command("mcp") == "uv sync --inexact --extra mcp"


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
