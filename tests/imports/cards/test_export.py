"""A card made from memory says what the card said, with every edit made since."""

from __future__ import annotations

import base64
import json
import zipfile
from io import BytesIO
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError, NotFoundError
from familiar_cli.imports.cards import REQUIRED_V3
from familiar_cli.imports.containers import (
    asset_chunk,
    keyword_of,
    parse_png,
    read_asset,
    text_chunk,
    text_of,
)
from familiar_cli.imports.create import plan_unpack
from familiar_cli.imports.export_card import CardFormat, current_value, export_card
from familiar_cli.imports.reading import read_card
from familiar_cli.store.memory.pages.front_matter import field_markdown
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cards import TINY, as_json, charx_card, encoded, png_card, png_with, v2, v3
from tests.support.cases import each

ICON = {"type": "icon", "name": "main", "ext": "png"}
SOUND = {"type": "other", "name": "bell", "ext": "ogg"}
BOOK = {
    "name": "Town",
    "scan_depth": 7,
    "extensions": {"x": 1},
    "entries": [
        {
            "id": 1,
            "name": "Square",
            "keys": ["square", "広場"],
            "content": "Pigeons.",
            "enabled": True,
            "insertion_order": 3,
            "use_regex": False,
            "extensions": {"depth": 2},
        }
    ],
}


def unpack(root, raw, origin="ilse.card") -> MemoryStore:
    store = MemoryStore(root / "memory")
    card = read_card(raw, origin=origin)
    with store.transaction("test", "unpack") as tx:
        plan_unpack(card, store, overwrite=True).stage(tx)
    return store


def value_of(store):
    return current_value(store, default_name="Nobody")


def export(store, card_format) -> bytes:
    return export_card(store, card_format, default_name="Nobody").content


def meaning(card) -> dict:
    """Return the card's fields, with those it may leave out filled in."""
    return {field: empty() for field, empty in REQUIRED_V3.items()} | card.data


@each("value", [v2(), v3(nickname="Il"), v3(x={"y": [None, 1.5]}) | {"x_outer": [1]}])
def test_an_unedited_card_comes_back_equal(tmp_path, value) -> None:
    assert value_of(unpack(tmp_path, as_json(value))) == value


def test_a_v1_card_keeps_its_top_level_and_gains_a_v3_frame(tmp_path) -> None:
    value = {"name": "Bo", "description": "cook", "first_mes": "Hi", "chat": "x"}
    store = unpack(tmp_path, as_json(value))
    store.write_file("self/first_mes.md", field_markdown("first_mes", "Soup?"))
    made = value_of(store)
    assert made["spec"] == "chara_card_v3"
    assert {key: made[key] for key in value} == value | {"first_mes": "Soup?"}
    assert made["data"]["first_mes"] == "Soup?"


def test_repeated_fields_follow_an_edit_and_differing_ones_stay(tmp_path) -> None:
    value = v2() | {"personality": "exact", "name": "Someone else"}
    store = unpack(tmp_path, as_json(value))
    store.write_file("self/personality.md", field_markdown("personality", "kind"))
    made = value_of(store)
    assert (made["personality"], made["data"]["personality"]) == ("kind", "kind")
    assert (made["name"], made["data"]["name"]) == ("Someone else", "Ilse")


def test_a_file_added_or_taken_away_by_hand_counts(tmp_path) -> None:
    store = unpack(tmp_path, as_json(v2()))
    store.write_file("self/scenario.md", field_markdown("scenario", "rain"))
    store.delete_file("self/personality.md")
    data = value_of(store)["data"]
    assert (data["scenario"], data["personality"]) == ("rain", "")


def test_an_edit_of_card_json_counts(tmp_path) -> None:
    store = unpack(tmp_path, as_json(v2()))
    text = store.read_file("self/card.json").replace('"creator": "me"', '"creator": "you"')
    store.write_file("self/card.json", text)
    assert value_of(store)["data"]["creator"] == "you"


def test_half_a_character_goes_out_as_it_came_until_it_is_edited(tmp_path) -> None:
    store = unpack(tmp_path, as_json(v2(description="a\ud83d")))
    assert "\ufffd" in store.read_file("self/description.md")
    assert value_of(store)["data"]["description"] == "a\ud83d"
    assert read_card(export(store, "png"), origin="x").data["description"] == "a\ud83d"
    store.write_file("self/description.md", field_markdown("description", "whole"))
    assert value_of(store)["data"]["description"] == "whole"
    store.delete_file("self/description.md")
    assert value_of(store)["data"]["description"] == ""


def test_the_book_comes_back_with_a_persons_edit(tmp_path) -> None:
    store = unpack(tmp_path, as_json(v3(character_book=BOOK)))
    assert value_of(store)["data"]["character_book"] == BOOK
    path = store.glob("lore/imported/**/*.md")[0]
    store.write_file(path, store.read_file(path).replace("Pigeons.", "Doves."))
    entry = value_of(store)["data"]["character_book"]["entries"][0]
    assert entry == BOOK["entries"][0] | {"content": "Doves."}


def test_a_familiar_without_a_card_becomes_one(tmp_path) -> None:
    store = MemoryStore(tmp_path / "memory")
    store.write_file("self/description.md", field_markdown("description", "made by hand"))
    data = read_card(export(store, "png"), origin="x").data
    assert (data["name"], data["description"]) == ("Nobody", "made by hand")


def test_an_empty_self_is_not_found(tmp_path) -> None:
    with pytest.raises(NotFoundError, match="nothing in self/"):
        export(MemoryStore(tmp_path / "memory"), "json")


