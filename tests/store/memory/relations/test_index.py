"""The graph follows the pages, and comes back when it is deleted."""

from __future__ import annotations

import pytest

from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.memory.pages.relations import kinds_of
from familiar_cli.store.memory.relation_index import RelationIndex
from familiar_cli.store.memory.store.store import MemoryStore

MIKA, ROBIN, BO = "people/discord-9.md", "people/discord-42.md", "people/discord-7.md"


def page(title: str, *lines: str) -> str:
    return f"# {title}\n\n## Relations\n\n" + "".join(f"- {line}\n" for line in lines)


@pytest.fixture
def store(tmp_path):
    store = MemoryStore(tmp_path / "memory")
    store.write_file(MIKA, page("Mika", "sister of [Robin](discord-42.md)", "works with Bo"))
    store.write_file(ROBIN, page("Robin"))
    store.write_file(BO, page("Bo"))
    return store


@pytest.fixture
def graph(store):
    graph = RelationIndex(store)
    graph.refresh()
    yield graph
    graph.close()


def told(graph, *rel_paths) -> list[tuple[str, str, str]]:
    graph.refresh()
    return [(e.source, e.relation, e.target) for e in graph.edges(rel_paths)]


def test_a_relation_is_found_from_both_ends(graph) -> None:
    sister = (MIKA, "sister of", ROBIN)
    assert told(graph, ROBIN) == [sister]
    assert sister in told(graph, MIKA)


def test_a_name_alone_leads_to_who_is_called_so(graph) -> None:
    assert told(graph, BO) == [(MIKA, "works with", BO)]


def test_a_name_that_two_share_leads_nowhere(graph, store) -> None:
    store.write_file("people/discord-8.md", page("Bo"))
    assert told(graph, BO) == []


def test_an_edit_by_hand_is_seen(graph, store) -> None:
    (store.root / MIKA).write_text(page("Mika", "knows [Bo](discord-7.md)"), encoding="utf-8")
    assert told(graph, MIKA) == [(MIKA, "knows", BO)]
    (store.root / MIKA).unlink()
    assert told(graph, MIKA, BO) == []


def test_a_deleted_index_comes_back(graph, store) -> None:
    before = told(graph, MIKA)
    graph.close()
    for file in (store.root / ".index").glob("relations*"):
        file.unlink()
    again = RelationIndex(store)
    assert told(again, MIKA) == before
    again.close()


def test_a_damaged_index_is_made_anew(graph, store) -> None:
    before = told(graph, MIKA)
    graph.close()
    (store.root / ".index" / "relations.sqlite").write_bytes(b"no database" * 99)
    again = RelationIndex(store)
    assert told(again, MIKA) == before
    again.close()


def test_another_account_stands_for_the_same_person(graph, store) -> None:
    stub = "# Bee\n\nThe same person as [Bo](discord-7.md). <!-- same person as discord-7 -->\n"
    store.write_file("people/twitch-1.md", stub)
    store.write_file(ROBIN, page("Robin", "knows [Bee](twitch-1.md)"))
    assert (ROBIN, "knows", BO) in told(graph, BO)


def test_a_link_counts_where_there_is_no_relation(graph, store) -> None:
    store.write_file("topics/choir.md", "# Choir\n\n[Mika](../people/discord-9.md) sings.\n")
    assert told(graph, "topics/choir.md") == [("topics/choir.md", "links to", MIKA)]


def test_what_is_private_is_in_no_picture(graph, store) -> None:
    secret = (
        "\n## In private: x <!-- private dm -->\n\n### Relations\n\n- loves [Bo](discord-7.md)\n"
    )
    store.write_file(ROBIN, page("Robin") + secret)
    assert (ROBIN, "loves", BO) in told(graph, ROBIN)
    nodes, edges = graph.around(ROBIN, viewer=NOBODY)
    assert BO not in {node.path for node in nodes}
    assert "loves" not in {edge.relation for edge in edges}


def test_more_steps_reach_further(graph) -> None:
    assert {n.path for n in graph.around(ROBIN, viewer=NOBODY)[0]} == {ROBIN, MIKA}
    assert {n.path for n in graph.around(ROBIN, 2, viewer=NOBODY)[0]} == {ROBIN, MIKA, BO}


def test_what_both_pages_state_is_told_once(graph, store) -> None:
    store.write_file(ROBIN, page("Robin", "sibling of [Mika](discord-9.md)"))
    graph.refresh()
    assert [e.relation for e in graph.once(graph.edges([ROBIN]))] == ["sister of"]


def test_a_person_adds_to_the_table(graph, store) -> None:
    store.write_file(
        "relations.md", "| relation | inverse |\n|---|---|\n| coach of | coached by |\n"
    )
    store.write_file(ROBIN, page("Robin", "coach of Bo"))
    assert (ROBIN, "coach of", BO) in told(graph, BO)
    assert graph.kinds.inverse("coached by") == "coach of"


def test_the_table_knows_both_ways() -> None:
    kinds = kinds_of()
    assert kinds.are_alike("boss of", "reports to")
    assert kinds.are_alike("Sister of", "sibling of")
    assert kinds.is_symmetric("friend of")
    assert not kinds.is_symmetric("boss of")
    assert kinds.inverse("hums with") == ""


def test_an_older_version_of_a_page_that_is_not_read_in_time_is_not_told(graph, store) -> None:
    store.write_file(MIKA, page("Mika"))
    assert graph.refresh(within_s=0.0)
    assert graph.edges([MIKA, ROBIN]) == []
    assert told(graph, ROBIN) == []
