"""What a file is told to be: something or an error in words, whatever its bytes are."""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.actions.bring.import_files import FileImporter, FileImportOptions
from familiar_cli.base.errors import FamiliarError
from familiar_cli.imports.what_is_it import explain_unknown, readings_of
from tests.support.cards import png_card
from tests.support.chats import HEAD, save, talk
from tests.support.lorebooks import lore, world
from tests.support.sillytavern import card, lived_in

KEYS = st.sampled_from(
    (
        "name",
        "description",
        "first_mes",
        "data",
        "spec",
        "entries",
        "mes",
        "role",
        "content",
        "mapping",
        "chat_messages",
        "messages",
        "channel",
        "members",
        "power_user",
        "keys",
    )
)
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)
STARTS = st.sampled_from((b"", b"\x89PNG\r\n\x1a\n", b"PK\x03\x04", b"\xff\xfe", b"{", b"Robin: "))
CONTENTS = VALUES.map(lambda value: json.dumps(value).encode()) | st.builds(
    bytes.__add__, STARTS, st.binary(max_size=200)
)
ENDINGS = (".json", ".jsonl", ".png", ".charx", ".md", ".txt", ".yaml", ".csv", "")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(content=CONTENTS, ending=st.sampled_from(ENDINGS))
def test_every_file_is_something_or_an_error(place, content, ending) -> None:
    path = place / f"file{ending}"
    path.write_bytes(content)
    for one in readings_of(path):
        assert one.title
        assert one.hint.startswith(("Import", "Make", "To take", "Unpack"))
    error = explain_unknown(path)
    assert isinstance(error, FamiliarError)
    assert "nothing was imported" in str(error)


@pytest.mark.posix
def test_a_pipe_is_refused_and_does_not_block(tmp_path) -> None:
    for name in ("pipe.txt", "pipe"):
        os.mkfifo(tmp_path / name)
        assert "is a pipe" in str(explain_unknown(tmp_path / name))
        assert readings_of(tmp_path / name) == []
    assert readings_of(tmp_path) == []


def test_a_directory_is_read_by_what_its_files_hold(tmp_path) -> None:
    place = tmp_path / "all"
    lived_in(place / "tavern" / "default-user")
    (place / "chats").mkdir()
    for name in ("chats/talk.jsonl", "notes.jsonl"):
        save(place / name, HEAD, *talk(2))
    save(place / "reeds.lorebook", world(lore("Reeds")))
    (place / "mira.jpg").write_bytes(png_card(card("Mira")))
    (place / "lake.jpg").write_bytes(b"\xff\xd8\xff")
    for path, name in ((tmp_path / "inner.zip", "notes.jsonl"), (place / "old.zip", "inner.zip")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(place / "notes.jsonl", "notes.jsonl")
            if name == "inner.zip":
                archive.write(tmp_path / name, name)
    with closing(FileImporter(tmp_path / "home", FileImportOptions(), print)) as importer:
        items = {Path(i.shown or i.path): i.kind or i.left_out for i in importer.recognise([place])}
    assert {path.relative_to(place).as_posix(): kind for path, kind in items.items()} == {
        "tavern": "folder",
        "mira.jpg": "card",
        "reeds.lorebook": "lorebook",
        "chats/talk.jsonl": "chat",
        "notes.jsonl": "chat",
        "old.zip/notes.jsonl": "chat",
        "old.zip/inner.zip": "it is a zip archive in another one",
        "lake.jpg": "files of this type are not imported",
    }
