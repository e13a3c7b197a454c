"""Each way in which a small model misses the form has its rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.context.providers.content_filter import read_reply
from tests.support.cases import each


@each(
    ("text", "answer"),
    [
        ("ANSWER: She sails.", "She sails."),
        ("answer: She sails.", "She sails."),
        ("**ANSWER:** She sails.", "She sails."),
        ("**ANSWER**: She sails.", "She sails."),
        ("```\nANSWER: She sails.\n```", "She sails."),
        ("```text\nANSWER:\nShe sails.\n```", "She sails."),
        ("Let me see.\n\nANSWER: She sails.", "She sails."),
        ("ANSWER: She sails.\n\n- And paints.\n- Often.", "She sails.\n\n- And paints.\n- Often."),
        ("<think>ANSWER: no</think>\nANSWER: She sails.", "She sails."),
        ("ANSWER: She sails.\nESCALATE: more; GREP: x", "She sails."),
        ("ESCALATE: more; GREP: x\nANSWER: She sails.", "She sails."),
        ("ANSWER:\nANSWER: She sails.", "She sails."),
        ("ANSWER：She sails.", "She sails."),
    ],
)
def test_an_answer_is_found_in_any_dress(text, answer) -> None:
    reply = read_reply(text)
    assert (reply.kind, reply.text) == ("answer", answer)


@each(
    "text",
    [
        "ANSWER:",
        "ANSWER: ",
        "answer:\n\n",
        "ANSWER: (empty)",
        "ANSWER: None.",
        "ANSWER: N/A",
        "```\nANSWER:\n```",
    ],
)
def test_nothing_is_nothing(text) -> None:
    assert read_reply(text).kind == "nothing"


@each(
    ("text", "pattern"),
    [
        ("ESCALATE: who?; GREP: heron", "heron"),
        ("escalate: who?; grep: heron", "heron"),
        ("ESCALATE: who?\nGREP: heron\nThank you.", "heron"),
        ("ESCALATE: who?; GREP: `her(on|ring)`", "her(on|ring)"),
        ('ESCALATE: who? GREP: "heron"', "heron"),
        ("**ESCALATE:** who?; **GREP:** heron", "heron"),
        ("ANSWER:\nESCALATE: who?; GREP: heron", "heron"),
    ],
)
def test_a_wish_to_search_is_found_in_any_dress(text, pattern) -> None:
    reply = read_reply(text)
    assert (reply.kind, reply.pattern) == ("escalate", pattern)


@each(
    "text",
    [
        "",
        "She sails.",
        "ESCALATE: I need more.",
        "ESCALATE: more; GREP:",
        "The answer is: she sails",
    ],
)
def test_what_keeps_to_no_form_is_malformed(text) -> None:
    assert read_reply(text).kind == "malformed"


def test_a_second_wish_to_search_is_malformed() -> None:
    assert read_reply("ESCALATE: more; GREP: x", forced=True).kind == "malformed"


def test_an_answer_that_was_cut_off_ends_with_its_last_whole_sentence() -> None:
    reply = read_reply("ANSWER: She sails. She paints and", is_cut=True)
    assert (reply.text, reply.is_cut) == ("She sails.", True)


@given(st.text(max_size=300), st.booleans(), st.booleans())
def test_any_reply_means_something(text, is_cut, forced) -> None:
    reply = read_reply(text, is_cut=is_cut, forced=forced)
    assert reply.kind in {"answer", "nothing", "escalate", "malformed"}
    assert bool(reply.pattern) == (reply.kind == "escalate")
