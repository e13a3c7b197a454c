"""A pin is a line in the front matter; whatever else stands in a file stays, byte for byte."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.markdown import split_front_matter
from familiar_cli.store.memory.pages.front_matter import is_pinned, with_pin, without_pin
from tests.support.cases import each

NEWLINES = st.sampled_from(["\n", "\r\n"])
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20)
KEYS = st.sampled_from(["title", "aliases", "pinned_by", "unpinned", "x-pinned", "Pinned"])
VALUES = st.sampled_from(
    [
        "Anna",
        "[a, b]",
        '"quo: ted"',
        "2026-01-01",
        "|\n  pinned: true\n  more",
        "\n  - pinned: true",
    ]
)
FRONTS = st.lists(st.tuples(KEYS, VALUES), max_size=4, unique_by=lambda pair: pair[0])


@st.composite
def files(draw):
    newline = draw(NEWLINES)
    bom = draw(st.sampled_from(["", "\ufeff"]))
    body = newline.join(draw(st.lists(WORDS, max_size=4)))
    front = draw(FRONTS)
    lines = [line for key, value in front for line in f"{key}: {value}".split("\n")]
    lines += draw(st.sampled_from([[], ["# a comment"], [""]])) if lines else []
    head = newline.join(["---", *lines, "---", ""]) if lines else ""
    return bom + head + body


@given(files())
def test_pinning_and_unpinning_gives_the_same_bytes_back(text) -> None:
    assume(not is_pinned(text))
    pinned = with_pin(text, "notes.md")
    assert is_pinned(pinned)
    assert without_pin(pinned) == text
    assert with_pin(pinned, "notes.md") == pinned


@given(files())
def test_no_other_key_and_no_word_of_the_body_is_touched(text) -> None:
    front, body = split_front_matter(text)
    head, below = split_front_matter(with_pin(text, "notes.md"))
    assert yaml.safe_load(f"{head}\n") == {
        **(yaml.safe_load(f"{front or ''}\n") or {}),
        "pinned": True,
    }
    assert below == (body if front is not None else text.removeprefix("\ufeff"))


@given(st.text())
def test_any_text_may_be_asked_and_unpinned(text) -> None:
    once = without_pin(text)
    assert not is_pinned(once)
    assert is_pinned(text) or once == text or "pinned" in text


@given(st.text(alphabet="-pined: trua\n\r{[#\"'\ufeff"))
def test_any_text_is_pinned_or_refused_and_comes_back(text) -> None:
    assume("pinned" not in text)
    try:
        pinned = with_pin(text, "notes.md")
    except BadInputError:
        return
    assert is_pinned(pinned)
    head, _ = split_front_matter(text)
    assert without_pin(pinned) == text or (head is not None and not head.strip())


@each(
    "line",
    [
        "pinned: true",
        "pinned: True",
        "pinned: yes",
        "pinned:   on  # so that it never forgets",
        '"pinned": true',
        "'pinned' : 'true'",
    ],
)
def test_a_person_may_write_it_as_yaml_allows(line) -> None:
    assert is_pinned(f"---\ntitle: Rules\n{line}\n---\n# Rules\n")
    assert without_pin(f"---\n{line}\n---\n# Rules\n") == "# Rules\n"


@each(
    "front",
    [
        "pinned: false",
        "pinned:",
        "pinned: maybe",
        "pinned:\n  - true",
        "pinned:\n- true",
        "note:\n  pinned: true",
        "text: |\n  pinned: true",
        "unpinned: true",
        "pinned: true\npinned: false",
    ],
)
def test_anything_else_is_no_pin(front) -> None:
    assert not is_pinned(f"---\n{front}\n---\nwords\n")


def test_text_between_two_rules_is_no_front_matter_to_add_to() -> None:
    text = "---\nA quiet day.\n---\nMore.\n"
    assert with_pin(text, "notes.md") == f"---\npinned: true\n---\n{text}"


def test_a_key_that_says_no_is_replaced() -> None:
    text = "---\npinned: false\ntitle: Rules\n---\nwords\n"
    assert with_pin(text, "notes.md") == "---\ntitle: Rules\npinned: true\n---\nwords\n"


def test_keys_that_are_indented_stay_one_mapping() -> None:
    pinned = with_pin("---\n  title: Rules\n---\n", "notes.md")
    assert pinned == "---\n  title: Rules\n  pinned: true\n---\n"


@each("front", ["{title: Rules}", "[a, b]", "pinned: 3", "pinned:\n  - a"])
def test_front_matter_that_cannot_take_the_key_is_refused(front) -> None:
    with pytest.raises(BadInputError, match=r"notes\.md"):
        with_pin(f"---\n{front}\n---\nwords\n", "notes.md")
