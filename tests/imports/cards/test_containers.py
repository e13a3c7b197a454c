"""Every container that carries cards is read, and nothing else is."""

from __future__ import annotations

import io
import json
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError, FamiliarError
from familiar_cli.imports import containers, foreign_files
from familiar_cli.imports.containers import (
    Chunk,
    Png,
    asset_chunk,
    open_container,
    read_asset,
    text_chunk,
    write_png,
)
from familiar_cli.imports.reading import read_card
from tests.support.cards import (
    TINY,
    as_json,
    charx_card,
    encoded,
    itxt,
    png_card,
    png_with,
    v2,
    v3,
    ztxt,
)
from tests.support.cases import each

ENCODED = encoded(v2())
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON_VALUES, max_size=5)


def value_in(raw, origin="card.bin"):
    return open_container(raw, origin=origin).value


@each(
    "chunk",
    [
        text_chunk("chara", ENCODED),
        text_chunk("Chara", ENCODED),
        ztxt("chara", ENCODED),
        itxt("chara", ENCODED, packed=True),
        itxt("chara", ENCODED, packed=False),
    ],
    ids=["tEXt", "other-case", "zTXt", "iTXt-packed", "iTXt-plain"],
)
@each("after", [False, True], ids=["before-IDAT", "after-IDAT"])
def test_a_card_is_found_in_every_kind_of_text_chunk(chunk, after) -> None:
    assert value_in(png_with(chunk, after=after)) == v2()


def test_the_v3_text_wins_wherever_it_stands() -> None:
    both = png_with(text_chunk("chara", ENCODED), text_chunk("ccv3", encoded(v3())))
    assert value_in(both)["spec"] == "chara_card_v3"


def test_a_damaged_v3_text_gives_way_to_the_v2_text_with_a_warning() -> None:
    opened = open_container(
        png_with(text_chunk("ccv3", b"%%%"), text_chunk("chara", ENCODED)), origin="a.png"
    )
    assert opened.value == v2()
    assert "'ccv3' text cannot be read" in opened.notes[0]


@each(
    "text",
    [
        b"\r\n ".join(ENCODED[i : i + 7] for i in range(0, len(ENCODED), 7)),
        ENCODED.rstrip(b"="),
        ENCODED.replace(b"+", b"-").replace(b"/", b"_"),
        as_json(v2()),
    ],
    ids=["white-space", "no-padding", "url-safe", "no-base64"],
)
def test_base64_is_read_however_it_was_written(text) -> None:
    assert value_in(png_with(text_chunk("chara", text))) == v2()


def test_two_cards_in_one_picture_that_differ_are_mentioned() -> None:
    other = text_chunk("chara", encoded(v2(description="else", tags=[])))
    opened = open_container(png_with(other, text_chunk("ccv3", encoded(v3()))), origin="a.png")
    assert opened.notes == (
        "another text, 'chara', differs in description; the 'ccv3' text is used",
    )


def test_the_same_card_for_old_readers_and_new_is_not_mentioned() -> None:
    both = png_with(text_chunk("chara", ENCODED), text_chunk("ccv3", encoded(v3())))
    assert open_container(both, origin="a.png").notes == ()


def test_an_animated_png_is_a_png_too() -> None:
    raw = png_with(Chunk(b"acTL", bytes(8)), text_chunk("chara", ENCODED))
    assert open_container(raw, origin="a.png").container == "apng"


def test_bytes_behind_the_picture_are_read_over_with_a_warning() -> None:
    assert "5 bytes follow" in open_container(png_card(v2()) + b"extra", origin="a").notes[0]


@pytest.mark.parametrize("keyword", ["chara-ext-asset_:a/b.png", "chara-ext-asset_a/b.png"])
def test_an_asset_inside_a_png_is_found(keyword) -> None:
    raw = png_with(text_chunk("chara", ENCODED), text_chunk(keyword, b"aGk="))
    assert open_container(raw, origin="a.png").members == (("a/b.png", 2),)
    assert read_asset(raw, "a/b.png", origin="a.png") == b"hi"


