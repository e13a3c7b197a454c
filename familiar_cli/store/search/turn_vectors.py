"""Vectors of turns: find the most similar of a million turns to a question.

They are in three row files, named after their model; all can be deleted at any time. `.rows` holds
one int8 vector per turn, `.tokens` one per token. `.keys` holds, in the order of `.rows`, the
turn's id, a hash of its text, the rows of its tokens, and a *sketch*: one bit for each number of
its vector, set if it is above 0. A search counts the bits in which sketches differ from the
question's, reads the rows of the nearest few, and the tokens of the best of those.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from familiar_cli.base.errors import LockedError
from familiar_cli.base.files import check_own, locked, remove, status_of, write_hint
from familiar_cli.base.text import digest_of
from familiar_cli.store.fts import words
from familiar_cli.store.search import token_vectors
from familiar_cli.store.search.embedder import Encoded, read_passages, read_question, token_version
from familiar_cli.store.search.schema import IndexUnusableError
from familiar_cli.store.search.types import BATCH
from familiar_cli.store.search.vectors import (
    RowFile,
    each_to_each,
    row_bytes,
    size_of,
    weighted_sums,
)
from familiar_cli.store.search.weights import WEIGHTS
from familiar_cli.store.search.who_when import people_among

if TYPE_CHECKING:
    import sqlite3

    import numpy as np
    from numpy.typing import NDArray

    from familiar_cli.store import fts
    from familiar_cli.store.search.build import Progress
    from familiar_cli.store.search.embedder import Embedder, Matrix, Spec
    from familiar_cli.store.search.token_vectors import Places

    _Loaded = tuple[NDArray[np.void], NDArray[np.int8], token_vectors.Rows | None]

    # Returns id and text of the turns after an id, ascending, up to a limit.
    TextsAfter = Callable[[int, int], Sequence[tuple[int, str]]]

VERSION: Final = 4
"""Raised when what is embedded of a turn, or how it is kept, changes."""

EXACT_ROWS: Final = 20_000
"""Up to so many vectors are compared with the question one by one, without sketches."""

OF_TURN_WORDS: Final = 0.25
"""Share of the words of a turn compared with the question, against those of the question."""

_RESCORED: Final = 2_000  # rows that are read after sketches have been compared
_BLOCK: Final = 16_384  # fits into a processor's cache
_SCALE: Final = 127
_FETCH: Final = 8 * BATCH  # sorted by length together, so that little of a batch is padding
_WORD_BITS: Final = 64
_UNSAFE: Final = re.compile(r"[^\w.-]")
_NAME_CHARS: Final = 60
_KEPT_BYTES: Final = 2_000_000  # of the vectors of about a thousand turns


class EmbeddedTurns(Struct, frozen=True):
    """The number of turns embedded; `busy` if another process is embedding them."""

    done: int = 0
    busy: bool = False


class TurnVectorStatus(Struct, frozen=True):
    """The model, the last turn, the number of vectors, their size on disk, and of token vectors."""

    model: str = ""
    through_id: int = 0
    vectors: int = 0
    size_bytes: int = 0
    token_vectors: int = 0


class NearTurns(Struct, frozen=True):
    """Similarities of turns to a question.

    Args:
        keys: Ids, hashes and sketches.
        rows: int8[n, d], in the order of `keys`.
        questions: float32[s, d], each L2-normalised.
        spec: The model.
        share: Weight of meaning against words.
        tokens: Token vectors, if any.
        asked: The question with its token vectors.
        tokens_share: Weight of meaning against words, if it comes from tokens.
        query: The question.
        familiar: The familiar's name.
        all_cosines: The cosines of all turns, where none are left out by sketches.
    """

    keys: NDArray[np.void]
    rows: NDArray[np.int8]
    questions: Matrix
    spec: Spec
    share: float = WEIGHTS.dense
    tokens: token_vectors.Rows | None = None
    asked: Encoded | None = None
    tokens_share: float = WEIGHTS.maxsim
    query: str = ""
    familiar: str = ""
    all_cosines: Matrix | None = None

    def nearest(self, count: int) -> list[int]:
        """Return the ids of about the `count` nearest turns, best first."""
        import numpy as np  # noqa: PLC0415  # 0.1 s

        places = self._nearest_sketches(max(_RESCORED, 2 * count))
        values = self._cosines(places)
        best = np.argsort(-values, kind="stable")[:count]
        ids: list[int] = self.keys["id"][places[best]].tolist()
        return ids

    def of(self, ids: Sequence[int]) -> dict[int, float]:
        """Return the similarity of the turns that have a vector; answers have about 1."""
        import numpy as np  # noqa: PLC0415

        known = self.keys["id"]
        asked = np.asarray(ids, np.int64)
        places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        there = known[places] == asked
        cosines = self._cosines(places[there]).astype(np.float64)
        nearness = np.fmax((cosines - self.spec.far) / (self.spec.near - self.spec.far), 0.0)
        return dict(zip(asked[there].tolist(), nearness.tolist(), strict=True))

    def by_tokens(
        self,
        connection: sqlite3.Connection,
        around: Mapping[int, Sequence[int]],
        speakers: Collection[str] = (),
        visible: fts.Visible | None = None,
    ) -> dict[int, float]:
        """Return the similarity of turns by token vectors; the best has about 1.

        Turns without them are missing.

        Args:
            connection: The history, whose full-text table gives the frequency of words.
            around: The turns, each with the turns of its passage, itself included.
            speakers: The names of who speaks in them, beside the familiar.
            visible: The turns whose words are counted; None: all.
        """
        import numpy as np  # noqa: PLC0415

        if self.tokens is None or self.asked is None:
            return {}
        people = people_among((*speakers, self.familiar), self.query)
        encoding = self.asked.without(people.words_among(self.asked.words))
        if encoding.tokens is None:
            return {}
        members = np.fromiter(chain.from_iterable(around.values()), np.int64)
        turns, places = np.unique(members, return_inverse=True)
        there, extents = self._extents(turns)
        order = there.cumsum() - 1  # of those that have vectors
        sizes = np.fromiter(map(len, around.values()), np.int64, len(around))
        asked = np.fromiter(around, np.int64, len(around))
        own = turns.searchsorted(asked)
        wanted = there[own]
        if not wanted.any():
            return {}
        some = there[places] & wanted.repeat(sizes)
        sizes = np.add.reduceat(some, sizes.cumsum() - sizes, dtype=np.int64)[wanted]
        members, own = order[places[some]], order[own[wanted]]
        count = visible.rows if visible else int(self.keys["id"][-1])
        weights = token_vectors.token_weights(
            connection, "turns_fts", encoding, count, visible=visible
        )
        result = token_vectors.question_maxima(self.tokens, extents, encoding).best
        passages = token_vectors.largest_maxima(result, members, sizes)
        scale = token_vectors.scale_by_spread
        fit = scale(weighted_sums(result[own], weights)) + scale(weighted_sums(passages, weights))
        tokens = token_vectors.Extents(extents.starts[own], extents.counts[own])
        back = scale(token_vectors.mean_maxima(self.tokens, tokens, encoding.tokens))
        both = (1 - OF_TURN_WORDS) * fit / 2 + OF_TURN_WORDS * back
        return dict(zip(asked[wanted].tolist(), both.tolist(), strict=True))

    def _extents(self, turns: Places) -> tuple[NDArray[np.bool_], token_vectors.Extents]:
        """Tell which of `turns`, ascending, have vectors, and where the tokens of those are."""
        known = self.keys["id"]
        places = known.searchsorted(turns).clip(max=len(known) - 1)
        there = known[places] == turns
        keys = self.keys[places[there]]
        return there, token_vectors.Extents(keys["first"], keys["count"])

    def _cosines(self, places: NDArray[np.intp]) -> Matrix:
        if self.all_cosines is not None:
            return self.all_cosines[places]
        return _cosines(self.rows[places], self.questions)

    def _nearest_sketches(self, count: int) -> NDArray[np.intp]:
        """Return the positions of about the `count` nearest turns, unsorted."""
        import numpy as np  # noqa: PLC0415

        if len(self.keys) <= max(count, EXACT_ROWS):
            return np.arange(len(self.keys))
        asked = _bit_sketches(self.questions)
        differ = np.empty(len(self.keys), np.uint16)
        for start in range(0, len(self.keys), _BLOCK):
            block = self.keys["sketch"][start : start + _BLOCK]
            differ[start : start + _BLOCK] = np.minimum.reduce(
                [_differing_bits(block, q) for q in asked]
            )
        return np.argpartition(differ, count)[:count]


class TurnVectors:
    """The vectors of one history's turns, for use by several threads and processes.

    Args:
        directory: Directory of the files, which need not exist.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._kept: tuple[tuple[object, ...], _Loaded] | None = None

    def near(self, embedder: Embedder, questions: Sequence[str]) -> NearTurns | None:
        """Return the similarities of turns to the nearest question; None if none has a vector.

        Raises:
            EmbedderError: The model fails.
        """
        if size_of(self._path(embedder, ".keys")) <= 0:
            return None
        encoding = read_question(embedder, questions)
        found = self._load(embedder, encoding)  # late: others may truncate the files
        if found is None:
            return None
        (keys, rows, tokens), pooled, spec = found, encoding.pooled, embedder.spec
        every = _cosines(rows, pooled) if len(rows) <= EXACT_ROWS else None
        return NearTurns(keys, rows, pooled, spec, tokens=tokens, asked=encoding, all_cosines=every)

    def _load(self, embedder: Embedder, asked: Encoded) -> _Loaded | None:
        """Return keys, rows and tokens; what is small is kept until a file changes."""
        width = 0 if asked.tokens is None else asked.tokens.shape[1]
        states = [status_of(self._path(embedder, end)) for end in (".keys", ".rows", ".tokens")]
        stamp = (
            _file_stem(embedder),
            width,
            *(state and (state.st_ino, state.st_size, state.st_mtime_ns) for state in states),
        )
        if self._kept and self._kept[0] == stamp:
            return self._kept[1]
        found = self._mapped(embedder)
        if found is None:
            return None
        count = _last_token_row(found[0], len(found[0]))
        loaded = *found, self._tokens(embedder, width).load(count) if width else None
        is_small = sum(state.st_size for state in states if state) <= _KEPT_BYTES
        self._kept = (stamp, loaded) if is_small else None
        return loaded

    def embed(
        self,
        embedder: Embedder,
        texts_after: TextsAfter,
        *,
        at_most: int | None = None,
        total: int = 0,
        progress: Progress | None = None,
    ) -> EmbeddedTurns:
        """Compute missing vectors, oldest turns first; what is done is kept.

        Vectors of another model, or of another history, are deleted.

        Args:
            embedder: The model.
            texts_after: Returns turns.
            at_most: Maximum number of turns; None for all.
            total: Expected number of turns, for `progress`.
            progress: Called with the number of turns done.

        Raises:
            EmbedderError: The model fails.
            IndexUnusableError: The files cannot be written.
        """
        if not embedder.dimension:
            embedder.load()
        try:
            check_own(self.directory)
            self.directory.mkdir(parents=True, exist_ok=True)
            with locked(self.directory / "embedding.lock", 0):
                self._drop(lambda path: path.stem != _file_stem(embedder))
                last = self.through_id(embedder, texts_after)
                if not last:
                    self._drop(lambda _: True)
                done = 0
                for turns in _turn_pages(texts_after, last, at_most):
                    self._append(embedder, turns)
                    done += len(turns)
                    if progress:
                        progress("vectors of turns made", done, max(total, done))
                return EmbeddedTurns(done)
        except LockedError:
            return EmbeddedTurns(busy=True)
        except OSError as error:
            raise IndexUnusableError(
                f"Vectors of turns cannot be written to {str(self.directory)!r}: "
                f"{error.strerror or error}",
                hint=f"{write_hint(error.errno)} The history is untouched.",
            ) from error

    def through_id(self, embedder: Embedder, texts_after: TextsAfter) -> int:
        """Return the newest turn with a vector; 0 if there is none of this history."""
        found = self._mapped(embedder)
        return newest_of(found[0], texts_after) if found else 0

    def status(self, embedder: Embedder | None) -> TurnVectorStatus:
        """Return the state of a model's vectors, and the size of all."""
        size_bytes = sum(path.stat().st_size for path in self._files())
        found = self._mapped(embedder) if embedder else None
        if embedder is None or found is None:
            return TurnVectorStatus(size_bytes=size_bytes)
        keys = found[0]
        return TurnVectorStatus(
            embedder.model,
            int(keys["id"][-1]),
            len(keys),
            size_bytes,
            _last_token_row(keys, len(keys)),
        )

    def clear(self) -> bool:
        """Delete all vectors; tell whether there were any."""
        there = bool(self._files())
        self._drop(lambda _: True)
        return there

    def _append(self, embedder: Embedder, turns: Sequence[tuple[int, str]]) -> None:
        """Append turns: keys last, so that a key always refers to complete rows."""
        import numpy as np  # noqa: PLC0415

        found = self._mapped(embedder)
        count = len(found[0]) if found else 0
        end = _last_token_row(found[0], count) if found else 0
        del found
        rows, tokens = _embed_texts(embedder, [text for _, text in turns])
        keys = np.zeros(len(turns), _key_type(embedder.dimension))
        keys["count"] = [len(of_turn) for of_turn in tokens]
        keys["first"] = end + np.cumsum(keys["count"]) - keys["count"]
        keys["id"] = [turn_id for turn_id, _ in turns]
        keys["hash"] = [_text_hash(text) for _, text in turns]
        keys["sketch"] = _bit_sketches(rows)
        filled = [of_turn for of_turn in tokens if len(of_turn)]
        if filled:
            self._tokens(embedder, filled[0].shape[1]).append(end, np.concatenate(filled))
        self._rows(embedder).append(count, np.rint(rows * _SCALE).astype(np.int8))
        self._keys(embedder).append(count, keys)

    def _mapped(self, embedder: Embedder) -> tuple[NDArray[np.void], NDArray[np.int8]] | None:
        """Return keys and rows of all turns that have both, or None."""
        keys_file, rows_file = self._keys(embedder), self._rows(embedder)
        count = min(keys_file.count(), rows_file.count())
        keys, rows = keys_file.load(count), rows_file.load(count)
        if keys is None or rows is None:
            return None
        ids = keys["id"]
        while count and ids[count - 1] <= (ids[count - 2] if count > 1 else 0):
            count -= 1  # a power failure leaves zeros at the end
        # Keys whose tokens were lost are invalid.
        width = row_bytes(self._path(embedder, ".tokens"))
        tokens = self._tokens(embedder, width).count() if width else 0
        count = bisect_right(range(1, count + 1), tokens, key=lambda n: _last_token_row(keys, n))
        return (keys[:count], rows[:count]) if count else None

    def _keys(self, embedder: Embedder) -> RowFile:
        return RowFile(self._path(embedder, ".keys"), _key_type(embedder.dimension))

    def _rows(self, embedder: Embedder) -> RowFile:
        return RowFile(self._path(embedder, ".rows"), ("i1", (embedder.dimension,)))

    def _tokens(self, embedder: Embedder, width: int) -> RowFile:
        return token_vectors.token_rows(self._path(embedder, ".tokens"), width)

    def _path(self, embedder: Embedder, suffix: str) -> Path:
        return self.directory / f"{_file_stem(embedder)}{suffix}"

    def _files(self) -> list[Path]:
        return sorted(self.directory.glob("turns-*")) if self.directory.is_dir() else []

    def _drop(self, is_old: Callable[[Path], bool]) -> None:
        for path in self._files():
            if is_old(path):
                remove(path)


