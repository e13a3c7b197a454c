"""Links, topics and sizes; and how the checks run together."""

from __future__ import annotations

import pytest

from familiar_cli.base.errors import NotFoundError
from tests.support.cases import each


def test_a_link_to_a_file_that_moved_would_lead_there(look) -> None:
    files = {
        "people/a-1.md": 'See [tea](../topics/tea.md), [`x`](x.md "t") and `[c](gone.md)`.\n',
        "topics/drinks/tea.md": "# Tea\n",
    }
    (finding,) = look("links", files)
    assert finding.message == "links to missing files: topics/tea.md, people/x.md"
    assert finding.repair[0].after == files["people/a-1.md"].replace(
        "../topics/tea.md", "../topics/drinks/tea.md"
    )


@each(
    "text",
    [
        "[a](b.md)",
        "[a](/topics/b.md)",
        "[a](https://x.org)",
        "[a](#b)",
        "[a](../people)",
        "[a](b%20c.md)",
        "[a](www.example.org)",
        "[a](example.org/b)",
        "[^1]: See the other one",
        "[Anna]: hi there",
        "*waves* [smiles](be nice)",
    ],
)
def test_links_that_lead_somewhere(look, text) -> None:
    files = {"topics/a.md": text, "topics/b.md": "", "topics/b c.md": "", "people/x-1.md": ""}
    assert look("links", files) == ()


def test_a_mended_link_keeps_its_place_in_the_file(look) -> None:
    files = {"a.md": "[t](<t.md#end of it>)", "x/t.md": ""}
    (finding,) = look("links", files)
    assert finding.repair[0].after == "[t](<x/t.md#end of it>)"


def test_two_files_of_that_name_are_a_persons_choice(look) -> None:
    files = {"a.md": "[t](t.md)", "x/t.md": "", "y/t.md": ""}
    (finding,) = look("links", files)
    assert finding.repair == ()


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("[[old/tea#Kinds|cup]] [[Nobody]]", "[[tea#Kinds|cup]] [[Nobody]]"),
        ("![[old/tea.md]]", "![[tea.md]]"),
        ("[[old/cup]]", None),
    ],
)
def test_a_wiki_link_that_leads_nowhere_is_broken(look, text, mended) -> None:
    files = {"a.md": text, "topics/food/tea.md": "", "x/cup.md": "", "y/cup.md": ""}
    (finding,) = look("links", files)
    assert finding.message.startswith("links to missing files: old/")
    assert [plan.after for plan in finding.repair] == ([mended] if mended else [])


@pytest.mark.parametrize(
    "text",
    [
        "[[b]] [[B.md|x]] [[topics/b#h]] [[The Sea]] [[Long name]] ![[x.png]] [[#here]]",
        "`[[gone]]`\n\n```\n[[gone]] [x](gone.md)\n```\n",
        "<!-- [[gone]] [x](gone.md) --> %%[[gone]]%%",
    ],
)
def test_wiki_links_that_lead_somewhere_and_what_is_no_link(look, text) -> None:
    files = {"a.md": text, "topics/b.md": "---\naliases: [The Sea]\n---\n# Long name\n"}
    assert look("links", {**files, "files/x.png": ""}) == ()


def test_a_wiki_link_keeps_a_topic_from_being_alone_and_people_from_being_one(look) -> None:
    assert look("orphans", {"topics/a.md": "# Qx\n", "notes.md": "[[a|that]]\n"}) == ()
    people = {"people/x-1.md": "# Bo\n\nNot [[x-2]].\n", "people/x-2.md": "# Bo\n"}
    assert look("twins", people) == ()


@pytest.mark.parametrize("name", ["Garden", "The Blue Door", "庭園", "Сад"])
def test_a_topic_that_is_named_or_linked_is_no_orphan(look, name) -> None:
    files = {"topics/a.md": f"# {name}\n\nA place.\n"}
    assert [f.paths for f in look("orphans", files)] == [("topics/a.md",)]
    assert look("orphans", {"people/x-1.md": f"Loves {name} very much.\n"}) == ()


@pytest.mark.parametrize(
    "line", ["loves her green umbrellas", "an umbrella, and a Green one", "see green_umbrella"]
)
def test_a_topic_that_is_spoken_of_in_other_words_is_no_orphan(look, line) -> None:
    files = {"topics/green-umbrella.md": "# The Green Umbrella\n", "people/x-1.md": f"{line}\n"}
    assert look("orphans", files) == ()