def test_a_written_asset_chunk_reads_back() -> None:
    raw = png_with(text_chunk("chara", ENCODED), asset_chunk("1.bin", b"\0\xff"))
    assert read_asset(raw, "1.bin", origin="a.png") == b"\0\xff"


@each(
    "raw",
    [
        as_json(v2()),
        b"\xef\xbb\xbf" + as_json(v2()),
        json.dumps(v2()).encode("utf-16"),
        b" \r\n" + as_json(v2()),
    ],
    ids=["plain", "byte-order-mark", "utf-16", "leading-space"],
)
def test_json_is_read_however_it_was_saved(raw) -> None:
    assert value_in(raw) == v2()


def test_a_key_that_stands_twice_is_mentioned() -> None:
    assert "'a' occurs twice" in open_container(b'{"a": 1, "a": 2}', origin="a.json").notes[0]


def test_yaml_keeps_every_scalar_as_it_was_written() -> None:
    assert value_in(b"name: 007\ncontext: yes\n", "x.yaml") == {"name": "007", "context": "yes"}


@each("prefix", [b"", b"\xff\xd8\xff\xe0 a JPEG", b"MZ a program"])
def test_a_charx_is_read_behind_whatever_stands_before_it(prefix) -> None:
    raw = charx_card(v3(), {"assets/icon/a.png": b"x", "module.json": b"{}"}, prefix)
    opened = open_container(raw, origin="a.charx")
    assert (opened.container, opened.value) == ("charx", v3())
    assert opened.members == (("assets/icon/a.png", 1), ("module.json", 2))


def damaged_crc() -> bytes:
    raw = bytearray(png_card(v2()))
    raw[60] ^= 1
    return bytes(raw)


def zip_of(**members) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


NOT_CARDS = {
    "empty": (b"", "is empty"),
    "jpeg": (b"\xff\xd8\xff\xe0" + bytes(50), "a JPEG picture"),
    "webp": (b"RIFF\x24\0\0\0WEBPVP8 " + bytes(50) + b"\xff", "a WebP picture"),
    "gif": (b"GIF89a\xff" + bytes(50), "a GIF picture"),
    "noise": (bytes(range(256)), "binary data"),
    "cut-off png": (png_card(v2())[:-200], "is an incomplete PNG"),
    "png without end": (png_card(v2())[:-12], "is an incomplete PNG"),
    "bad checksum": (damaged_crc(), "checksum"),
    "png without card": (write_png(TINY), "does not contain a card"),
    "png without header": (write_png(Png(TINY.chunks[1:])), "header"),
    "png signature alone": (b"\x89PNG\r\n\x1a\n", "is an incomplete PNG"),
    "bad base64": (png_with(text_chunk("chara", b"!!!!")), "base64"),
    "base64 of noise": (png_with(text_chunk("chara", b"gICAgIA=")), "JSON"),
    "damaged ztxt": (png_with(Chunk(b"zTXt", b"chara\0\0noise")), "damaged compressed"),
    "cut-off ztxt": (
        png_with(Chunk(b"zTXt", b"chara\0\0" + zlib.compress(ENCODED)[:-9])),
        "incomplete compressed text",
    ),
    "number": (b"42", "is text"),
    "words": (b"just a few words", "is text"),
    "broken json": (b'{"name": "a"', "JSON"),
    "not a number": (b'{"name": NaN}', "NaN"),
    "infinite": (b'{"name": 1e999}', "too large"),
    "huge integer": (b'{"name": ' + b"9" * 5000 + b"}", "JSON"),
    "deep": (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "deeper"),
    "very deep": (b'{"a":' * 100_000, "nests too deeply"),
    "zip without card": (zip_of(**{"readme.txt": "x"}), "without a card.json"),
    "cut-off zip": (charx_card(v3())[:-30], "damaged zip"),
    "zip with broken card": (zip_of(**{"card.json": "{"}), "JSON"),
    "climbing zip": (zip_of(**{"card.json": "{}", "../../x": ""}), "leads outside"),
    "absolute zip": (zip_of(**{"card.json": "{}", "/etc/x": ""}), "leads outside"),
    "windows zip": (zip_of(**{"card.json": "{}", "a\\..\\..\\x": ""}), "leads outside"),
    "drive zip": (zip_of(**{"card.json": "{}", "C:x": ""}), "leads outside"),
}


