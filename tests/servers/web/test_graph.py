"""Relations on the page: the picture around one page, and the list of all."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from familiar_cli.actions.memory.graph import Around, clusters_of
from familiar_cli.store.memory.relation_index import Edge, GraphPage
from tests.support.browsing import looking
from tests.support.world import live

ODA = """# Oda <i>

## Relations

- mother of [Per](per.md) (since 1988, turns 3-4)
- colleague of [Per](per.md) (2010 to 2014)
- friend of [Gone](gone.md)

See [Bees](../topics/bees.md).

## In private: DM <!-- private dm -->

### Relations

- engaged to [Per](per.md)
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Pages that wait for all files, however busy the machine is."""
    for module in ("relation_pages", "people_pages"):
        monkeypatch.setattr(f"familiar_cli.servers.web.{module}.READ_S", 60.0)


@pytest.fixture
def client():
    topic = "# Bees & </svg><script>alert(1)</script>\n"
    live(
        "ada",
        **{
            "people/oda": ODA,
            "people/per": "# Per\n",
            "people/lone": "# Lone\n",
            "topics/bees": topic,
        },
    )
    with looking() as found:
        yield found


def test_a_person_has_the_picture_of_their_relations(client) -> None:
    text = client.get("/people/oda").text
    assert 'class="ego"' in text
    assert "mother of" in text
    assert "since 1988" in text
    assert "no file" in text
    assert "Bees" not in text.partition('class="ego"')[2]


def test_whoever_has_none_reads_how_to_write_one_down(client) -> None:
    text = client.get("/people/lone").text
    assert "## Relations" in text
    assert 'class="ego"' not in text


@pytest.mark.parametrize("name", ["Oda <i>", "oda", "people/oda.md", "people/oda"])
def test_the_picture_is_found_by_any_name(client, name) -> None:
    text = client.get("/graph", params={"name": name}).text
    assert 'class="ego"' in text
    assert 'href="/graph?name=people%2Fper.md"' in text
    assert 'href="/graph?name=people%2Fgone.md"' not in text


def test_memory_is_text_in_the_picture(client) -> None:
    text = client.get("/graph?name=oda").text
    assert "<i>" not in text
    assert "<script>alert" not in text
    assert "Bees &amp; &lt;/svg&gt;" in text


def test_links_stand_in_the_picture_and_more_steps_reach_further(client) -> None:
    assert "Bees" in client.get("/graph?name=oda").text
    assert "Bees" not in client.get("/graph?name=per").text
    assert "Bees" in client.get("/graph?name=per&depth=2").text


def test_without_a_name_there_is_a_list_and_a_picture_of_the_nearest(client) -> None:
    text = client.get("/graph").text
    assert "colleague of" in text
    assert 'class="ego"' in text
    assert '<tr data-from="people/oda.md" data-to="people/per.md" data-kind="over">' in text


def test_a_picture_of_many_says_how_many_it_leaves_out_and_keeps_names_apart() -> None:
    ring = {
        f"people/p{n}": f"# P{n}\n\n## Relations\n\n- friend of [P](p{(n + 1) % 60}.md)\n"
        for n in range(60)
    }
    live("ada", **ring)
    with looking() as client:
        text = client.get("/graph").text
    drawn = re.search(r'class="ego".*?</svg>', text, re.DOTALL)[0]
    places = [(float(x), float(y)) for x, y in re.findall(r'cx="(\S+)" cy="(\S+)"', drawn)]
    assert len(places) == 40
    assert "20 pages more are in the list" in text
    assert min(math.dist(a, b) for a, b in itertools.combinations(places, 2)) > 100


def group_of(name: str, size: int, more: str = "") -> dict[str, str]:
    """Make pages that are each related to the first of them."""
    line = f"- friend of [{name} 0]({name}0.md)\n"
    return {
        f"people/{name}{n}": f"# {name} {n}\n\n## Relations\n\n{line if n else more or '- x'}\n"
        for n in range(size)
    }


def test_many_pages_are_clusters_that_open() -> None:
    live("ada", **group_of("anna", 70, "- knows [ben 0](ben0.md)"), **group_of("ben", 60))
    with looking() as client:
        text = client.get("/graph").text
        assert ">anna 0 and 69 others</a>" in text
        assert "anna 12, " in text
        assert 'href="/graph?cluster=people%2Fben0.md"' in text.partition('class="ego"')[2]
        opened = client.get("/graph?cluster=people/ben0.md").text
        assert client.get("/graph?cluster=people/anna3.md").status_code == 404
    assert opened.count("<tr data-from=") == 59
    assert 'also related to <a href="/graph?cluster=people%2Fanna0.md">' in opened


@pytest.mark.parametrize("edge", [lambda n: n % 1, lambda n: n - 1, lambda n: n // 2])
def test_no_cluster_is_too_large_and_none_of_its_pages_is_lost(edge) -> None:
    pages = [GraphPage(f"people/{n}.md", str(n)) for n in range(900)]
    edges = [Edge(pages[n].path, pages[edge(n)].path, "knows", line=1) for n in range(1, 900)]
    found = clusters_of(Around(None, tuple(pages), tuple(edges)))
    assert max(len(one.pages) for one in found) <= 80
    assert sorted(page.path for one in found for page in one.pages) == sorted(p.path for p in pages)
    assert len(found) < 40


@pytest.mark.parametrize("path", ["/graph", "/people", "/people/oda", "/graph?name=people/oda.md"])
def test_what_was_not_read_in_time_is_said_and_read_behind_the_page(
    client, monkeypatch, path
) -> None:
    for module in ("relation_pages", "people_pages"):
        monkeypatch.setattr(f"familiar_cli.servers.web.{module}.READ_S", 0.0)
    assert re.search("Still reading [34] files", client.get(path).text)
    monkeypatch.undo()
    text = client.get(path).text
    assert "Still reading" not in text
    assert "Oda" in text


@pytest.mark.parametrize("path", ["/graph", "/graph?name=oda", "/people/oda"])
def test_what_is_private_is_not_drawn(client, path) -> None:
    text = client.get(path).text
    drawn = re.sub(
        r'<section aria-labelledby="private-title.*?</section>', "", text, flags=re.DOTALL
    )
    assert "engaged" not in drawn


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("name=nobody", 404),
        ("name=oda&depth=5", 400),
        ("name=oda&depth=x", 400),
        ("name=..%2Fx", 404),
    ],
)
def test_what_cannot_be_drawn_is_said(client, query, status) -> None:
    assert client.get(f"/graph?{query}").status_code == status


def test_a_page_of_a_home_with_several_stays_with_its_familiar(client) -> None:
    assert 'href="/f/ada/graph?name=people%2Fper.md"' in client.get("/f/ada/graph?name=oda").text
