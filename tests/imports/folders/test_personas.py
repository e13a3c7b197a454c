"""Persona folders: what each file becomes, and that nothing of one is lost."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError, ConflictError, RefusedError, UsageError
from familiar_cli.base.who.identity import Author
from familiar_cli.context.character import read_character
from familiar_cli.familiar import Familiar
from familiar_cli.imports.folders import (
    FolderContents,
    FolderImportOptions,
    plan_folder,
    read_folder,
)
from familiar_cli.imports.personas import (
    LEDGER,
    PERSONA_TEMPLATES,
    create_from_persona,
    find_personas,
    map_persona,
    read_personas,
    tasks_markdown,
    template_persona,
)
from familiar_cli.store.memory.aliases import names_of
from familiar_cli.store.memory.desk import items_in
from familiar_cli.store.memory.pages.front_matter import TIERS_NOTE
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cases import each
from tests.support.imported import originals

NOOR = Author("discord", "4711")


def take(store, files, **wish):
    pages, warnings = map_persona(files, NOOR, "")
    plan = plan_folder(
        store,
        pages,
        LEDGER,
        FolderImportOptions(**wish),
        folder=FolderContents(dict(files)),
        warnings=warnings,
    )
    with store.transaction("init", "persona") as tx:
        plan.stage(tx)
    return plan


def contents(store):
    walk = store.walk(hidden=True)
    return {f.rel_path: store.read_bytes(f.rel_path) for f in walk.files}


def test_the_parts_become_the_character_and_the_user_a_person(store, ember) -> None:
    take(store, read_folder(ember).files)
    character = read_character(store, name="", fallback_name="ember")
    assert character.texts["description"] == (ember / "IDENTITY.md").read_text("utf-8")
    assert character.texts["personality"] == (ember / "SOUL.md").read_text("utf-8")
    protocols = (ember / "PROTOCOLS.md").read_text("utf-8")
    assert character.texts["system_prompt"] == "{{original}}\n\n" + protocols
    page = store.read_file("people/discord-4711.md")
    assert names_of(page) == ("Noor Haddad",)
    assert page.endswith((ember / "USER.md").read_text("utf-8"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# ユーザー\n\n- **名前：** 佐藤花\n- 京都に住んでいる。\n", "佐藤花"),
        ("الاسم: نور حداد\nتعمل في الميناء.\n", "نور حداد"),
        ("# Usuario\n\n- **Nombre:** José Núñez\n", "José Núñez"),
        ("* Имя: Вера\n", "Вера"),
        ("# 佐藤花\n\n京都に住んでいる。\n", "佐藤花"),
        ("# Noor Haddad\n\nWorks at the harbour.\n", "Noor Haddad"),
        ("# USER.md - About your human\n\nWorks at the harbour.\n", "4711"),
        ("# User profile\n", "4711"),
        ("# What I have learned so far of them\n", "4711"),
        ("# المستخدم\n", "4711"),
    ],
)
def test_a_user_is_called_as_their_file_says_in_any_language(store, text, name) -> None:
    take(store, {"USER.md": text.encode(), "SOUL.md": b"Warm.\n"})
    page = store.read_file("people/discord-4711.md")
    assert names_of(page) == (name,)
    assert page.endswith(text)
    assert page.count(f"# {name}\n") == 1


def test_a_persona_is_found_again_byte_for_byte(store, ember) -> None:
    files = read_folder(ember).files
    plan = take(store, files)
    assert originals(store, LEDGER) == files
    shown = {*plan.report.written, *plan.report.unchanged}
    assert plan.report.kept_unmapped == ("CRONS.json", "HELP.md")
    assert {"digest/short.md", "digest/mid.md", "digest/long.md", "tasks.md"} <= shown


@given(
    st.dictionaries(
        st.sampled_from(
            ["IDENTITY.md", "identity.md", "SOUL.md", "USER.md", "TASKS.json", "REMINDERS.md",
             "MEMORY_LONG.md", "sessions/2026-01-01.md", "sessions/x.md", "con", "é/a b", ".env"]
        ),
        st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")),
    )
)  # fmt: skip
def test_law_every_file_can_be_found_again_and_a_second_time_changes_nothing(
    tmp_path_factory, files
) -> None:
    store = MemoryStore(tmp_path_factory.mktemp("law") / "memory")
    take(store, files)
    assert originals(store, LEDGER) == files
    before = contents(store)
    again = take(store, files)
    assert (again.is_noop, again.report.written, contents(store)) == (True, (), before)


def test_a_changed_source_is_refused_until_update(store, ember) -> None:
    files = dict(read_folder(ember).files)
    take(store, files)
    files["SOUL.md"] += b"New.\n"
    with pytest.raises(RefusedError, match=r"self/personality\.md"):
        take(store, files)
    take(store, files, update=True)
    assert store.read_file("self/personality.md").endswith("New.\n")
    assert originals(store, LEDGER) == files


def test_a_hand_edit_stays_and_is_named(store, ember) -> None:
    files = dict(read_folder(ember).files)
    take(store, files)
    store.write_file("self/personality.md", "# Personality\n\nMine.\n")
    assert take(store, files).report.edited == ("self/personality.md",)
    assert take(store, files, update=True).report.edited == ("self/personality.md",)
    files["SOUL.md"] += b"New.\n"
    with pytest.raises(ConflictError):
        take(store, files, update=True)
    assert store.read_file("self/personality.md") == "# Personality\n\nMine.\n"
    assert take(store, files, force=True).report.overwritten == ("self/personality.md",)


def test_a_deleted_file_stays_deleted(store, ember) -> None:
    files = dict(read_folder(ember).files)
    take(store, files)
    store.delete_file("scratch.md")
    assert take(store, files).report.edited == ("scratch.md",)
    assert not store.exists("scratch.md")
    take(store, files, force=True)
    assert store.exists("scratch.md")


def test_what_was_there_before_is_not_overwritten(store, ember) -> None:
    store.write_file("self/description.md", "# Description\n\nSomeone else.\n")
    before = contents(store)
    with pytest.raises(ConflictError, match=r"self/description\.md"):
        take(store, read_folder(ember).files)
    assert contents(store) == before


def test_a_file_that_left_the_folder_is_named_and_what_it_became_stays(store, ember) -> None:
    files = dict(read_folder(ember).files)
    take(store, files)
    del files["HELP.md"]
    plan = take(store, files)
    assert (
        "'HELP.md' is no longer in the folder; its file in memory is kept" in plan.report.warnings
    )


def test_text_that_is_no_text_is_kept_and_told(store) -> None:
    files = {"IDENTITY.md": b"\xff\xfe\xfa", "SOUL.md": b"ok"}
    plan = take(store, files)
    assert "self/description.md" not in plan.report.written
    assert plan.report.kept_unmapped == ("IDENTITY.md",)
    assert any("not UTF-8" in warning for warning in plan.report.warnings)
    assert originals(store, LEDGER) == files


def test_a_damaged_ledger_changes_nothing(store, ember) -> None:
    files = read_folder(ember).files
    take(store, files)
    for damage in (b"{", b"[]", b'{"files": {"a": 1}}', b'{"files": {"\\"": {}}}'):
        store.write_file(LEDGER, damage)
        with pytest.raises(BadInputError, match="nothing was changed"):
            take(store, files)


@each(
    ("raw", "page"),
    [
        ('["a"]', "# Tasks\n\n- [ ] a\n"),
        ('{"tasks": [{"text": "b", "done": true}]}', "# Tasks\n\n- [x] b\n"),
        ('[{"title": "c\\n- [x] d", "due_date": "2026-01-01"}]',
         "# Tasks\n\n- [ ] c - [x] d @2026-01-01\n"),
        ("[]", "# Tasks\n\n"),
        ('[{"title": "d", "status": "Cancelled"}, {"title": "e", "status": "in progress"}]',
         "# Tasks\n\n- [-] d\n- [ ] e\n  status: in progress\n"),
        ('[{"id": 7, "name": "f", "status": "open", "done": false, "tags": ["é"], "x": "g\\nh"}]',
         '# Tasks\n\n- [ ] f\n  id: 7\n  tags: ["é"]\n  x: g h\n'),
        ('[{"title": "i", "- [ ] j": "k", "```": null}]',
         '# Tasks\n\n- [ ] i\n  "- [ ] j": k\n  "```": null\n'),
        ("{}", None), ("[1]", None), ('[{"id": 1}]', None), ("nonsense", None), ("[" * 9999, None),
    ],
)  # fmt: skip
def test_tasks(raw, page) -> None:
    assert tasks_markdown(raw) == page


def test_what_else_a_task_says_is_neither_a_task_nor_a_block_of_code() -> None:
    page = tasks_markdown('[{"title": "a", "- [ ] b": "- [ ] c", "~~~": "d"}, "e"]')
    assert [item.text for item in items_in(page)] == ["a", "e"]


def test_reminders_that_are_no_list_are_told_of(store) -> None:
    plan = take(store, {"SOUL.md": b"s", "REMINDERS.md": b"Call Anna some day.\n"})
    assert "REMINDERS.md contains no list, so nothing in it can be due" in plan.report.warnings
    assert store.read_file("reminders.md") == "Call Anna some day.\n"


def test_the_note_on_tiers_is_where_a_prompt_looks_for_it(store) -> None:
    plan = take(store, {"SOUL.md": b"s", "context_tiers.md": b"tiers\n"})
    assert store.read_file(TIERS_NOTE) == "tiers\n"
    assert (TIERS_NOTE in plan.report.written, plan.report.kept_unmapped) == (True, ())


def test_personas_are_found_at_every_height(ember, tmp_path) -> None:
    home = ember.parents[2]
    both = [("clerk", "noor"), ("ember", "noor")]
    assert [(p.name, p.user) for p in find_personas(ember)] == [("ember", "noor")]
    for directory in (ember.parent, ember.parents[1], home):
        assert [(p.name, p.user) for p in find_personas(directory)] == both
    with pytest.raises(BadInputError, match="contains no persona"):
        find_personas(tmp_path)


def test_two_of_one_name_get_ids_with_the_users(tmp_path, ember) -> None:
    for user in ("ada", "bo"):
        shutil.copytree(ember, tmp_path / user / "persona" / "ember")
    found = read_personas(find_personas(tmp_path), NOOR)
    assert [one.id for one in found] == ["ada-ember", "bo-ember"]
    with pytest.raises(UsageError):
        read_personas(find_personas(tmp_path), NOOR, familiar_id="one")


@pytest.mark.parametrize("template", PERSONA_TEMPLATES)
def test_a_template_is_a_persona_with_all_parts(tmp_path, template) -> None:
    made = create_from_persona(
        tmp_path, template_persona(template, NOOR), lambda paths: Familiar(paths).memory
    )
    assert made.warnings == ()
    assert made.written == (
        "people/discord-4711.md",
        "self/description.md",
        "self/personality.md",
        "self/system_prompt.md",
    )


def test_a_dry_run_leaves_nothing(tmp_path, ember) -> None:
    (persona,) = read_personas(find_personas(ember), NOOR)
    home = tmp_path / "home"
    create_from_persona(home, persona, lambda paths: Familiar(paths).memory, dry_run=True)
    assert not home.exists()


def test_a_disk_that_refuses_leaves_no_familiar(tmp_path, ember) -> None:
    (persona,) = read_personas(find_personas(ember), NOOR)
    (tmp_path / "home").write_text("in the way")
    with pytest.raises(Exception, match="nothing was written"):
        create_from_persona(tmp_path / "home", persona, lambda paths: Familiar(paths).memory)
