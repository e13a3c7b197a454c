"""Where a chat program's conversation stands beside the kept one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.servers.chat_api.aligning import KeptLine, RequestLine, align_lines

WORDS = st.text("abcdefg ", min_size=1, max_size=8).filter(str.strip)
TALK = [
    "I have a boat.",
    "What is it called?",
    "It is called Alma, and it is red.",
    "A fine name for a boat.",
    "Shall we sail tomorrow?",
    "Gladly, if the wind is kind.",
]


def lines(*texts: str) -> list[RequestLine]:
    """Return a conversation that a person begins."""
    return [RequestLine("assistant" if n % 2 else "user", text) for n, text in enumerate(texts)]


def kept(*texts: str, greeting: str = "", others: dict[int, str] | None = None) -> list[KeptLine]:
    """Return the same, as it is kept; `others` are alternatives of the last turn."""
    opening = [KeptLine(1, "assistant", greeting, {}, is_greeting=True)] if greeting else []
    turns = [
        KeptLine(n + 10, "assistant" if n % 2 else "user", text, {}) for n, text in enumerate(texts)
    ]
    if others:
        last = turns[-1]
        turns[-1] = KeptLine(last.turn_id, last.role, last.text, others)
    return opening + turns


def test_what_follows_the_whole_conversation_is_said() -> None:
    found = align_lines(lines(*TALK[:5]), kept(*TALK[:4]))
    assert (found.step, found.common, found.after, found.unknown) == ("say", 4, 13, ())


def test_the_same_question_again_wants_another_reply() -> None:
    found = align_lines(lines(*TALK[:3]), kept(*TALK[:4]))
    assert (found.step, found.question, found.reply) == ("again", 12, 13)


def test_a_first_question_again_wants_another_reply() -> None:
    found = align_lines(lines(TALK[0]), kept(*TALK[:2]))
    assert (found.step, found.question, found.reply) == ("again", 10, 11)


def test_a_question_without_a_reply_is_answered() -> None:
    found = align_lines(lines(*TALK[:3]), kept(*TALK[:3]))
    assert (found.step, found.question) == ("answer", 12)


def test_an_edited_past_is_a_branch() -> None:
    edited = [*TALK[:2], "It is called Berta.", TALK[3], TALK[4]]
    found = align_lines(lines(*edited), kept(*TALK))
    assert (found.step, found.after) == ("branch", 11)
    assert found.unknown == tuple(lines(*edited)[2:4])


def test_a_new_tail_in_the_middle_is_a_branch() -> None:
    found = align_lines(lines(*TALK[:2], "Guess!"), kept(*TALK))
    assert (found.step, found.after, found.unknown) == ("branch", 11, ())


def test_another_reply_that_the_program_holds_is_chosen() -> None:
    found = align_lines(lines(*TALK[:5]), kept(*TALK[:3], "A silly name.", others={40: TALK[3]}))
    assert (found.step, found.chosen) == ("say", 40)


def test_a_last_reply_in_other_words_is_revised() -> None:
    found = align_lines(lines(*TALK[:3], "My words now.", TALK[4]), kept(*TALK[:4]))
    assert (found.step, found.revised, found.words) == ("say", 13, "My words now.")


def test_a_reply_whose_end_the_program_cut_is_the_same() -> None:
    cut = TALK[3].removesuffix(" boat.")
    found = align_lines(lines(*TALK[:3], cut, TALK[4]), kept(*TALK[:4]))
    assert (found.step, found.revised) == ("say", None)


def test_a_beginning_that_was_cut_off_is_no_edit() -> None:
    found = align_lines(
        [RequestLine("assistant", TALK[1]), *lines(*TALK[2:4]), RequestLine("user", TALK[4])],
        kept(*TALK[:4]),
    )
    assert (found.step, found.is_whole, found.after) == ("say", False, 13)


def test_a_short_line_alone_does_not_join_a_conversation() -> None:
    assert align_lines(lines("Yes.", "Good."), kept("No.", "Why?", "Yes.", "Oh.", "So.")) is None


def test_a_greeting_that_the_program_does_not_know_is_passed_over() -> None:
    found = align_lines(lines(*TALK[:3]), kept(*TALK[:2], greeting="Welcome."))
    assert (found.step, found.common) == ("say", 2)


def test_a_greeting_that_it_knows_counts() -> None:
    sent = [RequestLine("assistant", "Welcome."), RequestLine("user", "Hello.")]
    found = align_lines(sent, kept(greeting="Welcome."))
    assert (found.step, found.common) == ("say", 1)


def test_spaces_and_line_ends_make_no_difference() -> None:
    found = align_lines(lines("I  have\r\na boat. ", *TALK[1:3]), kept(*TALK[:2]))
    assert found.step == "say"


def test_another_conversation_is_not_taken_for_this_one() -> None:
    assert align_lines(lines("Tell me of the moon.", "It is far.", "How far?"), kept(*TALK)) is None


@given(st.lists(WORDS, min_size=1, max_size=8), WORDS)
def test_a_known_conversation_goes_on_at_its_end(past: list[str], said: str) -> None:
    past = past[: len(past) // 2 * 2]
    found = align_lines(lines(*past, said), kept(*past))
    assert found is not None
    assert (found.step, found.common, found.unknown) == ("say", len(past), ())


@given(st.lists(WORDS, max_size=7), st.lists(WORDS, max_size=7), WORDS)
def test_nothing_that_a_program_sends_is_lost(sent: list[str], there: list[str], said: str) -> None:
    sent = sent[: len(sent) // 2 * 2]
    found = align_lines(lines(*sent, said), kept(*there))
    if found is not None:
        held = 1 if found.revised is not None else 0
        assert found.common + len(found.unknown) + held == len(sent)


@pytest.mark.parametrize("cut", [2, 4])
def test_cutting_and_going_on_stays_in_the_conversation(cut: int) -> None:
    found = align_lines(lines(*TALK, "And then?")[cut:], kept(*TALK))
    assert (found.step, found.after) == ("say", 15)
