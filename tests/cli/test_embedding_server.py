"""Search by meaning with a server of embeddings, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json

import pytest

from familiar_cli.actions.health import start
from familiar_cli.base.config.home import cache_dir
from familiar_cli.store.search import server_embedder
from tests.support.embedding_server import EmbeddingServer
from tests.support.world import data, live, run


@pytest.fixture
def server():
    with EmbeddingServer(alike=[("umbrella", "parasol")]) as one:
        yield one


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(server_embedder, "wait_before_retry_s", lambda *_: 0.0)


@pytest.fixture
def home(server):
    home = live("ada", alice="# Alice\n\nShe lost her umbrella.\n", bo="# Bo\n\nHe drinks tea.\n")
    run("config", "set", "embedding.base_url", server.base_url)
    run("config", "set", "embedding.model", "bge-m3")
    return home


def forget_failures() -> None:
    """Begin as a new process does."""
    from familiar_cli.store.search.finding import _cached_server

    _cached_server.cache_clear()


def test_setting_the_address_says_what_is_sent_there(home, server) -> None:
    run("config", "unset", "embedding.base_url")
    told = run("config", "set", "embedding.base_url", server.base_url).stderr
    assert "including private ones, are sent to http://127.0.0.1" in told
    assert "familiar config unset embedding.base_url" in told
    assert "are sent" not in run("config", "set", "embedding.timeout_s", "5").stderr


def test_nothing_is_sent_before_it_is_asked_for(home, server) -> None:
    run("config", "show")
    run("index", "status")
    run("search", "tea", "--method", "lexical")
    assert server.requests == []


def test_search_finds_what_only_means_the_same(home, server) -> None:
    assert "Texts were sent to bge-m3 at http" in run("index", "build").stderr
    found = data("search", "parasol")
    assert found["hits"][0]["rel_path"] == "alice.md"
    assert (found["method"], found["model"]) == ("hybrid", f"bge-m3 at {server.base_url}")


def test_a_small_memory_is_found_by_meaning_at_the_first_search(home, server) -> None:
    for path in (home / "memory").rglob("*.md"):
        if path.name not in {"alice.md", "bo.md"}:
            path.unlink()
    found = data("search", "parasol")
    assert (found["method"], found["hits"][0]["rel_path"]) == ("hybrid", "alice.md")


def test_a_silent_server_delays_the_first_search_once(home, server, monkeypatch) -> None:
    monkeypatch.setattr(server_embedder, "QUESTION_S", 0.2)
    server.hold.clear()
    result = run("search", "umbrella")
    server.hold.set()
    assert "She lost her umbrella" in result.stdout
    assert len(server.requests) <= 1


def test_the_provider_can_be_named(home, server) -> None:
    run("config", "set", "embedding.provider", "openai")
    run("index", "build")
    assert data("search", "parasol")["hits"][0]["rel_path"] == "alice.md"
    run("config", "set", "embedding.provider", "local")
    assert data("search", "parasol")["hits"] == []


def test_words_are_found_in_one_line_when_it_is_gone(home, server) -> None:
    run("index", "build")
    server.stop()
    forget_failures()
    result = run("search", "umbrella")
    assert result.exit_code == 0
    assert "She lost her umbrella" in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("No answer from the server at http")
    assert line.endswith("Searched by words only.")


def test_new_files_do_not_add_a_line_when_it_is_gone(home, server) -> None:
    run("index", "build")
    run("memory", "write", "cat.md", "The cat is called Odile.")
    server.stop()
    forget_failures()
    result = run("search", "Odile")
    assert "called Odile" in result.stdout
    assert len(result.stderr.splitlines()) == 1


def test_method_dense_fails_when_it_is_gone(home, server) -> None:
    run("index", "build")
    server.stop()
    forget_failures()
    result = run("search", "umbrella", "--method", "dense")
    assert result.exit_code != 0
    assert "No answer from the server" in result.stderr
    assert "Traceback" not in result.stderr


def test_building_without_the_server_keeps_words(home, server) -> None:
    server.stop()
    result = run("index", "build")
    assert result.exit_code != 0
    assert "No answer from the server at http" in result.stderr
    assert "She lost her umbrella" in run("search", "umbrella").stdout


def test_vectors_of_another_server_are_dropped(home, server) -> None:
    run("index", "build")
    with EmbeddingServer() as other:
        run("config", "set", "embedding.base_url", other.base_url)
        built = data("index", "build")["embedded"]
        assert (built["done"], built["replaced_model"]) == (2, f"bge-m3 at {server.base_url}")
        assert len(other.texts) == 12 + 2


def test_words_are_found_at_once_and_vectors_made_after_the_answer(home, server) -> None:
    run("index", "build")
    with EmbeddingServer(alike=[("umbrella", "parasol")]) as other:
        run("config", "set", "embedding.base_url", other.base_url)
        found = data("search", "umbrella")
        assert (found["method"], found["hits"][0]["rel_path"]) == ("lexical", "alice.md")
        assert "none of bge-m3 at" in " ".join(found["notes"])
        assert data("search", "parasol")["hits"][0]["rel_path"] == "alice.md"


def test_another_prefix_is_another_index(home, server) -> None:
    run("index", "build")
    run("config", "set", "embedding.passage_prefix", "passage: ")
    assert data("index", "build")["embedded"]["done"] == 2


def test_forgotten_words_are_not_sent_again(home, server) -> None:
    run("index", "build")
    run("memory", "rm", "alice.md")
    server.requests.clear()
    assert data("search", "parasol")["hits"] == []
    assert not any("umbrella" in text for text in server.texts)


def test_doctor_names_the_server(home, server) -> None:
    run("index", "build")
    shown = run("doctor").stdout
    assert f"are sent to bge-m3 at {server.base_url}, which answers" in shown
    server.stop()
    forget_failures()
    shown = run("doctor").stdout
    assert f"No answer from the server at {server.base_url}" in shown


def test_doctor_offers_what_runs_on_this_machine(monkeypatch, server) -> None:
    live("ada")
    monkeypatch.setattr(start, "SERVERS", {"Ollama": ("custom", server.base_url)})
    shown = run("doctor").stdout
    assert "Ollama has nomic-embed-text" in shown
    assert f"familiar config set embedding.base_url {server.base_url}" in shown


def test_doctor_recommends_a_model_for_another_language(home) -> None:
    run("config", "set", "language", "de")
    assert "supports English only" not in run("doctor").stdout
    run("config", "set", "embedding.model", "nomic-embed-text")
    assert "Let the server load bge-m3" in run("doctor").stdout


def test_an_unknown_local_model_is_named_with_the_known_ones(home) -> None:
    run("config", "unset", "embedding.base_url")
    run("config", "set", "embedding.model", "minilm")
    told = run("search", "tea").stderr
    assert "there is no embedding model 'minilm'; known are minilm-l6-v2" in told


def test_the_environment_overrides_settings(home, server, monkeypatch) -> None:
    run("config", "unset", "embedding.base_url")
    monkeypatch.setenv("FAMILIAR_EMBEDDING_BASE_URL", server.base_url)
    monkeypatch.setenv("FAMILIAR_EMBEDDING_MODEL", "other")
    run("index", "build")
    assert data("search", "parasol")["model"] == f"other at {server.base_url}"
    assert data("config", "get", "embedding.model")["source"] == "FAMILIAR_EMBEDDING_MODEL"


def test_turns_are_found_by_meaning(home, server, tmp_path) -> None:
    path = tmp_path / "old.jsonl"
    said = ["Hello.", "I lost my umbrella.", "It rains."]
    path.write_text("".join(json.dumps({"role": "user", "content": s}) + "\n" for s in said))
    run("import-chat", str(path), "--as", "cli:1")
    run("index", "build")
    assert "lost my umbrella" in run("search", "parasol", "--past").stdout


def test_what_is_known_of_servers_holds_no_text(home) -> None:
    run("index", "build")
    kept = (cache_dir() / "embeddings.json").read_text()
    assert "umbrella" not in kept
    assert "256" in kept
