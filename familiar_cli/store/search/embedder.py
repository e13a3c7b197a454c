"""Embed text. One protocol, and the models that implement it.

Importing this loads onnxruntime, which takes a fifth of a second.
"""

from __future__ import annotations

import atexit
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.config.environment import install_command
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import locked
from familiar_cli.base.text import digest_of
from familiar_cli.base.times.clock import check_work_limit
from familiar_cli.store.fts import STOP_WORDS
from familiar_cli.store.search.types import EmbedderError
from familiar_cli.store.search.weights import kind_asked

if TYPE_CHECKING:
    import numpy as np
    from fastembed import TextEmbedding
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

_PATIENCE_S: Final = 15.0  # with what is being done when the program ends

_SURELY_READ: Final = 250  # a token has a character at least, and all models read 256 tokens


AT_ONCE: Final = 4
"""Texts per call of the model; with more of them, time goes into padding and memory."""

_RUNTIME: Final = ("numpy", "onnxruntime", "tokenizers")  # some machines have no wheels

AUTO: Final = ("bge-small-en-v1.5", "minilm-l6-v2")
"""What `auto` takes, the first one whose files are on disk."""


class Embedder(Protocol):
    """Embeds text; `model` and `dimension` tell which vectors are comparable."""

    model: str
    dimension: int  # 0: a server has not said yet
    spec: Spec

    @property
    def ready(self) -> bool:
        """Whether the model is open, so that a question is answered at once."""

    def load(self, *, optimised: bool = False) -> None:
        """Open it now; `optimised` takes longer, and halves the time per text afterwards."""

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Embed texts, float32[n, d], each row L2-normalised; every word is read."""

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Embed questions, float32[n, d], in the form that the model expects."""


class Encoded(Struct, frozen=True):
    """The embedding of some texts.

    Args:
        pooled: float32[n, d], one L2-normalised vector per text.
        tokens: float32[t, w], an L2-normalised vector per meaningful token, text by text; None if
            the model has none.
        counts: Number of `tokens` in each text.
        words: The word that each of `tokens` is, or is part of.
        kind: The word that names the kind of thing asked for; empty without one.
        things: Vectors of the tokens of such things, float32[t, w].
    """

    pooled: Matrix
    tokens: Matrix | None
    counts: tuple[int, ...]
    words: tuple[str, ...] = ()
    kind: str = ""
    things: Matrix | None = None

    def with_things(self, kind: str, things: Matrix | None) -> Encoded:
        """Add things of the kind asked for; a word for it that has no token gets an empty one."""
        import numpy as np  # noqa: PLC0415

        asked = self
        if self.tokens is not None and kind not in self.words:
            tokens = np.vstack((self.tokens, np.zeros_like(self.tokens[:1])))
            counts = (*self.counts[:-1], self.counts[-1] + 1)
            asked = replace(self, tokens=tokens, counts=counts, words=(*self.words, kind))
        return replace(asked, kind=kind, things=things)

    def without(self, words: Collection[str]) -> Encoded:
        """Leave out the tokens of some words, unless there are no others."""
        import numpy as np  # noqa: PLC0415

        places = [place for place, word in enumerate(self.words) if word not in words]
        if self.tokens is None or not places or len(places) == len(self.words):
            return self
        owners = np.repeat(np.arange(len(self.counts)), self.counts)[places]
        counts = np.bincount(owners, minlength=len(self.counts)).tolist()
        told = tuple(self.words[place] for place in places)
        return replace(self, tokens=self.tokens[places], counts=tuple(counts), words=told)


class TokenEmbedder(Protocol):
    """An embedder with token vectors, too; those of the same version are comparable."""

    token_version: str

    def read_passages(self, texts: Sequence[str]) -> Encoded:
        """Embed passages as `passages` does, with the vectors of their tokens."""

    def read_queries(self, texts: Sequence[str]) -> Encoded:
        """Embed queries as `queries` does, with the vectors of their tokens."""


