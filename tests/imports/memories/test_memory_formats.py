"""Each program's memories are recognised, and read with their days and subjects."""

from __future__ import annotations

import json
import zipfile
from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest

from familiar_cli.base.errors import BadInputError
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import Reading, recognise
from familiar_cli.imports.memory_lists import MOST_CHARS, read_day, read_lines, split_dated
from familiar_cli.imports.reading import read_memories
from familiar_cli.imports.source import ForeignFile
from tests.support.cases import each

DAY = date(2025, 3, 4)

PAM = {
    "schema": "portable-ai-memory",
    "schema_version": "1.0",
    "owner": {"id": "robin"},
    "memories": [
        {
            "id": "1",
            "type": "fact",
            "content": "Keeps bees",
            "temporal": {"created_at": "2025-03-04T10:00:00Z"},
        },
        {"id": "2", "type": "fact", "content": "Keeps newts", "status": "retracted"},
    ],
}
MIF = {
    "mif_version": "2.0",
    "memories": [
        {"id": "1", "content": "Keeps bees", "created_at": "2025-03-04T10:00:00Z"},
        {"id": "2", "content": "Sings alto", "created_at": "x", "entities": [{"name": "Mia"}]},
    ],
    "knowledge_graph": {
        "entities": [
            {"id": "m", "name": "Mia", "summary": "A nurse"},
            {"id": "c", "name": "Choir"},
        ],
        "relationships": [
            {"source_entity_id": "m", "target_entity_id": "c", "relation_type": "member_of"},
            {
                "source_entity_id": "c",
                "target_entity_id": "m",
                "relation_type": "pays",
                "invalidated_at": "2025-03-04",
            },
        ],
    },
}
MEM0 = {
    "results": [{"id": "a", "memory": "Keeps bees", "user_id": "r", "created_at": "2025-03-04"}]
}
CLAUDE = [{"conversations_memory": "**Life**\n\nKeeps bees\n", "project_memories": {}}]
LETTA = {
    "agents": [{"name": "Nova"}],
    "blocks": [
        {"label": "human", "value": "Keeps bees"},
        {"label": "persona", "value": "I am Nova"},
    ],
}
GRAPH = (
    '{"type":"entity","name":"Mia","entityType":"person","observations":["Sings alto"]}\n'
    '{"type":"entity","name":"default_user","entityType":"person","observations":["Keeps bees"]}\n'
    '{"type":"relation","from":"Mia","to":"the choir","relationType":"member_of"}\n'
)
TEXT = "[2025-03-04] - Keeps bees\n[unknown] - Sings alto\n"


def read(name: str, value: object) -> list[tuple[str, date | None, str]]:
    text = value if isinstance(value, str) else json.dumps(value)
    (found,) = read_memories(ForeignFile(None, name, text.encode()))
    return [(one.text, one.day, one.about) for one in found.memories]


@each(
    ("name", "value", "format_name", "expected"),
    [
        ("m.json", MEM0, "mem0", [("Keeps bees", DAY, "")]),
        ("memories.json", CLAUDE, "claude", [("Keeps bees", None, "")]),
        ("nova.af", LETTA, "letta", [("Keeps bees", None, "")]),
        ("pam.json", PAM, "memory-interchange", [("Keeps bees", DAY, "")]),
        (
            "mif.json",
            MIF,
            "memory-interchange",
            [
                ("Keeps bees", DAY, ""),
                ("Sings alto", None, "Mia"),
                ("A nurse", None, "Mia"),
                ("Mia member of Choir", None, "Mia"),
            ],
        ),
        ("m.txt", TEXT, "memory-text", [("Keeps bees", DAY, ""), ("Sings alto", None, "")]),
        (
            "memory.jsonl",
            GRAPH,
            "mcp-memory",
            [
                ("Sings alto", None, "Mia"),
                ("Keeps bees", None, ""),
                ("Mia member of the choir", None, "Mia"),
            ],
        ),
    ],
)
def test_a_programs_memories_are_read(name, value, format_name, expected) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    (first, *_) = recognise(ForeignFile(None, name, text.encode()))
    assert (first.format.name, first.is_certain) == (format_name, True)
    assert read(name, value) == expected


@each(
    ("text", "day"),
    [
        ("2025-03-04", DAY),
        ("2025-03-04T23:59:00+09:00", DAY),
        ("March 4, 2025", DAY),
        ("4 Mar 2025", DAY),
        (1741082400, DAY),
        (1741082400000, DAY),
        ("yesterday", None),
        ("", None),
        (True, None),
        (10**400, None),
    ],
)
def test_a_day_is_read_or_there_is_none(text, day) -> None:
    assert read_day(text) == day


def test_brackets_that_hold_no_date_are_words() -> None:
    assert split_dated("[sic] - wrote it so") is None
    assert split_dated("[date unknown] - likes tea") == (None, "likes tea")


def test_an_indented_line_goes_on_and_a_heading_is_no_memory() -> None:
    text = "# Preferences\n\n- Likes tea,\n  green above all\n- Dislikes noise\n\nA paragraph.\n"
    assert [(one.text, one.line) for one in read_lines(text)] == [
        ("Likes tea, green above all", 3),
        ("Dislikes noise", 5),
        ("A paragraph.", 7),
    ]


