"""How much a model reads is learned from its server, wherever the server says it."""

from __future__ import annotations

import json

import pytest

from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.llm.open import window_in
from familiar_cli.llm.slots import WINDOWS, resolve_slot
from tests.support.cases import each
from tests.support.server import MODEL, ChatServer, closed_port, too_long
from tests.support.world import data, live, run

OPENROUTER = {"data": [{"id": "other"}, {"id": MODEL, "context_length": 32_768}]}
VLLM = {"data": [{"id": MODEL, "max_model_len": 24_000}]}
LM_STUDIO = {"data": [{"id": MODEL, "max_context_length": 131_072, "loaded_context_length": 8192}]}
LLAMA_CPP = {"default_generation_settings": {"n_ctx": 12_288}, "total_slots": 1}
OLLAMA = {"models": [{"name": MODEL, "model": MODEL, "context_length": 16_384}]}


@each(
    ("said", "tokens"),
    [
        (OPENROUTER, 32_768),
        (VLLM, 24_000),
        (LM_STUDIO, 8192),
        (LLAMA_CPP, 12_288),
        (OLLAMA, 16_384),
    ],
)
def test_each_kind_of_server_says_it_in_its_place(said, tokens) -> None:
    assert window_in(json.dumps(said).encode(), MODEL) == tokens


@each(
    "said",
    [
        b"",
        b"no JSON",
        b"[" * 100_000,
        b"[]",
        b'{"data": 3}',
        b'{"data": ["x", null]}',
        b'{"data": [{"id": "a"}, {"id": "b", "context_length": 9000}]}',
        b'{"data": [{"id": "scripted-1", "context_length": -5}]}',
        b'{"data": [{"id": "scripted-1", "context_length": true}]}',
        b'{"data": [{"id": "scripted-1", "context_length": "9000"}]}',
        b'{"data": [{"id": "scripted-1", "context_length": 1e99}]}',
        b'{"default_generation_settings": {"n_ctx": 0}}',
    ],
)
def test_what_makes_no_sense_says_nothing(said) -> None:
    assert window_in(said, MODEL) == 0


@pytest.fixture
def root():
    return live("ada")


def point_at(server, preset="custom") -> None:
    for key, value in {
        "llm.preset": preset,
        "llm.base_url": server.base_url,
        "llm.model": MODEL,
    }.items():
        assert run("config", "set", key, value).exit_code == 0


@pytest.mark.parametrize(
    ("preset", "path", "said", "tokens"),
    [
        ("custom", "/v1/models", OPENROUTER, 32_768),
        ("llamacpp", "/props", LLAMA_CPP, 12_288),
        ("ollama", "/api/ps", OLLAMA, 16_384),
        ("lmstudio", "/api/v0/models", LM_STUDIO, 8192),
    ],
)
def test_a_test_of_the_model_teaches_how_much_it_reads(root, preset, path, said, tokens) -> None:
    with ChatServer("Hello.", pages={path: said}) as server:
        point_at(server, preset)
        assert data("model", "test")["window_tokens"] == tokens
        settings = LLMSettings(preset=preset, base_url=server.base_url, model=MODEL)
    found = resolve_slot(settings)
    assert (found.context_tokens, found.context_source) == (tokens, "server")


def test_the_doctor_teaches_it_as_well(root) -> None:
    with ChatServer("Hello.", pages={"/v1/models": OPENROUTER}) as server:
        point_at(server)
        assert "reads 32,768 tokens" in run("doctor").stdout
        settings = LLMSettings(preset="custom", base_url=server.base_url, model=MODEL)
    assert resolve_slot(settings).context_tokens == 32_768


def test_a_server_that_says_nothing_leaves_what_is_assumed(root) -> None:
    with ChatServer("Hello.") as server:
        point_at(server)
        assert data("model", "test")["window_tokens"] is None
        settings = LLMSettings(preset="custom", base_url=server.base_url, model=MODEL)
    found = resolve_slot(settings)
    assert (found.context_tokens, found.context_source) == (8192, "preset")


def test_what_is_set_counts_more_than_what_a_server_says(root) -> None:
    with ChatServer("Hello.", pages={"/v1/models": OPENROUTER}) as server:
        point_at(server)
        run("model", "test")
        settings = LLMSettings(
            preset="custom", base_url=server.base_url, model=MODEL, context_tokens=4096
        )
    found = resolve_slot(settings)
    assert (found.context_tokens, found.context_source) == (4096, "setting")


@each("known", [300, {"tokens": 300, "at": "2020-01-01T00:00:00.000Z"}])
def test_a_window_of_long_ago_is_asked_for_again_after_a_reply(known, root) -> None:
    with ChatServer(["Hello.", "Ho."], pages={"/v1/models": OPENROUTER}) as server:
        point_at(server)
        kept = cache_dir() / WINDOWS
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({f"{server.base_url} {MODEL}": known}))
        settings = LLMSettings(preset="custom", base_url=server.base_url, model=MODEL)
        assert resolve_slot(settings).context_tokens == 300
        assert [run("ask", "Hi").stdout, run("ask", "Hi").stdout] == ["Hello.\n", "Ho.\n"]
        assert resolve_slot(settings).context_tokens == 32_768
        assert len(server.other_requests) == 1


def test_a_prompt_that_is_too_long_lets_the_window_be_asked_for(root) -> None:
    said = {"data": [{"id": MODEL, "context_length": 2048}]}
    with ChatServer(too_long(), pages={"/v1/models": said}) as server:
        point_at(server)
        assert "now reads 2,048 tokens: send the message again" in run("ask", "Hi").stderr


def test_another_server_or_model_is_not_meant(root) -> None:
    with ChatServer("Hello.", pages={"/v1/models": OPENROUTER}) as server:
        point_at(server)
        run("model", "test")
        other = LLMSettings(preset="custom", base_url=server.base_url, model="other")
    assert resolve_slot(other).context_source == "preset"
    elsewhere = f"http://127.0.0.1:{closed_port()}/v1"
    settings = LLMSettings(preset="custom", base_url=elsewhere, model=MODEL)
    assert resolve_slot(settings).context_source == "preset"


def test_the_catalogue_knows_the_model_inside_the_program() -> None:
    found = resolve_slot(LLMSettings())
    assert (found.context_tokens, found.context_source) == (1536, "model")
    path = resolve_slot(LLMSettings(model="/tmp/some.gguf"))
    assert (path.context_tokens, path.context_source) == (1536, "preset")


def test_a_damaged_file_of_windows_is_as_none(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_CACHE", str(tmp_path))
    (tmp_path / "windows.json").write_text("[1, 2")
    settings = LLMSettings(preset="custom", base_url="http://127.0.0.1:9/v1", model=MODEL)
    assert resolve_slot(settings).context_source == "preset"
