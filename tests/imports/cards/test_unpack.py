"""A card becomes files, the same card changes nothing, and another one is refused."""

from __future__ import annotations

import json

import pytest

from familiar_cli.base.config.settings import load_config
from familiar_cli.base.errors import NotFoundError, RefusedError, UsageError
from familiar_cli.familiar import Familiar
from familiar_cli.imports.create import CARD_TEMPLATES, create_familiar, id_for, template_card
from familiar_cli.imports.reading import read_card
from tests.support.cards import V2_DATA, as_json, png_card, v2, v3
from tests.support.cases import each

BOOK = {
    "name": "Town",
    "extensions": {},
    "entries": [
        {
            "id": 1,
            "keys": ["square"],
            "content": "Pigeons.",
            "enabled": True,
            "insertion_order": 1,
            "extensions": {},
        }
    ],
}


@pytest.fixture
def home(tmp_path):
    return tmp_path / "new" / "home"


def make(home, value, origin="ilse.json", **options):
    card = read_card(value if isinstance(value, bytes) else as_json(value), origin=origin)
    return create_familiar(home, card, lambda paths: Familiar(paths).memory, **options)


def memory(home, name="ilse"):
    return home / name / "memory"


def files_below(path) -> set[str]:
    return {p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()}


def test_each_text_gets_a_file_with_a_title_and_nothing_else(home) -> None:
    make(home, v2())
    assert (memory(home) / "self" / "description.md").read_bytes() == (
        b"# Description\n\n{{char}} mends clocks."
    )
    assert files_below(memory(home) / "self") == {
        ".original.json",
        "card.json",
        "description.md",
        "personality.md",
        "first_mes.md",
        "mes_example.md",
        "post_history_instructions.md",
    }


@pytest.mark.parametrize("text", ["a\r\nb  \n\n", "# Mine\n\ntext", "\n x", "\t", "ψ\u2028\x00"])
def test_text_stays_byte_for_byte(home, text) -> None:
    make(home, v2(description=text))
    kept = (memory(home) / "self" / "description.md").read_bytes()
    assert kept == b"# Description\n\n" + text.encode()


def test_the_original_is_kept_byte_for_byte(home) -> None:
    raw = png_card(v2()) + b"trailer"
    make(home, raw, origin="ilse.png")
    assert (memory(home) / "self" / ".original.png").read_bytes() == raw


def test_an_original_larger_than_a_memory_file_is_kept(home) -> None:
    raw = png_card(v2()) + bytes(400_000)
    make(home, raw, origin="ilse.png")
    assert (memory(home) / "self" / ".original.png").read_bytes() == raw


def test_card_json_holds_every_field_without_a_file(home) -> None:
    make(home, v3(x_mine={"deep": [1]}, nickname="Il") | {"x_outer": 1})
    kept = json.loads((memory(home) / "self" / "card.json").read_text("utf-8"))
    assert kept["spec"] == "chara_card_v3"
    assert kept["top_level"] == {"x_outer": 1}
    assert kept["data"] == {
        "name": "Ilse",
        "nickname": "Il",
        "scenario": "",
        "system_prompt": "",
        "creator_notes": "made for tests",
        "alternate_greetings": V2_DATA["alternate_greetings"],
        "tags": V2_DATA["tags"],
        "creator": "me",
        "character_version": "1",
        "extensions": V2_DATA["extensions"],
        "group_only_greetings": [],
        "x_mine": {"deep": [1]},
    }


def test_what_becomes_of_each_field_is_named(home) -> None:
    made = make(home, v2(x_mine=1) | {"avatar": "none"})
    assert made.in_every_prompt == (
        "description",
        "personality",
        "first_mes (opens a new conversation)",
        "mes_example",
        "post_history_instructions",
        "alternate_greetings (one of them, with `--greeting`)",
        "extensions.depth_prompt",
    )
    assert made.kept_unmapped == (
        "creator_notes",
        "tags",
        "creator",
        "character_version",
        "x_mine",
        "top_level.avatar",
    )


def test_what_the_book_keeps_for_export_is_named_once(home) -> None:
    entry = BOOK["entries"][0] | {"extensions": {"sticky": 3}}
    made = make(home, v2(character_book=BOOK | {"entries": [entry, entry | {"id": 2}]}))
    assert len(set(made.kept_unmapped)) == len(made.kept_unmapped)
    assert any(name.startswith("character_book: ") for name in made.kept_unmapped)


def test_a_file_in_the_familiars_place_is_left_alone(home) -> None:
    home.mkdir(parents=True)
    (home / "ilse").write_text("mine")
    with pytest.raises(RefusedError, match="is a file"):
        make(home, v2())
    assert (home / "ilse").read_text() == "mine"


def test_the_settings_name_the_familiar_as_it_is_called(home) -> None:
    make(home, v3(nickname="Il"))
    assert load_config(home / "ilse" / "character.toml").name == "Il"


def test_the_book_comes_along(home) -> None:
    made = make(home, v2(character_book=BOOK))
    assert "lore/imported/town/square.md" in made.written
    assert "Pigeons." in (memory(home) / "lore/imported/town/square.md").read_text("utf-8")


def test_a_book_that_cannot_be_read_stays_in_card_json_with_a_warning(home) -> None:
    made = make(home, v2(character_book={"entries": "none"}))
    assert "book cannot be read" in made.warnings[-1]
    kept = json.loads((memory(home) / "self" / "card.json").read_text("utf-8"))
    assert kept["data"]["character_book"] == {"entries": "none"}