def test_what_is_left_out_of_memories_is_told_and_a_long_one_is_several_lines() -> None:
    long = " ".join(f"Sentence {number} of a long one." for number in range(200))
    value = {"results": [*MEM0["results"], {"memory": 5}, {"memory": long}]}
    (found,) = read_memories(ForeignFile(None, "m.json", json.dumps(value).encode()))
    assert found.notes == ("1 entry without text left out",)
    assert " ".join(one.text for one in found.memories[1:]) == long
    assert max(len(one.text) for one in found.memories) <= MOST_CHARS


def test_old_text_that_is_not_utf8_keeps_its_letters() -> None:
    raw = "[2025-03-04] - Runs a café\n".encode("cp1252")
    (found,) = read_memories(ForeignFile(None, "m.txt", raw))
    assert [one.text for one in found.memories] == ["Runs a café"]


def test_a_line_with_a_date_that_cannot_be_is_a_memory_of_its_own() -> None:
    text = "[2025-03-05] - Has a cat.\n[2025-13-45] - Owns a boat.\n"
    assert [one.text for one in read_lines(text)] == ["Has a cat.", "[2025-13-45] - Owns a boat."]


def test_json_of_no_known_program_holds_no_memories() -> None:
    with pytest.raises(BadInputError, match="holds no memories"):
        read("x.json", {"name": "Tove"})


@each(
    ("text", "expected"),
    [
        ("Sure:\n```\n[2025-03-04] - Keeps bees\n```\nMore?\n", [("Keeps bees", DAY, 3)]),
        (
            "2025-03-04 - Keeps bees\n2025-03-04: Sings\n",
            [("Keeps bees", DAY, 1), ("Sings", DAY, 2)],
        ),
        (
            "[2026-02] - Keeps bees\n[unknown]: Sings\n",
            [("Keeps bees (2026-02)", None, 1), ("Sings", None, 2)],
        ),
        (
            "Preferences:\n- Sings\n\nPROJECTS\n1. Keeps bees\n",
            [("Sings", None, 2), ("Keeps bees", None, 5)],
        ),
        ("**Work**\n\nKeeps bees.\n", [("Keeps bees.", None, 3)]),
        ("Keeps bees\nSings alto\n", [("Keeps bees", None, 1), ("Sings alto", None, 2)]),
    ],
)
def test_pasted_lists_come_in_many_forms(text, expected) -> None:
    (found,) = read_memories(ForeignFile(None, "memory.txt", text.encode()))
    assert [(one.text, one.day, one.line) for one in found.memories] == expected
    assert recognise(ForeignFile(None, "memory.txt", text.encode()))[0].format.name == "memory-text"


SAMPLES = Path(__file__).parents[1] / "samples"


def twisted(value, key=""):
    """Return a value with each text in a list, but for those by which a file is recognised."""
    if isinstance(value, dict):
        return {name: twisted(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [twisted(one, key) for one in value]
    return [value] if key not in {"schema", "mif_version", "type", "memory", "header"} else value


@each("name", ["mem0", "memory-interchange", "risuai", "gemini", "world_info", "vector-storage"])
def test_values_of_other_types_are_no_traceback(name) -> None:
    value = twisted(json.loads((SAMPLES / f"{name}.json").read_text("utf-8")))
    source = ForeignFile(None, f"{name}.json", json.dumps(value).encode())
    for found in recognise(source):
        for one in found.format.read(source, Reading(Cast(unnamed="familiar"))):
            assert not hasattr(one, "messages") or list(one.messages()) is not None


def test_a_bundle_of_other_types_is_no_traceback(tmp_path) -> None:
    with zipfile.ZipFile(SAMPLES / "portable-memory.mem") as archive:
        archive.extractall(tmp_path)
    files = []
    for path in sorted(tmp_path.rglob("*.jsonl")):
        rows = [twisted(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        digest = sha256(path.read_bytes()).hexdigest()
        files.append({"path": path.relative_to(tmp_path).as_posix(), "sha256": digest})
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8")) | {"files": files}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (found,) = read_memories(ForeignFile(tmp_path, str(tmp_path)))
    assert found.memories == ()
    assert not any("deleted" in note for note in found.notes)


@each(
    ("name", "first"),
    [
        ("chat.txt", "5. 11. 2024. 08:07:01"),
        ("chat.txt", "2024. 11. 5. 08:07"),
        ("memories.txt", "05.11.24, 08:07 -"),
    ],
)
def test_a_number_that_begins_a_time_makes_no_list(tmp_path, name, first) -> None:
    path = tmp_path / name
    path.write_text(f"{first} Ivo: Is the gate open?\n{first} Mila: Since six.\n", "utf-8")
    assert "chat" in recognise(ForeignFile(path, name))[0].forms


def test_a_published_vault_is_not_of_basic_memory(tmp_path) -> None:
    note = "---\ntitle: Bees\npermalink: bees\n---\n\n- [ ] buy a hive\n- see [[Garden]]\n"
    (tmp_path / "bees.md").write_text(note, "utf-8")
    names = [one.format.name for one in recognise(ForeignFile(tmp_path, "vault"))]
    assert "basic-memory" not in names
    (tmp_path / "bees.md").write_text(f"{note}- [fact] They dance\n", "utf-8")
    assert recognise(ForeignFile(tmp_path, "vault"))[0].format.name == "basic-memory"
