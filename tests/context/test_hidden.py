"""What is marked as hidden reaches nobody, however it is cut into pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.context.replies import CLOSE, OPEN, ReplyFilter, mark_note, without_hidden
from tests.support.cases import each


def through(*pieces) -> str:
    shown: list[str] = []
    reply_filter = ReplyFilter(shown.append)
    for piece in pieces:
        reply_filter(piece)
    reply_filter.close()
    return "".join(shown)


@each(
    ("reply", "shown"),
    [
        ("Hello.", "Hello."),
        (f"{OPEN}secret{CLOSE}\n\nHello.", "Hello."),
        (f"Hello. {OPEN}\nsecret", "Hello."),
        ("<Hidden_Note>secret</ HIDDEN_NOTE >Hello.", "Hello."),
        ("<hidden note>secret</hidden-note> Hello.", "Hello."),
        (f"Hello.{CLOSE}", "Hello."),
        (f"a {OPEN}x{CLOSE} b {OPEN}y{CLOSE} c", "a b c"),
        ("1 < 2 and <b>bold</b>", "1 < 2 and <b>bold</b>"),
        ("<", "<"),
    ],
)
def test_only_what_is_marked_goes(reply, shown) -> None:
    assert without_hidden(reply) == shown


@each("size", [1, 2, 3, 7, 50])
def test_pieces_of_any_size_hide_it_all(size) -> None:
    reply = f"Well. {OPEN}\nthey lie\n{CLOSE}\nHello, 1 < 2 <3"
    pieces = [reply[n : n + size] for n in range(0, len(reply), size)]
    assert through(*pieces) == "Well. Hello, 1 < 2 <3"


@given(st.lists(st.sampled_from(["<", ">", "/", "hidden", "_note", OPEN, CLOSE, "s", " ", "\n"])))
def test_the_pieces_show_what_the_whole_shows(pieces) -> None:
    assert through(*pieces).strip() == without_hidden("".join(pieces)).strip()


@given(st.text(max_size=60))
def test_a_note_cannot_end_itself(note) -> None:
    assert without_hidden(f"a{mark_note(note + CLOSE + note)}b") == "ab"


@given(st.text(max_size=60))
def test_a_reply_without_marks_stays_as_it_is(reply) -> None:
    assert without_hidden(reply) == reply
    assert through(reply) == reply


def test_what_cannot_be_a_mark_is_not_held_back() -> None:
    shown: list[str] = []
    reply_filter = ReplyFilter(shown.append)
    reply_filter("a <b and so on")
    assert shown == ["a <b and so on"]