def _reads_tokens(embedder: Embedder) -> TypeGuard[TokenEmbedder]:
    return hasattr(embedder, "token_version")  # at a hundredth of the cost of `isinstance`


def read_passages(embedder: Embedder, texts: Sequence[str]) -> Encoded:
    """Embed texts, with their tokens where the model supports it."""
    if _reads_tokens(embedder):
        return embedder.read_passages(texts)
    return Encoded(embedder.passages(texts), None, (0,) * len(texts))


def read_queries(embedder: Embedder, texts: Sequence[str]) -> Encoded:
    """Embed questions, with their tokens where the model supports it."""
    if _reads_tokens(embedder):
        return embedder.read_queries(texts)
    return Encoded(embedder.queries(texts), None, (0,) * len(texts))


def read_question(embedder: Embedder, sentences: Sequence[str]) -> Encoded:
    """Embed the sentences of a question, and things of the kind that it asks for."""
    encoding = read_queries(embedder, sentences)
    kind = next(filter(None, map(kind_asked, sentences)), None)
    if encoding.tokens is None or kind is None:
        return encoding
    things = read_queries(embedder, (kind.things,)).tokens
    return encoding.with_things(kind.word, things)


hurried: Final = ContextVar("hurried", default=False)
"""Whether a person waits, so that a server is asked once and briefly."""


@contextmanager
def in_a_hurry() -> Iterator[None]:
    """Ask servers once and briefly meanwhile."""
    token = hurried.set(True)
    try:
        yield
    finally:
        hurried.reset(token)


def is_remote(embedder: Embedder) -> bool:
    """Tell whether texts leave this program to be embedded."""
    return getattr(embedder, "is_remote", False) is True


def token_version(embedder: Embedder) -> str:
    """Return the version by which token vectors are comparable; empty without any."""
    return embedder.token_version if _reads_tokens(embedder) else ""


class Spec(Struct, frozen=True):
    """Properties of one model.

    Args:
        name: Its name in the catalog of model files.
        hub_id: Its name in fastembed.
        dimension: Length of a vector.
        max_tokens: Maximum tokens of a text.
        query_prefix: Prefix of questions.
        far: Cosine of unrelated texts.
        near: Cosine of a question and its answer.
        file: The model's file.
        pooling: How token vectors are pooled: their mean, or the first one's.
        is_packed: Its weights take a byte each, and are unpacked for each text.
    """

    name: str
    hub_id: str
    dimension: int
    max_tokens: int
    query_prefix: str = ""
    far: float = 0.0
    near: float = 0.6
    file: str = "model.onnx"
    pooling: Literal["mean", "first"] = "mean"
    is_packed: bool = False


_BGE_QUERY: Final = "Represent this sentence for searching relevant passages: "
_BGE: Final = (_BGE_QUERY, 0.4, 0.8, "model_optimized.onnx", "first")
SPECS: Final = {
    spec.name: spec
    for spec in (
        Spec("minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2", 384, 256, is_packed=True),
        # `far` and `near` of the bge models are estimates, not measurements: their cosines lie
        # closer together and higher than MiniLM's.
        Spec("bge-small-en-v1.5", "BAAI/bge-small-en-v1.5", 384, 512, *_BGE),
        Spec("bge-base-en-v1.5", "BAAI/bge-base-en-v1.5", 768, 512, *_BGE),
    )
}


PROJECTIONS_DIR: Final = Path(__file__).with_name("projections")
TOKENS_VERSION: Final = "1"
"""Raised when other tokens of a text are kept, or they are kept in another form."""


@cache
def load_projection(model: str) -> Matrix | None:
    """Load the projection of `model`'s token vectors, float32[d, w]; None without one.

    A matrix fits one model only.
    """
    import numpy as np  # noqa: PLC0415  # 0.1 s

    path = PROJECTIONS_DIR / f"{model}.npy"
    return np.load(path, allow_pickle=False) if path.is_file() else None