@each("text", ["{", "[]", '{"data": []}', '{"repeated": 1}'])
def test_a_damaged_card_json_is_one_clear_error(tmp_path, text) -> None:
    store = unpack(tmp_path, as_json(v2()))
    store.write_file("self/card.json", text)
    with pytest.raises(BadInputError, match=r"self/card\.json"):
        export(store, "json")


def chunks_of(raw):
    return parse_png(raw, origin="x").chunks


def test_a_png_keeps_its_picture_and_says_it_to_old_readers_and_new(tmp_path) -> None:
    store = unpack(
        tmp_path, png_with(text_chunk("chara", encoded(v2())), text_chunk("Author", b"x"))
    )
    chunks = chunks_of(export(store, "png"))
    texts = {keyword_of(c): text_of(c, origin="x") for c in chunks if keyword_of(c)}
    assert [c for c in chunks if not keyword_of(c)] == list(TINY.chunks)
    assert texts["Author"] == b"x"
    old, new = (json.loads(base64.b64decode(texts[key])) for key in ("chara", "ccv3"))
    assert (old["spec"], new["spec"]) == ("chara_card_v2", "chara_card_v3")
    assert old["data"] == v2()["data"]
    assert new["data"] == v3()["data"]


def test_a_card_without_a_picture_gets_one(tmp_path) -> None:
    raw = export(unpack(tmp_path, as_json(v2())), "png")
    assert chunks_of(raw)[0].content[:8] == (192).to_bytes(4, "big") + (288).to_bytes(4, "big")


def test_a_charx_keeps_every_file_in_it(tmp_path) -> None:
    assets = [ICON | {"uri": "embeded://assets/icon/a.png"}]
    members = {"assets/icon/a.png": b"picture", "module.json": b"{}", "unused.bin": b"\0"}
    raw = export(unpack(tmp_path, charx_card(v3(assets=assets), members)), "charx")
    with zipfile.ZipFile(BytesIO(raw)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()[1:]} == members
        assert json.loads(archive.read("card.json")) == v3(assets=assets)


def test_assets_move_from_charx_to_png_and_back(tmp_path) -> None:
    picture = png_with()
    assets = [
        ICON | {"uri": "embedded://assets/icon/me.png"},
        SOUND | {"uri": "embeded://assets/音.ogg"},
    ]
    members = {"assets/icon/me.png": picture, "assets/音.ogg": b"ding", "other.json": b"{}"}
    store = unpack(tmp_path / "one", charx_card(v3(assets=assets), members))
    as_png = export_card(store, "png", default_name="x")
    assert as_png.left_out == ("other.json",)
    card = read_card(as_png.content, origin="x.png")
    assert [a["uri"] for a in card.data["assets"]] == ["ccdefault:", "__asset:0.ogg"]
    assert read_asset(as_png.content, "0.ogg", origin="x") == b"ding"
    back = export(unpack(tmp_path / "two", as_png.content), "charx")
    uris = [a["uri"] for a in read_card(back, origin="x").data["assets"]]
    assert uris == ["embeded://assets/icon/images/main.png", "embeded://assets/other/0.ogg"]
    assert read_asset(back, "assets/other/0.ogg", origin="x") == b"ding"
    assert read_asset(back, "assets/icon/images/main.png", origin="x") == picture


def test_assets_go_into_json_as_data(tmp_path) -> None:
    value = v3(assets=[SOUND | {"uri": "__asset:b.ogg"}, ICON | {"uri": "https://example.org/a"}])
    raw = png_with(text_chunk("ccv3", encoded(value)), asset_chunk("b.ogg", b"ding"))
    made = export_card(unpack(tmp_path, raw), "json", default_name="x")
    uris = [asset["uri"] for asset in json.loads(made.content)["data"]["assets"]]
    assert uris == ["data:audio/ogg;base64,ZGluZw==", "https://example.org/a"]
    assert made.left_out == ("the picture",)


TEXT = st.text(st.characters(), max_size=30)
LONE = st.sampled_from(["\ud800", "a\udfff b", "\ud83d\n"])
FIELD = TEXT | LONE
EXTRA = st.dictionaries(
    TEXT, st.recursive(TEXT | st.integers() | st.none(), st.lists, max_leaves=3), max_size=3
)
FIELDS = st.fixed_dictionaries(
    {"name": TEXT.filter(str.strip), "description": FIELD},
    optional={
        "personality": FIELD,
        "scenario": FIELD,
        "first_mes": FIELD,
        "mes_example": FIELD,
        "system_prompt": FIELD,
        "post_history_instructions": FIELD,
        "creator_notes": FIELD,
        "alternate_greetings": st.lists(FIELD, max_size=2),
        "tags": st.lists(TEXT, max_size=2),
        "nickname": FIELD,
        "extensions": EXTRA,
        "x_unknown": EXTRA,
    },
)


@given(FIELDS, st.sampled_from(get_args(CardFormat)), st.booleans())
def test_any_card_in_any_script_survives_memory_and_every_format(
    tmp_path_factory, data, card_format, as_png
) -> None:
    value = {"spec": "chara_card_v3", "spec_version": "3.0", "data": data}
    raw = png_card(value, "ccv3") if as_png else as_json(value)
    store = unpack(tmp_path_factory.mktemp("any"), raw)
    made = read_card(export(store, card_format), origin="made")
    before, after = meaning(read_card(raw, origin="ilse.card")), meaning(made)
    if card_format == "charx":
        before.pop("assets", None), after.pop("assets", None)
    assert after == before
