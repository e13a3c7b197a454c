from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.llm.thinking import ThinkingFilter, split_thinking
from tests.support.cases import each

PARTS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<thought>",
        "</thought>",
        ".",
        "<thi",
        "nk>",
        "[THINK]",
        "[/THINK]",
        "`",
        "```\n",
        "\n",
        "a ",
        "<",
        "é",
    ]
)


@given(st.lists(PARTS, max_size=14), st.data())
def test_it_does_not_matter_how_a_reply_is_cut_into_pieces(parts, data) -> None:
    text = "".join(parts)
    cut = data.draw(st.integers(0, len(text)))
    streamed, at_once = ThinkingFilter(), ThinkingFilter()
    for piece in (text[:cut], text[cut:]):
        streamed(piece)
    at_once(text)
    for one in (streamed, at_once):
        one.close()
    assert (streamed.text, streamed.thinking) == (at_once.text, at_once.thinking)


@each(
    "text",
    [
        "The tag `<think>` opens it, and `</think>` ends it.",
        "```\n<think>\n</think>\n```",
        "I think <b>so</b>; a<think b.",
        "They call it <think> and never end it.",
        'He wrote "</think>" on the wall. She laughed.',
        "*types </think> and leans back* Well?",
        "The last tag is </think>",
        "She smiles. <thought>He is kind.</thought> Tea?",
        "She smiles.\n<reason>He is kind.\n</reason>\nTea?",
    ],
)
def test_what_only_looks_like_reasoning_is_text(text) -> None:
    assert split_thinking(text) == (text, "")


@each(
    ("text", "said", "thought"),
    [
        ("<think>a</think>b", "b", "a"),
        ("a</think>b", "b", "a"),
        ("<think>a</think>b<think>c</think>d", "bd", "a\nc"),
        ("<think>a", "", "a"),
        ("<think>a <reasoning>b</reasoning> c</think>d", "d", "a <reasoning>b</reasoning> c"),
        ("<think>a <reasoning> <think> b</think>c", "c", "a <reasoning> <think> b"),
        ("  <think></think> b", "b", ""),
        ("<thought>a</thought>b", "b", "a"),
        ("A. </think> B", "B", "A."),
        ('He says "yes"</think>b', "b", 'He says "yes"'),
        ("a\n</think>\n</think>\nb", "b", "a"),
        ("<think>a</think>b </think> c", "b </think> c", "a"),
    ],
)
def test_reasoning_is_split_off(text, said, thought) -> None:
    assert split_thinking(text) == (said, thought)


@each("text", ["a</think>b", "<think>a</think>b", "x <think>a</think>b"])
def test_a_model_known_to_begin_with_reasoning_may_mark_its_beginning(text) -> None:
    thinking_filter = ThinkingFilter(begins_inside=True)
    thinking_filter(text)
    thinking_filter.close()
    assert thinking_filter.text == "b"
