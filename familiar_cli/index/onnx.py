"""An ONNX model of text and its tokenizer, opened with nothing in between.

Importing this loads onnxruntime, which takes a fifth of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnxruntime
import tokenizers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from familiar_cli.index.embedder import Spec

    Matrix = NDArray[np.float32]

_PAD: Final = "[PAD]"
_LEVELS: Final = onnxruntime.GraphOptimizationLevel
_SERIOUS: Final = 3  # its warnings are of no use to a person


class Encoder:
    """An open model.

    Args:
        spec: What is particular to it.
        directory: Where its files are.
        optimised: Spend a quarter of a second on its graph, which halves the time a text takes.
    """

    def __init__(self, spec: Spec, directory: Path, *, optimised: bool) -> None:
        self.optimised = optimised
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
        encoded = self._tokenizer.encode_batch(list(texts))
        mask = np.array([e.attention_mask for e in encoded], np.int64)
        given = {
            "input_ids": np.array([e.ids for e in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        wanted = {name: values for name, values in given.items() if name in self._inputs}
        tokens: Matrix = self._session.run(None, wanted)[0]
        if self._pooling == "first":
            return tokens[:, 0].astype(np.float32, copy=False)
        real = mask[:, :, None].astype(np.float32)
        mean: Matrix = (tokens * real).sum(axis=1) / np.maximum(real.sum(axis=1), 1.0)
        return mean.astype(np.float32, copy=False)
