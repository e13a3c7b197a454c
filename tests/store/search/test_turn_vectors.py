"""Vectors of turns: near is found however many there are, and no crash leaves a wrong one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.files import locked
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.fts import content_words
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.recall import catch_up, recall
from familiar_cli.store.search import token_vectors, turn_vectors
from familiar_cli.store.search.embedder import SPECS
from familiar_cli.store.search.turn_vectors import NearTurns, TurnVectors
from familiar_cli.store.search.types import EmbedderError
from tests.support.embedders import BrokenEmbedder, TokenWordEmbedder, WordEmbedder

SAID = ["green tea", "a late train to Rome", "…", "the lighthouse keeper", "tea with Rome", "bread"]


def after(said):
    """Return what gives the texts after an id; ids are 10, 20, 30 …"""
    turns = [(10 * number, text) for number, text in enumerate(said, 1)]
    return lambda last, limit: [turn for turn in turns if turn[0] > last][:limit]


@pytest.fixture
def made(tmp_path) -> TurnVectors:
    return TurnVectors(tmp_path / "recall")


@pytest.fixture(params=[WordEmbedder, TokenWordEmbedder])
def embedder(request) -> WordEmbedder:
    return request.param()


def held(near) -> list[list[list[int]]]:
    """Return the rows of tokens of every turn."""
    extents = zip(near.keys["first"].tolist(), near.keys["count"].tolist(), strict=True)
    return [near.tokens[first : first + count].tolist() for first, count in extents]


def meant(embedder, said=SAID) -> list[list[list[int]]]:
    """Return the rows of tokens that turns should have."""
    texts = [content_words(text) for text in said]
    rows = [np.array([embedder.token(word) for word in text]) for text in texts]
    return [token_vectors.quantise_vectors(of_turn).tolist() for of_turn in rows]


def contents(made) -> dict[str, bytes]:
    return {path.suffix: path.read_bytes() for path in made.directory.glob("turns-*")}


def test_the_nearest_turns_come_first(made, embedder) -> None:
    assert made.embed(embedder, after(SAID)).done == len(SAID)
    near = made.near(embedder, ["tea"])
    assert near.nearest(2) == [10, 50]
    assert near.of([10, 40, 41]) == {
        10: pytest.approx(2**-0.5 / 0.6, abs=0.02),
        40: pytest.approx(0, abs=0.02),
    }


def test_of_several_questions_the_nearest_counts(made, embedder) -> None:
    made.embed(embedder, after(SAID))
    near = made.near(embedder, ["tea", "lighthouse keeper"])
    assert set(near.nearest(2)) == {10, 40}


def test_what_says_nothing_is_near_to_nothing(made, embedder) -> None:
    made.embed(embedder, after(SAID))
    assert "…" not in embedder.read
    assert made.near(embedder, ["tea"]).of([30]) == {30: 0.0}


def test_sketches_find_what_a_comparison_of_all_finds(monkeypatch) -> None:
    chance = np.random.default_rng(7)
    rows = chance.standard_normal((3000, 100)).astype(np.float32)
    rows[:20] += 3 * rows[0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    keys = np.zeros(len(rows), turn_vectors._key_type(100))
    keys["id"], keys["sketch"] = np.arange(len(rows)) + 1, turn_vectors._bit_sketches(rows)
    near = NearTurns(keys, np.rint(rows * 127).astype(np.int8), rows[:1], SPECS["minilm-l6-v2"])
    exact = near.nearest(20)
    monkeypatch.setattr(turn_vectors, "EXACT_ROWS", 0)
    monkeypatch.setattr(turn_vectors, "_RESCORED", 200)
    monkeypatch.setattr(turn_vectors, "_BLOCK", 512)
    assert near.nearest(20) == exact
    assert set(exact) == set(range(1, 21))


def test_no_vector_no_meaning(made, embedder) -> None:
    assert made.near(embedder, ["tea"]) is None
    assert made.through_id(embedder, after(SAID)) == 0
    assert not made.directory.exists()


def test_new_turns_are_added_and_the_others_stay(made, embedder) -> None:
    made.embed(embedder, after(SAID[:4]))
    first, embedder.read = contents(made), []
    assert made.embed(embedder, after(SAID)).done == 2
    assert all(now.startswith(first[suffix]) for suffix, now in contents(made).items())
    assert sorted(embedder.read) == sorted(SAID[4:])


def test_some_at_a_time_come_to_the_same(made, embedder, tmp_path) -> None:
    while made.embed(embedder, after(SAID), at_most=2).done:
        pass
    whole = TurnVectors(tmp_path / "whole")
    seen = []
    whole.embed(embedder, after(SAID), total=6, progress=lambda *step: seen.append(step))
    assert contents(made) == contents(whole)
    assert seen == [("vectors of turns made", 6, 6)]


@given(st.data())
def test_a_crash_while_writing_leaves_nothing_wrong(tmp_path_factory, data) -> None:
    root, embedder = tmp_path_factory.mktemp("v"), TokenWordEmbedder()
    whole, torn = TurnVectors(root / "whole"), TurnVectors(root / "torn")
    whole.embed(embedder, after(SAID))
    torn.embed(embedder, after(SAID))
    for path in torn.directory.glob("turns-*"):
        content = path.read_bytes()
        kept = data.draw(st.integers(0, len(content)))
        zeros = data.draw(st.integers(0, 300))
        path.write_bytes(content[:kept] + bytes(zeros if path.suffix == ".keys" else 0))
    torn.embed(embedder, after(SAID))
    near, wanted = (made.near(embedder, ["tea"]) for made in (torn, whole))
    ids = [10, 20, 30, 40, 50, 60]
    assert near.keys["id"].tolist() == ids
    assert near.of(ids) == wanted.of(ids)
    assert held(near) == held(wanted) == meant(embedder)


def test_vectors_of_another_model_are_thrown_away(made, embedder) -> None:
    made.embed(embedder, after(SAID))
    other = WordEmbedder("other", 64)
    assert made.near(other, ["tea"]) is None
    made.embed(other, after(SAID))
    assert made.near(embedder, ["tea"]) is None
    assert made.status(other).vectors == len(SAID)


@pytest.mark.parametrize("said", [["another history", *SAID[1:], "end"], SAID[:3], []])
def test_vectors_of_another_history_are_thrown_away(made, embedder, said) -> None:
    made.embed(embedder, after(["old", *SAID[1:-1], "words"]))
    assert made.through_id(embedder, after(said)) == 0
    assert made.embed(embedder, after(said)).done == len(said)
    assert made.status(embedder).vectors == len(said)


def test_a_second_process_leaves_the_first_alone(made, embedder) -> None:
    made.directory.mkdir()
    with locked(made.directory / "embedding.lock", 0):
        assert made.embed(embedder, after(SAID)).busy
    assert not contents(made)


def test_a_broken_model_loses_nothing(made, embedder, monkeypatch) -> None:
    made.embed(embedder, after(SAID[:4]))
    first = contents(made)
    monkeypatch.setattr(embedder, "passages", BrokenEmbedder().passages)
    with pytest.raises(EmbedderError):
        made.embed(embedder, after(SAID))
    assert contents(made) == first


def test_clear_deletes_all(made, embedder) -> None:
    assert not made.clear()
    made.embed(embedder, after(SAID))
    status = made.status(embedder)
    assert (status.model, status.through_id, status.vectors) == ("words", 60, 6)
    assert status.size_bytes == sum(map(len, contents(made).values()))
    assert made.clear()
    assert not contents(made)
    assert made.status(embedder).vectors == 0


@pytest.fixture
def history(tmp_path):
    made = HistoryStore(tmp_path / "history.db")
    yield made
    made.close()


def near_of(made, embedder, history, question):
    made.embed(embedder, lambda last, most: [(t.id, t.content) for t in history.after(last, most)])
    return made.near(embedder, [question])


def test_the_turn_whose_tokens_are_nearest_comes_first(made, history) -> None:
    embedder = TokenWordEmbedder(alike=[("parasol", "umbrella"), ("stolen", "theft")])
    said = ["Bread and butter.", "An umbrella, a hat.", "The theft of my umbrella.", "Rain again."]
    ids = [history.append(f"c{n}", "user", text).id for n, text in enumerate(said)]
    near = near_of(made, embedder, history, "stolen parasol")
    turns = recall(history, "stolen parasol", near=near, viewer=OWNER).turns
    assert [one.turn.id for one in turns[:2]] == [ids[2], ids[1]]
    assert turns[0].score > 0.8


def test_the_turn_beside_it_counts_as_its_passage(made, history) -> None:
    embedder = TokenWordEmbedder(alike=[("parasol", "umbrella")])
    for text in ["Bread and butter.", "Where is my umbrella?", "Behind the stove."] + ["Rain."] * 4:
        history.append("c", "user", text)
    near = near_of(made, embedder, history, "parasol")
    with history.use(create=False) as connection:
        catch_up(connection)
        alone = near.by_tokens(connection, {n: [n] for n in range(1, 8)})
        beside = near.by_tokens(connection, {n: [n, n - 1] for n in range(1, 8)})
    assert alone[2] > 0.9
    assert alone[3] < 0.1
    assert 0.3 < beside[3] < beside[2]


def test_a_turn_without_other_words_is_nearer(made, history) -> None:
    embedder = TokenWordEmbedder(alike=[("parasol", "umbrella")])
    for text in ["Bread and butter.", "My umbrella.", "An umbrella hangs beside coats and hats."]:
        history.append("c", "user", text)
    near = near_of(made, embedder, history, "parasol")
    with history.use(create=False) as connection:
        catch_up(connection)
        found = near.by_tokens(connection, {n: [n] for n in range(1, 4)})
    assert found[1] < found[3] < found[2]


def test_a_thing_of_the_kind_that_is_asked_for_is_near(made, history) -> None:
    for text in ["Bread and butter.", "The parrot sang.", "Rain.", "Where is the key?"]:
        history.append("c", "user", text)
    near = near_of(made, TokenWordEmbedder(), history, "What pets has she had?")
    with history.use(create=False) as connection:
        catch_up(connection)
        found = near.by_tokens(connection, {n: [n] for n in range(1, 5)})
    assert max(found, key=lambda turn: found[turn]) == 2


def test_the_name_of_who_speaks_is_no_word_to_compare(made, history) -> None:
    embedder = TokenWordEmbedder(alike=[("parasol", "umbrella")])
    for text in ["Bread.", "My umbrella is lost.", "Poor Josephine!", "Rain.", "Butter."]:
        history.append("c", "user", text)
    near = near_of(made, embedder, history, "Jos lost a parasol")

    def best(familiar: str, speakers) -> float:
        asked = replace(near, query="Jos lost a parasol", familiar=familiar)
        return asked.by_tokens(connection, {n: [n] for n in range(1, 6)}, speakers)[2]

    with history.use(create=False) as connection:
        catch_up(connection)
        assert best("Vela", ["Josephine"]) == best("Josephine", []) == pytest.approx(1)
        assert best("Vela", ["Bo"]) < 0.9


def test_what_the_prompt_shows_anyhow_does_not_make_others_small(made, history) -> None:
    embedder = TokenWordEmbedder(alike=[("parasol", "umbrella")])
    for text in ["Bread.", "My umbrella.", "Rain.", "Butter.", "Whose parasol is that?"]:
        history.append("c", "user", text)
    near = near_of(made, embedder, history, "Whose parasol is that?")
    found = recall(history, "Whose parasol is that?", near=near, before_id=5, viewer=OWNER).turns
    assert (found[0].turn.id, found[0].score) == (2, pytest.approx(1, abs=0.01))


def test_without_their_file_turns_are_made_anew(made) -> None:
    embedder = TokenWordEmbedder()
    made.embed(embedder, after(SAID))
    (path,) = made.directory.glob("*.tokens")
    path.unlink()
    assert made.through_id(embedder, after(SAID)) == 0
    assert made.embed(embedder, after(SAID)).done == len(SAID)
    assert held(made.near(embedder, ["tea"])) == meant(embedder)


def test_another_version_of_token_vectors_is_made_anew(made) -> None:
    made.embed(TokenWordEmbedder(), after(SAID))
    other = TokenWordEmbedder(token_version="words-2")
    assert made.near(other, ["tea"]) is None
    assert made.embed(other, after(SAID)).done == len(SAID)
    assert len(list(made.directory.glob("*.tokens"))) == 1
