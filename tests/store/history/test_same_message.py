"""Laws of which message is meant."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.same_message import (
    account_of,
    compare_ids,
    identity_of,
    is_same_message,
    is_same_text,
    kept_words,
    may_be_one_person,
    normal_words,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
ids = st.text("ab1", max_size=2)
words = st.text("ab ‹<\n", max_size=8)
authors = st.none() | st.builds(Author, st.sampled_from(["discord", "chat"]), st.sampled_from("xy"))
turns = st.builds(
    lambda author, role, content: Turn(0, "c", author, role, content, AT, "text", "cli", False),
    authors,
    st.sampled_from(["user", "assistant"]),
    words,
)


@given(ids, ids)
def test_law_ids_decide_where_both_messages_have_one(one, other) -> None:
    found = compare_ids(one, lambda: other)
    assert found == ((one == other) if one and other else None)


def test_the_other_id_is_not_read_if_there_is_none_to_compare() -> None:
    def fail() -> str:
        raise AssertionError

    assert compare_ids("", fail) is None


@given(turns)
def test_law_a_message_is_the_same_as_itself(turn) -> None:
    assert is_same_message(turn, turn)


@given(turns, turns)
def test_law_it_does_not_matter_which_is_asked(one, other) -> None:
    assert is_same_message(one, other) == is_same_message(other, one)


@given(turns, turns)
def test_law_other_words_or_another_role_are_another_message(one, other) -> None:
    differ = one.role != other.role or normal_words(one.content) != normal_words(other.content)
    assert not (differ and is_same_message(one, other))


@given(turns)
def test_law_two_accounts_of_one_platform_are_two_people(turn) -> None:
    anna = replace(turn, author=Author("discord", "anna"))
    bo = replace(turn, author=Author("discord", "bo"))
    assert not is_same_message(anna, bo)


@given(turns, turns)
def test_law_accounts_of_two_platforms_may_be_one_person(one, other) -> None:
    here, there = account_of(one), account_of(other)
    assert may_be_one_person(here, there) or (here[0] == there[0] and here[1] != there[1])


@given(words, st.sampled_from(["user", "assistant"]))
def test_law_white_space_and_quoted_tags_do_not_count(text, role) -> None:
    said = normal_words(f"  {text}\n".replace("<", "‹"))
    assert is_same_text(said, normal_words(text), role)


@given(st.text("ab", min_size=1, max_size=20), st.integers(0, 20))
def test_law_only_a_reply_may_be_cut_and_by_half_at_most(text, length) -> None:
    cut = text[:length]
    assert is_same_text(cut, text, "user") == (cut == text)
    assert is_same_text(cut, text, "assistant") == (2 * len(cut) >= len(text))


@given(words)
def test_law_what_is_kept_is_kept_as_it_is(text) -> None:
    once = kept_words(text)
    assert kept_words(once) == once


@given(st.text(max_size=4), st.text(max_size=4), st.binary(max_size=4), st.binary(max_size=4))
def test_law_a_line_has_one_identity_in_each_channel(channel, other, one, two) -> None:
    same = identity_of(channel, one) == identity_of(other, two)
    assert same == ((channel, one) == (other, two)) or "\0" in channel + other
