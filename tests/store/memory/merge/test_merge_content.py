"""Two versions of a page are one page: layer by layer, and byte by byte where nothing was done."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.memory.merge import blocks
from familiar_cli.store.memory.merge.blocks import LongLists
from familiar_cli.store.memory.merge.content import MergedContent, merge_content
from tests.support.cases import each


def merged(base: str, ours: str, theirs: str, settle: str = "ours") -> str:
    made = both(base, ours, theirs, settle)
    assert not made.clashes
    return made.content.decode()


def both(base: str, ours: str, theirs: str, settle: str = "ours") -> MergedContent:
    return merge_content("a.md", base.encode(), ours.encode(), theirs.encode(), settle)  # type: ignore[arg-type]


def test_both_sides_append_to_one_list() -> None:
    base = "# Anna\n\n- x\n\n## Later\n"

    assert merged(
        base, "# Anna\n\n- x\n- a\n- a2\n\n## Later\n", "# Anna\n\n- x\n- b\n\n## Later\n"
    ) == ("# Anna\n\n- x\n- a\n- a2\n- b\n\n## Later\n")


def test_both_sides_begin_a_list() -> None:
    assert merged("# A\n", "# A\n\n- a\n", "# A\n\n- b\n") == "# A\n\n- a\n- b\n"


def test_both_sides_make_a_file() -> None:
    assert merged("", "# A\n\n- a\n- c\n", "# A\n\n- b\n- c\n") == "# A\n\n- a\n- b\n- c\n"


def test_a_page_that_both_made_has_one_title() -> None:
    made = both("", "# Tea\n\n- a\n", "# Green tea\n\n- b\n")

    assert made == MergedContent(b"# Tea\n\n- a\n- b\n", ("heading",))


def test_a_deletion_is_honoured() -> None:
    assert merged("- a\n- b\n- c\n", "- a\n- c\n", "- a\n- b\n- c\n- d\n") == "- a\n- c\n- d\n"


def test_a_deletion_against_a_change_keeps_the_change() -> None:
    made = both("- a\n- likes tea\n", "- a\n", "- a\n- likes green tea\n- z\n")

    assert made.content == b"- a\n- likes green tea\n- z\n"
    assert (made.clashes, made.kept) == ((), 1)


def test_one_item_changed_in_two_ways_is_a_conflict() -> None:
    base, ours, theirs = "- a\n- likes tea\n", "- a\n- likes milk\n", "- a\n- likes coffee\n- z\n"

    assert both(base, ours, theirs) == MergedContent(b"- a\n- likes milk\n- z\n", ("list item",))
    assert both(base, ours, theirs, "theirs").content == b"- a\n- likes coffee\n- z\n"
    assert both(base, ours, theirs, "both").content == b"- a\n- likes milk\n- likes coffee\n- z\n"


def test_an_item_put_in_the_place_of_one_that_the_other_side_replaced_too_is_a_conflict() -> None:
    made = both("- Lives in Rome\n", "- Moved to Oslo\n", "- Has a house by the sea\n")

    assert made.clashes == ("list item",)


def test_the_same_item_with_other_evidence_rests_on_both() -> None:
    base = "- a <!-- turns 1 -->\n- b\n"

    ours = "- a <!-- turns 1-2 -->\n- b\n- n <!-- turns 7 -->\n"
    theirs = "- a <!-- turns 1, 9 -->\n- b\n- N <!-- turns 8 -->\n"

    assert merged(base, ours, theirs) == (
        "- a <!-- turns 1-2, 9 -->\n- b\n- n <!-- turns 7-8 -->\n"
    )


def test_evidence_keeps_the_machine_whose_turns_it_means() -> None:
    base = "- a <!-- turns 1 -->\n"

    assert (
        merged(base, "- a <!-- turns 1; desk-9c2d:3 -->\n", "- a <!-- turns 1-2 -->\n")
        == "- a <!-- turns 1-2; desk-9c2d:3 -->\n"
    )


def test_evidence_that_one_side_took_out_is_gone() -> None:
    assert (
        merged("- a <!-- turns 1-3 -->\n", "- a <!-- turns 1, 3 -->\n", "- a <!-- turns 1-4 -->\n")
        == "- a <!-- turns 1, 3-4 -->\n"
    )


def test_an_item_changed_here_keeps_the_evidence_added_there() -> None:
    assert (
        merged("- a <!-- turns 1 -->\n", "- a b <!-- turns 1 -->\n", "- a <!-- turns 1, 5 -->\n")
        == "- a b <!-- turns 1, 5 -->\n"
    )


def test_an_item_changed_in_two_ways_while_the_list_grows_on_both_sides() -> None:
    made = both("- green\n", "- green, not black\n- here\n", "- green with mint\n- there\n")

    assert made == MergedContent(b"- green, not black\n- here\n- there\n", ("list item",))


def test_a_box_ticked_here_and_words_changed_there() -> None:
    assert merged("- [ ] call\n", "- [x] call\n", "- [ ] call Anna\n") == "- [x] call Anna\n"


def test_sub_items_and_paragraphs_stay_with_their_item() -> None:
    base = "- a\n  - x\n\n  text\n- b\n"

    assert merged(
        base, "- a\n  - x\n  - y\n\n  text\n- b\n", "- a\n  - x\n\n  text\n- b\n- c\n"
    ) == ("- a\n  - x\n  - y\n\n  text\n- b\n- c\n")


def test_an_item_that_was_moved_here_and_lists_that_grew_there() -> None:
    assert merged("- a\n- b\n- c\n", "- c\n- a\n- b\n", "- a\n- b\n- c\n- d\n") == (
        "- c\n- d\n- a\n- b\n"
    )


def test_sections_of_both_sides_are_kept_at_any_depth() -> None:
    base = "# T\n\n## A\n- a\n\n### deep\ntext\n"

    assert merged(
        base, f"{base}\n### 深い\n- o\n", base.replace("- a\n", "- a\n- t\n") + "\n## B\n"
    ) == ("# T\n\n## A\n- a\n- t\n\n### deep\ntext\n\n### 深い\n- o\n\n## B\n")


def test_headings_that_are_repeated_are_told_apart() -> None:
    base = "## A\n- a\n\n## A\n- b\n"

    assert merged(base, "## A\n- a\n- x\n\n## A\n- b\n", "## A\n- a\n\n## A\n- b\n- y\n") == (
        "## A\n- a\n- x\n\n## A\n- b\n- y\n"
    )


def test_a_heading_renamed_here_holds_what_was_added_there() -> None:
    base = "# T\n\n## Work\n- a\n- b\n"

    assert merged(base, "# T\n\n## Her work\n- a\n- b\n", f"{base}- c\n") == (
        "# T\n\n## Her work\n- a\n- b\n- c\n"
    )


def test_what_was_added_to_a_section_deleted_elsewhere_is_kept() -> None:
    base = "# T\n\n## A\n- a\n\n## B\n- b\n"

    assert merged(base, "# T\n\n## B\n- b\n", base.replace("- a\n", "- a\n- new\n")) == (
        "# T\n\n## A\n- new\n\n## B\n- b\n"
    )


def test_lines_of_a_paragraph_are_merged_last() -> None:
    base = "one\ntwo\nthree\nfour\n"

    assert merged(base, "ONE more\ntwo\nthree\nfour\n", "one\ntwo\nthree\nfour and five\n") == (
        "ONE more\ntwo\nthree\nfour and five\n"
    )
    assert both(base, "one\ntwo a\nthree\nfour\n", "one\ntwo b\nthree\nfour\n").clashes == ("text",)


def test_paragraphs_that_both_added_are_kept_apart() -> None:
    assert merged("P\n", "P\n\nours\n", "P\n\ntheirs\n") == "P\n\nours\n\ntheirs\n"


def test_front_matter_is_merged_by_key() -> None:
    base = "---\ntitle: A\nrole: b\n---\n# T\n"

    assert merged(
        base,
        "---\ntitle: A\nrole: c\nnew: 1\n---\n# T\n",
        "---\ntitle: Z\nrole: b\n---\n# T\n- x\n",
    ) == "---\ntitle: Z\nrole: c\nnew: 1\n---\n# T\n- x\n"  # fmt: skip
    clash = both(base, base.replace("A", "x"), base.replace("A", "y"))
    assert clash.clashes == ("key 'title'",)


@each(
    ("base", "ours", "theirs", "expected"),
    [
        ("[a]", "[a, b]", "[c, a]", "[c, a, b]"),
        ("[a, b]", "[a]", "[a, b, c]", "[a, c]"),
        ("\n  - a", "\n  - a\n  - b", "\n  - a\n  - c", "\n  - a\n  - b\n  - c"),
    ],
)
def test_lists_in_front_matter_are_merged_by_item(
    base: str, ours: str, theirs: str, expected: str
) -> None:
    page = "---\naliases: {}\n---\n# T\n".replace("{}", "%s").replace(": %s", ":%s")
    base, ours, theirs, expected = (
        page % (text if text.startswith("\n") else f" {text}")
        for text in (base, ours, theirs, expected)
    )

    assert merged(base, ours, theirs) == expected


def test_front_matter_that_both_sides_added() -> None:
    assert merged("# T\n", "---\na: 1\n---\n# T\n", "---\nb: 2\n---\n# T\n") == (
        "---\na: 1\nb: 2\n---\n# T\n"
    )


def test_line_ends_and_the_last_one_are_things_of_their_own() -> None:
    assert merged("- a\n- b\n", "- a\r\n- b\r\n", "- a\n- b\n- c") == "- a\r\n- b\r\n- c"


def test_code_is_never_split() -> None:
    base = "```\n- a\n```\n\n- x\n"

    assert merged(base, f"{base}- y\n", base.replace("- a", "- a\n- b")) == (
        "```\n- a\n- b\n```\n\n- x\n- y\n"
    )


def test_code_that_nothing_closes_swallows_nothing() -> None:
    made = both("- a\n", "- a\n\n```\ncode\n", "- a\n- b\n")

    assert made.clashes == () or made.content == b"- a\n\n```\ncode\n"
    assert b"```\ncode\n- b" not in made.content


def test_comments_are_kept_whole() -> None:
    base = "<!-- one\n- not an item\n-->\n\n- x\n"

    assert merged(base, f"{base}- y\n", base.replace("one", "two")) == (
        "<!-- two\n- not an item\n-->\n\n- x\n- y\n"
    )


PUBLIC = "# T\n\n## Notes\n- a\n- secret\n"
PRIVATE = "# T\n\n## Notes <!-- private dm -->\n- a\n- secret\n"


def test_what_one_side_made_private_stays_private() -> None:
    made = both(PUBLIC, PRIVATE, f"{PUBLIC}- b\n")

    assert made == MergedContent(f"{PRIVATE}- b\n".encode())


def test_what_is_added_to_a_private_section_that_was_published_stays_private() -> None:
    text = merged(PRIVATE, PUBLIC, f"{PRIVATE}- hidden\n")

    assert text.index("private dm") < text.index("hidden")
    assert "## Notes\n- a\n- secret\n" in text


def test_private_and_public_sections_of_one_title_are_two() -> None:
    base = "# T\n"

    text = merged(base, "# T\n\n## N\n- p\n", "# T\n\n## N <!-- private dm -->\n- s\n")

    assert text == "# T\n\n## N\n- p\n\n## N <!-- private dm -->\n- s\n"


def test_a_page_that_is_nested_a_thousand_deep_is_a_conflict_as_a_whole() -> None:
    deep = "".join(f"{' ' * n}- {n}\n" for n in range(1500))

    assert both(deep, f"{deep}- a\n", deep.replace("- 1499", "- x")).content


def test_a_long_list_that_both_wrote_anew_takes_no_time() -> None:
    base, ours, theirs = (
        "".join(f"- {word} {n * 7919 % 3001} said {n}\n" for n in range(1200))
        for word in ("abc", "xyz", "pqr")
    )
    began = time.process_time()

    both(base, ours, theirs)

    assert time.process_time() - began < 20


def test_what_is_no_markdown_is_the_same_or_a_conflict() -> None:
    assert merge_content("a.json", b"1", b"2", b"3") == MergedContent(b"2", ("file",))
    assert merge_content("a.json", b"1", b"1", b"3") == MergedContent(b"3")
    assert merge_content("a.md", b"a\n", b"\xff\n", b"b\n") == MergedContent(b"\xff\n", ("file",))


def list_of(count: int) -> list[str]:
    return [f"- fact {n} <!-- turns {n} -->" for n in range(count)]


def page(items: list[str]) -> str:
    return "---\nrole: friend\n---\n# Anna\n\n" + "\n".join(items) + "\n"


def test_only_what_is_near_a_change_of_a_long_list_is_taken_apart() -> None:
    base = list_of(20_000)
    ours, theirs = [*base[:50], *base[51:]], [*base, "- later"]
    ours[9_000] += " and more"
    theirs[19_000] = "- nothing"
    lists = LongLists([page(base), page(ours), page(theirs)])
    assert all(text.count("\n") < 100 for text in lists.texts)
    expected = [*ours, "- later"]
    expected[18_999] = "- nothing"
    assert merged(page(base), page(ours), page(theirs)) == page(expected)


ITEM = st.sampled_from(["change", "remove", "insert", "text", "blank", "below", "heading"])


@st.composite
def versions(draw) -> list[str]:
    """Draw a list and two edits of it; no line stands there twice."""
    base = list_of(draw(st.integers(20, 60)))
    sides = [base, list(base), list(base)]
    for side, what, where in draw(
        st.lists(st.tuples(st.integers(0, 2), ITEM, st.integers(0, 99)), max_size=12)
    ):
        lines = sides[side]
        at, new = where % len(lines), f"{side} {where} {len(lines)}"
        if what == "change":
            lines[at] += f" {new}"
        elif what == "remove" and len(lines) > 1:
            del lines[at]
        else:
            inserted = {"text": f"\nText {new}\n", "blank": "", "below": f"  - {new}"}
            inserted["heading"] = f"\n## {new}\n"
            lines.insert(at, inserted.get(what, f"- {new}"))
    return [page(lines) for lines in sides]


@given(versions())
def test_a_long_list_is_merged_as_a_short_one(texts) -> None:
    short = both(*texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_FROM_LINES", 1)
        patch.setattr(blocks, "_SHORTEST", 1)
        patch.setattr(blocks, "_WINDOW", 4)
        assert both(*texts) == short


@pytest.mark.parametrize(
    ("ours", "theirs", "values"),
    [
        ("role: boss\n", "role: best\n", ["boss", "best"]),
        ("role: [a, b]\n", "role: best\n", ["a", "b", "best"]),
        ("role: 'x, y'\n", "role:\n  - z\n", ["'x, y'", "z"]),
    ],
)
def test_both_values_of_a_key_are_kept_as_a_list_when_asked(ours, theirs, values) -> None:
    base, mine, other = (f"---\n{key}---\n# T\n".encode() for key in ("role: x\n", ours, theirs))
    made = merge_content("a.md", base, mine, other, "both")
    listed = "".join(f"  - {value}\n" for value in values)
    assert made.content.decode() == f"---\nrole:\n{listed}---\n# T\n"


ITEMS = st.lists(
    st.tuples(st.sampled_from(["- ", "* ", "1. ", "- [ ] "]), st.sampled_from(["", "  ", "    "])),
    min_size=1,
    max_size=4,
)


@given(ITEMS, st.booleans(), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_no_paragraph_below_an_item_is_doubled_by_edits_of_both(
    items, is_apart, here, there
) -> None:
    gap = "\n" if is_apart else ""
    words = [f"{mark}item {n}\n{gap}{indent}below {n}\n" for n, (mark, indent) in enumerate(items)]
    lines = "".join(words).splitlines(keepends=True)

    def edited(which: set[int], word: str) -> str:
        places = {at for at, line in enumerate(lines) if line.strip()}
        chosen = {sorted(places)[at % len(places)] for at in which}
        return "".join(
            line.replace("\n", f" {word}\n") if at in chosen else line
            for at, line in enumerate(lines)
        )

    made = both("".join(lines), edited(here, "one"), edited(there, "two")).content.decode()
    for n in range(len(items)):
        assert (made.count(f"item {n}"), made.count(f"below {n}")) == (1, 1)


def test_a_paragraph_that_one_side_moved_below_a_new_item_is_there_once() -> None:
    base = "- a\n\n  p\n  q\n"

    assert merged(base, "- a\n\n  p more\n  q\n", "- a\n- new\n\n  p\n  q\n") == (
        "- a\n- new\n\n  p more\n  q\n"
    )
