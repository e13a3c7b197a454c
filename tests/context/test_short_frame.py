"""A small model gets a short prompt; the trace tells what was left out."""

from __future__ import annotations

import asyncio

from familiar_cli.context.character import Macros
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.processors import (
    LEFT_OUT,
    MEMORY_TOKENS,
    ShortFramePreProcessor,
    plain_sentences,
)
from familiar_cli.context.trace import make_trace
from familiar_cli.context.types import Contribution, ExampleLine, Layer, PromptSpan
from familiar_cli.llm import tokens
from tests.context.support import request

COUNTER = tokens.heuristic()
LONG = "Yuzu runs the Lost Property Office (忘れ物取扱所) at Kazahaya. " + "She has a stove. " * 40


def frame(**more) -> ShortFramePreProcessor:
    macros = Macros(char="Yuzu", user="Robin", seed="", pick_seed="")
    return ShortFramePreProcessor("Yuzu", lambda _: macros, COUNTER, **more)


def made(*pieces: Contribution, **more) -> list[Contribution]:
    return asyncio.run(frame(**more).process(request(), pieces))


def kept(*pieces: Contribution, **more) -> list[str]:
    return [p.text for p in made(*pieces, **more) if not p.remark]


def of(source: str, text: str, layer=Layer.character, place=PromptSpan.description, **more):
    return Contribution(layer, 50, text, source, place, **more)


def memory(text: str, score: float = 1.0, layer=Layer.content) -> Contribution:
    return of("content_search.rag", text, layer, PromptSpan.depth, score=score, rel_path="a.md")


def turn(text: str, role="user", source="history.cli", turn_id=1) -> Contribution:
    return of(source, text, Layer.recent_history, PromptSpan.chat, role=role, turn_id=turn_id)


def test_the_instruction_is_short_and_the_card_s_own_is_left_out() -> None:
    card = of("character.system_prompt", "Write in the style of a stage play.", Layer.core)
    short, own = made(card)
    assert short.text.startswith("You are Yuzu, talking with Robin.")
    assert (short.source, own.remark) == ("short_frame", LEFT_OUT)


def test_an_instruction_that_a_person_set_stays_and_stands_alone() -> None:
    own = of("config.system_prompt", "Answer in French.", Layer.core)
    assert kept(own, own_instruction=True) == ["Answer in French."]


def test_of_the_character_its_first_sentences_stay() -> None:
    (about,) = made(of("character.description", LONG))
    assert about.text.startswith(
        "You are Yuzu, talking with Robin. Yuzu runs the Lost Property Office at Kazahaya. She has"
    )
    assert about.text.endswith("a stove. Reply in one or two short sentences.")
    assert COUNTER.count(about.text) <= 80
    assert about.shortened
    assert about.cause


def test_examples_and_instructions_after_the_chat_are_left_out() -> None:
    example = of("character.mes_example", "…", dialogue=(ExampleLine("user", "Hi"),))
    post = of("character.post_history_instructions", "Stay Yuzu.", Layer.core)
    block = of("system", "--- System ---\nDate", Layer.core, PromptSpan.depth)
    pieces = made(example, post, block)[1:]
    assert all(piece.remark == LEFT_OUT and not piece.dialogue for piece in pieces)


def test_what_a_person_set_in_the_settings_stays() -> None:
    note = of("settings.author_note", "Be brief.", Layer.author_note, PromptSpan.depth)
    assert "Be brief." in kept(note)


def test_memory_becomes_plain_sentences_the_best_first() -> None:
    weak = memory("[From memory: Rain]\n# Rain\n\n- It rains a lot", 0.5)
    best = memory("[From memory: 2026]\n- Robin lost a scarf.\n- It was red", 0.9)
    assert kept(weak, best)[1:] == [
        "It rains a lot.",
        "Yuzu remembers: Robin lost a scarf. It was red.",
    ]
    assert {p.place for p in made(weak, best)[1:]} == {PromptSpan.world_after}


def test_memory_that_fits_far_worse_than_the_best_is_left_out() -> None:
    best, weak = made(memory("A dog.", 1.0), memory("A bird.", 0.4))[1:]
    assert (best.remark, weak.remark) == ("", LEFT_OUT)


def test_memory_that_does_not_fit_is_told() -> None:
    many = [
        memory(f"[From memory: n]\n{'word ' * 30}{number}.", 1 - number / 20) for number in range(9)
    ]
    pieces = made(*many)[1:]
    assert sum(COUNTER.count(p.text) for p in pieces if not p.remark) <= MEMORY_TOKENS
    assert pieces[0].remark == ""
    assert pieces[-1].remark == LEFT_OUT


def test_the_last_turns_stay_without_stage_directions() -> None:
    greeting = turn("Welcome!", "assistant", "history.greeting")
    reply = turn("*She nods.*\n\nA red one?", "assistant")
    assert kept(greeting, reply)[1:] == ["Welcome!", "A red one?"]
    older = [turn(f"Turn {number}.") for number in range(9)]
    assert kept(*older)[1:] == ["Turn 5.", "Turn 6.", "Turn 7.", "Turn 8."]


def test_problems_and_hidden_notes_pass() -> None:
    problem = of("content_search.rag", "", problem="broken")
    thought = of("stepped_thinking", "think", hidden=True)
    assert made(problem, thought)[1:] == [problem, thought]


def test_sentences_are_without_headings_bullets_and_code() -> None:
    text = "---\na: 1\n---\n# Robin\n\n- likes tea\n- [x] lost a scarf!\n\n```\ncode\n```\n"
    assert plain_sentences(text) == "likes tea. [x] lost a scarf!"


def test_the_trace_tells_what_was_left_out_and_why() -> None:
    class Provider:
        name, deadline_s = "character", 5.0

        async def contribute(self, _):
            return [of("character.description", LONG), of("character.scenario", "It snows.")]

    pipeline = ContextPipeline([Provider()], COUNTER, pre_processors=[frame()])
    assembled = asyncio.run(pipeline.assemble(request("Hello?")))
    trace = make_trace(assembled, model="m", counter="c")
    by_source = {piece.source: piece for piece in trace.contributions}
    assert by_source["character.scenario"].kept is False
    assert by_source["character.scenario"].reason == LEFT_OUT
    assert by_source["character.scenario"].text == "It snows."
    assert by_source["character.description"].is_cut
    assert [m.role for m in trace.messages] == ["system", "user"]
    assert trace.processors[0].name == "short_frame"
