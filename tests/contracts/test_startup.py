"""Starting stays cheap: building the command tree and reading memory load no heavy module."""

from __future__ import annotations

import subprocess
import sys

import pytest

from familiar_cli.cli.commands._contents import COMMANDS

HEAVY = {
    "asyncio",
    "dulwich",
    "fastembed",
    "filelock",
    "httpx",
    "markdown_it",
    "mcp_types",
    "numpy",
    "onnxruntime",
    "PIL",
    "pip",
    "prompt_toolkit",
    "pydantic",
    "regex",
    "rich",
    "sqlite3",
    "tiktoken",
    "tokenizers",
    "tomlkit",
    "xllamacpp",
    "yaml",
}


def loaded_by(code: str) -> set[str]:
    probe = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, encoding="utf-8", check=True
    )
    return {module.partition(".")[0] for module in run.stdout.split()}


def test_help_loads_no_heavy_module() -> None:
    code = "from familiar_cli.cli.app import app\napp(['--help'], standalone_mode=False)"
    assert HEAVY & loaded_by(code) == set()


def test_importing_every_command_loads_no_heavy_module() -> None:
    modules = {module.partition(":")[0] for module, _ in COMMANDS.values()}
    code = "\n".join(f"import familiar_cli.cli.commands.{module}" for module in sorted(modules))
    assert HEAVY & loaded_by(code) == set()


def test_reading_a_memory_file_loads_no_heavy_module(tmp_path) -> None:
    memory = tmp_path / "ada" / "memory"
    memory.mkdir(parents=True)
    (memory / "notes.md").write_text("# Notes\n", encoding="utf-8")
    argv = ["familiar", "memory", "cat", "notes.md", "--home", str(tmp_path)]
    code = (
        f"from familiar_cli.__main__ import main\nsys.argv = {argv!r}\n"
        "try: main()\nexcept SystemExit: pass"
    )
    assert (HEAVY | {"hashlib", "typing_extensions"}) & loaded_by(code) == set()


def test_a_search_by_words_loads_nothing_that_draws_reads_markdown_or_finds_by_meaning(
    tmp_path,
) -> None:
    memory = tmp_path / "ada" / "memory"
    memory.mkdir(parents=True)
    (memory / "notes.md").write_text("# Notes\n\nGreen tea.\n", encoding="utf-8")
    argv = ["search", "tea", "--method", "lexical", "--home", str(tmp_path)]
    code = f"from familiar_cli.cli.app import app\napp({argv!r}, standalone_mode=False)"
    for _ in range(2):  # the first search reads the files, the next those that had just changed
        loaded_by(code)
    assert (HEAVY | {"hashlib"}) & loaded_by(code) == {"sqlite3"}


@pytest.mark.parametrize(
    ("argv", "rooms"),
    [
        (["search", "tea", "--method", "lexical"], ("store.journal", "store.search.embedder")),
        (["hear", "Good morning."], ("context.providers", "store.search", "llm", "store.journal")),
    ],
)
def test_a_command_loads_nothing_of_rooms_it_does_not_need(tmp_path, argv, rooms) -> None:
    memory = tmp_path / "ada" / "memory"
    memory.mkdir(parents=True)
    (memory / "notes.md").write_text("# Notes\n\nGreen tea.\n", encoding="utf-8")
    argv = [*argv, "--home", str(tmp_path)]
    probe = (
        f"import sys\nfrom familiar_cli.cli.app import app\napp({argv!r}, standalone_mode=False)"
    )
    shown = "print(*(name for name in sys.modules if name.startswith('familiar_cli.')))"
    run = subprocess.run(
        [sys.executable, "-c", f"{probe}\nprint('---')\n{shown}"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    loaded = run.stdout.partition("---")[2].split()
    unneeded = tuple(f"familiar_cli.{room}" for room in rooms)
    assert [name for name in loaded if name.startswith(unneeded)] == []
    assert "familiar_cli.familiar" in loaded


@pytest.mark.parametrize("module", ["rich.console", "familiar_cli.cli.app"])
def test_the_probe_sees_what_is_loaded(module) -> None:
    assert module.partition(".")[0] in loaded_by(f"import {module}")
