"""Turn text into vectors. One protocol, and the models that fulfil it."""

from __future__ import annotations

import atexit
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

_PATIENCE_S: Final = 15.0  # with what is being done when the program ends

BATCH: Final = 16
"""Texts per call of the model: fastembed's own default of 256 can take gigabytes."""

AUTO: Final = ("bge-small-en-v1.5", "minilm-l6-v2")
"""What `auto` takes, the first one whose files are on disk."""


class Embedder(Protocol):
    """Makes vectors of text; `model` and `dimension` tell which vectors may be compared."""

    model: str
    dimension: int
    spec: Spec

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Return float32[n, d], each row L2-normalised; every word of every text was read."""

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Return float32[n, d] of questions, in the form in which the model wants them."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What is particular to one model.

    Args:
        name: Its name in the catalog of model files.
        hub_id: The name that fastembed knows it by.
        dimension: Length of a vector.
        max_tokens: How much of a text it reads.
        query_prefix: What stands before a question.
        far: Cosine of texts that have nothing to do with each other.
        near: Cosine of a question and its answer.
    """

    name: str
    hub_id: str
    dimension: int
    max_tokens: int
    query_prefix: str = ""
    far: float = 0.0
    near: float = 0.6


_BGE_QUERY: Final = "Represent this sentence for searching relevant passages: "
SPECS: Final = {
    spec.name: spec
    for spec in (
        Spec("minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2", 384, 256),
        # `far` and `near` of the bge models are estimates, not measurements: their cosines lie
        # closer together and higher than MiniLM's.
        Spec("bge-small-en-v1.5", "BAAI/bge-small-en-v1.5", 384, 512, _BGE_QUERY, 0.4, 0.8),
        Spec("bge-base-en-v1.5", "BAAI/bge-base-en-v1.5", 768, 512, _BGE_QUERY, 0.4, 0.8),
    )
}


class EmbedderError(FamiliarError):
    """The model that finds memories by meaning cannot be used; words still find them."""

    code = "embedder"


class FastEmbedder:
    """A model that fastembed runs on the CPU, from files on disk and never from the network."""

    def __init__(self, spec: Spec, directory: Path) -> None:
        self.spec = spec
        self.model = spec.name
        self.dimension = spec.dimension
        self._directory = directory
        self._lock = threading.Lock()
        self._is_over = False
        atexit.register(self._finish)

    def _finish(self) -> None:
        """Let what a thread has begun end before the program does; nothing begins any more.

        onnxruntime has threads of its own, and takes the whole process down when it ends while they
        are being set up: a prompt that would not wait for the model leaves such a thread behind.
        """
        self._is_over = True
        self._lock.acquire(timeout=_PATIENCE_S)

    @contextmanager
    def _working(self) -> Iterator[Any]:
        """Hold fastembed's model, and say what is wrong with it in our words."""
        with self._lock:
            if self._is_over:
                raise self._failed(RuntimeError("the program ends"))
            try:
                yield _load(self.spec, self._directory)
            except Exception as error:  # onnxruntime and tokenizers raise classes of their own
                raise self._failed(error) from error

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Return one vector a text; a text too long to read at once is read in parts."""
        import numpy as np  # noqa: PLC0415  # 0.1 s

        parts = [self._parts(text) for text in texts]
        rows = self._embed([part for of_text in parts for part in of_text])
        if len(rows) == len(texts):
            return rows
        ends = np.cumsum([len(of_text) for of_text in parts])
        return _normal(np.stack([g.mean(axis=0) for g in np.split(rows, ends[:-1])]))

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Return one vector a question."""
        return self.passages([self.spec.query_prefix + text for text in texts])

    def _embed(self, texts: list[str]) -> Matrix:
        import numpy as np  # noqa: PLC0415

        with self._working() as model:
            rows = list(model.embed(texts, batch_size=BATCH))
        found = np.asarray(rows, dtype=np.float32).reshape(len(texts), -1)
        if found.shape[1] != self.dimension or not np.isfinite(found).all():
            raise self._failed(ValueError(f"its vectors have {found.shape[1]} numbers"))
        return _normal(found)

    def _encode(self, text: str) -> Any:  # noqa: ANN401  # an encoding of tokenizers
        with self._working() as model:
            return model.model.tokenizer.encode(text)

    def _parts(self, text: str) -> list[str]:
        """Cut `text` between words into parts that the model reads whole."""
        parts: list[str] = []
        while True:
            encoded = self._encode(text)
            # What was cut off comes back as further encodings; the first says where they begin.
            unread = [at for e in encoded.overflowing for at, to in e.offsets if to]
            if not unread:
                return [*parts, text]
            cut = min(unread)
            cut = max(text.rfind(" ", 1, cut), text.rfind("\n", 1, cut)) + 1 or max(cut, 1)
            parts.append(text[:cut])
            text = text[cut:]

    def _failed(self, error: Exception) -> EmbedderError:
        return EmbedderError(
            f"The model {self.model!r} in {str(self._directory)!r} does not work: {error}",
            hint=f"Fetch it again: `familiar model rm {self.model}`,"
            f" then `familiar model pull {self.model}`.",
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """The embedder that a setting means, or why there is none and what would add it."""

    embedder: Embedder | None
    reason: str = ""
    hint: str = ""


def open_embedder(setting: str, cache_dir: Path) -> Opened:
    """Return the embedder that `setting` means; its files are read when it is first used.

    Args:
        setting: `auto`, `none`, or a model's name.
        cache_dir: Where model files are kept.
    """
    if setting == "none":
        return Opened(None, "finding by meaning is turned off in [embedding]")
    wanted = AUTO if setting == "auto" else (setting,)
    for name in wanted:
        directory = _directory_of(name, cache_dir)
        if directory is not None:
            return Opened(_embedder(SPECS[name], directory))
    missing = wanted[-1] if setting == "auto" else wanted[0]
    return Opened(
        None,
        "no model for finding by meaning is on disk"
        if setting == "auto"
        else f"{missing} is not on disk",
        f"familiar model pull {missing}",
    )


def _directory_of(name: str, cache_dir: Path) -> Path | None:
    from familiar_cli.models.store import path_of  # noqa: PLC0415

    return path_of(name, cache_dir) if name in SPECS else None


@cache
def _embedder(spec: Spec, directory: Path) -> FastEmbedder:
    """Return the one embedder of this process for these files."""
    return FastEmbedder(spec, directory)


@cache
def _load(spec: Spec, directory: Path) -> Any:  # noqa: ANN401  # fastembed's model, without types
    from fastembed import TextEmbedding  # noqa: PLC0415  # 0.5 s

    model: Any = TextEmbedding(
        spec.hub_id,
        specific_model_path=str(directory),
        cache_dir=str(directory),
        local_files_only=True,
        cuda=False,
    )
    model.model.tokenizer.enable_truncation(spec.max_tokens)
    return model


def _normal(rows: Matrix) -> Matrix:
    import numpy as np  # noqa: PLC0415

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    normal: Matrix = rows / np.maximum(lengths, np.float32(1e-12))
    return normal.astype(np.float32, copy=False)
