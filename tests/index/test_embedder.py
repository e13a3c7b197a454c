"""Models that turn text into vectors: which one is taken, and what it reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from familiar_cli.index import embedder
from familiar_cli.index.embedder import SPECS, EmbedderError, FastEmbedder, open_embedder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def minilm_cache(model_cache) -> Path:
    """The cache of models, holding MiniLM as well."""
    from familiar_cli.errors import FetchError
    from familiar_cli.models.fetch import pull

    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("FAMILIAR_OFFLINE", raising=False)
        try:
            pull("minilm-l6-v2", model_cache)
        except FetchError as error:
            if os.environ.get("FAMILIAR_TEST_OFFLINE") == "1":
                pytest.skip("FAMILIAR_TEST_OFFLINE=1 and minilm-l6-v2 is not on disk")
            pytest.fail(f"{error}\nSet FAMILIAR_TEST_OFFLINE=1 to skip such tests.")
    return model_cache


@pytest.fixture
def minilm(minilm_cache):
    found = open_embedder("minilm-l6-v2", minilm_cache).embedder
    assert found is not None
    return found


def test_auto_without_any_model_is_words_alone_and_says_what_to_pull(tmp_path) -> None:
    found = open_embedder("auto", tmp_path)
    assert (found.embedder, found.hint) == (None, "familiar model pull minilm-l6-v2")


def test_none_is_words_alone_without_a_hint(tmp_path) -> None:
    assert open_embedder("none", tmp_path).hint == ""


def test_a_named_model_that_is_not_there_is_named(tmp_path) -> None:
    found = open_embedder("bge-base-en-v1.5", tmp_path)
    assert "bge-base-en-v1.5" in found.reason
    assert found.hint == "familiar model pull bge-base-en-v1.5"


def test_auto_takes_bge_small_before_minilm(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(embedder, "_directory_of", lambda name, _: tmp_path / name)
    assert open_embedder("auto", tmp_path).embedder.model == "bge-small-en-v1.5"


def test_auto_takes_minilm_when_it_is_all_there_is(minilm_cache) -> None:
    assert open_embedder("auto", minilm_cache).embedder.model == "minilm-l6-v2"


def test_one_process_has_one_embedder_for_one_model(minilm_cache) -> None:
    one, two = (open_embedder("minilm-l6-v2", minilm_cache).embedder for _ in range(2))
    assert one is two


def test_near_in_meaning_is_near_in_vectors(minilm) -> None:
    texts = ["Alice likes green tea", "The train to Rome was late"]
    rows = minilm.passages(texts)
    (question,) = minilm.queries(["Which beverage does she enjoy?"])
    assert rows.shape == (2, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert rows[0] @ question > rows[1] @ question


def test_the_encoder_cuts_at_256_tokens_so_long_texts_are_read_in_parts(minilm) -> None:
    filler = "The weather was grey and nothing happened. " * 60
    short, long = minilm.passages([filler, filler + "The marmalade is behind the clock."])
    assert not np.allclose(short, long, atol=1e-3)
    tokenizer = embedder._load(minilm.spec, minilm._directory).model.tokenizer
    parts = minilm._parts(filler)
    assert "".join(parts) == filler
    assert all(not tokenizer.encode(part).overflowing for part in parts)


@pytest.mark.parametrize("text", ["日本語 " * 400, "字" * 900, "x" * 3000, "a " * 2000, ""])
def test_parts_lose_nothing_and_fit_whatever_the_script(minilm, text) -> None:
    tokenizer = embedder._load(minilm.spec, minilm._directory).model.tokenizer
    parts = minilm._parts(text)
    assert "".join(parts) == text
    assert all(not tokenizer.encode(part).overflowing for part in parts)


def test_bge_asks_in_its_query_form(monkeypatch) -> None:
    asked: list[str] = []
    bge = FastEmbedder(SPECS["bge-small-en-v1.5"], Path())
    monkeypatch.setattr(bge, "passages", asked.extend)
    bge.queries(["tea?"])
    assert asked == ["Represent this sentence for searching relevant passages: tea?"]


def test_a_broken_model_is_an_error_that_says_how_to_mend_it(tmp_path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"cut off")
    broken = FastEmbedder(SPECS["minilm-l6-v2"], tmp_path)
    with pytest.raises(EmbedderError) as caught:
        broken.passages(["tea"])
    assert "familiar model pull minilm-l6-v2" in str(caught.value.hint)


def test_an_unreachable_hub_costs_nothing_since_it_is_never_asked(minilm_cache) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise AssertionError('the network was asked')\n"
        "socket.socket.connect = refuse; socket.getaddrinfo = refuse\n"
        "from pathlib import Path\n"
        "from familiar_cli.index.embedder import open_embedder\n"
        "found = open_embedder('minilm-l6-v2', Path(sys.argv[1])).embedder\n"
        "print(found.passages(['tea']).shape)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", code, str(minilm_cache)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stdout) == (0, "(1, 384)\n"), done.stderr


def test_a_whole_memory_is_read_and_found_by_meaning(world, minilm) -> None:
    world.put("people/alice.md", "# Alice\n\nLikes green tea in the morning.\n")
    world.put("sessions/2026-01-03-evening.md", "# Trip\n\nThe train to Rome was late.\n")
    world.index.build_if_stale(minilm)
    assert world.paths("favourite beverage", minilm)[0] == "people/alice.md"
    assert world.paths("railway journey", minilm)[0] == "sessions/2026-01-03-evening.md"


LEAVING = """
import sys, threading
from pathlib import Path
import onnxruntime
from familiar_cli.index.embedder import open_embedder

begun = threading.Event()
given = onnxruntime.InferenceSession.__init__
def begin(*args, **kwargs):
    begun.set()
    given(*args, **kwargs)
onnxruntime.InferenceSession.__init__ = begin
model = open_embedder("minilm-l6-v2", Path(sys.argv[1])).embedder
threading.Thread(target=model.queries, args=(["a boat"],), daemon=True).start()
begun.wait()
print("left", flush=True)
"""


def test_a_program_that_ends_while_the_model_is_being_read_ends_well(minilm_cache) -> None:
    argv = [sys.executable, "-c", LEAVING, str(minilm_cache)]
    for _ in range(3):
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False)
        assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr
