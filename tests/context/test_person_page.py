"""Of a long file about a person the summary, the names and the newest lines are shown first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli import tokens
from familiar_cli.context.providers.people import GAP, divide_person

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
