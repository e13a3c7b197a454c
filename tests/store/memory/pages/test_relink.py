"""Links go on leading where they led when a file moves, and every other byte stays."""

from __future__ import annotations

import json
import posixpath
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from familiar_cli.store.memory.pages.links import (
    LinkChanges,
    PageNames,
    Relabel,
    move_with_links,
    places_in,
    unhidden_text,
    wiki_links,
)
from familiar_cli.store.memory.pages.relations import build_graph
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cases import each

OLD, NEW = "topics/tea.md", "topics/food/green tea.md"


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory")


def after_move(text: str, *more: str, at: str = "notes.md", old: str = OLD, new: str = NEW) -> str:
    """Return a page as it is when `old` became `new` in a memory that also holds `more`."""
    was = dict.fromkeys((old, at, *more), "")
    now = {new if path == old else path: said for path, said in was.items()}
    change = LinkChanges(PageNames(was, was), PageNames(now, now), {old: new})
    return change.text(text, at, new if at == old else None)


@each(
    ("before", "after"),
    [
        ("[B](topics/tea.md)", "[B](topics/food/green%20tea.md)"),
        ("[B](<topics/tea.md>)", "[B](<topics/food/green%20tea.md>)"),
        ('[B](topics/tea.md#cup "B it is")', '[B](topics/food/green%20tea.md#cup "B it is")'),
        ("[B]: topics/tea.md", "[B]: topics/food/green%20tea.md"),
        ("[B](/topics/tea.md)", "[B](topics/food/green%20tea.md)"),
        ("![B](topics/tea.md)", "![B](topics/food/green%20tea.md)"),
        ("[[tea]]", "[[green tea]]"),
        ("[[TEA.md]]", "[[green tea.md]]"),
        ("[[tea|a cup]] of it", "[[green tea|a cup]] of it"),
        ("[[ tea #Kinds | a cup ]]", "[[ green tea #Kinds | a cup ]]"),
        ("[[tea#^b1]] ![[tea#Kinds]]", "[[green tea#^b1]] ![[green tea#Kinds]]"),
        ("| [[tea\\|cup]] |", "| [[green tea\\|cup]] |"),
        ("[[topics/tea]]", "[[topics/food/green tea]]"),
        ("[[./topics/tea|x]]", "[[./topics/food/green tea|x]]"),
        ("[[/topics/tea]]", "[[/topics/food/green tea]]"),
        ('---\nabout: "[[tea]]"\n---\n', '---\nabout: "[[green tea]]"\n---\n'),
    ],
)
def test_every_way_to_write_a_link_is_found(before, after) -> None:
    assert after_move(before) == after


@each(
    "text",
    [
        "[B](other.md) [B](http://x/topics/tea.md) [[teapot]] [[#tea]]",
        "`[[tea]]` and\n\n```\n[[tea]] [B](topics/tea.md)\n```\n",
        "<!-- [[tea]] [B](topics/tea.md) -->\n",
        "%%[[tea]]%% and\n\n%%\n[[tea]]\n%%\n",
    ],
)
def test_what_leads_elsewhere_or_is_no_link_stays(text) -> None:
    assert after_move(text) == text


def test_a_name_that_still_leads_there_stays() -> None:
    assert after_move("[[tea]] [[Tea#x|y]]", new="drinks/tea.md") == "[[tea]] [[Tea#x|y]]"


def test_a_name_that_is_not_the_only_one_becomes_a_path() -> None:
    told = after_move("[[tea]]", "lore/chai.md", new="topics/chai.md")
    assert told == "[[topics/chai]]"


def test_links_of_the_moved_file_lead_where_they_led() -> None:
    before = "[self](tea.md#x) [up](../notes.md) [gone](gone.md) [[./cup]] ![](cup.png)\n"
    after = after_move(before, "notes.md", "topics/cup.md", "topics/cup.png", at=OLD)
    assert after == (
        "[self](green%20tea.md#x) [up](../../notes.md) [gone](gone.md) [[../cup]] ![](../cup.png)\n"
    )


def test_a_link_to_another_file_is_not_caught_by_the_new_name() -> None:
    told = after_move("[[cup]]", "topics/cup.md", new="cup.md")
    assert told == "[[topics/cup]]"


def test_a_name_that_no_wiki_link_can_say_becomes_a_markdown_link() -> None:
    told = after_move("![[tea#Kinds|cup]] [[tea]]", new="topics/c#.md")
    assert told == "![cup](topics/c%23.md#Kinds) [tea](topics/c%23.md)"


@pytest.mark.parametrize(
    ("quoted", "after"), [("'[[tea]]'", "'[[Bo''s tea]]'"), ('"[[tea]]"', '"[[Bo\'s tea]]"')]
)
def test_front_matter_stays_yaml(quoted, after) -> None:
    told = after_move(f"---\nabout: {quoted}\n---\n", new="topics/Bo's tea.md")
    assert told == f"---\nabout: {after}\n---\n"