def _file_stem(embedder: Embedder) -> str:
    of_tokens = token_version(embedder) or "none"
    model = _UNSAFE.sub("_", embedder.model)
    if model != embedder.model:  # a server's, or one of the hub
        model = f"{model[:_NAME_CHARS]}-{_text_hash(embedder.model):016x}"
    return f"turns-{model}-{embedder.dimension}-{of_tokens}-v{VERSION}"


def newest_of(keys: NDArray[np.void], texts_after: TextsAfter) -> int:
    """Return the newest turn with one of these keys; 0 if they are of another history."""
    last = keys[-1]
    turn = next(iter(texts_after(int(last["id"]) - 1, 1)), None)
    same = turn is not None and (turn[0], _text_hash(turn[1])) == (last["id"], last["hash"])
    return int(last["id"]) if same else 0


def _last_token_row(keys: NDArray[np.void], count: int) -> int:
    """Return how many rows of tokens the first `count` turns have."""
    return int(keys["first"][count - 1] + keys["count"][count - 1]) if count else 0


def _key_type(dimension: int) -> np.dtype[Any]:
    import numpy as np  # noqa: PLC0415

    sketch = ("sketch", "<u8", (-(-dimension // _WORD_BITS),))
    extent = ("first", "<i8"), ("count", "<i8")
    # The id comes last: a missing or partial one reveals a torn record.
    return np.dtype([("hash", "<u8"), *extent, sketch, ("id", "<i8")])


def _turn_pages(
    texts_after: TextsAfter, last: int, at_most: int | None
) -> Iterator[Sequence[tuple[int, str]]]:
    """Yield the turns after `last`, page by page."""
    left = at_most
    while left is None or left > 0:
        turns = texts_after(last, _FETCH if left is None else min(_FETCH, left))
        if not turns:
            return
        yield turns
        last = turns[-1][0]
        left = None if left is None else left - len(turns)


def _embed_texts(
    embedder: Embedder, texts: Sequence[str]
) -> tuple[Matrix, list[token_vectors.Rows]]:
    """Return a vector per text, in order, and its tokens'; a text without words has zeros."""
    import numpy as np  # noqa: PLC0415

    tokens: list[token_vectors.Rows] = [np.empty((0, 0), np.int8)] * len(texts)
    rows = np.zeros((len(texts), embedder.dimension), np.float32)
    by_length = sorted(
        (n for n, text in enumerate(texts) if words(text)), key=lambda n: len(texts[n])
    )
    for start in range(0, len(by_length), BATCH):
        some = by_length[start : start + BATCH]
        encoding = read_passages(embedder, [texts[n] for n in some])
        rows[some] = encoding.pooled
        if encoding.tokens is not None:
            ends = np.cumsum(encoding.counts)
            parts = np.split(token_vectors.quantise_vectors(encoding.tokens), ends[:-1])
            for n, part in zip(some, parts, strict=True):
                tokens[n] = part
    return rows, tokens


def _cosines(rows: NDArray[np.int8], questions: Matrix) -> Matrix:
    """Return each row's cosine to the nearest question, float32[n]."""
    import numpy as np  # noqa: PLC0415

    each = each_to_each(rows.astype(np.float32), questions)
    values: Matrix = each.max(axis=1, initial=-_SCALE) / _SCALE
    return values


def _bit_sketches(rows: Matrix) -> NDArray[np.uint64]:
    """Return uint64[n, w]: a bit for each number that is above 0."""
    import numpy as np  # noqa: PLC0415

    spare = -rows.shape[1] % _WORD_BITS
    bits = np.pad(rows > 0, ((0, 0), (0, spare)))
    return np.packbits(bits, axis=1).view("<u8")


def _differing_bits(
    sketches: NDArray[np.uint64], question: NDArray[np.uint64]
) -> NDArray[np.uint16]:
    """Count the bits in which each sketch differs from the question's."""
    import numpy as np  # noqa: PLC0415

    counts = np.zeros(len(sketches), np.uint16)
    for word, asked in enumerate(question):  # by columns, which numpy adds fastest
        counts += np.bitwise_count(sketches[:, word] ^ asked)
    return counts


def _text_hash(text: str) -> int:
    return int.from_bytes(digest_of(text, 8), "little")