def test_a_topic_that_links_out_is_no_orphan(look) -> None:
    files = {"topics/a.md": "# Qx\n\n[x](../people/x-1.md)\n", "people/x-1.md": "# X\n"}
    assert look("orphans", files) == ()


def test_a_grown_section_would_become_a_topic(look) -> None:
    listed = "- 1\n- 2 <!-- turns 8 -->\n- 3\n- 4\n- 5\n"
    text = f"# Notes\n\n## Boats\n\n{listed}\n## Small\n\n- x\n"
    (finding,) = look("topics", {"notes.md": text})
    topic, notes = finding.repair
    assert (topic.rel_path, topic.before) == ("topics/boats.md", None)
    assert topic.after == f"# Boats\n\n{listed}"
    link = "- [Boats](topics/boats.md) <!-- turns 8 -->"
    assert notes.after == f"# Notes\n\n## Boats\n\n{link}\n\n## Small\n\n- x\n"


def test_a_topic_in_a_subfolder_is_there_already(look) -> None:
    files = {"notes.md": "## Boats\n\n- 1\n- 2\n- 3\n- 4\n- 5\n", "topics/sea/Boats.md": ""}
    (finding,) = look("topics", files)
    assert (finding.repair, finding.hint) == (
        (),
        "topics/sea/Boats.md already exists; move what it lacks by hand.",
    )


def test_links_of_a_section_lead_where_they_led(look) -> None:
    links = "[a](people/a-1.md) [b](./b.md#c) [d](/d.md) [e](https://x.org) `[f](f.md)`"
    (finding,) = look("topics", {"notes.md": f"## Boats\n\n- {links}\n- 2\n- 3\n- 4\n- 5\n"})
    moved = links.replace("(people", "(../people").replace("./b", "../b")
    assert finding.repair[0].after == f"# Boats\n\n- {moved}\n- 2\n- 3\n- 4\n- 5\n"


@pytest.mark.parametrize("title", ["2024-05-01", "Boats"])
def test_a_diary_and_a_list_of_things_to_do_are_no_topics(look, title) -> None:
    mark = "" if title[0] == "2" else "[ ] "
    lines = "".join(f"- {mark}{n}\n" for n in range(9))
    assert look("topics", {"notes.md": f"## {title}\n\n{lines}"}) == ()


def test_a_topic_that_is_there_and_a_private_section_are_not_moved(look) -> None:
    body = "\n\n- 1\n- 2\n- 3\n- 4\n- 5\n"
    private = f"## In private: DM <!-- private dm%2D1 -->{body}"
    (finding,) = look("topics", {"notes.md": f"## Boats{body}\n{private}", "topics/boats.md": ""})
    assert (finding.repair, "Boats" in finding.message) == ((), True)


def test_a_heading_inside_code_is_no_section(look) -> None:
    body = "\n\n- 1\n- 2\n- 3\n- 4\n- 5\n"
    text = f"## Code\n\n````\n```\n## Comment{body}````\n\n## Boats{body}"
    found = look("topics", {"notes.md": text})
    moved = {f.repair[0].rel_path: f.repair[0].after for f in found}
    assert moved["topics/boats.md"] == f"# Boats{body}"
    assert set(moved) == {"topics/boats.md", "topics/code.md"}


def test_a_section_below_a_private_heading_is_not_moved(look) -> None:
    body = "\n\n- 1\n- 2\n- 3\n- 4\n- 5\n"
    private = f"# In private: DM <!-- private dm%2D1 -->\n\n## Boats{body}"
    assert look("topics", {"notes.md": private}) == ()


def test_a_long_file_is_named_before_it_is_full(look) -> None:
    files = {"a.md": "x" * 850, "b.md": "x" * 1100, "c.md": "x" * 700}
    found = look("size", files, max_file_bytes=1000)
    assert [(f.paths, f.message.split(":")[0]) for f in found] == [
        (("a.md",), "is nearly full"),
        (("b.md",), "is full"),
    ]


def test_an_unknown_check_is_guessed(look) -> None:
    with pytest.raises(NotFoundError) as caught:
        look("secret", {})
    assert caught.value.hint == "Did you mean `familiar housekeep secrets`?"


def test_many_topics_of_one_name_are_each_told_of_once(look) -> None:
    files = {f"topics/{n:04}.md": "# Tea\n" for n in range(300)}
    assert look("orphans", files) == ()
    assert len(look("orphans", {path: f"# Tea {path}\n" for path in files})) == 300
