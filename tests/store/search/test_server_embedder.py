"""Vectors from an OpenAI-compatible server: what is sent, and what becomes of bad answers."""

from __future__ import annotations

import numpy as np
import pytest

from familiar_cli.base.config.schema import EmbeddingSettings
from familiar_cli.llm.slots import prefixes_for, resolve_embedding_server
from familiar_cli.store.search import server_embedder
from familiar_cli.store.search.finding import choose_embedder
from familiar_cli.store.search.turn_vectors import TurnVectors
from familiar_cli.store.search.types import EmbedderError
from tests.support.embedding_server import EmbeddingServer
from tests.support.server import closed_port


@pytest.fixture
def server():
    with EmbeddingServer(alike=[("umbrella", "parasol")]) as one:
        yield one


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(server_embedder, "wait_before_retry_s", lambda *_: 0.0)


@pytest.fixture
def opened(server, tmp_path):
    def make(**settings):
        settings = {"base_url": server.base_url, "model": "nomic-embed-text"} | settings
        server_embedder_ = choose_embedder(EmbeddingSettings(**settings), tmp_path / "cache")
        return server_embedder_.embedder

    return make


def test_texts_travel_in_batches_with_the_prefix_of_the_model(server, opened) -> None:
    opened().passages([f"text {n}" for n in range(100)])
    sizes = [len(body["input"]) for _, body in server.requests]
    assert sizes == [12, 64, 36]
    assert server.texts[12] == "search_document: text 0"
    assert server.requests[1][1]["model"] == "nomic-embed-text"


def test_a_question_has_the_prefix_of_a_question(server, opened) -> None:
    embedder = opened(query_prefix="ask: ")
    embedder.load()
    embedder.queries(["where?"])
    assert server.texts[-1] == "ask: where?"


def test_vectors_are_put_in_the_order_of_the_texts_and_normalised(opened) -> None:
    rows = opened().passages(["umbrella", "parasol", "tea"])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


