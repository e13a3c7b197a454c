"""Notes that were imported are told to the owner alone until they are published."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from familiar_cli.store.memory.pages.imported import ImportedPages, sample_lines
from tests.support.world import data, home, live, run

NOTE = "topics/bees.md"
WORDS = "The bees live in Zanzibar."
ANNA = ("--as", "discord:42", "--name", "Anna", "--channel", "general")
DAY = "daily/2026-03-02_harbour.md"


def prompt(*who: str) -> str:
    return run("ask", "Where do the bees live, in Zanzibar?", *who, "--dry-run").stdout


def is_told(*who: str) -> bool:
    return "bees live in Zanzibar." in prompt(*who)


@pytest.fixture(params=["vault", "tree"])
def source(request, tmp_path):
    """Return the command that imports a folder, its directory and the page with the words."""
    live("ada")
    run("memory", "append", "notes.md", "- Of my own.")
    page = {"vault": NOTE, "tree": DAY}[request.param]
    path = tmp_path / "notes" / page
    path.parent.mkdir(parents=True)
    path.write_text(f"# Hives\n\n- {WORDS}\n", "utf-8")
    (tmp_path / "notes" / ".obsidian").mkdir()
    command = {"vault": ("import", "--kind", "vault"), "tree": ("import-memories",)}[request.param]
    return (*command, str(tmp_path / "notes")), path, page


def test_the_owner_is_told_and_others_only_when_it_is_published(source) -> None:
    command, _, page = source
    assert run(*command).exit_code == 0
    assert (is_told(), is_told(*ANNA)) == (True, False)
    assert run("memory", "publish", page).exit_code == 0
    assert (is_told(), is_told(*ANNA)) == (True, True)
    assert run(*command).exit_code == 0
    assert is_told(*ANNA)


def test_again_adds_nothing_and_a_change_comes_with_update(source) -> None:
    command, path, page = source
    assert run(*command).exit_code == 0
    commits = data("memory", "log")["commits"]
    assert run(*command).exit_code == 0
    assert data("memory", "log")["commits"] == commits
    path.write_text(f"# Hives\n\n- {WORDS}\n- Lime honey.\n", "utf-8")
    assert run(*command, "--update").exit_code == 0
    assert "Lime honey" in run("memory", "cat", page).stdout
    assert (is_told(), is_told(*ANNA)) == (True, False)


def test_after_an_undo_the_page_is_what_is_typed_there(source) -> None:
    command, path, page = source
    assert run(*command).exit_code == 0
    assert run("memory", "undo").exit_code == 0
    assert not is_told()
    assert run("memory", "write", page, "-", stdin=path.read_text("utf-8")).exit_code == 0
    assert is_told(*ANNA)


def test_a_moved_note_stays_the_owners_also_with_later_edits(source) -> None:
    command, _, page = source
    assert run(*command).exit_code == 0
    assert run("memory", "mv", page, "topics/hives.md").exit_code == 0
    assert run("memory", "append", "topics/hives.md", "- Of wood.").exit_code == 0
    assert (is_told(), is_told(*ANNA)) == (True, False)
    assert f"{page} (deleted or moved here; not restored)" in run(*command).stdout


def test_a_note_moved_renamed_and_edited_in_another_program_stays_the_owners(source) -> None:
    command, path, page = source
    assert run(*command).exit_code == 0
    memory, there = home() / "ada" / "memory", f"topics/garden/{path.name}"
    (memory / there).parent.mkdir(parents=True)
    (memory / page).rename(memory / there)
    (memory / there).write_text(f"# Hives\n\n- {WORDS}\n- Of wood.\n", "utf-8")
    assert (is_told(), is_told(*ANNA)) == (True, False)
    there = "topics/hives.md"
    (memory / "topics/garden" / path.name).rename(memory / there)
    assert (is_told(), is_told(*ANNA)) == (True, False)
    assert run("memory", "publish", there).exit_code == 0
    assert is_told(*ANNA)


def test_another_page_that_has_the_name_of_an_imported_one_is_typed_text(source) -> None:
    command, path, page = source
    path.write_text("# Hives\n\n- They hum all day.\n", "utf-8")
    assert run(*command).exit_code == 0
    run("memory", "write", f"topics/garden/{path.name}", "-", stdin=f"# Hives\n\n- {WORDS}\n")
    assert run("memory", "rm", page).exit_code == 0
    assert is_told(*ANNA)


@pytest.mark.parametrize(
    ("lines", "is_imported"),
    [((0, 1), True), ((0,), False), ((4, 5, 6, 7), False), ((0, 4, 5, 6, 7), False)],
)
def test_a_page_counts_as_imported_with_half_of_the_lines_that_only_few_notes_have(
    tmp_path, lines, is_imported
) -> None:
    def text_of(name: str, numbers: Iterable[int]) -> str:
        own = [f"Line {n} of the notes{'' if n > 3 else f' in {name}'}." for n in numbers]
        return "# Notes\n\n" + "".join(f"- {line}\n" for line in own)

    files = {
        name: {"wrote": {f"{name}.md": "x"}, "lines": sample_lines(text_of(name, range(8)))}
        for name in "abcd"
    }
    (tmp_path / ".imported" / "notes").mkdir(parents=True)
    ledger = tmp_path / ".imported" / "notes" / ".ledger.json"
    ledger.write_text(json.dumps({"files": files}), "utf-8")
    assert ImportedPages(tmp_path).has("moved.md", text_of("a", lines)) is is_imported


def test_an_export_restores_what_was_the_owners(source, tmp_path, monkeypatch) -> None:
    command, _, _ = source
    run("memory", "write", "topics/open.md", "-", stdin="# Open\n\nOpen bees like Zanzibar.\n")
    assert run(*command).exit_code == 0
    assert run("export", str(tmp_path / "out")).exit_code == 0
    monkeypatch.setenv("FAMILIAR_HOME", str(tmp_path / "other"))
    assert run("import", str(tmp_path / "out")).exit_code == 0
    assert (is_told(), is_told(*ANNA)) == (True, False)
    assert "Open bees like" in prompt(*ANNA)


def test_a_damaged_ledger_publishes_nothing(source) -> None:
    command, _, _ = source
    assert run(*command).exit_code == 0
    for ledger in (home() / "ada" / "memory" / ".imported").rglob(".ledger.json"):
        ledger.write_text("{", "utf-8")
    assert not is_told(*ANNA)


def test_a_week_of_imported_days_is_the_owners(tmp_path) -> None:
    live("ada")
    (tmp_path / "daily").mkdir()
    (tmp_path / DAY).write_text("- Rain.\n", "utf-8")
    assert run("import-memories", str(tmp_path)).exit_code == 0
    week = f'---\nmade_by: familiar\nsources: {{"{DAY}": "0"}}\n---\n\n{WORDS}\n'
    for number, hears in (("W10", False), ("W30", True)):
        page = week if number == "W10" else week.replace("03-02", "07-20")
        (home() / "ada" / "memory" / "weekly").mkdir(exist_ok=True)
        path = home() / "ada" / "memory" / "weekly" / f"2026-{number}.md"
        path.write_text(page, "utf-8")
        assert (is_told(), is_told(*ANNA)) == (True, hears)
