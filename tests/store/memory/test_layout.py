"""Where things live in a memory is told in one module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import familiar_cli
from familiar_cli.base.who.visibility import PUBLIC, channel_scope, person_scope
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.layout import (
    path_in_scope,
    path_without_scope,
    scope_folder,
    scope_of_path,
)
from tests.support.cases import each
from tests.support.viewers import viewer_in

ROOT = Path(familiar_cli.__file__).parent
DIRECTORIES = {
    value for name, value in vars(layout).items() if name.endswith("_DIR") and "/" not in value
}


BEGINS = re.compile(f"[\"'](?:{'|'.join(map(re.escape, DIRECTORIES))})/")


def literals(path: Path) -> set[str]:
    """Return each string and beginning of an f-string of a module that may begin with a path."""
    source = path.read_text(encoding="utf-8")
    if not BEGINS.search(source):
        return set()
    tree = ast.parse(source)
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


NAMES = st.one_of(st.text(min_size=1, max_size=20), st.text("%E381A", min_size=90, max_size=140))
SCOPES = st.one_of(NAMES.map(person_scope), NAMES.map(channel_scope))


@given(scope=SCOPES)
def test_the_path_of_a_private_session_tells_whose_it_is(scope) -> None:
    path = path_in_scope("sessions/2026-04-07-evening.md", scope)
    assert scope_of_path(path) == scope
    assert path_without_scope(path) == "sessions/2026-04-07-evening.md"
    assert path.count("/") == 2


@given(one=SCOPES, other=SCOPES)
def test_no_two_scopes_share_a_folder_whatever_the_case_of_letters(one, other) -> None:
    same = scope_folder(one).casefold() == scope_folder(other).casefold()
    assert same == (one == other)


def test_a_scope_with_a_very_long_name_has_a_folder_of_usual_length() -> None:
    folders = {scope_folder(channel_scope(letter * 500)) for letter in "ab"}
    assert len(folders) == 2
    assert max(map(len, folders)) < 60


@each("folder", ["@%ff", "+%bdcf53", "@=0", "@=me%3", "@==" + "0" * 32, "@A", "@%61"])
def test_a_folder_that_is_named_by_nobody_is_nobodys(folder) -> None:
    path = f"daily/{folder}/2026-04-07.md"
    assert not viewer_in("a", ["a", "ff"]).sees((scope_of_path(path),))
    assert not layout.is_of_known_scope(path)


@each(
    "path",
    ["sessions/2026-04-07-evening.md", "people/@a/b.md", "topics/+x/y.md", "sessions/a/b.md"],
)
def test_other_paths_are_public(path) -> None:
    assert scope_of_path(path) == PUBLIC
    assert path_without_scope(path) == path