def test_a_key_is_sent_and_the_chat_models_key_is_not(server, opened, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_API_KEY", "sk-chat")
    monkeypatch.setenv("MINE", "sk-mine")
    opened().passages(["a"])
    opened(api_key_env="MINE").passages(["a"])
    sent = [headers.get("authorization") for headers, _ in server.requests]
    assert sent[0] is None
    assert sent[-1] == "Bearer sk-mine"


def test_a_busy_server_is_asked_again(server, opened) -> None:
    server.script = [None, (503, {"error": {"message": "loading"}})]
    assert len(opened().passages(["a", "b"])) == 2
    assert [len(body["input"]) for _, body in server.requests] == [12, 2, 2]


def test_a_question_is_asked_once(server, opened) -> None:
    embedder = opened()
    embedder.load()
    server.script = [(503, {"error": {"message": "loading"}})] * 2
    with pytest.raises(EmbedderError, match="loading"):
        embedder.queries(["a"])
    assert len(server.requests) == 2


def test_a_server_that_failed_is_left_alone_for_a_while(server, opened, monkeypatch) -> None:
    embedder = opened()
    embedder.load()
    server.stop()
    for _ in range(2):
        with pytest.raises(EmbedderError, match="No answer from the server at http"):
            embedder.queries(["a"])
    assert not embedder.ready
    monkeypatch.setattr(server_embedder, "stopwatch_s", lambda: 1e12)
    with pytest.raises(EmbedderError):
        embedder.queries(["a"])


def test_a_silent_server_does_not_delay_a_question(server, opened, monkeypatch) -> None:
    embedder = opened()
    embedder.load()
    server.hold.clear()
    monkeypatch.setattr(server_embedder, "QUESTION_S", 0.2)
    with pytest.raises(EmbedderError, match=r"sent nothing for 0\.2 s"):
        embedder.queries(["a"])


def test_what_is_too_long_is_read_in_parts(server, opened) -> None:
    def refuse_long(texts: list[str]):
        if max(map(len, texts)) > 200:
            return 500, {"error": {"message": "input (900 tokens) is too large to process"}}
        return None

    server.script = [None, *[refuse_long] * 20]
    text = "umbrella " * 60
    rows = opened().passages(["tea", text])
    assert len(rows) == 2
    alone = opened().passages(["umbrella"])[0]
    assert rows[1] @ alone > 0.7
    assert (
        "".join(t.removeprefix("search_document: ") for t in server.texts[16:]).count("umbrella")
        >= 60
    )


def test_too_many_at_once_are_halved(server, opened) -> None:
    def refuse_many(texts: list[str]):
        return (
            (413, {"error": "batch size > maximum allowed batch size 8"})
            if len(texts) > 8
            else None
        )

    server.script = [None, *[refuse_many] * 40]
    assert len(opened().passages([f"t{n}" for n in range(20)])) == 20


@pytest.mark.parametrize(
    "said",
    [
        {"data": []},
        {"data": [{"embedding": []}]},
        {"data": [{"embedding": ["x"]}]},
        {"data": [{"embedding": [float("nan")]}]},
        {"data": [{"embedding": [10**400]}]},
        {"data": [{"index": None, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]},
        {"data": "no"},
        [],
        b"<html>",
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_no_vectors_is_one_error(server, opened, said) -> None:
    embedder = opened()
    embedder.load()
    server.script = [(200, said)]
    with pytest.raises(EmbedderError):
        embedder.queries(["a"])


def test_an_error_inside_a_reply_is_said(server, opened) -> None:
    embedder = opened()
    embedder.load()
    server.script = [(200, {"error": {"message": "no such model"}})]
    with pytest.raises(EmbedderError, match="no such model"):
        embedder.queries(["a"])


def test_the_size_of_vectors_is_known_without_the_server(server, opened, tmp_path) -> None:
    opened().load()
    server_embedder_ = server_embedder.ServerEmbedder(
        opened().server, tmp_path / "cache" / "embeddings.json"
    )
    assert (server_embedder_.dimension, server_embedder_.ready) == (256, False)
    assert len(server.requests) == 1


def test_a_model_that_changed_its_size_is_noticed(server, opened) -> None:
    embedder = opened()
    embedder.passages(["a"])
    server.words.dimension = 128
    with pytest.raises(EmbedderError, match="128 numbers a vector instead of 256"):
        embedder.passages(["b"])
    assert embedder.passages(["c"]).shape == (1, 128)


def test_files_of_turns_have_names_that_a_disk_can_hold(opened, tmp_path) -> None:
    made = TurnVectors(tmp_path / "turns")
    made.embed(opened(), lambda after, _: [(n, f"turn {n}") for n in (1, 2) if n > after])
    assert len(made.status(opened()).model) > 0
    assert made.status(opened()).vectors == 2


def test_another_server_has_other_files(opened, tmp_path) -> None:
    made = TurnVectors(tmp_path / "turns")
    made.embed(opened(), lambda after, _: [(n, f"turn {n}") for n in (1, 2) if n > after])
    assert made.status(opened(model="other")).vectors == 0


def test_nothing_is_sent_without_an_address(monkeypatch) -> None:
    assert resolve_embedding_server(EmbeddingSettings()) is None
    choice = choose_embedder(EmbeddingSettings(provider="openai"), None)
    assert choice.embedder is None
    assert "embedding.base_url is not set" in choice.reason


def test_local_ignores_an_address() -> None:
    settings = EmbeddingSettings(provider="local", base_url="http://127.0.0.1:1/v1")
    assert resolve_embedding_server(settings) is None


def test_a_server_needs_a_model() -> None:
    choice = choose_embedder(EmbeddingSettings(base_url="http://127.0.0.1:1/v1"), None)
    assert "does not name a model" in choice.reason
    assert "embedding.model NAME" in choice.hint


def test_the_environment_names_server_and_model(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_EMBEDDING_BASE_URL", "http://127.0.0.1:9/v1/embeddings")
    monkeypatch.setenv("FAMILIAR_EMBEDDING_MODEL", "bge-m3")
    found = resolve_embedding_server(EmbeddingSettings())
    assert found.name == "bge-m3 at http://127.0.0.1:9/v1"


def test_offline_forbids_a_server_elsewhere(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("FAMILIAR_OFFLINE", "1")
    settings = EmbeddingSettings(base_url="http://embeddings.invalid/v1", model="m")
    with pytest.raises(EmbedderError, match="was not contacted"):
        choose_embedder(settings, tmp_path).embedder.load()


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("bge-m3", "", ""),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_prefixes_follow_the_name_of_the_model(model, query, passage) -> None:
    assert prefixes_for(EmbeddingSettings(), model) == (query, passage)
    assert prefixes_for(EmbeddingSettings(query_prefix="", passage_prefix="p "), model) == (
        "",
        "p ",
    )


def test_a_server_that_was_never_there_is_named(tmp_path) -> None:
    settings = EmbeddingSettings(base_url=f"http://127.0.0.1:{closed_port()}/v1", model="m")
    with pytest.raises(EmbedderError, match="No answer"):
        choose_embedder(settings, tmp_path).embedder.passages(["a"])
