"""`ServerEmbedder`: vectors from an OpenAI-compatible `/v1/embeddings` server.

Texts leave this program only where the owner named the server: `embedding.base_url`.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.base.errors import BadReplyError, ModelError, PromptTooLongError
from familiar_cli.base.files import read_object, write_whole
from familiar_cli.base.times.clock import check_work_limit, stopwatch_s
from familiar_cli.llm import wire
from familiar_cli.llm.client import wait_before_retry_s
from familiar_cli.llm.reply import parse_object
from familiar_cli.store.search import embedder
from familiar_cli.store.search.types import EmbedderError

if TYPE_CHECKING:
    from familiar_cli.llm.slots import EmbeddingServer, ResolvedSlot
    from familiar_cli.store.search.embedder import Matrix

QUESTION_S: Final = 4.0
"""Longest wait for the vectors of a question; words are found without them."""

SILENCE_S: Final = 30.0
"""For so long a server that failed is not asked again."""

_MOST_TEXTS: Final = 64
_LEAST_CHARS: Final = 64  # a server that refuses less than this refuses everything
_JOIN_S: Final = 0.1

# Sentences that have nothing to do with each other.
_UNRELATED: Final = (
    "The kettle is on the stove.",
    "Our train leaves at seven tomorrow.",
    "She has played the cello since she was six.",
    "Interest rates rose again this spring.",
    "He repaired the old bicycle in the cellar.",
    "Nobody has fed the dog today.",
)
_NEAR: Final = 0.6
"""How much of the way from an unrelated text to an equal one an answer comes, as with MiniLM."""


def typical_cosines(questions: Matrix, texts: Matrix) -> tuple[float, float]:
    """Return the cosines of unrelated texts, and of a question and its answer.

    Args:
        questions: float32[n, d], each L2-normalised, that have nothing to do with each other.
        texts: float32[n, d], the same as texts.
    """
    count = len(questions)
    cosines = questions @ texts.T
    far = float((cosines.sum() - cosines.trace()) / (count * (count - 1)))
    far = min(max(far, 0.0), 0.9)
    return far, far + _NEAR * (1 - far)


class ServerEmbedder:
    """A model behind a server. It is asked from a thread of its own, so that work can be cancelled.

    A question is asked once and briefly. Texts are asked for again where that may help. A server
    that failed is left alone for a while, with the same error.

    Args:
        server: The server and its model.
        notes: The file that keeps the sizes of vectors, so that the index is known without it.
    """

    is_remote = True

    def __init__(self, server: EmbeddingServer, notes: Path) -> None:
        self.server = server
        self.model = embedder.name_with_prefix(server.name, server.passage_prefix)
        self._notes = notes
        dimension, far, near = _noted(notes, self.model)
        self.dimension = dimension
        self.spec = embedder.Spec(self.model, server.slot.model, dimension, 0, far=far, near=near)
        self._has_answered = False
        self._failed: tuple[float, EmbedderError] | None = None
        self._queries = lru_cache(maxsize=8)(self._query_rows)

    @property
    def ready(self) -> bool:
        """Whether it answered, and has not failed since."""
        return self._has_answered and self._failed is None

    def load(self, *, optimised: bool = False) -> None:  # noqa: ARG002  # it has one way to open
        """Find out the size of its vectors, and how alike unrelated texts are.

        Raises:
            EmbedderError: The server does not answer, or not with vectors.
        """
        self._learn(is_patient=not embedder.hurried.get())

    def _learn(self, *, is_patient: bool) -> None:
        if self.dimension:
            return
        prefixes = (self.server.query_prefix, self.server.passage_prefix)
        asked = [prefix + text for prefix in prefixes for text in _UNRELATED]
        rows = embedder.normalise(self._ask(asked, is_patient=is_patient))
        far, near = typical_cosines(rows[: len(_UNRELATED)], rows[len(_UNRELATED) :])
        self._note(rows.shape[1], far, near)

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Embed texts, one vector each; one that is too long for the model is read in parts."""
        import numpy as np  # noqa: PLC0415  # 0.1 s

        self.load()
        items = [np.empty((0, self.dimension), np.float32)]
        for start in range(0, len(texts), _MOST_TEXTS):
            check_work_limit()
            some = texts[start : start + _MOST_TEXTS]
            items.append(
                self._rows(some, self.server.passage_prefix, is_patient=not embedder.hurried.get())
            )
        return np.concatenate(items)

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Embed questions, one vector each; recent ones are cached."""
        return self._queries(tuple(texts))

    def _query_rows(self, texts: tuple[str, ...]) -> Matrix:
        self._learn(is_patient=False)
        rows = self._rows(texts, self.server.query_prefix, is_patient=False)
        rows.flags.writeable = False
        return rows

    def _rows(self, texts: Sequence[str], prefix: str, *, is_patient: bool) -> Matrix:
        """Return normalised vectors, in halves of what the server refuses as too long."""
        import numpy as np  # noqa: PLC0415

        asked = [prefix + (text.strip() or "-") for text in texts]
        try:
            result = self._ask(asked, is_patient=is_patient)
        except _TooLongError as error:
            middle = len(texts) // 2
            parts = [texts[:middle], texts[middle:]] if middle else [_split_text(texts[0])]
            if not parts[0]:
                raise EmbedderError(str(error), hint=error.hint) from error
            result = np.concatenate([self._rows(p, prefix, is_patient=is_patient) for p in parts])
            result = result if middle else result.mean(axis=0, keepdims=True)
        if result.shape[1] != self.dimension:
            before, now = self.dimension, result.shape[1]
            self._note(now, self.spec.far, self.spec.near)
            raise EmbedderError(
                f"{self.server.name} now sends {now} numbers a vector instead of {before}.",
                hint="Run `familiar index build`, which embeds everything anew.",
            )
        return embedder.normalise(result)

    def _ask(self, texts: Sequence[str], *, is_patient: bool) -> Matrix:
        """Return the vectors that the server sends, float32[n, d], n >= 1.

        Raises:
            EmbedderError: It fails, or failed a moment ago.
        """
        if self._failed and stopwatch_s() < self._failed[0]:
            raise self._failed[1]
        try:
            result: Matrix = _run_aside(
                lambda: _request_patiently(self.server.slot, texts, is_patient)
            )
        except PromptTooLongError as error:
            raise _TooLongError(str(error), hint=error.hint) from error
        except ModelError as error:
            failed = EmbedderError(f"{str(error).rstrip('.')}.", hint=None)
            self._failed = (stopwatch_s() + SILENCE_S, failed)
            raise failed from error
        self._has_answered, self._failed = True, None
        return result

    def _note(self, dimension: int, far: float, near: float) -> None:
        """Remember the size of the vectors; write errors are ignored, as it can be asked again."""
        self.dimension = dimension
        self.spec = replace(self.spec, dimension=dimension, far=far, near=near)
        with suppress(OSError):
            kept = read_object(self._notes) | {self.model: [dimension, far, near]}
            self._notes.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._notes, json.dumps(kept, indent=1, sort_keys=True), durable=False)


class _TooLongError(EmbedderError):
    """The server refused a text as too long, or too many at once."""


def _noted(path: Path, model: str) -> tuple[int, float, float]:
    """Return the size of a model's vectors, and its typical cosines; 0 where it is unknown."""
    match read_object(path).get(model):
        case [int(dimension), float(far), float(near)] if dimension > 0 and far < near:
            return dimension, far, near
    return 0, embedder.Spec.far, embedder.Spec.near


