"""From turn to turn a prompt begins as the one before it, so a server can use that again."""

from __future__ import annotations

import asyncio
from contextlib import closing
from itertools import pairwise, takewhile

import pytest

from familiar_cli.base.config.schema import EmbeddingSettings, NoteSettings
from familiar_cli.context.budget import PERCENT
from familiar_cli.context.character import Macros, read_character
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.providers.character import CharacterProvider
from familiar_cli.context.providers.content_search import ContentSearchProvider
from familiar_cli.context.providers.history import Beyond, HistoryProvider
from familiar_cli.context.providers.pins import NotesProvider
from familiar_cli.context.providers.retrieval import Memory, Retrieval
from familiar_cli.llm import tokens
from familiar_cli.llm.types import ScriptedModel
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.summaries import PUBLIC, Summaries, Summary
from familiar_cli.store.memory.aliases import Aliases
from familiar_cli.store.memory.pages.front_matter import field_markdown
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.search.embedder import EmbedderChoice
from familiar_cli.store.search.finding import Finder
from tests.context.support import ANNA, request
from tests.context.test_elsewhere import NOW

TURNS = 20
EXAMPLES = "<START>\n{{user}}: Hello.\n{{char}}: Hm.\n" * 3


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        yield opened


@pytest.fixture
def recent_turns():
    return 24


@pytest.fixture
def pipeline(store, tmp_path, recent_turns):
    memory = MemoryStore(tmp_path / "memory")
    fields = {"description": "A keeper. " * 9, "scenario": "A light.", "mes_example": EXAMPLES}
    for field, text in fields.items():
        memory.write_file(f"self/{field}.md", field_markdown(field, text))
    beyond = Beyond(Summaries(store), "#{}".format, 3)
    character = read_character(memory, name="", fallback_name="aria")
    parts = [
        CharacterProvider(character, system_prompt="Write {{char}}'s reply to {{user}}."),
        NotesProvider(NoteSettings(text="Be brief."), {}, lambda _: Macros("A", "B"), store),
        HistoryProvider(store, recent_turns=recent_turns, beyond=beyond),
    ]
    return ContextPipeline(parts, tokens.heuristic())


def exchange(store, number) -> None:
    store.append("cli", "user", f"question {number} " + "word " * (number * 5 % 13), author=ANNA)
    store.append("cli", "assistant", f"answer {number} " + "word " * (number * 7 % 11))


def talk(store, pipeline, budget) -> list[bytes]:
    """Return the bytes of one request after another, as they go out."""
    limits = {layer: budget * percent // 100 for layer, percent in PERCENT.items()}
    bodies = []
    for number in range(TURNS):
        asked = request(f"now {number}", budget_tokens=budget, layer_tokens=limits)
        messages = asyncio.run(pipeline.assemble(asked)).messages
        bodies.append(ScriptedModel([]).prepare(messages).body)
        exchange(store, 100 + number)
    return bodies


def lead(body: bytes) -> bytes:
    """Return everything up to the first turn of the chat."""
    return body.partition(b"question")[0].partition(b"answer")[0]


def shared(one: bytes, two: bytes) -> int:
    """Return how many bytes two requests begin alike with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def test_everything_before_the_chat_stays_byte_for_byte(store, pipeline) -> None:
    Summaries(store).keep(Summary(PUBLIC, 1, "Anna came.", NOW, "m"), {"cli"})
    for number in range(30):
        exchange(store, number)

    bodies = talk(store, pipeline, 3000)

    assert b"Anna came." in lead(bodies[0])
    assert b"[Example Chat]" in lead(bodies[0])
    assert {lead(body) for body in bodies} == {lead(bodies[0])}


@pytest.mark.parametrize(
    ("recent_turns", "budget"), [(99, 900), (24, 3000)], ids=["full of tokens", "full of turns"]
)
def test_a_full_window_does_not_slide_at_every_turn(store, pipeline, budget) -> None:
    for number in range(30):
        exchange(store, number)

    bodies = talk(store, pipeline, budget)

    # What stands at a depth of four moves on with the chat, so only what is above it can be alike.
    alike = [shared(a, b) / len(a) for a, b in pairwise(bodies)]
    slid = [share for share in alike if share < 0.6]
    assert len(slid) <= TURNS / 3
    assert sum(alike) / len(alike) > 0.55


def test_the_same_turn_gives_the_same_bytes(store, pipeline) -> None:
    for number in range(30):
        exchange(store, number)
    asked = request("now", budget_tokens=900)

    made = {
        ScriptedModel([]).prepare(asyncio.run(pipeline.assemble(asked)).messages).body
        for _ in range(5)
    }
    assert len(made) == 1


def test_what_comes_with_a_new_summary_leaves_what_stands_before_it(store, pipeline) -> None:
    exchange(store, 1)
    before = talk(store, pipeline, 3000)[0]
    Summaries(store).keep(Summary(PUBLIC, 1, "Anna came.", NOW, "m"), {"cli"})
    after = talk(store, pipeline, 3000)[0]

    beginning = before[: shared(before, after)]
    assert b"A keeper." in beginning
    assert b"Hm." in beginning


def test_what_memory_adds_leaves_all_that_stands_before_it(store, tmp_path) -> None:
    memory = MemoryStore(tmp_path / "memory")
    for word in ("zero", "one", "two"):
        memory.write_file(f"topics/{word}.md", f"# {word}\n\nAll about {word}.")
    index, vectors = EmbeddingIndex(memory), tmp_path / "vectors"
    finder = Finder(
        index,
        lambda: store,
        vectors_dir=vectors,
        embedding=EmbeddingSettings(model="none"),
        zone=None,
        instance=lambda: "",
    )
    finder.embedder = EmbedderChoice(None)
    provider = ContentSearchProvider(
        memory,
        store,
        lambda: Aliases(memory),
        tokens.heuristic(),
        retrieval=Retrieval(
            Memory(memory, finder, store, lambda _: Macros("A", "B")),
            tokens.heuristic(),
            k=3,
            refresh_s=20.0,
        ),
        deadline_s=20.0,
    )
    history = HistoryProvider(store, recent_turns=24)
    pipeline = ContextPipeline([history, provider], tokens.heuristic())
    bodies = []
    for word in ("zero", "one", "two"):
        messages = asyncio.run(pipeline.assemble(request(f"tell of {word}"))).messages
        assert f"All about {word}." in messages[-2]["content"]
        bodies.append(ScriptedModel([]).prepare(messages[:-2]).body)
        store.append("cli", "user", f"tell of {word}", author=ANNA)
        store.append("cli", "assistant", "Well.")

    for before, after in pairwise(bodies):
        assert shared(before, after) >= before.rindex(b"]") - 1
