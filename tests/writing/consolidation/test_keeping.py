"""What a person did to a file stays when the file is made again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.writing.consolidation.engine import hand_in, made_again
from familiar_cli.writing.consolidation.pages import blocks

words = st.sampled_from([f"word{n}" for n in range(12)])
machine = st.lists(words, max_size=8, unique=True).map(
    lambda found: "# Title\n\n" + "".join(f"- {word}\n" for word in found)
)
theirs = st.lists(st.integers(0, 999).map("- mine {}\n".format), max_size=4, unique=True)


def marks(text):
    return [block.mark for block in blocks(text)[0]]


def lines(text):
    return [line for line in text.splitlines() if line.strip()]


def edited(text, added, removed, places):
    kept = [b.gap + b.text for n, b in enumerate(blocks(text)[0]) if n not in removed]
    for line, place in zip(added, places, strict=False):
        kept.insert(min(place, len(kept)), line)
    return "".join(kept)


@given(st.text(alphabet="# -*\n`ab \t1.", max_size=80))
def test_blocks_joined_are_the_text(text) -> None:
    found, tail = blocks(text)
    assert "".join(b.gap + b.text for b in found) + tail == text


@given(machine, machine)
def test_without_a_persons_edits_the_new_text_is_written_as_it_is(old, new) -> None:
    assert made_again(new, hand_in(old, marks(old))) == (new, tuple(marks(new)))


@given(
    machine, machine, theirs, st.sets(st.integers(1, 8)), st.lists(st.integers(0, 9), min_size=4)
)
def test_what_a_person_added_stays_and_what_they_removed_stays_away(
    old, new, added, removed, places
) -> None:
    gone = {b.text for n, b in enumerate(blocks(old)[0]) if n in removed}
    hand = hand_in(edited(old, added, removed, places), marks(old))
    text, _ = made_again(new, hand)
    assert all(line.strip() in lines(text) for line in added)
    assert not any(line.strip() in lines(text) for line in gone)
    wanted = [line for line in lines(new) if line + "\n" not in gone]
    assert [line for line in lines(text) if line + "\n" not in added] == wanted


@given(
    machine, machine, theirs, st.sets(st.integers(1, 8)), st.lists(st.integers(0, 9), min_size=4)
)
def test_making_it_a_second_time_changes_nothing(old, new, added, removed, places) -> None:
    hand = hand_in(edited(old, added, removed, places), marks(old))
    once, known = made_again(new, hand)
    assert made_again(new, hand_in(once, known)) == (once, known)


def test_a_changed_bullet_stays_as_the_person_changed_it() -> None:
    old = "# Day\n\n- Anna keeps bees\n- Bob sings\n"
    text, _ = made_again(old + "- Cleo paints\n", hand_in(old.replace("bees", "wasps"), marks(old)))
    assert text == "# Day\n\n- Anna keeps wasps\n- Bob sings\n- Cleo paints\n"


def test_a_section_that_a_person_wrote_stays_whole_when_everything_else_is_new() -> None:
    old = "# Week\n\nOld words.\n\n- old\n"
    by_hand = old + "\n## My notes\n\n- mine\n  goes on\n\n```\ncode\n\nmore\n```\n"
    text, _ = made_again("# Week\n\nNew words.\n\n- new\n", hand_in(by_hand, marks(old)))
    assert text == "# Week\n\nNew words.\n\n- new\n" + by_hand.removeprefix(old)


def test_a_file_that_was_all_made_by_hand_is_kept_and_added_to() -> None:
    text, _ = made_again("# Day\n\n- new\n", hand_in("# Day\n\n- mine\n", ()))
    assert lines(text) == ["# Day", "- mine", "- new"]


IMPORTED = "## 2026-03-14\n\nShips.\n\n## 2026-03-15\n\nThe kora.\n"


def test_what_was_there_before_stands_below_the_title_and_its_sections_go_on() -> None:
    made = "# Latest\n\n## 2026-03-14\n\nTwo ships.\n\n## 2026-03-16\n\nBread.\n"
    text, known = made_again(made, hand_in(IMPORTED, ()))
    assert text == (
        "# Latest\n\n## 2026-03-14\n\nShips.\n\nTwo ships.\n\n"
        "## 2026-03-15\n\nThe kora.\n\n## 2026-03-16\n\nBread.\n"
    )
    assert made_again(made, hand_in(text, known)) == (text, known)


def test_a_section_that_was_there_before_in_the_same_words_is_not_said_twice() -> None:
    made = "# Latest\n\n## 2026-03-15\n\nThe kora.\n\n## 2026-03-16\n\nBread.\n"
    text, known = made_again(made, hand_in(IMPORTED, ()))
    assert text == f"# Latest\n\n{IMPORTED}\n## 2026-03-16\n\nBread.\n"
    assert made_again(made, hand_in(text, known)) == (text, known)


def test_what_a_person_wrote_into_a_section_keeps_its_heading_when_the_section_goes() -> None:
    old = "# Latest\n\n## Monday\n\n- tea\n\n## Tuesday\n\n- rain\n"
    by_hand = old.replace("- tea\n", "- tea\n- mine\n")
    new = "# Latest\n\n## Tuesday\n\n- rain\n\n## Wednesday\n\n- sun\n"
    text, known = made_again(new, hand_in(by_hand, marks(old)))
    assert text == new.replace("# Latest\n", "# Latest\n\n## Monday\n\n- mine\n", 1)
    assert made_again(new, hand_in(text, known)) == (text, known)


def test_a_title_of_a_persons_own_stays_the_first_line() -> None:
    text, _ = made_again("# Latest\n\n- new\n", hand_in("# Mine\n\n- old\n", ()))
    assert lines(text) == ["# Mine", "- old", "# Latest", "- new"]


days = st.integers(1, 6).map("## Day {}".format)
sections = st.lists(
    st.tuples(days, st.lists(words, min_size=1, max_size=3, unique=True)),
    max_size=5,
    unique_by=lambda s: s[0],
)


def page(title, found):
    return title + "".join(
        f"\n{day}\n\n" + "".join(f"- {word} on{day[6:]}\n" for word in said)
        for day, said in sorted(found)
    )


@given(sections, st.lists(sections, min_size=1, max_size=3))
def test_law_what_was_there_before_is_never_lost_however_often_it_is_made(there, made) -> None:
    text, known = page("", there), ()
    for found in made:
        text, known = made_again(page("# Latest\n", found), hand_in(text, known))
        again, _ = made_again(page("# Latest\n", found), hand_in(text, known))
        held = lines(text)
        assert lines(again) == held
        assert all(line in held for line in lines(page("# Latest\n", found)) if line[0] == "-")
    by_program = {line for found in made for line in lines(page("", found))}
    assert set(lines(page("", there))) - by_program <= set(held)
