"""Constant entries are pinned; a person's own pins and unpins stay; exports stay as they came."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from familiar_cli.base.errors import ConflictError, RefusedError
from familiar_cli.store.memory.pages.front_matter import (
    is_pinned,
    parse_lore,
    render_lore,
    with_pin,
    without_pin,
)
from tests.imports.lorebooks.test_round_trip import through_memory
from tests.support.lorebooks import (
    INTO,
    book_entry,
    bring,
    edit,
    exported,
    lore,
    through_json,
    world,
    worlds,
)

LAW = lore("Law", "No war.", ["law"], constant=True)
INN = lore("Inn", "It is warm.", ["inn"])
PATH = f"{INTO}/law.md"
PIN = "---\npinned: true\n---\n"


def text(store, path=PATH) -> str:
    return store.read_bytes(path).decode()


def put(store, content, path=PATH) -> None:
    (store.root / path).write_bytes(content.encode())


def as_before_pins(store, path=PATH) -> None:
    """Make a file as versions without pins wrote it, and the record of it."""
    from familiar_cli.base.text import sha256_of

    old = text(store, path)
    put(store, without_pin(old), path)
    edit(store, f"{INTO}/.lorebook.json", sha256_of(old), sha256_of(without_pin(old)))


class TestImport:
    def test_a_constant_entry_is_pinned_and_others_are_not(self, store) -> None:
        done = bring(store, world(LAW, INN))
        assert text(store).startswith(PIN + "# Law\n\n- law\n\n<!-- lorebook entry ")
        assert not is_pinned(text(store, f"{INTO}/inn.md"))
        assert done.in_every_prompt == ("constant of 1 entry",)
        assert done.found_when_it_fits == ("title, keys and text of 1 entry",)
        assert done.kept_unmapped == ()

    @pytest.mark.parametrize(
        ("entry", "pinned"),
        [
            ({"constant": False}, False),
            ({"constant": None}, False),
            ({"constant": "true"}, True),
            ({"constant": True, "disable": True}, False),
            ({"constant": True, "content": " \n"}, False),
            ({"content": "@@constant\nNo war."}, True),
            ({"content": "No war.\n@@constant"}, False),
        ],
    )
    def test_what_counts_as_constant(self, store, entry, pinned) -> None:
        bring(store, world(lore("Law", "No war.") | entry))
        assert is_pinned(text(store)) == pinned

    def test_a_book_of_a_card_is_read_in_the_same_way(self, store) -> None:
        bring(store, {"entries": [book_entry("Law", "No war.", constant=True)]})
        assert is_pinned(text(store))

    def test_the_same_again_is_a_no_op(self, store) -> None:
        bring(store, world(LAW, INN))
        done = bring(store, world(LAW, INN), update=True)
        assert (done.written, len(done.unchanged)) == ((), 2)
        assert done.in_every_prompt == ("constant of 1 entry",)


class TestOwnPins:
    def test_an_unpin_survives_the_same_book(self, store) -> None:
        bring(store, world(LAW))
        put(store, without_pin(text(store)))
        for options in ({}, {"update": True}, {"force": True}):
            done = bring(store, world(LAW), **options)
            assert (done.written, done.in_every_prompt) == ((), ())
            assert done.kept_unmapped == ("constant (not pinned) of 1 entry",)
        assert not is_pinned(text(store))

    def test_an_unpin_survives_new_text_and_new_settings(self, store) -> None:
        bring(store, world(LAW))
        put(store, without_pin(text(store)))
        with pytest.raises(RefusedError, match="has changed"):
            bring(store, world(LAW | {"content": "No peace."}))
        bring(store, world(LAW | {"content": "No peace."}), update=True)
        assert text(store).startswith("# Law")
        assert "No peace." in text(store)
        bring(store, world(LAW | {"content": "No peace.", "probability": 5}), update=True)
        assert not is_pinned(text(store))
        assert bring(store, world(LAW | {"content": "No peace.", "probability": 5})).written == ()

    def test_a_pin_of_ones_own_survives_new_text(self, store) -> None:
        bring(store, world(INN))
        put(store, with_pin(text(store, f"{INTO}/inn.md"), ""), f"{INTO}/inn.md")
        assert bring(store, world(INN)).in_every_prompt == ("pinned by hand: 1 entry",)
        bring(store, world(INN | {"content": "It is cold."}), update=True)
        assert text(store, f"{INTO}/inn.md").startswith(PIN)
        assert "It is cold." in text(store, f"{INTO}/inn.md")

    def test_other_edits_are_still_edits(self, store) -> None:
        bring(store, world(LAW))
        put(store, without_pin(text(store)).replace("No war.", "My own."))
        with pytest.raises(ConflictError):
            bring(store, world(LAW | {"content": "No peace."}), update=True)
        assert "My own." in text(store)

    def test_an_entry_that_becomes_constant_is_pinned_with_update(self, store) -> None:
        bring(store, world(LAW | {"constant": False}))
        with pytest.raises(RefusedError):
            bring(store, world(LAW))
        assert bring(store, world(LAW), update=True).written == (PATH,)
        assert is_pinned(text(store))
        bring(store, world(LAW | {"constant": False}), update=True)
        assert not is_pinned(text(store))


class TestEarlierImports:
    def test_a_book_imported_before_there_were_pins_stays_and_is_pinned_with_update(
        self, store
    ) -> None:
        bring(store, world(LAW, INN))
        as_before_pins(store)
        before = text(store)
        done = bring(store, world(LAW, INN))
        assert (done.written, text(store)) == ((), before)
        assert done.kept_unmapped == ("constant (not pinned) of 1 entry",)
        assert bring(store, world(LAW, INN), update=True).written == (PATH,)
        assert text(store) == PIN + before

    def test_its_edits_are_no_conflict_with_new_settings(self, store) -> None:
        bring(store, world(LAW))
        as_before_pins(store)
        edit(store, PATH, "No war.", "My own.")
        bring(store, world(LAW | {"probability": 5}), update=True)
        assert "My own." in text(store)


class TestExport:
    def test_what_was_not_edited_goes_out_as_it_came(self, store) -> None:
        bring(store, world(LAW, INN))
        entries = exported(store)["entries"]
        assert entries["0"]["constant"] is True
        assert entries["0"]["content"] == "No war."

    def test_a_pin_or_an_unpin_changes_no_byte_of_the_export(self, store) -> None:
        bring(store, world(LAW, INN))
        before = json.dumps(exported(store))
        put(store, without_pin(text(store)))
        put(store, with_pin(text(store, f"{INTO}/inn.md"), ""), f"{INTO}/inn.md")
        assert json.dumps(exported(store)) == before

    @given(worlds)
    def test_any_book_goes_out_the_same_with_every_entry_constant(self, data) -> None:
        for entry in data["entries"].values():
            entry["constant"] = True
        data = through_json(data)
        back = through_memory(data, "worldinfo")
        for slot, entry in data["entries"].items():
            assert {name: back["entries"][slot][name] for name in entry} == entry


class TestPage:
    def test_front_matter_is_no_part_of_the_entry(self) -> None:
        page = parse_lore("---\ntags: [x]\npinned: true\n---\n# Law\n\n- law\n\nNo war.\n")
        assert (page.title, page.keys, page.body) == ("Law", ("law",), "No war.\n")
        assert page.pinned
        assert parse_lore(render_lore(page)) == page


class TestExpressions:
    @pytest.mark.parametrize(
        ("entry", "title"),
        [
            (lore("/shadow(fang)?s?/i", keys=["/fangs?/", "Shadowfang"]), "Shadowfang"),
            (lore("", keys=["/fangs?/i", "the fang"]), "the fang"),
            (lore("/fangs?/i", keys=["/fangs?/i"], uid=7), "Entry 7"),
            (book_entry("/fangs?/i", keys=["/a/"], comment="Beasts"), "Beasts"),
            (book_entry("Beasts", keys=["/a/"]), "Beasts"),
            (lore("/etc/passwd", keys=["x"]), "/etc/passwd"),
            (lore("either/or", keys=["x"]), "either/or"),
        ],
    )
    def test_an_expression_is_no_title(self, store, entry, title) -> None:
        bring(store, {"entries": [entry]})
        (path,) = [f.rel_path for f in store.walk("lore").files if f.rel_path.endswith(".md")]
        assert parse_lore(store.read_file(path)).title == title

    def test_it_is_kept_for_export_and_named_as_without_effect(self, store) -> None:
        entry = lore("/fangs?/i", keys=["/fangs?/i", "Shadowfang"])
        done = bring(store, world(entry))
        assert done.written == (f"{INTO}/shadowfang.md",)
        assert done.kept_unmapped == ("regular-expression keys outside gates of 1 entry",)
        assert exported(store)["entries"]["0"]["comment"] == "/fangs?/i"
        assert exported(store)["entries"]["0"]["key"] == ["/fangs?/i", "Shadowfang"]

    def test_a_title_that_an_earlier_version_wrote_is_no_edit(self, store) -> None:
        bring(store, world(lore("/fangs?/i", "Old.", keys=["Shadowfang"])))
        edit(store, f"{INTO}/shadowfang.md", "# Shadowfang", "# /fangs?/i")
        edit(store, f"{INTO}/shadowfang.md", "Old.", "New.")
        (entry,) = exported(store)["entries"].values()
        assert (entry["comment"], entry["content"]) == ("/fangs?/i", "New.")
        edit(store, f"{INTO}/shadowfang.md", "# /fangs?/i", "# Fangs")
        assert exported(store)["entries"]["0"]["comment"] == "Fangs"


def test_each_setting_stands_in_one_group(store) -> None:
    entries = [
        LAW | {"order": 5},
        INN | {"probability": 5, "key": ["inn", "/inns?/"]},
        lore("Off", disable=True, constant=True),
    ]
    done = bring(store, world(*entries, scan_depth=4))
    assert done.in_every_prompt == ("constant of 1 entry",)
    assert done.found_when_it_fits == (
        "the book's scan_depth",
        "order places 1 entry",
        "probability may keep back 1 entry",
        "title, keys and text of 1 entry",
    )
    assert done.kept_unmapped == (
        "constant of 1 entry",
        "disabled: 1 entry",
        "regular-expression keys outside gates of 1 entry",
    )


def test_a_constant_entry_that_is_off_is_no_pin(store) -> None:
    bring(store, {"entries": [book_entry("Law", constant=True, enabled=False)]})
    assert not is_pinned(text(store))
    assert not parse_lore(text(store)).enabled
