"""Where things live in a memory is told in one module."""

from __future__ import annotations

import ast
from pathlib import Path

import familiar_cli
from familiar_cli.memory import layout
from tests.support.cases import each

ROOT = Path(familiar_cli.__file__).parent
DIRECTORIES = {
    value for name, value in vars(layout).items() if name.endswith("_DIR") and "/" not in value
}


def literals(path: Path) -> set[str]:
    """Return the text of each string in a module, and of each beginning of an f-string."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
    }
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts
    }


def test_no_other_module_spells_a_path_out() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), text)
        for path in ROOT.rglob("*.py")
        if path.name != "layout.py"
        for text in literals(path)
        if " " not in text and text.partition("/")[0] in DIRECTORIES and "/" in text
    }
    assert found == set()


def test_a_path_that_is_spelled_out_would_be_found(tmp_path) -> None:
    module = tmp_path / "x.py"
    module.write_text('"""self/x.md: a docstring."""\n\npath = f"people/{slug}.md"\n')
    assert literals(module) == {"people/", ".md"}


@each(
    "rel_path",
    [
        "people/_aliases.json",
        "People/_Aliases.json",
        "sessions/.writer.json",
        "sessions/.pending/run.json",
        "sessions/.rejected/2024-W15.json",
        ".index/embeddings.sqlite",
        "topics/.obsidian/app.json",
    ],
)
def test_what_one_machine_goes_by_stays_there(rel_path) -> None:
    assert not layout.is_synced(rel_path)


@each(
    "rel_path",
    [
        ".gitignore",
        "people/discord-42.md",
        "people/aliases.json",
        "sessions/2024-04-08-evening.md",
        "daily/2024-04-08_laptop.md",
        "self/.original.png",
        ".imported/old.docx",
        "lore/imported/book/.lorebook.json",
        "conflicts/people/discord-42.md",
    ],
)
def test_all_other_files_belong_to_the_memory_everywhere(rel_path) -> None:
    assert layout.is_synced(rel_path)