@each(("raw", "says"), NOT_CARDS.values(), ids=NOT_CARDS.keys())
def test_what_is_no_card_is_one_clear_error(raw, says) -> None:
    with pytest.raises(BadInputError, match=says):
        read_card(raw, origin="file")


@each(
    ("text", "says"),
    [
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("a: [", "YAML"),
        ("[" * 2000, "deep"),
        ("a: b: c\n", "YAML"),
        ("- 1\n- 2\n", "is text"),
        ("[a]: \n  ? {b: c}\n", "YAML"),
        ("a: \x01", "YAML"),
    ],
)
def test_yaml_that_is_no_card_is_one_clear_error(text, says) -> None:
    with pytest.raises(BadInputError, match=says):
        read_card(text.encode(), origin="file.yaml")


def test_a_text_that_inflates_without_end_is_refused() -> None:
    with pytest.raises(BadInputError, match="texts of more than"):
        read_card(
            png_with(ztxt("chara", bytes(foreign_files.MAX_CARD_BYTES + 1))), origin="bomb.png"
        )


def test_a_zip_that_unpacks_to_too_much_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(containers, "MAX_TOTAL_BYTES", 1000)
    with pytest.raises(BadInputError, match="unpacks to more than"):
        read_card(charx_card(v3(), {"big": bytes(2000)}), origin="bomb.charx")


def test_a_zip_with_too_many_files_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(containers, "MAX_MEMBERS", 2)
    with pytest.raises(BadInputError, match="more than 2 files"):
        read_card(charx_card(v3(), {"a": b"", "b": b""}), origin="bomb.charx")


def test_many_small_bombs_in_one_picture_are_refused() -> None:
    half = ztxt("chara", bytes(foreign_files.MAX_CARD_BYTES // 2 + 1))
    with pytest.raises(BadInputError, match="texts of more than"):
        read_card(png_with(half, half), origin="bomb.png")


def test_a_zip_that_lies_about_its_number_of_files_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(containers, "MAX_MEMBERS", 1)
    raw = charx_card(v3()) + b"PK\x01\x02" * 11 + charx_card(v3())
    with pytest.raises(BadInputError, match="more than 1 files"):
        read_card(raw, origin="bomb.charx")


def test_a_card_that_lies_about_its_size_is_refused() -> None:
    raw = bytearray(charx_card(v3()))
    at = raw.rindex(b"PK\x01\x02") + 24
    raw[at : at + 4] = (7).to_bytes(4, "little")
    with pytest.raises(BadInputError):
        read_card(bytes(raw), origin="liar.charx")


def test_large_yaml_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(BadInputError, match="too long for a YAML card"):
        read_card(b"name: a\n" + b"#" * foreign_files.MAX_YAML_BYTES, origin="a.yaml")


@given(OBJECTS)
def test_any_object_comes_out_of_each_container_as_it_went_in(value) -> None:
    text = json.dumps(value)
    assert value_in(png_card(value)) == value
    assert value_in(text.encode()) == value
    assert value_in(containers.write_charx(text, {})) == value


SAMPLES = [png_card(v3(), "ccv3"), as_json(v2()), charx_card(v3(), {"assets/a": b"a"})]


@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_files_give_a_card_or_one_of_our_errors(raw, data) -> None:
    damaged = bytearray(raw[: data.draw(st.integers(0, len(raw)))])
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_card(bytes(damaged), origin="damaged")
    except FamiliarError:
        return


@given(st.binary(max_size=80))
def test_any_bytes_give_a_card_or_one_of_our_errors(raw) -> None:
    try:
        read_card(raw, origin="noise.yaml")
    except FamiliarError:
        return


def test_json_of_millions_of_objects_is_refused_before_they_are_built() -> None:
    raw = as_json(v2()).replace(b'"clock"', b"[],[{}]," * 400_000 + b'"clock"')
    with pytest.raises(BadInputError, match="more than 1,000,000 lists and objects"):
        read_card(raw, origin="x.json")
