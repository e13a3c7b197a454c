"""The laws of the budget, and what is told of each cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.config.channel_kinds import ChannelMode
from familiar_cli.base.config.schema import BudgetSettings
from familiar_cli.base.errors import LimitError
from familiar_cli.context.budget import (
    EARLY_STEPS,
    MESSAGE_TOKENS,
    PERCENT,
    PROMPT_TOKENS,
    Budgeter,
    Window,
    prompt_allowance,
)
from familiar_cli.context.pipeline import render_messages
from familiar_cli.context.request import Refill
from familiar_cli.context.types import Contribution, ExampleLine, Fit, Fragment, Layer, PromptSpan
from familiar_cli.llm import tokens

COUNTER = tokens.heuristic()
BUDGETER = Budgeter(COUNTER)
SENTENCE = "The keeper of the lighthouse counts every ship that passes the bay. "


def piece(text="word " * 30, *, priority=50, layer=Layer.content, fit=Fit.cut, **more):
    more.setdefault("place", PromptSpan.chat if fit is Fit.run else PromptSpan.world_after)
    return Contribution(layer=layer, priority=priority, text=text, source=text[:9], fit=fit, **more)


def fill(pieces, total=10_000, **layers):
    limits = {Layer(name): tokens for name, tokens in layers.items()}
    return BUDGETER.fill(pieces, limits, total)


def tight(pieces, tokens):
    """Fill a prompt that has no room beside these tokens."""
    return BUDGETER.fill(pieces, {Layer.content: tokens}, tokens + PROMPT_TOKENS)


def kept(filled) -> list[str]:
    return [fragment.text for fragment in filled.fragments if fragment.kept]


pieces = st.lists(
    st.builds(
        piece,
        st.text("ab .。灯\n", max_size=300),
        priority=st.integers(0, 3),
        layer=st.sampled_from([Layer.content, Layer.character, Layer.recent_history]),
        fit=st.sampled_from([Fit.cut, Fit.whole, Fit.run]),
    ),
    max_size=8,
)
budgets = st.integers(10, 300)


@given(pieces, budgets, budgets)
def test_no_budget_is_ever_exceeded(offered, total, layer) -> None:
    filled = fill(offered, total, content=layer, character=layer)

    assert all(use.used_tokens <= use.budget_tokens for use in filled.layers)
    assert all(u.share_tokens <= layer for u in filled.layers if u.name in {"content", "character"})
    messages = render_messages(filled.fragments)
    cost = sum(COUNTER.count(m["content"]) + MESSAGE_TOKENS for m in messages) + PROMPT_TOKENS
    assert cost <= total


modes = st.sampled_from(list(ChannelMode))
presets = st.sampled_from(["local", "openai"])
sizes = st.lists(st.tuples(st.sampled_from(list(Layer)), st.integers(1, 700)), max_size=12)


@given(modes, presets, sizes)
def test_no_mode_s_budget_is_ever_exceeded(mode, preset, sizes) -> None:
    window = Window(100_000, 1000, is_local=preset == "local")
    given_tokens = prompt_allowance(BudgetSettings(), mode=mode, window=window)
    offered = [
        piece("word " * words, layer=layer, fit=Fit.cut, priority=words % 3)
        for layer, words in sizes
    ]

    filled = BUDGETER.fill(offered, given_tokens.layers, given_tokens.total)

    assert sum(use.used_tokens for use in filled.layers) <= given_tokens.total
    for use in filled.layers:
        assert use.used_tokens <= use.budget_tokens
        assert use.share_tokens <= given_tokens.layers[Layer(use.name)]


cuttable = st.lists(
    st.tuples(st.sampled_from(list(Layer)), st.integers(1, 400), st.integers(0, 3)), max_size=10
)


@given(cuttable, st.integers(60, 2000), st.integers(1, 40))
def test_nothing_is_cut_while_the_prompt_has_room(sizes, total, percent) -> None:
    shares = dict.fromkeys(Layer, total * percent // 100)
    offered = [piece("word " * n, layer=layer, priority=p) for layer, n, p in sizes]

    filled = BUDGETER.fill(offered, shares, total)

    missing: dict[str, int] = {}
    for f in filled.fragments:
        missing[f.layer] = missing.get(f.layer, 0) + f.offered_tokens - f.tokens
    if sum(BUDGETER.cost(one) for one in offered) + PROMPT_TOKENS <= total:
        assert not any(missing.values())
    # What is too long gets whole steps, and leaves its share to what comes and goes.
    waiting = sum(
        max(use.share_tokens - use.used_tokens, 0)
        for use in filled.layers
        if use.name in {"content", "author_note", "depth_inject"}
    )
    spare = total - filled.taken - waiting - total // 16
    assert all(not lost or lost > spare for lost in missing.values())


@given(cuttable, st.integers(60, 2000), st.integers(1, 40), st.integers(0, 900), st.booleans())
def test_what_was_searched_for_gets_free_room(sizes, total, percent, most, before_digests) -> None:
    shares = dict.fromkeys(Layer, total * percent // 100)
    sizes = [one for one in sizes if one[0] is not Layer.content]
    offered = [piece("word " * n, layer=layer, priority=p) for layer, n, p in sizes]
    rooms = []

    def repack(pieces, room):
        rooms.append(room)
        words = max(room - MESSAGE_TOKENS - 8, 0)
        return [*pieces, piece("word " * words, priority=70, fit=Fit.queue)]

    refill = Refill(repack, before_digests=before_digests)
    filled = BUDGETER.fill(offered, shares, total, most_content=most, refills=[refill])

    assert filled.taken <= total
    used = next(u.used_tokens for u in filled.layers if u.name == "content")
    assert used <= (most or total)
    guaranteed = {Layer(u.name): u.share_tokens for u in filled.layers}
    for layer in {*Layer} - {Layer.content, Layer.digest}:
        fragments = [f for f in filled.fragments if f.layer is layer]
        if sum(f.offered_tokens for f in fragments) <= guaranteed[layer]:
            assert all(f.tokens == f.offered_tokens for f in fragments)
    if rooms:
        assert used >= rooms[0] - MESSAGE_TOKENS - 24


@pytest.mark.parametrize(("found", "steps"), [(100, None), (800, 3), (1000, 0)])
def test_what_answers_a_question_takes_the_room_of_digests_by_whole_steps(found, steps) -> None:
    total, step = 1000, 1000 // 16
    offered = [piece("word " * 240, layer=Layer.digest, fit=Fit.cut)]

    def repack(pieces, room):
        text = "word " * (min(room, found) - MESSAGE_TOKENS)
        return [*pieces, piece(text, priority=70, fit=Fit.queue)]

    def digest_tokens(*, before_digests):
        refill = Refill(repack, before_digests=before_digests)
        filled = BUDGETER.fill(
            offered, {Layer.content: 50, Layer.digest: 240}, total, refills=[refill]
        )
        return next(use.used_tokens for use in filled.layers if use.name == "digest")

    whole = digest_tokens(before_digests=False)
    assert whole > 230
    most = whole if steps is None else steps * step
    assert most - step < digest_tokens(before_digests=True) <= most


@given(cuttable, st.integers(60, 2000), st.integers(1, 100))
def test_a_share_is_guaranteed_to_its_layer(sizes, total, percent) -> None:
    given_shares = dict.fromkeys(Layer, total * percent // 100)  # together more than there may be
    offered = [piece("word " * n, layer=layer, priority=p) for layer, n, p in sizes]
    told = BUDGETER.fill(offered, given_shares, total).layers
    shares = {Layer(use.name): use.share_tokens for use in told}
    wanted = {layer: sum(BUDGETER.cost(o) for o in offered if o.layer is layer) for layer in Layer}
    held = sum(min(shares[layer], wanted[layer]) for layer in Layer if layer is not Layer.digest)
    assert held <= total
    alone = {
        layer: BUDGETER.fill(
            [o for o in offered if o.layer is layer],
            {layer: shares[layer]},
            shares[layer] + PROMPT_TOKENS,
        )
        for layer in Layer
    }

    filled = BUDGETER.fill(offered, given_shares, total)

    for use in filled.layers:
        if use.name == "digest":  # it leaves room to the chat
            continue
        by_itself = sum(f.tokens for f in alone[Layer(use.name)].fragments)
        assert use.used_tokens >= by_itself - PROMPT_TOKENS


def test_room_is_kept_back_only_for_layers_that_have_something() -> None:
    total, shares = 1600, {Layer.digest: 100, Layer.author_note: 500, Layer.content: 100}
    digest = piece("word " * 4000, layer=Layer.digest, fit=Fit.cut)
    note = piece("word", layer=Layer.author_note)

    def digest_tokens(*pieces):
        filled = BUDGETER.fill(pieces, shares, total)
        return next(use.used_tokens for use in filled.layers if use.name == "digest")

    step = total // EARLY_STEPS
    assert total - digest_tokens(digest) < 2 * step
    assert step < digest_tokens(digest) - digest_tokens(digest, note) < 500 + step


def turns_of(sizes):
    run = {"layer": Layer.recent_history, "priority": 80, "fit": Fit.run}
    return [piece("word " * n, turn_id=number, **run) for number, n in enumerate(sizes, 1)]


@settings(max_examples=10)
@given(
    st.lists(st.integers(1, 400), min_size=3, max_size=3),
    st.lists(st.integers(1, 50), min_size=24, max_size=24),
    st.integers(0, 90),
)
def test_the_beginning_of_prompts_rarely_changes_while_a_conversation_grows(
    early, said, memory
) -> None:
    shares = {layer: 1280 * percent // 100 for layer, percent in PERCENT.items()}
    layers = (Layer.core, Layer.character, Layer.digest)
    begins = [
        piece("word " * n, layer=layer, priority=p)
        for n, layer, p in zip(early, layers, (100, 98, 59), strict=True)
    ]
    quoted = piece("word " * memory, layer=Layer.content, priority=70, fit=Fit.queue)
    prompts = [
        BUDGETER.fill([*begins, *turns_of(said[:n]), quoted], shares, 1280).fragments[:3]
        for n in range(1, len(said) + 1)
    ]

    beginnings = [tuple(fragment.text for fragment in prompt) for prompt in prompts]
    changes = sum(one != two for one, two in pairwise(beginnings))
    assert changes <= EARLY_STEPS + 1


def test_turns_that_are_dropped_take_nothing_from_the_share_of_memory() -> None:
    shares = {layer: 1280 * percent // 100 for layer, percent in PERCENT.items()}
    character = piece("word " * 600, layer=Layer.character, priority=98)
    core = piece("word " * 180, layer=Layer.core, priority=100)
    quoted = piece("word " * 40, layer=Layer.content, priority=70, fit=Fit.queue)
    for count in range(14, 30):
        said = turns_of([7 * n % 50 + 1 for n in range(count)])
        filled = BUDGETER.fill([core, character, *said, quoted], shares, 1280)
        assert filled.fragments[-1].text == quoted.text


@given(pieces, budgets, budgets)
def test_the_same_pieces_make_the_same_prompt(offered, total, layer) -> None:
    assert fill(offered, total, content=layer) == fill(offered, total, content=layer)


def test_a_card_larger_than_its_share_is_whole_while_half_of_the_prompt_is_free() -> None:
    card = piece(SENTENCE * 200, layer=Layer.character, priority=90)
    filled = BUDGETER.fill([card], {Layer.character: 1000, Layer.content: 300}, 6000)
    (fragment,) = filled.fragments
    assert fragment.text == card.text
    use = next(u for u in filled.layers if u.name == "character")
    assert use.budget_tokens > use.share_tokens == 1000


@given(pieces, budgets, budgets)
def test_equals_are_never_reordered(offered, total, layer) -> None:
    for one, made in zip(offered, fill(offered, total, content=layer).fragments, strict=True):
        fate = (made.tokens, made.offered_tokens, made.reason)
        assert one.text.startswith(made.text)
        assert made == Fragment.of(replace(one, text=made.text), *fate)


@given(pieces, budgets, budgets)
def test_a_higher_priority_never_loses_to_a_lower(offered, total, layer) -> None:
    filled = fill(offered, total, content=layer)
    lost = [f for f in filled.fragments if f.tokens < f.offered_tokens]

    for loser in lost:
        lower = [
            f for f in filled.fragments if f.layer == loser.layer and f.priority < loser.priority
        ]
        assert not any(f.kept for f in lower)


def test_what_would_fit_stays_out_where_something_more_important_did_not_fit() -> None:
    large = piece("word " * 200, priority=60, fit=Fit.whole)
    small = piece("a few words", priority=50, fit=Fit.whole)
    assert kept(fill([small], content=60)) == ["a few words"]
    assert kept(tight([large, small], 60)) == []


@given(pieces, st.integers(0, 2), budgets)
def test_what_is_less_important_changes_nothing_for_the_rest(offered, floor, total) -> None:
    important = [p for p in offered if p.priority > floor]
    alone = fill(important, total).fragments
    among = fill(offered, total).fragments

    assert [f for f in among if f.priority > floor] == list(alone)


@given(pieces, budgets)
def test_everything_that_is_not_whole_has_a_reason(offered, total) -> None:
    for piece_, fragment in zip(offered, fill(offered, total).fragments, strict=True):
        whole = fragment.kept and fragment.text == piece_.text
        assert bool(fragment.reason) == (not whole)


def test_the_newest_turns_are_kept_and_the_oldest_go() -> None:
    turns = [piece(f"turn {n} " + "word " * 20, fit=Fit.run) for n in range(6)]

    filled = tight(turns, 3 * BUDGETER.cost(turns[0]))

    assert [text[:6] for text in kept(filled)] == ["turn 3", "turn 4", "turn 5"]


def test_history_has_no_gap() -> None:
    turns = [piece(f"{n}", fit=Fit.run) for n in range(4)]
    turns[1] = piece("a long one " * 50, fit=Fit.run)

    filled = tight(turns, 30)

    assert kept(filled) == ["2", "3"]
    assert filled.fragments[0].reason.endswith("a newer turn did not fit")


def test_the_newest_turn_is_cut_rather_than_lost() -> None:
    filled = tight([piece("old", fit=Fit.run), piece(SENTENCE * 20, fit=Fit.run)], 60)

    (text,) = kept(filled)
    assert text.endswith("bay.")


def test_example_blocks_go_whole() -> None:
    blocks = [
        piece(
            "x",
            dialogue=(ExampleLine("user", "Hello " * n),),
            fit=Fit.whole,
            place=PromptSpan.example,
        )
        for n in (5, 500, 5)
    ]

    assert [f.kept for f in BUDGETER.fill(blocks, {Layer.content: 100}, 120).fragments] == [
        True,
        False,
        True,
    ]


def test_examples_go_before_turns_of_the_chat() -> None:
    example = piece(
        "x",
        priority=60,
        dialogue=(ExampleLine("user", "word " * 40),),
        fit=Fit.whole,
        place=PromptSpan.example,
    )
    turns = [piece("word " * 40, priority=80, fit=Fit.run) for _ in range(4)]

    filled = fill([example, *turns], total=230)

    assert [f.kept for f in filled.fragments] == [False, True, True, True, True]


def test_a_cut_says_how_much_and_why() -> None:
    (fragment,) = tight([piece(SENTENCE * 20)], 60).fragments

    assert fragment.kept
    assert fragment.reason == (
        f"cut from {fragment.offered_tokens} to {fragment.tokens} tokens: layer content holds 60"
    )


def test_a_drop_says_why() -> None:
    (fragment,) = fill([piece("word " * 90, fit=Fit.whole)], total=50).fragments

    assert fragment.reason == (f"left out ({fragment.offered_tokens} tokens): the prompt holds 50")


def test_a_problem_is_told_and_costs_nothing() -> None:
    (fragment,) = fill([piece("", problem="it is not UTF-8")]).fragments

    assert (fragment.kept, fragment.tokens, fragment.reason) == (False, 0, "it is not UTF-8")


def test_what_is_required_widens_its_layer() -> None:
    said = piece("word " * 40, fit=Fit.required, layer=Layer.recent_history)

    filled = fill([said], recent_history=10)

    use = next(u for u in filled.layers if u.name == "recent_history")
    assert kept(filled) == [said.text]
    assert use.used_tokens == use.budget_tokens > 10


def test_what_is_required_and_does_not_fit_at_all_is_refused() -> None:
    with pytest.raises(LimitError, match="the whole prompt may have only 100"):
        fill([piece("word " * 400, fit=Fit.required)], total=100)


def test_cjk_was_counted_as_a_quarter_of_its_tokens() -> None:
    (fragment,) = fill([piece("灯台守は通る船をすべて数えて名前を書きとめる。" * 10)]).fragments

    assert fragment.tokens > 150
