"""`familiar graph`, and relations in prompts."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.support.world import data, live, run

MIKA = """# Mika

## Relations

- sister of [Robin](discord-42.md) (since 2024-03, turns laptop-7f3a:12-15)
- worked with [Bo](discord-7.md) (2020 to 2022)

## In private: DM <!-- private dm -->

### Relations

- engaged to [Bo](discord-7.md)
"""


@pytest.fixture(autouse=True)
def root():
    people = {"discord-9": MIKA, "discord-42": "# Robin\n", "discord-7": "# Bo <b>&\n"}
    return live("ada", **{f"people/{slug}": text for slug, text in people.items()})


def related(said: str, *more: str) -> str:
    asked = data("ask", said, "--dry-run", *more)
    pieces = [p for p in asked["contributions"] if p["source"] == "people.relations"]
    return "\n".join(piece["text"] for piece in pieces if piece["kept"])


def test_the_graph_has_nodes_and_edges() -> None:
    found = data("graph", "Mika")
    assert found["nodes"][0] == {
        "id": "people/discord-9",
        "path": "people/discord-9.md",
        "title": "Mika",
        "kind": "person",
    }
    assert found["edges"][0] == {
        "from": "people/discord-9",
        "to": "people/discord-42",
        "relation": "sister of",
        "since": "2024-03",
        "until": None,
        "evidence": ["laptop-7f3a:12-15"],
        "line": 5,
    }
    assert "engaged to" not in json.dumps(found)


def test_a_tree_tells_it_from_each_end() -> None:
    assert (
        "├── sister of Robin  people/discord-42.md (since 2024-03)" in run("graph", "Mika").stdout
    )
    assert "is sister of Robin (since 2024-03)" in run("graph", "robin").stdout


def test_without_a_name_all_relations_are_listed() -> None:
    assert run("graph").stdout == (
        "Mika: sister of Robin (since 2024-03)\n"
        "Mika: worked with Bo <b>& (since 2020, until 2022)\n"
    )


def test_a_picture_is_one_file_in_which_memory_is_text(tmp_path) -> None:
    file = tmp_path / "mika.html"
    assert run("graph", "Mika", "--html", str(file)).exit_code == 0
    page = file.read_text("utf-8")
    assert "<svg" in page
    assert "Bo &lt;b&gt;&amp;" in page
    assert "<script" not in page
    assert run("graph", "Mika", "--html", str(file)).exit_code == 5


def test_graphviz_reads_it() -> None:
    assert '"people/discord-9" -> "people/discord-42"' in run("graph", "Mika", "--dot").stdout


def test_nobody_of_that_name_is_said_so() -> None:
    done = run("graph", "Nobody")
    assert done.exit_code == 4
    assert "familiar graph" in done.stderr


def test_a_picture_needs_a_middle() -> None:
    assert run("graph", "--dot").exit_code == 2


def test_who_is_named_brings_their_relations_into_the_prompt() -> None:
    assert "\n- Mika: sister of Robin (since 2024-03)" in related("How is Robin?")
    assert related("How is the weather?") == ""


def test_a_prompt_says_that_relations_were_not_read_in_time(monkeypatch) -> None:
    monkeypatch.setattr("familiar_cli.context.providers.people.REFRESH_SHARE", 0.0)
    notices = data("ask", "How is Robin?", "--dry-run")["notices"]
    assert any("the relations of 3 pages were not read in time" in one for one in notices)
    assert any("names in 3 files were not read in time" in one for one in notices)
    asked = ("ask", "How is Robin?", "--dry-run", "--as", "discord:42")
    assert not any("in time" in one for one in data(*asked)["notices"])


def test_what_a_prompt_has_no_time_for_is_read_after_the_reply(monkeypatch, serve) -> None:
    monkeypatch.setattr("familiar_cli.context.providers.people.REFRESH_SHARE", 0.0)
    serve("Well.")
    assert run("ask", "How is Robin?").exit_code == 0
    assert "sister of Robin" in related("How is Robin?")


def test_what_is_over_comes_last() -> None:
    lines = related("How is Mika?").splitlines()
    assert [line.startswith("- Mika: worked with") for line in lines] == [False, False, True]


def test_what_is_private_is_told_where_it_was_said() -> None:
    assert "engaged" not in related("How is Mika?")
    assert "engaged to Bo" in related("How is Mika?", "--channel", "dm")


def test_all_lines_together_keep_to_their_tokens(root) -> None:
    lines = "".join(f"- knows [Person {n} of the choir](x-{n}.md)\n" for n in range(60))
    (root / "memory/people/discord-9.md").write_text(f"# Mika\n\n## Relations\n\n{lines}", "utf-8")
    said = related("How is Mika?")
    assert 3 < said.count("\n") < 40
    (reason,) = (
        p["reason"]
        for p in data("ask", "How is Mika?", "--dry-run")["contributions"]
        if p["source"] == "people.relations"
    )
    assert "of 60 relations found no room in 150 tokens" in reason


NODES = [
    {"id": "1", "type": "person", "label": "Mika", "description": ""},
    {"id": "2", "type": "person", "label": "Sol", "description": "# Plays the drums."},
    {"id": "3", "type": "place", "label": "Oslo"},
    {"id": "4", "type": "self", "label": "Ada"},
    {"id": "5", "type": "person", "label": "Gone", "deleted": True},
]
EDGES = [
    {"fromId": "1", "toId": "2", "type": "friend_of", "occurredAt": "2024-05-01T10:00:00Z"},
    {"fromId": "2", "toId": "3", "type": "lives_in", "validUntil": "2025-01-01"},
    {"fromId": "4", "toId": "1", "type": "loves"},
    {"fromId": "1", "toId": "5", "type": "knows"},
]


@pytest.fixture(params=["json", "sqlite"])
def graph_file(request, tmp_path):
    file = tmp_path / "graph.db"
    if request.param == "json":
        file.write_text(json.dumps({"nodes": NODES, "edges": EDGES}), encoding="utf-8")
        return file
    with closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE graph_nodes (id, type, label, description, deleted)")
        made.execute(
            "CREATE TABLE graph_edges (from_id, to_id, type, occurred_at, valid_until, deleted)"
        )
        for node in NODES:
            row = [node.get(key) for key in ("id", "type", "label", "description", "deleted")]
            made.execute("INSERT INTO graph_nodes VALUES (?, ?, ?, ?, ?)", row)
        for edge in EDGES:
            keys = ("fromId", "toId", "type", "occurredAt", "validUntil", "deleted")
            made.execute(
                "INSERT INTO graph_edges VALUES (?, ?, ?, ?, ?, ?)", [edge.get(k) for k in keys]
            )
        made.commit()
    return file


def test_a_graph_of_entity_core_becomes_relations(root, graph_file) -> None:
    before = (root / "memory/people/discord-9.md").read_text("utf-8")
    assert data("graph", "--import", str(graph_file), "--dry-run")["relations"] == 2
    assert (root / "memory/people/discord-9.md").read_text("utf-8") == before

    done = data("graph", "--import", str(graph_file))

    assert (done["relations"], done["left_out"]) == (2, 2)
    assert done["pages"] == ["people/entity-sol.md", "places/oslo.md"]
    mika = (root / "memory/people/discord-9.md").read_text("utf-8")
    assert "- friend of [Sol](entity-sol.md) (since 2024-05-01)\n" in mika
    sol = (root / "memory/people/entity-sol.md").read_text("utf-8")
    assert sol == (
        "# Sol\n\n\\# Plays the drums.\n\n## Relations\n\n"
        "- lives in [Oslo](../places/oslo.md) (until 2025-01-01)\n"
    )
    again = data("graph", "--import", str(graph_file))
    assert (again["relations"], again["known"], again["files"]) == (0, 2, [])
    assert run("memory", "undo").exit_code == 0
    assert (root / "memory/people/discord-9.md").read_text("utf-8") == before


def test_what_is_exported_can_be_imported_elsewhere(tmp_path) -> None:
    file = tmp_path / "graph.json"
    assert run("graph", "--export", str(file)).exit_code == 0
    assert "engaged" not in file.read_text("utf-8")
    live("ben")
    done = data("graph", "--import", str(file), "--familiar", "ben")
    assert done["relations"] == 2
    assert "Mika: sister of Robin (since 2024-03)" in run("graph", "--familiar", "ben").stdout


def test_what_is_no_graph_is_refused(tmp_path) -> None:
    file = tmp_path / "x.json"
    file.write_text("[1]", encoding="utf-8")
    done = run("graph", "--import", str(file))
    assert done.exit_code != 0
    assert "nothing was changed" in done.stderr


def test_links_of_a_file_say_what_relation_they_are() -> None:
    steps = data("memory", "links", "people/discord-42.md")["steps"]
    assert [step["link"]["relation"] for step in steps] == ["sister of"]
    assert (
        "is sister of people/discord-42.md" in run("memory", "links", "people/discord-42.md").stdout
    )
