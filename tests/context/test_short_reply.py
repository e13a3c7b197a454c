"""What is shown of a small model's reply: whole sentences, none of which is taken back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.context.replies import ShortReply, ShortReplyFilter

STYLE = ShortReply("Yuzu", ("Robin",))
PIECES = st.lists(
    st.sampled_from(
        [
            *("Hello", " there", ".", " ", "\n", "Yuzu", "Robin", ":", "!", "...", "---", "#", "*"),
            *("Dr", "User", '"', ")", " I am here", "。", "忘れ物", "\n\n", "? ", "_", "10:30"),
        ]
    ),
    max_size=30,
)


def shown(reply: str, *, is_cut: bool = False, style: ShortReply = STYLE) -> str:
    return style.shown(reply, is_cut=is_cut)[0]


def test_it_ends_at_a_rule() -> None:
    assert shown("A green one? Yes.\n--- Sentence Structure\nIt is") == "A green one? Yes."


def test_it_ends_at_a_heading_and_at_the_second_paragraph() -> None:
    assert shown("Good evening.\n# Dialogue\nmore") == "Good evening."
    assert shown("Good evening.\n\nThe next morning it rained.") == "Good evening."


def test_it_ends_where_somebody_else_is_to_speak() -> None:
    assert shown("It is here. Robin: Thank you! Yuzu: Sure.") == "It is here."
    assert shown("It is here.\nUser: Thank you!") == "It is here."


def test_a_name_within_a_sentence_is_no_label() -> None:
    assert shown("I told Robin that it is 10:30.") == "I told Robin that it is 10:30."


def test_its_own_label_is_left_out() -> None:
    assert shown("Yuzu: Good evening.") == "Good evening."
    assert shown("**Yuzu**: Good evening.") == "Good evening."
    assert shown("Yuzu remembers: Good evening.") == "Good evening."


def test_a_rule_or_a_heading_before_the_words_is_left_out() -> None:
    assert shown("---\n\n# Reply\nGood evening.") == "Good evening."


def test_a_reply_that_is_nothing_but_a_label_is_shown_all_the_same() -> None:
    assert shown("Robin: How are you?") == "Robin: How are you?"


def test_after_a_long_sentence_there_is_no_second_one() -> None:
    assert shown("No worries. I have it here on shelf four.") == (
        "No worries. I have it here on shelf four."
    )
    assert shown("I have it here on shelf four. I am a wizard.") == "I have it here on shelf four."


def test_what_was_said_is_not_said_again() -> None:
    style = ShortReply("Yuzu", sentences=5)
    assert shown("No. No. No. I am.", style=style) == "No."


def test_half_a_sentence_at_the_token_limit_is_left_out() -> None:
    assert STYLE.shown("It waits. And the", is_cut=True) == ("It waits.", False)
    assert STYLE.shown("It waits and the", is_cut=True) == ("It waits and the", True)
    assert STYLE.shown("Good night", is_cut=False) == ("Good night", False)


def test_a_limit_of_ones_own_gives_the_whole_first_paragraph() -> None:
    style = ShortReply("Yuzu", max_tokens=None, sentences=0)
    said = "It waits on shelf four, between gloves. Then it is lent. Then it comes back."
    assert shown(f"{said}\n\nMore.", style=style) == said


def test_a_sentence_is_passed_on_as_soon_as_it_is_sure() -> None:
    passed: list[str] = []
    listener = ShortReplyFilter(STYLE, passed.append)
    for word in ["It", "waits.", "And", "tomorrow", "we", "shall", "see", "more"]:
        listener(f"{word} ")
    assert passed == ["It waits."]
    listener.close("It waits. And tomorrow we shall see more of it.")
    assert "".join(passed) == "It waits. And tomorrow we shall see more of it."


@given(PIECES, st.booleans(), st.integers(0, 3))
def test_nothing_that_was_shown_is_taken_back(pieces, is_cut, sentences) -> None:
    style = ShortReply("Yuzu", ("Robin", "St. Ann! B"), sentences=sentences)
    passed: list[str] = []
    listener = ShortReplyFilter(style, passed.append)
    for piece in pieces:
        listener(piece)
    whole = shown("".join(pieces), is_cut=is_cut, style=style)
    assert whole.startswith("".join(passed))
    listener.close(whole)
    assert "".join(passed) == whole


@given(st.text(max_size=80).filter(lambda text: any(c.isalnum() for c in text)))
def test_a_reply_with_words_is_never_lost(reply) -> None:
    assert shown(reply)


def test_the_server_is_told_where_to_stop() -> None:
    extra = STYLE.asked["extra"]
    assert {"\n\n", "\n---", "\n#", "\nRobin:", "\nYuzu:"} <= set(extra["stop"])
    assert ShortReply("Yuzu", sampling={}).asked["extra"] is None
