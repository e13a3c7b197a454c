"""The names in a person's file are read, and changed without touching another byte."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import harmless
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.store.memory.aliases import (
    aliases_of,
    check_alias,
    names_of,
    with_alias,
    without_alias,
)
from familiar_cli.store.memory.mentions import key_of
from tests.support.cases import each

PAGE = """\
# Anna Larsson (the baker)

Bakes. ## Aliases is no heading here.

## Aliases

- Bee
* **Annie** (old)
1. `a-b (x)`
- [Zoë](../people/x.md) — her sister's word
Foo, Bar、バズ

### From the harbour

- Captain

## Likes

- tea
"""


def test_the_h1_and_the_list_are_names() -> None:
    assert names_of(PAGE) == (
        "Anna Larsson (the baker)",
        "Anna Larsson",
        "Bee",
        "Annie",
        "a-b (x)",
        "Zoë",
        "Foo",
        "Bar",
        "バズ",
        "Captain",
    )


def test_no_name_stands_twice() -> None:
    assert names_of("# Anna\n## Aliases\n- anna\n- ANNA\n- Bee\n") == ("Anna", "Bee")


@each(
    "page",
    [
        "",
        "no heading\n- a\n",
        "```\n# Anna\n## Aliases\n- Bee\n```\n",
        "## Aliases\n",
        "### Aliases\n- Bee\n",
        "## Likes\n- tea\n",
        "#Anna\n",
    ],
)
def test_there_may_be_no_name(page) -> None:
    assert names_of(page) == ()


@each("title", ["## aliases", "## Aliases:", "## **Aliases**", "  ## Aliases ##"])
def test_the_section_is_known_by_its_title(title) -> None:
    assert aliases_of(f"{title}\n- Bee\n") == ("Bee",)


def test_a_paragraph_below_the_list_names_nobody() -> None:
    page = "# Anna\n\n## Aliases\n\n- Bee\n  (at school)\n- Annie\n\nOnly her aunt, Eve, says so.\n"
    assert names_of(page) == ("Anna", "Bee", "Annie")
    assert with_alias(page, "Ann") == page.replace("- Annie\n", "- Annie\n- Ann\n")
    assert without_alias(page, "Eve") == page


def test_names_without_a_list_are_parted_by_commas() -> None:
    assert aliases_of("## Aliases\n\nBee, Annie\n\nAnn\n") == ("Bee", "Annie", "Ann")


def test_code_and_what_is_private_name_nobody() -> None:
    private = "### In private: DM <!-- private dm -->\n- Eve\n"
    assert aliases_of(f"## Aliases\n- Bee\n```\n- Code\n```\n{private}") == ("Bee",)
    assert aliases_of("# A <!-- private dm -->\n## Aliases\n- Eve\n") == ()


def test_an_alias_joins_the_end_of_the_list() -> None:
    assert with_alias(PAGE, "Ann") == PAGE.replace("- Captain\n", "- Captain\n- Ann\n")


@each(
    ("before", "after"),
    [
        ("", "## Aliases\n\n- Bee\n"),
        ("# A", "# A\n\n## Aliases\n\n- Bee\n"),
        ("# A\n\n", "# A\n\n## Aliases\n\n- Bee\n"),
        ("# A\r\n", "# A\r\n\r\n## Aliases\r\n\r\n- Bee\r\n"),
        ("## Aliases\n## B\n", "## Aliases\n\n- Bee\n## B\n"),
        ("## Aliases\n- a", "## Aliases\n- a\n- Bee\n"),
    ],
)
def test_the_section_is_made_where_it_is_missing(before, after) -> None:
    assert with_alias(before, "Bee") == after


def test_an_alias_that_is_there_changes_nothing() -> None:
    assert with_alias(PAGE, "bee") == PAGE


def test_only_its_line_goes() -> None:
    assert without_alias(PAGE, "zoë") == PAGE.replace(
        "- [Zoë](../people/x.md) — her sister's word\n", ""
    )


def test_a_line_with_several_names_is_for_a_person_to_change() -> None:
    with pytest.raises(UsageError, match="'Foo, Bar、バズ'"):
        without_alias(PAGE, "Bar")


@each("name", ["", " ", "...", "x" * 81, "a b c d e f g h i"])
def test_what_can_be_no_name_is_refused(name) -> None:
    with pytest.raises(UsageError, match="cannot be a name"):
        with_alias(PAGE, name)


def can_be_a_name(text) -> bool:
    return bool(key_of(" ".join(harmless(text).split())))


names = st.text(st.characters(codec="utf-8"), max_size=20).filter(can_be_a_name)
pages = st.lists(
    st.sampled_from(["# A", "## Aliases", "- Bee", "", "text", "## B", "```", "a, b"]), max_size=8
).map("\n".join)


@given(pages, names)
@example("", '"`0')
def test_a_name_that_was_added_is_read_and_can_go_again(page, name) -> None:
    page = "" if "```" in page else page
    with_it = with_alias(page, name)
    known = {key_of(alias) for alias in aliases_of(with_it)}
    assert key_of(check_alias(name)) in known
    if with_it != page:
        assert [line for line in page.split("\n") if line] == [
            line
            for line in without_alias(with_it, name).split("\n")
            if line and not (line == "## Aliases" and "## Aliases" not in page)
        ]


@pytest.mark.parametrize("text", ["# a" + " " * 200_000 + "x", "## Aliases\n- a" + " " * 200_000])
def test_no_line_takes_long(text) -> None:
    started = stopwatch_s()
    names_of(text + "(\n")
    assert stopwatch_s() - started < 20  # what took a square of its length took minutes
