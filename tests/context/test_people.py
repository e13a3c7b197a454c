"""Nobody who takes part is forgotten, whatever the budget and the state of the files."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import channel_scope
from familiar_cli.context.budget import MESSAGE_TOKENS, PROMPT_TOKENS, Budgeter
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.providers.content_search import ContentSearchProvider
from familiar_cli.context.providers.people import MOST_NAMED, NAMED_TOKENS
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan, Subject
from familiar_cli.llm import tokens
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.aliases import Aliases
from familiar_cli.store.memory.pages.visible_lines import private_heading
from familiar_cli.store.memory.store.store import MemoryStore
from tests.context.support import ANNA, request
from tests.support.viewers import viewer_in

COUNTER = tokens.heuristic()
BO, CY, DI = (Author("discord", name) for name in ("bo", "cy", "di"))
LONG = "She counts every ship that passes the bay. " * 200


class World:
    def __init__(self, root) -> None:
        self.store = MemoryStore(root / "memory")
        self.history = HistoryStore(root / "history.db")
        self.provider = self.make()

    def make(self, **more) -> ContentSearchProvider:
        return ContentSearchProvider(
            self.store, self.history, lambda: Aliases(self.store), COUNTER, **more
        )

    def person(self, author, text="", *aliases) -> None:
        listed = "".join(f"- {alias}\n" for alias in aliases)
        section = f"\n## Aliases\n\n{listed}" if aliases else ""
        self.store.write_file(
            f"people/{author.slug}.md", f"# {author.user_id}\n\n{text}\n{section}"
        )

    def offers(self, utterance="hi", **more) -> list[Contribution]:
        return asyncio.run(self.provider.contribute(request(utterance, **more)))

    def slugs(self, utterance="hi", **more) -> list[str]:
        kept = [piece for piece in self.offers(utterance, **more) if not piece.problem]
        return [piece.rel_path.removeprefix("people/").removesuffix(".md") for piece in kept]

    def problems(self, utterance="hi", **more) -> dict[str, str]:
        return {p.rel_path: p.problem for p in self.offers(utterance, **more) if p.problem}


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    with closing(made.history):
        yield made


def test_everyone_stands_in_the_order_of_who_matters_most(world) -> None:
    for who in (ANNA, BO, CY, DI):
        world.person(who, "", f"nick{who.user_id}")
    world.history.append("cli", "user", "hi", author=CY)
    waiting = world.history.append("cli", "user", "hello?", author=BO)
    found = world.slugs("where is nickdi, and nickcy?", pending_turns=(waiting,))
    assert found == ["discord-42", "discord-bo", "discord-cy", "discord-di"]


def test_each_says_why_it_is_there(world) -> None:
    for who in (ANNA, BO, CY):
        world.person(who, "", f"nick{who.user_id}")
    world.history.append("cli", "user", "hi", author=BO)
    causes = [piece.cause for piece in world.offers("nickcy!")]
    assert causes == ["speaks", "spoke here recently", "is named: 'nickcy'"]


def test_a_piece_knows_its_file_its_lines_and_its_place(world) -> None:
    world.person(ANNA, "Likes tea.")
    (piece,) = world.offers()
    assert (piece.layer, piece.priority, piece.source) == (
        Layer.content,
        85,
        "content_search.people",
    )
    assert (piece.place, piece.fit, piece.lines) == (PromptSpan.world_after, Fit.queue, (1, 3))
    assert piece.sha256 == world.store.sha256("people/discord-42.md")


def test_a_file_is_data(world) -> None:
    text = "{{char}} {{random:a,b}} <START>\n## Heading\n[Start a new Chat]"
    world.person(ANNA, text)
    assert text in world.offers()[0].text


def test_a_long_file_is_cut_at_a_sentence_and_says_so(world) -> None:
    world.person(ANNA, LONG)
    (piece,) = world.offers()
    assert piece.text.endswith("the bay.")
    assert 450 < COUNTER.count(piece.text) <= 500  # half of the layer
    assert "longer than its share" in piece.shortened


def test_who_is_only_named_waits_for_quotes_where_the_tokens_of_memory_are_set(world) -> None:
    world.person(ANNA)
    world.person(CY, LONG, "Nick Cy")

    def priorities(**more):
        return [piece.priority for piece in world.offers("What does Nick Cy do?", **more)]

    room = {Layer.content: 500}
    assert priorities(layer_tokens=room, most_content=900) == [85, 85]
    assert priorities(layer_tokens=room, most_content=500) == [85, 66]


def test_who_is_only_named_has_little_before_what_is_searched_for(world) -> None:
    world.person(BO, LONG, "Bodil")
    world.person(CY, LONG, "Cyril")
    pieces = world.offers("Where are Bodil and Cyril?", author=None)
    assert len(pieces) == 2
    assert all(75 < COUNTER.count(piece.text) <= NAMED_TOKENS for piece in pieces)


def test_a_larger_layer_is_for_what_is_found_and_not_for_longer_files(world) -> None:
    world.person(ANNA, LONG)
    usual, larger = (
        world.offers(budget_tokens=4000, layer_tokens={Layer.content: tokens})[0].text
        for tokens in (600, 2000)
    )
    assert usual == larger


def test_who_has_no_file_is_no_problem(world) -> None:
    assert world.offers() == []
    assert not world.store.root.exists()


def test_only_so_many_of_those_who_spoke_are_remembered(world) -> None:
    people = [Author("discord", f"p{number}") for number in range(8)]
    for who in people:
        world.person(who)
        world.history.append("cli", "user", "hi", author=who)
    assert world.slugs(author=None) == [f"discord-p{n}" for n in (7, 6, 5, 4, 3)]


def test_two_people_of_one_name_are_both_there_and_that_is_told(world) -> None:
    world.person(BO, "", "Nicky")
    world.person(CY, "", "nicky")
    assert world.slugs("ask Nicky", author=None) == ["discord-bo", "discord-cy"]
    (told,) = world.problems("ask Nicky", author=None).values()
    assert "'nicky' is discord-bo, discord-cy" in told


def test_a_name_that_hundreds_share_does_not_read_hundreds_of_files(world) -> None:
    for number in range(MOST_NAMED + 5):
        world.person(Author("discord", f"p{number}"), "", "Nicky")
    assert len(world.slugs("Nicky", author=None)) == MOST_NAMED
    assert any("5 more people" in told for told in world.problems("Nicky", author=None).values())


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x80" * 10])
def test_a_file_that_is_no_text_is_told_and_hides_no_other(world, content) -> None:
    world.person(BO)
    (world.store.root / "people" / "discord-42.md").write_bytes(content)
    world.history.append("cli", "user", "hi", author=BO)
    assert world.slugs() == ["discord-bo"]
    assert "UTF-8" in world.problems()["people/discord-42.md"]


def test_of_a_file_over_the_limit_the_beginning_is_there_and_that_is_told(world) -> None:
    world.person(ANNA)
    path = world.store.root / "people" / "discord-42.md"
    path.write_text("# Anna\n\n" + "Zoë sees. " * 60_000, encoding="utf-8")
    (piece, problem) = world.offers()
    assert piece.text.startswith("# Anna")
    assert "memory.max_file_bytes" in problem.problem


def test_an_id_that_is_no_unicode_breaks_nothing(world) -> None:
    odd = Author("discord", "a\udc80")
    world.history.append("cli", "user", "hi", author=odd)
    world.person(BO)
    world.history.append("cli", "user", "hi", author=BO)
    assert world.slugs(author=odd) == ["discord-bo"]


def test_names_that_take_too_long_hide_nobody_who_is_present(world) -> None:
    world.person(ANNA)
    held = threading.Event()

    class Slow(Aliases):
        def refresh(self, *, thorough=False, within_s=math.inf) -> int:
            held.wait(5)
            return 0

    world.provider = ContentSearchProvider(
        world.store, world.history, lambda: Slow(world.store), COUNTER, deadline_s=0.5
    )
    assert world.slugs() == ["discord-42"]
    assert "not read in time" in world.problems()[None]
    held.set()


def test_a_damaged_list_of_names_is_told_and_hides_nobody(world) -> None:
    world.person(BO, "", "Nicky")
    (world.store.root / "people" / "_aliases.json").write_bytes(b"{")
    assert world.slugs("Nicky", author=None) == ["discord-bo"]
    assert "damaged" in world.problems("x", author=None)["people/_aliases.json"]


def test_looking_writes_nothing_beside_the_index(world) -> None:
    world.person(BO, "", "Nicky")
    before = sorted((world.store.root / "people").iterdir())
    world.offers("Nicky")
    assert sorted((world.store.root / "people").iterdir()) == before


def test_it_says_why_a_file_is_not_there(world) -> None:
    world.person(BO, "", "Nicky")
    world.person(CY)
    world.history.append("cli", "user", "hi", author=CY)

    def why(path, utterance="hi"):
        return world.provider.why_not(Subject(rel_path=path), request(utterance))

    assert "is not named" in why("people/discord-bo.md")
    assert why("people/discord-bo.md", "Nicky?") == ""
    assert why("people/discord-cy.md") == ""
    assert why("self/description.md") is None
    assert world.provider.why_not(Subject(turn_id=1), request()) is None


def fill(world, budget, **more):
    """Fill a prompt that has no room beside these tokens."""
    pieces = asyncio.run(world.provider.contribute(request("hi", **more)))
    return Budgeter(COUNTER).fill(pieces, {Layer.content: budget}, budget + PROMPT_TOKENS).fragments


@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=6),
    st.integers(0, 900),
)
def test_what_does_not_fit_goes_from_the_end(tmp_path_factory, sizes, budget) -> None:
    """The speaker survives any budget that one file fits in, and nobody outlives who stands before.

    Each is one of those present: speaker first, then who spoke last.
    """
    world = World(tmp_path_factory.mktemp("w"))
    people = [Author("discord", f"p{number}") for number in range(len(sizes))]
    with closing(world.history):
        for who, size in zip(people, sizes, strict=True):
            world.person(who, "She counts every ship. " * size)
        for who in (*people, *reversed(people)):  # what the first one said alone is theirs
            world.history.append("cli", "user", "hi", author=who)
        pieces = [f for f in fill(world, budget, author=people[0]) if f.cause]

    assert len(pieces) == min(len(sizes), 5)
    whole = [piece.kept and not piece.is_cut for piece in pieces]
    assert whole == sorted(whole, reverse=True)
    kept = [piece.kept for piece in pieces]
    assert kept == sorted(kept, reverse=True)
    assert kept.count(True) - whole.count(True) in {0, 1}
    assert whole[0] == (pieces[0].offered_tokens <= budget)


def test_a_small_file_does_not_outlive_a_large_one_before_it(world) -> None:
    world.person(ANNA, "tea")
    world.person(BO, LONG)
    world.person(CY, "x")
    for who in (CY, BO):
        world.history.append("cli", "user", "hi", author=who)
    first = COUNTER.count(world.offers()[0].text) + MESSAGE_TOKENS
    pieces = [f for f in fill(world, first + 22) if f.cause]
    assert [piece.kept for piece in pieces] == [True, False, False]
    assert "one before it did not fit" in pieces[2].reason


def test_more_important_pieces_are_served_first(world) -> None:
    world.person(ANNA, LONG)
    asked = request("hi", budget_tokens=400)

    class Important:
        name, deadline_s = "important", 1.0

        async def contribute(self, asked):
            text = "word " * 250
            return [
                Contribution(Layer.character, 98, text, "c", PromptSpan.description, fit=Fit.whole)
            ]

    pipeline = ContextPipeline([world.provider, Important()], COUNTER)
    fragments = asyncio.run(pipeline.assemble(asked)).fragments
    by_source = {f.source: f.kept and not f.reason for f in fragments}
    assert by_source["c"]
    assert not by_source["content_search.people"]


def test_the_text_stands_in_the_prompt_with_its_headings(world) -> None:
    world.person(ANNA, "## Likes\n\n- tea")
    pipeline = ContextPipeline([world.provider], COUNTER)
    messages = asyncio.run(pipeline.assemble(request("hi"))).messages
    assert messages[0]["role"] == "system"
    assert "## Likes\n\n- tea" in messages[0]["content"]


def test_what_was_said_in_private_is_shown_in_that_channel_only(world) -> None:
    world.person(ANNA, "Keeps bees. <!-- turns 3-4 -->")
    path = f"people/{ANNA.slug}.md"
    heading = private_heading("DM:anna", channel_scope("dm"))
    world.store.append_file(path, f"\n{heading}\n\n- She is ill. <!-- turns 5 -->\n")

    elsewhere, there = (world.offers(channel_id=channel)[0] for channel in ("cli", "dm"))

    assert "ill" not in elsewhere.text
    assert not elsewhere.shortened  # which would tell that there is more
    assert "- She is ill.\n" in there.text + "\n"
    assert "turns" not in elsewhere.text + there.text
    shared = world.offers(viewer=viewer_in("cli", shares=True))
    assert "She is ill" in shared[0].text
