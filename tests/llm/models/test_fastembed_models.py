"""Models beyond the catalog: known by fastembed, fetched from the hub, opened from disk alone."""

from __future__ import annotations

import pytest

from familiar_cli.base.errors import FetchError, NotFoundError
from familiar_cli.llm.models import fastembed_models
from familiar_cli.llm.models.fetch import pull
from familiar_cli.llm.models.store import find_any, listing, path_of_model, remove
from familiar_cli.store.search.embedder import FastembedEmbedder, open_embedder
from tests.support.hub import HubFile

NAME = "BAAI/bge-small-zh-v1.5"
REPO = "Qdrant/bge-small-zh-v1.5"
FILES = ("model_optimized.onnx", "config.json", "tokenizer.json", "tokenizer_config.json")


@pytest.fixture
def on_hub(hub, monkeypatch):
    """A repository with the files of one model."""
    for name in FILES:
        hub.files[f"{REPO}/{name}"] = HubFile(name.encode() * 50)
    monkeypatch.setattr(
        fastembed_models,
        "_list_files",
        lambda _repo: ("main", {*FILES, "README.md", "flax.msgpack"}),
    )
    return hub


def test_a_dense_model_is_fetched_by_name_with_the_files_that_it_needs(on_hub, cache) -> None:
    done = pull(NAME, cache)
    assert (done.name, done.source) == (NAME, "hub")
    assert {path.name for path in done.path.iterdir()} == {*FILES, ".received.json"}
    assert [one.name for one in listing(cache) if one.state == "ready"] == [NAME]
    assert pull(NAME, cache).source == ""


def test_it_is_removed_by_name(on_hub, cache) -> None:
    pull(NAME, cache)
    assert remove(NAME, cache).freed_bytes
    assert path_of_model(find_any(NAME, cache), cache) is None


def test_a_model_in_the_cache_of_fastembed_is_found_there(cache, tmp_path, monkeypatch) -> None:
    assert fastembed_models.directory_of(NAME, cache) is None
    root = tmp_path / "models--Qdrant--bge-small-zh-v1.5"
    for name in FILES:
        file = root / "snapshots" / "abc" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("abc", "utf-8")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    assert fastembed_models.directory_of(NAME, cache) == root / "snapshots" / "abc"
    assert open_embedder(NAME, cache).embedder is not None


def test_a_name_that_nobody_knows_is_an_error(hub, cache) -> None:
    with pytest.raises(NotFoundError, match="fastembed knows no such model"):
        pull("nobody/nothing", cache)


@pytest.mark.parametrize("name", ["../up", "a/../b", "a/..", "a\\b/c", "/etc/passwd"])
def test_a_name_never_leads_out_of_the_cache(name, cache) -> None:
    with pytest.raises(NotFoundError):
        remove(name, cache)


def test_an_unreachable_hub_is_named(hub, cache, monkeypatch) -> None:
    import huggingface_hub

    def fail(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "model_info", fail)
    with pytest.raises(FetchError, match="did not list the files of"):
        pull(NAME, cache)


def test_a_setting_may_name_one(on_hub, cache) -> None:
    choice = open_embedder(NAME, cache)
    assert (choice.embedder, choice.hint) == (None, f"familiar model pull {NAME}")
    pull(NAME, cache)
    found = open_embedder(NAME, cache).embedder
    assert (found.model, found.dimension, found.ready) == (NAME, 512, False)


def test_without_fastembed_the_reason_is_given(on_hub, cache, monkeypatch) -> None:
    import sys

    pull(NAME, cache)
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(NotFoundError, match="fastembed does not work here"):
        FastembedEmbedder(NAME, cache)
