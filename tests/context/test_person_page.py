"""Of a long file about a person the summary, the names and the newest lines are shown first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.context.providers.people import GAP, divide_person
from familiar_cli.llm import tokens

COUNT = tokens.heuristic().count
HEAD = "# Robin\n\nA friend from the night train.\n\n## Aliases\n\n- Rob\n- Bobby\n"


def page(*lines: str, title: str = "Facts") -> str:
    return f"{HEAD}\n## {title}\n\n" + "".join(f"- {line}\n" for line in lines)


def test_a_short_file_is_whole_and_has_no_rest() -> None:
    text = page("Keeps bees. <!-- turns 1-2 -->")
    made = divide_person(text, 500, 800, COUNT)
    assert made.first.endswith("## Facts\n\n- Keeps bees.")
    assert made.rest == ""


def test_the_newest_lines_are_shown_and_not_the_oldest() -> None:
    lines = [f"Fact {n} is written down here. <!-- turns {n} -->" for n in range(1, 200)]
    first = divide_person(page(*lines), 120, 200, COUNT).first
    assert first.startswith("# Robin\n\nA friend")
    assert "- Bobby" in first
    assert "Fact 199 " in first
    assert "Fact 1 " not in first


def test_the_turns_tell_what_is_newest_not_the_place() -> None:
    lines = [f"Fact {n} stands here. <!-- turns {n} -->" for n in range(100, 0, -1)]
    assert "Fact 100 " in divide_person(page(*lines), 100, 150, COUNT).first


def test_where_lines_are_left_out_a_mark_stands() -> None:
    new, old = "New. <!-- turns 900 -->", f"{'Old and long. ' * 30}<!-- turns 1 -->"
    text = page(new, *[old] * 9, "Newest. <!-- turns 901 -->")
    assert f"- New.\n{GAP}\n- Newest." in divide_person(text, 60, 60, COUNT).first


def test_the_rest_holds_what_the_first_part_does_not() -> None:
    lines = [f"Fact {n} stands here. <!-- turns {n} -->" for n in range(1, 40)]
    made = divide_person(page(*lines), 100, 250, COUNT)
    first, rest = (set(part.splitlines()) for part in (made.first, made.rest))
    assert not first & rest - {GAP, "## Facts"}
    assert rest


@given(st.text(alphabet="ab# -\n日本。", max_size=600), st.integers(20, 120))
def test_both_parts_keep_to_their_tokens(text, room) -> None:
    made = divide_person(text, room, 2 * room, COUNT)
    slack = 2 + made.first.count("\n") + made.rest.count("\n") * 3
    assert COUNT(made.first) <= room + slack + COUNT("## heading") * text.count("#")


def test_what_rests_on_turns_that_are_not_held_here_counts_as_old() -> None:
    lines = [f"Fact {n} is written down here. <!-- turns {n} -->" for n in range(1, 100)]
    lines.insert(50, "Their server says so. <!-- turns server-1:900 -->")
    assert "server" not in divide_person(page(*lines), 120, 200, COUNT).first


def test_what_fits_the_question_is_the_first_of_the_rest_and_the_beginning_stays() -> None:
    lines = [f"Fact {n} is written down here. <!-- turns {n} -->" for n in range(3, 200)]
    text = page("Plays the cello on Sundays. <!-- turns 1 -->", *lines)
    asked = divide_person(text, 120, 160, COUNT, query="Who plays the cello?")
    other = divide_person(text, 120, 160, COUNT, query="What do you know?")
    assert "cello" in asked.rest
    assert "cello" not in other.rest
    assert asked.first == other.first


def test_what_lasts_and_what_is_cited_often_come_before_what_is_new() -> None:
    lines = [f"Fact {n} is written down here. <!-- turns {n} -->" for n in range(20, 200)]
    text = page("Has a sister, Maren. <!-- turns 1-4 -->", *lines)
    text += "\n## Play\n\n" + "".join(
        f"- In play: {n} <!-- turns {300 + n} -->\n" for n in range(9)
    )
    first = divide_person(text, 120, 200, COUNT).first
    assert "Maren" in first
    assert "Fact 199 " in first
    assert "In play" not in first


def test_the_last_likes_come_before_other_lines_and_do_not_fill_the_part() -> None:
    lines = [f"Fact {n} is written down here. <!-- turns {n} -->" for n in range(50, 200)]
    likes = "".join(f"- Taste {n} is a dislike. <!-- turns {n} -->\n" for n in range(40))
    for heading in ("Likes", "Vorlieben"):
        first = divide_person(f"{page(*lines)}\n## {heading}\n\n{likes}", 400, 600, COUNT).first
        assert "Taste 39 " in first
        assert "Taste 27 " not in first
        assert "Fact 199 " in first


def test_marks_wishes_are_in_the_first_part_however_short_that_is() -> None:
    lines = [f"Fact {n} is written down here. <!-- turns {n} -->" for n in range(1, 200)]
    wish = "Always answer in German. <!-- turns 1 -->"
    text = page(*lines).replace("night train.", "night train. " + "A long summary goes on. " * 40)
    for heading in ("Standing wishes", "Wünsche", "Standing wishes <!-- private @cli-robin -->"):
        made = divide_person(f"{text}\n## {heading}\n\n- {wish}\n", 120, 200, COUNT)
        assert "- Always answer in German." in made.first
        assert COUNT(made.first) <= 125


def test_more_wishes_than_there_is_room_for_leave_the_name() -> None:
    wishes = "".join(f"- Never mention subject {n} again.\n" for n in range(200))
    made = divide_person(f"{page()}\n## Standing wishes\n\n{wishes}", 120, 200, COUNT)
    assert made.first.startswith("# Robin")
    assert "subject 1 " in made.first
    assert COUNT(made.first) <= 125


def test_lines_that_ended_are_shown_where_the_question_is_about_the_past() -> None:
    old = "Lives in Oslo. (until March 2026) <!-- turns 1 --> <!-- ended 2026-03-14 -->"
    for lines in (3, 200):
        text = page(old, *(f"Fact {n} stands here. <!-- turns {n} -->" for n in range(2, lines)))
        now = divide_person(text, 150, 200, COUNT, query="Where do I live?")
        before = divide_person(text, 150, 200, COUNT, query="Where did I live before?")
        assert "Oslo" not in now.first + now.rest
        assert "Oslo" not in before.first
        assert "- Lives in Oslo. (until March 2026)" in before.rest
