"""Models that turn text into vectors: which one is taken, and what it reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from familiar_cli.base.errors import OutOfTimeError
from familiar_cli.base.times.clock import WorkLimit, limited
from familiar_cli.store.search import embedder
from familiar_cli.store.search.embedder import (
    SPECS,
    EmbedderError,
    FastembedEmbedder,
    OnnxEmbedder,
    open_embedder,
)
from tests.support.cases import IS_NIGHT

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def minilm_cache(model_cache) -> Path:
    """The cache of models, holding MiniLM as well."""
    from familiar_cli.base.errors import FetchError
    from familiar_cli.llm.models.fetch import pull

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


TEXTS = [
    "Alice likes green tea",
    "",
    "日本語のお茶 and a word",
    "The train to Rome was late. " * 20,
    "ok",
]


def test_vectors_are_those_of_fastembed(minilm) -> None:
    peer = FastembedEmbedder(minilm.spec.hub_id, minilm._directory)
    assert not peer.ready
    theirs = peer.passages(TEXTS)
    assert minilm.passages(TEXTS) == pytest.approx(theirs, abs=1e-3)
    assert peer.queries(TEXTS[:1]).shape == (1, minilm.dimension)
    assert peer.ready
    quick = OnnxEmbedder(minilm.spec, minilm._directory)
    assert quick.queries(TEXTS) == pytest.approx(theirs, abs=1e-3)
    assert not quick._encoder.optimised


@pytest.fixture
def encoder(minilm):
    with minilm._working() as opened:
        yield opened


def test_the_first_token_is_the_vector_of_models_that_pool_so(minilm) -> None:
    from familiar_cli.store.search.embedder import Encoder

    spec = replace(minilm.spec, pooling="first")
    encoder = Encoder(spec, minilm._directory, optimised=False)
    mean = Encoder(minilm.spec, minilm._directory, optimised=False)
    assert SPECS["bge-small-en-v1.5"].pooling == "first"
    assert encoder.pooled(["tea", "green tea"]).shape == (2, 384)
    assert not np.allclose(encoder.pooled(["green tea"]), mean.pooled(["green tea"]), atol=1e-2)


def test_a_question_asked_again_is_not_read_again(minilm, monkeypatch) -> None:
    (first,) = minilm.queries(["which tea?"])
    monkeypatch.setattr(minilm, "_encoded", None)
    (again,) = minilm.queries(["which tea?"])
    assert (first == again).all()


def test_a_model_that_was_optimised_for_long_work_stays_so(minilm_cache) -> None:
    fresh = OnnxEmbedder(SPECS["minilm-l6-v2"], minilm_cache / "models" / "minilm-l6-v2")
    fresh.load()
    assert not fresh._encoder.optimised
    fresh.passages(["tea"])
    fresh.load()
    assert fresh._encoder.optimised


@pytest.mark.posix
def test_a_packed_model_is_unpacked_once_and_a_damaged_copy_is_deleted(minilm, tmp_path) -> None:
    from familiar_cli.store.search.embedder import Encoder

    for file in ("model.onnx", "tokenizer.json"):
        (tmp_path / file).symlink_to(minilm._directory / file)
    with pytest.MonkeyPatch.context() as disk:
        disk.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(RuntimeError("full")))
        Encoder(minilm.spec, tmp_path, optimised=True)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    Encoder(minilm.spec, tmp_path, optimised=True)
    (copy,) = tmp_path.glob("unpacked-[0-9]*")
    (copy / "mark").touch()
    embedder._unpack(tmp_path / "model.onnx", copy)  # as a process that waited for another one
    assert (copy / "mark").exists()
    expected = minilm.passages(["green tea"])
    for is_whole in (True, False):
        row = Encoder(minilm.spec, tmp_path, optimised=False).pooled(["green tea"])
        assert embedder.normalise(row) == pytest.approx(expected, abs=1e-3)
        assert copy.exists() == is_whole
        if is_whole:
            (copy / "weights.bin").write_bytes(b"")


def test_a_model_that_was_downloaded_again_is_unpacked_again(tmp_path, monkeypatch) -> None:
    file, targets = tmp_path / "model.onnx", set()
    monkeypatch.setattr(embedder, "_session", lambda path, _: path)
    monkeypatch.setattr(embedder, "_unpack", lambda _, target: targets.add(target))
    for at_ns in (1, 2):
        file.write_bytes(b"same size")
        os.utime(file, ns=(at_ns, at_ns))
        assert embedder._open_session(SPECS["minilm-l6-v2"], tmp_path, optimised=True, threads=1)
    assert len(targets) == 2


def test_a_model_whose_unpacked_copy_is_damaged_is_optimised_all_the_same(
    tmp_path, monkeypatch
) -> None:
    def open_file(path, options):
        if path.parent != tmp_path:
            raise RuntimeError("damaged")
        return str(options.graph_optimization_level)

    (tmp_path / "model.onnx").touch()
    monkeypatch.setattr(embedder, "_session", open_file)
    monkeypatch.setattr(embedder, "_unpack", lambda _, target: target.mkdir())
    level = embedder._open_session(SPECS["minilm-l6-v2"], tmp_path, optimised=True, threads=1)
    assert level.endswith("ORT_ENABLE_ALL")


def test_the_encoder_cuts_at_256_tokens_so_long_texts_are_read_in_parts(minilm, encoder) -> None:
    filler = "The weather was grey and nothing happened. " * 60
    parts = embedder._split_parts(encoder, filler)
    assert "".join(parts) == filler
    assert all(encoder.unread_from(part) is None for part in parts)


def test_the_end_of_a_long_text_counts(minilm) -> None:
    filler = "The weather was grey and nothing happened. " * 60
    short, long = minilm.passages([filler, filler + "The marmalade is behind the clock."])
    assert not np.allclose(short, long, atol=1e-3)


@pytest.mark.parametrize("text", ["日本語 " * 400, "字" * 900, "x" * 3000, "a " * 2000, ""])
def test_parts_lose_nothing_and_fit_whatever_the_script(encoder, text) -> None:
    parts = embedder._split_parts(encoder, text)
    assert "".join(parts) == text
    assert all(encoder.unread_from(part) is None for part in parts)


def test_bge_asks_in_its_query_form(monkeypatch) -> None:
    asked: list[str] = []
    bge = OnnxEmbedder(SPECS["bge-small-en-v1.5"], Path())
    nothing = embedder.Encoded(np.zeros((1, 384), np.float32), None, (0,))
    monkeypatch.setattr(bge, "_encoded", lambda texts, **_: asked.extend(texts) or nothing)
    bge.queries(["tea?"])
    assert asked == ["Represent this sentence for searching relevant passages: tea?"]


def test_a_broken_model_is_an_error_that_says_how_to_mend_it(tmp_path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"cut off")
    broken = OnnxEmbedder(SPECS["minilm-l6-v2"], tmp_path)
    with pytest.raises(EmbedderError) as caught:
        broken.passages(["tea"])
    assert "familiar model pull minilm-l6-v2" in str(caught.value.hint)


def test_an_unreachable_hub_costs_nothing_since_it_is_never_asked(minilm_cache) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise AssertionError('the network was asked')\n"
        "socket.socket.connect = refuse; socket.getaddrinfo = refuse\n"
        "from pathlib import Path\n"
        "from familiar_cli.store.search.embedder import open_embedder\n"
        "found = open_embedder('minilm-l6-v2', Path(sys.argv[1])).embedder\n"
        "print(found.passages(['tea']).shape, 'fastembed' in sys.modules)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", code, str(minilm_cache)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stdout) == (0, "(1, 384) False\n"), done.stderr


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
from familiar_cli.store.search.embedder import open_embedder

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
    for _ in range(3 if IS_NIGHT else 1):
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False)
        assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr


class ReadingEncoder:
    """Reads 200 characters at once, and counts what it was shown to find that out."""

    window_chars = 1_000
    shown_chars = 0

    def unread_from(self, text):
        self.shown_chars += len(text)
        return 200 if len(text) > 200 else None


def test_splitting_a_long_text_looks_at_each_part_of_it_a_few_times_at_most() -> None:
    # A pitfall: encoding the whole remaining text for each part is quadratic.
    encoder, text = ReadingEncoder(), "Anna keeps bees. " * 20_000
    parts = embedder._split_parts(encoder, text)
    assert "".join(parts) == text
    assert max(map(len, parts)) <= 200
    assert encoder.shown_chars < 8 * len(text)


def test_reading_ends_when_nobody_waits_for_it(minilm) -> None:
    limit = WorkLimit(60)
    limit.cancel()
    with limited(limit), pytest.raises(OutOfTimeError):
        minilm.passages(["Anna keeps bees."])