def _split_text(text: str) -> list[str]:
    """Split a text in the middle, between words; nothing if it is short already."""
    if len(text) < _LEAST_CHARS:
        return []
    middle = len(text) // 2
    cut = text.rfind(" ", middle // 2, middle) + 1 or middle
    return [text[:cut], text[cut:]]


def _run_aside(make: Callable[[], Any]) -> Any:  # noqa: ANN401  # what the coroutine returns
    """Run a coroutine in a thread, and wait for it until the current work is cancelled."""
    items: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            items.append(asyncio.run(make()))
        except BaseException as error:  # noqa: BLE001  # raised again below
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True, name="familiar-embed")
    thread.start()
    while thread.is_alive():
        thread.join(_JOIN_S)
        check_work_limit()
    if failed:
        raise failed[0]
    return items[0]


async def _request_patiently(slot: ResolvedSlot, texts: Sequence[str], is_patient: bool) -> Matrix:  # noqa: FBT001
    import httpx  # noqa: F401, PLC0415  # loaded before the server's time runs

    timeout_s = slot.timeout_s if is_patient else min(slot.timeout_s, QUESTION_S)
    slot = replace(slot, timeout_s=timeout_s)
    wire.check_allowed(slot)
    for number in range(slot.retries + 1 if is_patient else 1):
        try:
            async with asyncio.timeout(timeout_s):
                return await _request(slot, texts)
        except TimeoutError:
            raise wire.silence_error(slot, "") from None
        except wire.FailedError as failed:
            failure = failed.failure
            wait_s = wait_before_retry_s(failure, number, math.inf)
            if wait_s is None or not is_patient or number == slot.retries:
                raise failure.error from failed.__cause__
            await asyncio.sleep(wait_s)
    raise AssertionError("unreachable")


async def _request(slot: ResolvedSlot, texts: Sequence[str]) -> Matrix:
    body = json.dumps({"model": slot.model, "input": list(texts), "encoding_format": "float"})
    url = f"{slot.base_url}/embeddings"
    answer = wire.open_answer(slot, "POST", url, accept="application/json", body=body.encode())
    async with answer as response:
        if response.status_code != wire.OK:
            beginning = await wire.read_beginning(response)
            status = response.status_code
            raise wire.FailedError(wire.from_status(slot, status, response.headers, beginning))
        raw = await wire.read_whole(slot, response)
    return _parse_vectors(slot, raw, len(texts))


def _parse_vectors(slot: ResolvedSlot, raw: bytes, count: int) -> Matrix:
    """Return the vectors in a response, in the order of the texts.

    Raises:
        BadReplyError: There is not one for each text, all of the same size.
    """
    import numpy as np  # noqa: PLC0415

    payload = parse_object(raw.decode("utf-8", errors="replace"))
    if payload.get("error"):
        raise wire.FailedError(wire.from_payload(slot, payload))
    try:
        entries = sorted(payload["data"], key=lambda one: one.get("index", 0))
        rows = np.array([one["embedding"] for one in entries], np.float32)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        rows = np.empty((0, 0), np.float32)
    if rows.shape[:1] != (count,) or rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():  # noqa: PLR2004
        raise BadReplyError(f"{slot.subject} did not send one vector for each of {count} texts")
    return rows
