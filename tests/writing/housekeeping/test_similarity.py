"""Files that say the same, and people who may be one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.writing.housekeeping.duplicates import Sketches, words_of
from tests.support.cases import each

ENGLISH = " ".join(f"word{n} and then thing{n * 7}" for n in range(40))
JAPANESE = (
    "昨日は雨でした。庭の梅が咲いて、祖母は縁側でお茶を飲みながら昔の船の話をしてくれました。" * 2
)


def groups_alike(texts, least):
    """Return the groups of texts, given by their words, that are alike."""
    sketches = Sketches(least)
    for name, words in texts.items():
        sketches.add(name, words)
    return list(sketches.groups())


@pytest.mark.parametrize("text", [ENGLISH, JAPANESE])
def test_the_same_words_are_found_whatever_the_marks(look, text) -> None:
    (finding,) = look(
        "duplicates", {"topics/a.md": f"# T\n\n{text}\n", "topics/b.md": f"* T\n- **{text}**\n"}
    )
    assert finding.paths == ("topics/a.md", "topics/b.md")
    assert "have the same text" in finding.message


@pytest.mark.parametrize(("text", "more"), [(ENGLISH, " one more"), (JAPANESE, "終わり。")])
def test_nearly_the_same_is_found(look, text, more) -> None:
    (finding,) = look("duplicates", {"topics/a.md": text, "topics/b.md": text + more})
    assert "nearly the same" in finding.message


def test_different_texts_and_short_ones_are_not_alike(look) -> None:
    other = " ".join(f"other{n} but so" for n in range(40))
    assert look("duplicates", {"topics/a.md": ENGLISH, "topics/b.md": other}) == ()
    assert (
        look("duplicates", {"topics/a.md": "# A\n\nTea.\n", "topics/b.md": "# A\n\nTea.\n"}) == ()
    )


def test_what_says_again_on_purpose_is_no_duplicate(look) -> None:
    assert (
        look("duplicates", {"daily/2026-01-01_a.md": ENGLISH, "daily/2026-01-01_b.md": ENGLISH})
        == ()
    )


def test_a_line_said_twice_in_a_list_would_be_taken_out_once(look) -> None:
    text = "# A\n\n- Keeps three bees in a box\n- Sings\n- keeps three bees, in a box.\n"
    (finding,) = look("duplicates", {"people/a-1.md": text})
    assert finding.repair[0].after == "# A\n\n- Keeps three bees in a box\n- Sings\n"
    assert [quote.line for quote in finding.evidence] == [3, 5]


@each(
    "text",
    [
        "- Keeps three bees in a box\n\n# B\n- Keeps three bees in a box\n",
        "- Keeps three bees in a box\n- Keeps three bees in a box\n  but only two in winter\n",
        "- Tea\n- Tea\n",
        "```\n- Keeps three bees in a box\n- Keeps three bees in a box\n```\n",
        "- Monday\n  - Keeps three bees in a box\n- Friday\n  - Keeps three bees in a box\n",
        "- Keeps three bees in a box\n\nIn winter:\n\n- Keeps three bees in a box\n",
        "1. Stir the pot until it boils\n2. Rest\n3. Stir the pot until it boils\n",
        "- Saw her in the garden (2024-01-05)\n- Saw her in the garden (2025-02-06)\n",
        "- How was the film on Friday: 👍\n- How was the film on Friday: 👎\n",
        "- Keeps three bees in a box.\n- Keeps three bees in a box?\n",
        "- Keeps three bees in a box\n- Keeps three bees in a box\n\n  but only two in winter\n",
    ],
)
def test_what_is_not_said_twice(look, text) -> None:
    assert look("duplicates", {"people/a-1.md": text}) == ()


def test_the_turns_of_a_line_said_twice_are_kept(look) -> None:
    once, again = "- Keeps three bees in a box", "- keeps three bees, in a box"
    text = f"{once} <!-- turns 3 -->\r\n{again} <!-- turns 8, 9 -->\r\n"
    (finding,) = look("duplicates", {"people/a-1.md": text})
    assert finding.repair[0].after == "- Keeps three bees in a box <!-- turns 3, 8-9 -->\r\n"


def test_the_evidence_is_a_line_that_all_of_them_say(look) -> None:
    files = {f"topics/{n}.md": f"# {n}\n\nfirst {n}\n\n{ENGLISH}\n" for n in "ab"}
    (finding,) = look("duplicates", files)
    assert [(quote.line, quote.text) for quote in finding.evidence] == [(5, ENGLISH[:400])] * 2


@given(st.lists(st.sampled_from("abcdefghij"), min_size=40, max_size=80))
def test_law_a_text_is_like_itself(listed) -> None:
    words = [f"{w}{n}" for n, w in enumerate(listed)]
    ((names, share),) = groups_alike({"a": words, "b": list(words)}, 0.8)
    assert (names, share) == (["a", "b"], 1.0)


@given(st.sets(st.integers(0, 39), max_size=3))
def test_law_few_changes_are_still_found(places) -> None:
    words = [f"w{n}" for n in range(200)]
    changed = [f"x{n}" if n in {p * 5 for p in places} else w for n, w in enumerate(words)]
    assert [sorted(names) for names, _ in groups_alike({"a": words, "b": changed}, 0.8)] == [
        ["a", "b"]
    ]


def test_many_copies_are_one_group() -> None:
    texts = {f"{n}": words_of(ENGLISH + f" end{n}") for n in range(300)}
    ((names, _),) = groups_alike(texts, 0.8)
    assert len(names) == 300


@pytest.mark.parametrize("name", ["Anna Bell", "Zoë", "田中さくら", "Аня Белова"])
def test_two_people_of_one_name_are_named(look, name) -> None:
    files = {
        "people/discord-1.md": f"# {name}\n",
        "people/telegram-2.md": f"# Bo\n\n## Aliases\n\n- {name}\n",
    }
    (finding,) = look("twins", files)
    assert finding.paths == ("people/discord-1.md", "people/telegram-2.md")
    assert [quote.line for quote in finding.evidence] == [1, 5]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("# Anna\n", "# Bo\n"),
        ("# Anna\n\nnot [the other](telegram-2.md)\n", "# Anna\n"),
        ("# Anna\n", "# Anna\n\nis [this one](discord-1.md)\n"),
    ],
)
def test_other_names_and_linked_files_are_two(look, one, other) -> None:
    assert look("twins", {"people/discord-1.md": one, "people/telegram-2.md": other}) == ()


def test_a_name_that_many_share_says_nothing(look) -> None:
    assert look("twins", {f"people/discord-{n}.md": "# Kim\n" for n in range(6)}) == ()
