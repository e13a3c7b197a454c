"""An ONNX model of text and its tokenizer, opened with nothing in between.

Importing this loads onnxruntime, which takes a fifth of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import onnxruntime
import tokenizers

from familiar_cli.fts import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from familiar_cli.index.embedder import Spec

    Matrix = NDArray[np.float32]

_PAD: Final = "[PAD]"
_LEVELS: Final = onnxruntime.GraphOptimizationLevel
_SERIOUS: Final = 3  # its warnings are of no use to a person
_CHARS_A_TOKEN: Final = 8  # of prose it has 4 or 5
_BY_TOKEN: Final = 3  # dimensions of an output that holds a vector a token


class ReadTexts(NamedTuple):
    """What a model made of some texts.

    Args:
        pooled: float32[n, d], one vector a text, of any length.
        tokens: float32[t, d], of the tokens that say something, text by text; None: the model
            gives none.
        counts: How many of `tokens` each text has.
        words: The word that each of `tokens` is, or is part of.
    """

    pooled: Matrix
    tokens: Matrix | None
    counts: list[int]
    words: list[str]


class Encoder:
    """An open model.

    Args:
        spec: What is particular to it.
        directory: Where its files are.
        optimised: Spend a quarter of a second on its graph, which halves the time a text takes.
    """

    def __init__(self, spec: Spec, directory: Path, *, optimised: bool) -> None:
        self.optimised = optimised
        self.window_chars = _CHARS_A_TOKEN * spec.max_tokens
        """Length of text that is examined to find how much fits into the model."""
        self._pooling = spec.pooling
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _SERIOUS
        # Threads that wait actively take the processor from all others, and gain little.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if not optimised:
            options.graph_optimization_level = _LEVELS.ORT_DISABLE_ALL
            options.intra_op_num_threads = 1  # a second one gains nothing for one short text
        self._session: Any = onnxruntime.InferenceSession(
            str(directory / spec.file), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {given.name for given in self._session.get_inputs()}
        outputs = self._session.get_outputs()
        self._output = next((o for o in outputs if len(o.shape) == _BY_TOKEN), outputs[0]).name
        self._tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.enable_truncation(spec.max_tokens)
        self._tokenizer.enable_padding(
            pad_id=self._tokenizer.token_to_id(_PAD) or 0, pad_token=_PAD
        )

    def unread_from(self, text: str) -> int | None:
        """Return where the part of `text` begins that is too long to be read; None: all is read."""
        encoded = self._tokenizer.encode(text)
        # What was cut off comes back as further encodings; the first says where they begin.
        return min((at for e in encoded.overflowing for at, to in e.offsets if to), default=None)

    def pooled(self, texts: Sequence[str]) -> Matrix:
        """Return float32[n, d], one vector a text, of any length."""
        return self._pooled(*self._run(texts)[1:])

    def read(self, texts: Sequence[str], skips: Sequence[int] = ()) -> ReadTexts:
        """Return the vectors of `texts`, and those of their tokens.

        Left out are special tokens, punctuation, stop words unless a text has nothing else, and
        of each text so many characters at its beginning as `skips` says.
        """
        encoded, values, mask = self._run(texts)
        pooled = self._pooled(values, mask)
        if values.ndim != _BY_TOKEN:
            return ReadTexts(pooled, None, [0] * len(texts), [])
        first = skips or (0,) * len(texts)
        kept = [_kept(*one) for one in zip(encoded, texts, first, strict=True)]
        tokens = [values[n, list(of_text)] for n, of_text in enumerate(kept)]
        return ReadTexts(
            pooled,
            np.concatenate(tokens).astype(np.float32, copy=False),
            [len(of_text) for of_text in kept],
            [word for of_text in kept for word in of_text.values()],
        )

    def _run(self, texts: Sequence[str]) -> tuple[list[Any], Matrix, NDArray[np.int64]]:
        """Return the tokens of `texts`, the model's output for them, and which are no padding."""
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
        if values.ndim != _BY_TOKEN:
            return values.astype(np.float32, copy=False)
        if self._pooling == "first":
            return values[:, 0].astype(np.float32, copy=False)
        real = mask[:, :, None].astype(np.float32)
        mean: Matrix = (values * real).sum(axis=1) / np.maximum(real.sum(axis=1), 1.0)
        return mean.astype(np.float32, copy=False)


def _kept(encoded: Any, text: str, skip_chars: int) -> dict[int, str]:  # noqa: ANN401  # no types
    """Return the places of the tokens that say something, each with its word."""
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