@pytest.mark.parametrize("value", [v2(character_book=BOOK), v2(description="\ud83d half")])
def test_the_same_card_again_changes_nothing(home, value) -> None:
    first = make(home, value)
    stamps = {p: p.stat().st_mtime_ns for p in memory(home).rglob("*")}
    again = make(home, value)
    assert (again.written, again.removed, again.is_new) == ((), (), False)
    assert set(again.unchanged) == set(first.written)
    assert stamps == {p: p.stat().st_mtime_ns for p in memory(home).rglob("*")}


def test_the_same_card_from_another_file_changes_nothing_and_says_so(home) -> None:
    first = make(home, v2())
    for same in (png_card(v2()), json.dumps(v2(), indent=3).encode()):
        made = make(home, same, origin="ilse.png")
        assert (made.written, made.removed) == ((), ())
        assert made.warnings[0].startswith("'ilse.png' is the same card as the original")
    assert files_below(memory(home)) >= set(first.written)


def test_another_card_is_refused_and_names_what_differs(home) -> None:
    make(home, v2())
    before = (memory(home) / "self" / "description.md").read_bytes()
    with pytest.raises(RefusedError) as caught:
        make(home, v2(description="someone else", personality=""))
    message = str(caught.value)
    assert "self/.original.json" in message
    assert "self/description.md" in message
    assert "self/personality.md" in message
    assert "first_mes" not in message
    assert "--overwrite" in str(caught.value.hint)
    assert (memory(home) / "self" / "description.md").read_bytes() == before


def test_overwrite_takes_the_other_card_and_removes_what_it_lacks(home) -> None:
    make(home, v2())
    made = make(home, v2(description="someone else", personality=""), overwrite=True)
    assert made.removed == ("self/personality.md",)
    assert made.overwritten == ("self/.original.json", "self/card.json", "self/description.md")
    assert not (memory(home) / "self" / "personality.md").exists()


def test_overwrite_leaves_one_original(home) -> None:
    make(home, v2())
    make(home, png_card(v2()), origin="ilse.png", overwrite=True)
    originals = {p.name for p in (memory(home) / "self").iterdir() if "original" in p.name}
    assert originals == {".original.png"}


def test_a_file_edited_by_hand_is_never_overwritten_unseen(home) -> None:
    make(home, v2())
    edited = memory(home) / "self" / "scenario.md"
    edited.write_text("# Scenario\n\nmine", "utf-8")
    assert make(home, v2()).written == ()
    with pytest.raises(RefusedError, match=r"self/scenario\.md"):
        make(home, v2(scenario="theirs"))
    assert edited.read_text("utf-8") == "# Scenario\n\nmine"


def test_lore_edited_by_hand_is_refused_with_its_name(home) -> None:
    make(home, v2(character_book=BOOK))
    lore = memory(home) / "lore/imported/town/square.md"
    lore.write_text(lore.read_text("utf-8").replace("Pigeons", "Doves"), "utf-8")
    changed = json.loads(json.dumps(BOOK).replace("Pigeons", "Crows"))
    with pytest.raises(RefusedError, match=r"lore/imported/town/square\.md"):
        make(home, v2(character_book=changed))
    assert "Doves" in lore.read_text("utf-8")


def test_a_dry_run_leaves_nothing_on_disk(home) -> None:
    made = make(home, v2(character_book=BOOK), dry_run=True)
    assert "self/description.md" in made.written
    assert not home.parent.exists()


def test_a_dry_run_on_a_familiar_that_exists_changes_nothing(home) -> None:
    make(home, v2())
    made = make(home, v2(description="new"), overwrite=True, dry_run=True)
    assert "self/description.md" in made.overwritten
    assert b"mends" in (memory(home) / "self" / "description.md").read_bytes()


def test_a_failure_halfway_leaves_nothing_behind(home, monkeypatch) -> None:
    def fail(self, tx):
        raise RuntimeError

    monkeypatch.setattr("familiar_cli.imports.import_plan.ImportPlan.stage", fail)
    with pytest.raises(RuntimeError):
        make(home, v2())
    assert not home.parent.exists()


def test_a_home_that_cannot_be_made_is_an_error_of_ours(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Exception, match="cannot be created") as caught:
        make(tmp_path / "file" / "home", v2())
    assert caught.value.exit_code == 1


@each(
    ("name", "origin", "expected"),
    [
        ("Ilse van Klok", "x.png", "ilse-van-klok"),
        ("茶屋のきつね", "x.png", "茶屋のきつね"),
        ("!!!", "Old Clock.png", "old-clock"),
        ("CON", "nul.png", "familiar"),
        ("…", "….json", "familiar"),
        ("../../etc", "x.png", "etc"),
    ],
)
def test_an_id_comes_from_the_name_then_from_the_file(name, origin, expected) -> None:
    assert id_for(read_card(as_json(v2(name=name)), origin=origin)) == expected


def test_an_id_that_is_none_is_a_usage_error(home) -> None:
    with pytest.raises(UsageError):
        make(home, v2(), familiar_id="../x")


@pytest.mark.parametrize("name", CARD_TEMPLATES)
def test_a_template_makes_a_familiar_and_again_changes_nothing(home, name) -> None:
    def build():
        return create_familiar(
            home, template_card(name, name="Kit"), lambda paths: Familiar(paths).memory
        )

    assert "self/first_mes.md" in build().written
    assert build().written == ()


def test_a_template_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(NotFoundError) as caught:
        template_card("narator")
    assert "narrator" in str(caught.value.hint)
