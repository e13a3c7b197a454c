"""What a file is told to be: something or an error in words, whatever its bytes are."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.base.errors import FamiliarError
from familiar_cli.imports.what_is_it import explain_unknown, readings_of

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
