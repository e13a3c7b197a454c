"""What a reply is joined with when it goes on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.context.replies import GoingOn, PartialReply
from tests.support.cases import each


@each(
    ("begun", "said", "added"),
    [
        ("It began", "to rain.", " to rain."),
        ("It began", ", and", ", and"),
        ("It began ", "to rain.", "to rain."),
        ("It began", "\n\nThen it stopped.", "\n\nThen it stopped."),
        ("雨が", "降り始めた。", "降り始めた。"),
        ("雨。", "Then", "Then"),
        ("It was a dark night", "It was a dark night and cold.", " and cold."),
        ("No.", "No. Never.", " No. Never."),
    ],
)
def test_parts_are_joined_as_they_are_written(begun, said, added) -> None:
    assert PartialReply(begun).added(said) == added


def test_a_model_that_knows_where_it_is_may_finish_a_word() -> None:
    assert PartialReply("It was sto", prefill=True, exact=True).added("rmy.") == "rmy."
    assert PartialReply("It was", prefill=True, exact=True).added(" stormy.") == " stormy."


@given(st.text(max_size=30), st.lists(st.text(max_size=8), max_size=8), st.booleans())
def test_pieces_come_to_what_is_added_to_the_whole(begun, pieces, exact) -> None:
    reply = PartialReply(begun, exact, exact)
    heard: list[str] = []
    listener = GoingOn(reply, heard.append)
    for piece in ([begun] if len(pieces) % 2 else []) + pieces:
        listener(piece)
    said = "".join(([begun] if len(pieces) % 2 else []) + pieces)
    added = reply.added(said)
    assert added.startswith("".join(heard))
    assert not added[len("".join(heard)) :].strip() or reply.may_repeat(said)