def test_what_a_page_calls_itself_goes_on_leading_to_it() -> None:
    was = {OLD: "# Tea time\n", "notes.md": ""}
    now = {"topics/x.md": "# Tea time\n", "notes.md": "", "tea time.md": ""}
    change = LinkChanges(PageNames(was, was), PageNames(now, now), {OLD: "topics/x.md"})
    assert change.text("[[Tea time]] [[tea time|t]]", "notes.md") == "[[x|Tea time]] [[x|t]]"


def test_a_new_title_is_shown_by_links_that_showed_the_old_one() -> None:
    was, now = {"p.md": "# Bob\n"}, {"p.md": "# Rob\n"}
    change = LinkChanges(
        PageNames(was, was), PageNames(now, now), {}, Relabel("p.md", "Bob", "Rob")
    )
    told = change.text("[[Bob]] [[p|Bob]] [[Bob|him]] [Bob](p.md) [he](p.md)", "notes.md")
    assert told == "[[Rob]] [[p|Rob]] [[p|him]] [Rob](p.md) [he](p.md)"


def test_a_canvas_names_the_file_where_it_is(store) -> None:
    canvas = {
        "nodes": [
            {"id": "1", "type": "file", "file": OLD, "x": 0},
            {"id": "2", "type": "text", "text": "Ü: see [[tea]]\n", "x": 1},
        ]
    }
    text = json.dumps(canvas, ensure_ascii=False, indent="\t")
    store.write_file(OLD, "x")
    store.write_file("board.canvas", text)
    moved = move_with_links(store, OLD, NEW, dry_run=False)
    assert moved.relinked == ("board.canvas",)
    now = text.replace(OLD, NEW).replace("[[tea]]", "[[green tea]]")
    assert store.read_file("board.canvas") == now


def test_a_dry_run_tells_and_moves_nothing(store) -> None:
    store.write_file(OLD, "x")
    store.write_file("notes.md", "[[tea]]")
    moved = move_with_links(store, OLD, NEW, dry_run=True)
    assert moved.relinked == ("notes.md",)
    assert store.read_file("notes.md") == "[[tea]]"
    assert store.exists(OLD)


PATHS = st.lists(
    st.tuples(
        st.sampled_from(["", "topics/", "topics/food/", "people/", "lore/x/"]),
        st.sampled_from(["tea", "Cup", "bo's", "a b", "ü", "tea.v2"]),
    ).map(lambda parts: f"{parts[0]}{parts[1]}.md"),
    min_size=2,
    max_size=7,
    unique_by=str.casefold,
)
WAYS = (
    "[[{stem}]]",
    "[[{bare}|x]]",
    "[[/{bare}]]",
    "[m](</{path}>)",
    "![[{stem}.md#h]]",
    "`[[{stem}]]`",
)


def led_to(text: str, rel_path: str, names: PageNames) -> list[str | None]:
    bare = unhidden_text(text)
    places = [(place.start, place.target) for place in places_in(bare, rel_path)]
    wiki = [(link.start, names.find(link.name, rel_path)) for link in wiki_links(bare)]
    return [target for _, target in sorted(places + wiki)]


@given(PATHS, st.data())
def test_every_link_leads_to_the_same_file_after_any_move(paths, data) -> None:
    *files, new = paths
    old = data.draw(st.sampled_from(files))
    assume(not any(f"{path}/".startswith(f"{other}/") for path, other in pairwise(sorted(paths))))
    to = {old: new}

    def page() -> str:
        said = []
        for path in data.draw(st.lists(st.sampled_from(files), max_size=4)):
            bare = path.removesuffix(".md")
            way = data.draw(st.sampled_from(WAYS))
            said.append(way.format(path=path, bare=bare, stem=posixpath.basename(bare)))
        return " words, ".join(said)

    was = {path: page() for path in files}
    before = PageNames(was, was)
    now_there = {to.get(path, path): text for path, text in was.items()}
    after = PageNames(now_there, now_there)
    change = LinkChanges(before, after, to)
    for path, text in was.items():
        told = change.text(text, path, to.get(path, path))
        expected = [to.get(t, t) if t else t for t in led_to(text, path, before)]
        assert led_to(told, to.get(path, path), after) == expected
        assert told.count(" words, ") == text.count(" words, ")


def test_links_and_moves_agree_on_what_is_broken(store) -> None:
    store.write_file(OLD, "# Tea\n")
    store.write_file("notes.md", "[[tea]] [[Nobody]] [x](topics/tea.md)\n")
    move_with_links(store, OLD, NEW, dry_run=False)
    found = build_graph(store)
    assert [link.target for link in found.broken] == ["Nobody"]
    assert [link.target for link in found.links] == [NEW]