@cache
def projection_version(model: str) -> str:
    """Return the version by which token vectors of `model` are comparable."""
    path = PROJECTIONS_DIR / f"{model}.npy"
    if not path.is_file():
        return f"{TOKENS_VERSION}-whole"
    return f"{TOKENS_VERSION}-{digest_of(path.read_bytes(), 6).hex()}"


_PAD: Final = "[PAD]"
_SERIOUS: Final = 3  # its warnings are of no use to a person
_CHARS_A_TOKEN: Final = 8  # of prose it has 4 or 5
_UNPACKED: Final = "unpacked-"
_BY_TOKEN: Final = 3  # dimensions of an output that holds a vector a token


class ReadTexts(Struct, frozen=True):
    """A model's output for some texts.

    Args:
        pooled: float32[n, d], one unnormalised vector per text.
        tokens: float32[t, d], of the meaningful tokens, text by text; None if the model has none.
        counts: Number of `tokens` in each text.
        words: The word that each of `tokens` is, or is part of.
    """

    pooled: Matrix
    tokens: Matrix | None
    counts: list[int]
    words: list[str]


class Encoder:
    """An open model.

    Args:
        spec: Properties of the model.
        directory: Directory of its files.
        optimised: Spend a quarter of a second on its graph, which halves the time per text.
        threads: How many an optimised one works with; 0 for all processors.
    """

    def __init__(self, spec: Spec, directory: Path, *, optimised: bool, threads: int = 0) -> None:
        import tokenizers  # noqa: PLC0415

        self.optimised = optimised
        self.window_chars = _CHARS_A_TOKEN * spec.max_tokens
        """Length of text that is examined to find how much fits into the model."""
        self._pooling = spec.pooling
        self._session = _open_session(spec, directory, optimised=optimised, threads=threads)
        self._inputs = {value.name for value in self._session.get_inputs()}
        outputs = self._session.get_outputs()
        self._output = next((o for o in outputs if len(o.shape) == _BY_TOKEN), outputs[0]).name
        self._tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.enable_truncation(spec.max_tokens)
        self._tokenizer.enable_padding(
            pad_id=self._tokenizer.token_to_id(_PAD) or 0, pad_token=_PAD
        )

    def unread_from(self, text: str) -> int | None:
        """Return the offset from which `text` exceeds the model's window, or None."""
        encoded = self._tokenizer.encode(text)
        # What was cut off comes back as further encodings; the first says where they begin.
        return min((at for e in encoded.overflowing for at, to in e.offsets if to), default=None)

    def pooled(self, texts: Sequence[str]) -> Matrix:
        """Embed texts of any length, float32[n, d], one vector each."""
        return self._pooled(*self._run(texts)[1:])

    def read(self, texts: Sequence[str], skips: Sequence[int] = ()) -> ReadTexts:
        """Embed `texts`, with their tokens.

        Left out are special tokens, punctuation, stop words unless a text has nothing else, and the
        first `skips` characters of each text.
        """
        import numpy as np  # noqa: PLC0415

        encoded, values, mask = self._run(texts)
        pooled = self._pooled(values, mask)
        if values.ndim != _BY_TOKEN:
            return ReadTexts(pooled, None, [0] * len(texts), [])
        first = skips or (0,) * len(texts)
        kept = [_kept_tokens(*one) for one in zip(encoded, texts, first, strict=True)]
        tokens = [values[n, list(of_text)] for n, of_text in enumerate(kept)]
        return ReadTexts(
            pooled,
            np.concatenate(tokens).astype(np.float32, copy=False),
            [len(of_text) for of_text in kept],
            [word for of_text in kept for word in of_text.values()],
        )

    def _run(self, texts: Sequence[str]) -> tuple[list[Any], Matrix, NDArray[np.int64]]:
        """Return the tokens of `texts`, the model's output for them, and the attention mask."""
        import numpy as np  # noqa: PLC0415

        encoded = self._tokenizer.encode_batch(list(texts))
        mask = np.array([e.attention_mask for e in encoded], np.int64)
        given = {
            "input_ids": np.array([e.ids for e in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        wanted = {name: values for name, values in given.items() if name in self._inputs}
        return encoded, self._session.run([self._output], wanted)[0], mask

    def _pooled(self, values: Matrix, mask: NDArray[np.int64]) -> Matrix:
        import numpy as np  # noqa: PLC0415

        if values.ndim != _BY_TOKEN:
            return values.astype(np.float32, copy=False)
        if self._pooling == "first":
            return values[:, 0].astype(np.float32, copy=False)
        real = mask[:, :, None].astype(np.float32)
        mean: Matrix = (values * real).sum(axis=1) / np.maximum(real.sum(axis=1), 1.0)
        return mean.astype(np.float32, copy=False)


def _open_session(spec: Spec, directory: Path, *, optimised: bool, threads: int) -> Any:  # noqa: ANN401  # no types
    """Open a model; a packed one, once it was optimised, from its unpacked copy."""
    import onnxruntime  # noqa: PLC0415  # 0.2 s

    file, threads = directory / spec.file, threads if optimised else 1
    # A damaged model that was downloaded again differs in its time alone.
    copy = directory / f"{_UNPACKED}{onnxruntime.__version__}-{file.stat().st_mtime_ns}"
    if optimised and spec.is_packed and not copy.exists():
        with suppress(Exception):  # without it, as on a full disk, questions only take longer
            _unpack(file, copy)
    if copy.exists():
        try:
            options = _session_options(threads, optimised=False, prepacked=optimised)
            return _session(copy / spec.file, options)
        except Exception:  # noqa: BLE001  # damaged; the library raises classes of its own
            shutil.rmtree(copy, ignore_errors=True)
    return _session(file, _session_options(threads, optimised=optimised, prepacked=optimised))


def _session_options(threads: int = 0, *, optimised: bool = True, prepacked: bool = True) -> Any:  # noqa: ANN401  # no types
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SERIOUS
    options.intra_op_num_threads = threads
    # Threads that wait actively take the processor from all others, and gain little.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if not prepacked:
        # To put weights in the order that suits the processor takes longer than one text.
        options.add_session_config_entry("session.disable_prepacking", "1")
    return options


def _session(file: Path, options: Any) -> Any:  # noqa: ANN401  # no types
    import onnxruntime  # noqa: PLC0415

    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _unpack(file: Path, target: Path) -> None:
    """Make a copy of a model with unpacked weights, as a file that is mapped into memory.

    Raises:
        LockedError: Another process makes it.
        Exception: It cannot be written; the library raises classes of its own.
    """
    import onnxruntime  # noqa: PLC0415

    with locked(file.with_name(f"{_UNPACKED}lock"), 0):
        if target.exists():  # another process has just made it
            return
        for old in file.parent.glob(f"{_UNPACKED}*"):  # of other versions, or not complete
            shutil.rmtree(old, ignore_errors=True)
        scratch = file.with_name(f"{_UNPACKED}part")
        scratch.mkdir(mode=0o700)
        options = _session_options()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(scratch / file.name)
        weights = "session.optimized_model_external_initializers_"
        options.add_session_config_entry(f"{weights}file_name", "weights.bin")
        options.add_session_config_entry(f"{weights}min_size_in_bytes", "1024")
        try:
            _session(file, options)
            for made in scratch.iterdir():
                with made.open("r+b") as written:
                    os.fsync(written.fileno())
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _kept_tokens(encoded: Any, text: str, skip_chars: int) -> dict[int, str]:  # noqa: ANN401  # no types
    """Return the positions of the meaningful tokens, each with its word."""
    places: dict[int, list[int]] = {}
    for place, number in enumerate(encoded.word_ids):
        if number is not None:
            places.setdefault(number, []).append(place)
    offsets = encoded.offsets
    telling, empty = dict[int, str](), dict[int, str]()
    for of_word in places.values():
        start, end = offsets[of_word[0]][0], offsets[of_word[-1]][1]
        word = text[start:end].casefold()
        if start >= skip_chars and any(map(str.isalnum, word)):
            kept = empty if word in STOP_WORDS else telling
            kept.update(dict.fromkeys(of_word, word))
    return telling or empty


class OnnxEmbedder:
    """A model that onnxruntime runs on the CPU, from files on disk and never from the network."""

    def __init__(self, spec: Spec, directory: Path) -> None:
        self.spec = spec
        self.model = spec.name
        self.dimension = spec.dimension
        self._directory = directory
        self._lock = threading.Lock()
        self._is_over = False
        self._encoder: Encoder | None = None
        self._queries = lru_cache(maxsize=64)(self._query_rows)
        atexit.register(self._finish)

    def _finish(self) -> None:
        """Let work in progress end before the program does, and refuse more.

        onnxruntime crashes the process if it exits while the library's threads are being started,
        as in a thread left behind by a prompt that did not wait for the model.
        """
        self._is_over = True
        self._lock.acquire(timeout=_PATIENCE_S)

    @contextmanager
    def _working(self, *, optimised: bool = False, threads: int = 0) -> Iterator[Encoder]:
        """Hold the open model, and convert its errors to ours.

        Optimising its graph costs more than a single question gains, so only long work waits for
        that; an optimised model stays so.
        """
        with self._lock:
            if self._is_over:
                raise self._failed(RuntimeError("the program ends"))
            try:
                if self._encoder is None or (optimised and not self._encoder.optimised):
                    self._encoder = Encoder(
                        self.spec, self._directory, optimised=optimised, threads=threads
                    )
                yield self._encoder
            except Exception as error:  # onnxruntime and tokenizers raise classes of their own
                raise self._failed(error) from error

    @property
    def ready(self) -> bool:
        """Whether the model is open."""
        return self._encoder is not None

    def import_libraries(self) -> None:
        """Import what runs the model.

        Raises:
            EmbedderError: It does not work here.
        """
        try:
            import onnxruntime  # noqa: F401, PLC0415  # 0.2 s
            import tokenizers  # noqa: F401, PLC0415
        except Exception as error:  # a library that is broken raises whatever it likes
            raise self._failed(error) from error

    def load(self, *, optimised: bool = False) -> None:
        """Open the model now, so that nobody waits for it later.

        Args:
            optimised: Take longer to open it, to halve the time per text afterwards.

        Raises:
            EmbedderError: The model does not work.
        """
        with self._working(optimised=optimised, threads=1):  # more gain nothing for a question
            pass

    @property
    def token_version(self) -> str:
        """Version by which token vectors are comparable."""
        return projection_version(self.model)

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Embed texts, one vector each; longer ones are read in parts."""
        return self.read_passages(texts).pooled

    def read_passages(self, texts: Sequence[str]) -> Encoded:
        """Embed texts and their tokens; longer texts are read in parts."""
        return self._encoded(texts, optimised=True)

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Embed questions, one vector each; recent ones are cached."""
        return self.read_queries(texts).pooled

    def read_queries(self, texts: Sequence[str]) -> Encoded:
        """Embed questions and their tokens, without the model's query prefix."""
        return self._queries(tuple(texts))

    def _query_rows(self, texts: tuple[str, ...]) -> Encoded:
        prefix = self.spec.query_prefix
        asked = [prefix + text for text in texts]
        encoding = self._encoded(asked, optimised=False, skip_chars=len(prefix))
        encoding.pooled.flags.writeable = False
        return encoding

    def _encoded(self, texts: Sequence[str], *, optimised: bool, skip_chars: int = 0) -> Encoded:
        import numpy as np  # noqa: PLC0415  # 0.1 s

        with self._working(optimised=optimised) as encoder:
            parts = [_split_parts(encoder, text) for text in texts]
        flat = [part for of_text in parts for part in of_text]
        skips = [0 if n else skip_chars for of_text in parts for n in range(len(of_text))]
        found = []
        for at in range(0, len(flat), AT_ONCE):
            check_work_limit()
            with self._working(optimised=optimised) as encoder:  # a question need not wait for all
                found.append(encoder.read(flat[at : at + AT_ONCE], skips[at : at + AT_ONCE]))
        pooled = [one.pooled for one in found]
        rows = np.concatenate(pooled) if pooled else np.empty((0, self.dimension), np.float32)
        if rows.shape[1] != self.dimension or not np.isfinite(rows).all():
            raise self._failed(ValueError(f"its vectors have {rows.shape[1]} numbers"))
        counts = [count for one in found for count in one.counts]
        if len(rows) != len(texts):
            firsts = np.cumsum([0, *(len(of_text) for of_text in parts)])[:-1]
            rows = np.stack([g.mean(axis=0) for g in np.split(normalise(rows), firsts[1:])])
            counts = [int(count) for count in np.add.reduceat(counts, firsts)]
        words = tuple(word for one in found for word in one.words)
        return Encoded(normalise(rows), self._tokens(found), tuple(counts), words)

    def _tokens(self, texts: Sequence[ReadTexts]) -> Matrix | None:
        """Return the projected vectors of all tokens; None if the model has none."""
        import numpy as np  # noqa: PLC0415

        rows = [one.tokens for one in texts if one.tokens is not None]
        if len(rows) != len(texts) or not rows:
            return None
        matrix = load_projection(self.model)
        return normalise(np.concatenate([r if matrix is None else r @ matrix for r in rows]))

    def _failed(self, error: Exception) -> EmbedderError:
        return _unusable(self.model, self._directory, error)


class FastembedEmbedder:
    """A dense model beyond the catalog, run by fastembed from files on disk.

    It has no vectors of tokens, and what a text has beyond its window is not read.
    """

    def __init__(self, name: str, directory: Path, prefixes: tuple[str, str] = ("", "")) -> None:
        from familiar_cli.llm.models.fastembed_models import dimension_of  # noqa: PLC0415  # 1 s

        self._name = name
        self._query_prefix, self._passage_prefix = prefixes
        self.model = name_with_prefix(name, self._passage_prefix)
        self.dimension = dimension_of(name)
        self.spec = Spec(name, name, self.dimension, 512, self._query_prefix)
        self._directory = directory
        self._lock = threading.Lock()
        self._opened: TextEmbedding | None = None

    @property
    def ready(self) -> bool:
        """Whether the model is open."""
        return self._opened is not None

    def load(self, *, optimised: bool = False) -> None:  # noqa: ARG002  # it has one way to open
        """Open the model now.

        Raises:
            EmbedderError: The model does not work.
        """
        self._open()

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Embed texts, one vector each."""
        read = [self._passage_prefix + text for text in texts]
        return self._rows(lambda opened: opened.passage_embed(read, batch_size=AT_ONCE))

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Embed questions, one vector each."""
        asked = [self._query_prefix + text for text in texts]
        return self._rows(lambda opened: opened.query_embed(asked))

    def _open(self) -> TextEmbedding:
        from familiar_cli.llm.models.fastembed_models import open_dense  # noqa: PLC0415

        with self._lock:
            try:
                self._opened = self._opened or open_dense(self._name, self._directory)
            except Exception as error:  # onnxruntime and tokenizers raise classes of their own
                raise _unusable(self._name, self._directory, error) from error
            return self._opened

    def _rows(self, run: Callable[[TextEmbedding], Iterable[NDArray[Any]]]) -> Matrix:
        import numpy as np  # noqa: PLC0415

        opened = self._open()
        try:
            rows = np.array(list(run(opened)), np.float32).reshape(-1, self.dimension)
        except Exception as error:
            raise _unusable(self.model, self._directory, error) from error
        return normalise(rows)


def _unusable(model: str, directory: Path, error: Exception) -> EmbedderError:
    return EmbedderError(
        f"The model {model!r} in {str(directory)!r} does not work: {error}",
        hint=f"Download it again: `familiar model rm {model}`, then `familiar model pull {model}`.",
    )


class EmbedderChoice(Struct, frozen=True):
    """The configured embedder, or why there is none and how to add it."""

    embedder: Embedder | None
    reason: str = ""
    hint: str = ""


def name_with_prefix(model: str, passage_prefix: str) -> str:
    """Return a name for which vectors are comparable: the model's, and what precedes each text."""
    return f"{model} ({passage_prefix!r} before texts)" if passage_prefix else model


def lacking_libraries(*needed: str) -> EmbedderChoice | None:
    """Return why there is no embedder if any of some libraries is not installed."""
    lacking = [name for name in needed if find_spec(name) is None]
    if not lacking:
        return None
    reason = f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not installed"
    return EmbedderChoice(None, reason, install_command(packages=lacking))


def open_embedder(
    setting: str, cache_dir: Path, prefixes: tuple[str, str] = ("", "")
) -> EmbedderChoice:
    """Return an embedder on this machine; its files are read on first use.

    Args:
        setting: `auto`, `none`, or a model's name: from the catalog, or known to fastembed.
        cache_dir: Directory of model files.
        prefixes: What stands before a question and a text; only for models of fastembed.
    """
    if setting == "none":
        return EmbedderChoice(None, "search by meaning is turned off in [embedding]")
    if lacking := lacking_libraries(*_RUNTIME):
        return lacking
    by_hub_id = {spec.hub_id: spec.name for spec in SPECS.values()}
    target = AUTO if setting == "auto" else (by_hub_id.get(setting, setting),)
    for name in target:
        directory = _directory_of(name, cache_dir)
        if directory is not None and name in SPECS:
            return EmbedderChoice(_cached_embedder(SPECS[name], directory))
        if directory is not None:
            return _beyond_catalog(name, directory, prefixes)
    missing = target[-1] if setting == "auto" else target[0]
    if missing not in SPECS and "/" not in missing:
        reason = f"there is no embedding model {missing!r}; known are {', '.join(SPECS)}"
        return EmbedderChoice(None, reason, "familiar config set embedding.model auto")
    return EmbedderChoice(
        None,
        "no embedding model is on disk" if setting == "auto" else f"{missing} is not on disk",
        f"familiar model pull {missing}",
    )


def _directory_of(name: str, cache_dir: Path) -> Path | None:
    from familiar_cli.llm.models.store import find_any, path_of_model  # noqa: PLC0415

    if "/" in name:
        from familiar_cli.llm.models.fastembed_models import directory_of  # noqa: PLC0415

        try:
            return directory_of(name, cache_dir)
        except FamiliarError:
            return None  # `model pull` says what is wrong with it
    return path_of_model(find_any(name, cache_dir), cache_dir) if name in SPECS else None


@cache
def _beyond_catalog(name: str, directory: Path, prefixes: tuple[str, str]) -> EmbedderChoice:
    """Return this process's only embedder for a fastembed model."""
    try:
        return EmbedderChoice(FastembedEmbedder(name, directory, prefixes))
    except FamiliarError as error:
        return EmbedderChoice(None, str(error), error.hint or "")


_cached_embedder = cache(OnnxEmbedder)  # this process's only one for some files


def _split_parts(encoder: Encoder, text: str) -> list[str]:
    """Split `text` between words into parts that fit the model, in linear time."""
    if len(text) < _SURELY_READ and text.isascii():
        return [text]
    parts: list[str] = []
    start = 0
    while True:
        check_work_limit()
        window = text[start : start + encoder.window_chars]
        cut = encoder.unread_from(window)
        if cut is None and start + len(window) >= len(text):
            return [*parts, window]
        cut = len(window) if cut is None else cut
        cut = max(window.rfind(" ", 1, cut), window.rfind("\n", 1, cut)) + 1 or max(cut, 1)
        parts.append(window[:cut])
        start += cut


def normalise(rows: Matrix) -> Matrix:
    """Scale each row to length 1."""
    import numpy as np  # noqa: PLC0415

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    normal: Matrix = rows / np.maximum(lengths, np.float32(1e-12))
    return normal.astype(np.float32, copy=False)
