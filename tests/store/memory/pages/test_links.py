"""Links between memory files, both ways, by Markdown and by name."""

from __future__ import annotations

import time

import pytest

from familiar_cli.base.errors import NotFoundError
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.store.memory.pages.links import link_targets, title_of, unhidden_text, wiki_links
from familiar_cli.store.memory.pages.relations import build_graph
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cases import each


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory")


@each(
    ("link", "target"),
    [
        ("[a](b.md)", "people/b.md"),
        ("[a](./b.md)", "people/b.md"),
        ("[a](../topics/b.md#part)", "topics/b.md"),
        ("[a](/topics/b.md)", "topics/b.md"),
        ('[a](b.md "title")', "people/b.md"),
        ("[a](<b c.md>)", "people/b c.md"),
        ("[a](b%20c.md)", "people/b c.md"),
        ("[a]: ../notes.md", "notes.md"),
        ("![a](b.png)", "people/b.png"),
    ],
)
def test_a_link_is_taken_from_where_its_file_is(link, target) -> None:
    assert link_targets(link, "people/x.md") == [target]


@each(
    "link",
    [
        "[a](https://example.org)",
        "[a](mailto:a@example.org)",
        "[a](#part)",
        "[a](../../etc/passwd)",
        "[a](x.md)",
        "`[a](b.md)`",
        "```\n[a](b.md)\n```\n",
        "[a]()",
        "[a](b\\c.md)",
    ],
)
def test_what_leaves_the_memory_is_no_link(link) -> None:
    assert link_targets(link, "people/x.md") == []


@each(
    "text",
    [
        "*waves* [smiles](be nice)",
        "[^1]: See the other one",
        "[Anna]: hi there",
        "```\n[a](b.md)\n```",
        "`[a](b.md)`",
    ],
)
def test_talk_footnotes_and_code_hold_no_links(text) -> None:
    assert link_targets(text, "people/a.md") == []


