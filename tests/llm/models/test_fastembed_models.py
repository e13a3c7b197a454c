"""Models beyond the catalog: known by fastembed, fetched from the hub, opened from disk alone."""

from __future__ import annotations

import pytest

from familiar_cli.base.errors import FetchError, NotFoundError
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.llm.models import fastembed_models
from familiar_cli.llm.models.fetch import pull
from familiar_cli.llm.models.store import find_any, listing, path_of_model, remove
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.search.embedder import FastembedEmbedder, open_embedder
from familiar_cli.store.search.finding import Finder
from familiar_cli.store.search.types import SearchOptions
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
        fastembed_models, "_listed", lambda _repo: ("main", {*FILES, "README.md", "flax.msgpack"})
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


def test_a_reranker_has_its_file_in_a_folder(hub, cache, monkeypatch) -> None:
    files = {"onnx/model.onnx", "config.json", "tokenizer.json", "tokenizer_config.json"}
    for name in files:
        hub.files[f"Xenova/ms-marco-MiniLM-L-6-v2/{name}"] = HubFile(b"x" * 50)
    monkeypatch.setattr(fastembed_models, "_listed", lambda _repo: ("main", files))
    done = pull("Xenova/ms-marco-MiniLM-L-6-v2", cache)
    assert (done.path / "onnx" / "model.onnx").read_bytes() == b"x" * 50
    with pytest.raises(Exception, match="does not work"):
        fastembed_models.open_reranker("Xenova/ms-marco-MiniLM-L-6-v2", cache)


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


RERANKER = "Xenova/ms-marco-MiniLM-L-6-v2"
FOUND = [("a lamp", 0.9), ("a lighthouse", 0.5), ("bread", 0.7)]


@pytest.fixture
def finder(tmp_path, cache):
    """A finder with a reranker that is not on disk."""
    index = EmbeddingIndex(MemoryStore(tmp_path / "memory"))
    return Finder(
        index,
        lambda: None,
        vectors_dir=tmp_path,
        model="none",
        zone=None,
        instance=lambda: "",
        reranker=RERANKER,
    )


def by_length(_query, texts) -> list[float]:
    return [float(len(text)) for text in texts]


def test_a_reranker_deals_out_the_scores_anew(finder, monkeypatch) -> None:
    monkeypatch.setattr(fastembed_models, "open_reranker", lambda *_: by_length)
    assert finder.rescore("Where?", FOUND) == ([0.7, 0.9, 0.5], "")


def test_what_a_slow_reranker_has_no_time_for_keeps_its_place(finder, monkeypatch) -> None:
    monkeypatch.setattr(fastembed_models, "open_reranker", lambda *_: by_length)
    monkeypatch.setattr("familiar_cli.store.search.finding.RERANK_S", -1.0)
    found = [("x" * n, 1 - n / 100) for n in range(30)]
    scores, _ = finder.rescore("Where?", found)
    assert scores[:10] == [score for _, score in found[:10]][::-1]
    assert scores[10:] == [score for _, score in found[10:]]


def test_a_reranker_that_is_missing_is_told_once_and_the_order_stays(finder) -> None:
    scores, note = finder.rescore("Where?", FOUND)
    assert scores == [0.9, 0.5, 0.7]
    assert f"familiar model pull {RERANKER}" in note
    assert not finder.reranks


def test_a_search_is_ordered_by_the_reranker(finder, monkeypatch) -> None:
    monkeypatch.setattr(fastembed_models, "open_reranker", lambda *_: by_length)
    for name, more in (("a", ""), ("b", " that nobody has lit for years and years")):
        finder.index.store.write_file(f"topics/{name}.md", f"# {name}\n\nThe lamp{more}.")
    options = SearchOptions(k=1, viewer=OWNER)
    assert [hit.rel_path for hit in finder.search("lamp", options).hits] == ["topics/b.md"]