@each("text", ["[a](", "[a](<b ", "`", "```\n", "# #", "# a" + " " * 9, "["])
def test_no_text_takes_long(text) -> None:
    long = text * (50_000 // len(text)) + "x"
    started = time.thread_time()  # not of the other programs on the machine
    link_targets(long, "a.md")
    title_of(long, "a.md")
    assert time.thread_time() - started < 4  # what takes a square of its length takes longer


@each(("text", "title"), [("# A #\n", "A"), ("# A\r\n", "A"), ("A\n==\n", "A"), ("x\n", "b")])
def test_a_title_is_the_first_heading_else_the_name(text, title) -> None:
    assert title_of(text, "a/b.md") == title


def test_each_target_comes_once_in_order() -> None:
    assert link_targets("[a](b.md) [c](d.md) [e](b.md)", "x.md") == ["b.md", "d.md"]


def test_links_are_followed_in_both_directions_as_far_as_wanted(store) -> None:
    store.write_file("people/alice.md", "# Alice\n\n[trip](../sessions/one.md)\n")
    store.write_file("sessions/one.md", "# One\n\nsee [two](two.md)\n")
    store.write_file("sessions/two.md", "# Two\n")
    found = build_graph(store)
    assert [(s.rel_path, s.distance) for s in found.around("sessions/one.md")] == [
        ("people/alice.md", 1),
        ("sessions/two.md", 1),
    ]
    assert [s.rel_path for s in found.around("sessions/two.md", 2)] == [
        "sessions/one.md",
        "people/alice.md",
    ]


def test_people_and_topics_that_are_named_are_linked(store) -> None:
    store.write_file("people/discord-1.md", "# Alice Liddell\n")
    store.write_file("topics/jp.md", "# 日本語\n")
    store.write_file("sessions/one.md", "I met Alice Liddell. 彼女は日本語を話す。\n")
    store.write_file("sessions/two.md", "Alice and Liddell; alice liddell\n")
    found = build_graph(store)
    assert [(k.source, k.target, k.kind) for k in found.links] == [
        ("sessions/one.md", "people/discord-1.md", "mention"),
        ("sessions/one.md", "topics/jp.md", "mention"),
    ]


def test_a_name_that_is_a_common_word_counts_only_as_written(store) -> None:
    store.write_file("people/may.md", "# May\n")
    store.write_file("a.md", "it may rain\n")
    store.write_file("b.md", "then May came\n")
    assert [k.source for k in build_graph(store).links] == ["b.md"]


def test_links_that_lead_nowhere_are_told_apart(store) -> None:
    store.write_file("a.md", "[gone](gone.md)\n")
    found = build_graph(store)
    assert found.links == ()
    assert [k.target for k in found.broken] == ["gone.md"]


def test_a_file_that_is_not_there_has_no_surroundings(store) -> None:
    store.write_file("a.md", "x")
    with pytest.raises(NotFoundError):
        build_graph(store).around("b.md")


def test_a_file_that_cannot_be_read_is_named(store) -> None:
    store.write_file("a.md", b"\xff\xfe")
    assert [s.rel_path for s in build_graph(store).skipped] == ["a.md"]


@pytest.mark.parametrize("name", ["Note {}", "港の覚え書き{}番"])
def test_many_names_that_begin_alike_are_found_in_good_time(store, name) -> None:
    (store.root / "topics").mkdir(parents=True)
    for number in range(300):
        page = f"# {name.format(number)}\n\n" + "Note 港 " * 500
        (store.root / "topics" / f"t{number}.md").write_text(page, encoding="utf-8")
    store.write_file("notes.md", f"See {name.format(7)}, and no other.")
    begun = stopwatch_s()
    (step,) = build_graph(store).around("notes.md", 1)
    assert (step.rel_path, step.link.kind) == ("topics/t7.md", "mention")
    assert stopwatch_s() - begun < 5  # a tenth of it; a comparison with every name takes more


@each(
    ("text", "names"),
    [
        ("[[Anna]]", ["Anna"]),
        ("![[Anna|her]] and [[ Bees#Hives | the hives ]]", ["Anna", "Bees"]),
        ("`[[Anna]]`\n```\n[[Bo]]\n```\n", []),
        ("[[]] [[#part]] [[a\nb]] [Anna]", []),
    ],
)
def test_wiki_links_name_a_page(text, names) -> None:
    assert [link.name for link in wiki_links(unhidden_text(text))] == names


@pytest.mark.parametrize(
    "link", ["[[bees]]", "[[Bees.md]]", "[[topics/garden/bees|x]]", "[[The swarm]]", "[[Beehives]]"]
)
def test_a_wiki_link_leads_to_a_path_a_file_name_an_alias_or_a_title(store, link) -> None:
    store.write_file(
        "topics/garden/bees.md", "---\naliases:\n  - The swarm\n---\n# Beehives\n\nThey hum.\n"
    )
    store.write_file("notes.md", f"See {link}.\n")
    found = [(one.source, one.target) for one in build_graph(store).links if one.kind == "link"]
    assert found == [("notes.md", "topics/garden/bees.md")]
    assert build_graph(store).broken == ()


def test_a_wiki_link_that_leads_nowhere_is_broken(store) -> None:
    store.write_file("notes.md", "See [[Nobody]] and [[Nobody|him]].\n")
    assert [(one.source, one.target) for one in build_graph(store).broken] == [
        ("notes.md", "Nobody")
    ]


def test_the_path_comes_before_a_file_name_and_that_before_an_alias(store) -> None:
    store.write_file("bees.md", "Root.\n")
    store.write_file("topics/bees.md", "Topic.\n")
    store.write_file("topics/ants.md", "---\naliases: [bees]\n---\n")
    store.write_file("notes.md", "[[bees]] [[topics/bees]]\n")
    found = {one.target for one in build_graph(store).links if one.source == "notes.md"}
    assert found >= {"bees.md", "topics/bees.md"}
    assert not any(
        one.kind == "link" and one.target == "topics/ants.md" for one in build_graph(store).links
    )


def test_an_alias_in_front_matter_is_a_name_that_text_mentions(store) -> None:
    store.write_file("people/discord-42.md", "---\naliases: [Annie]\n---\n# Anna\n")
    store.write_file("notes.md", "Annie called.\n")
    found = [(one.target, one.kind) for one in build_graph(store).links if one.source == "notes.md"]
    assert found == [("people/discord-42.md", "mention")]
