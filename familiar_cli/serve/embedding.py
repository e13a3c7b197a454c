"""Vectors of texts for other programs, from the model on this machine."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.config.home import cache_dir
from familiar_cli.index.embedder import open_embedder
from familiar_cli.serve import answering
from familiar_cli.serve.asking import MOST_CHARS, parse_object
from familiar_cli.serve.failing import ApiError

if TYPE_CHECKING:
    from familiar_cli.index.embedder import Opened

_MOST_TEXTS: Final = 2_048
_AUTO: Final = "auto"
_opened: dict[str, Opened] = {}


def embed(raw: bytes) -> dict[str, Any]:
    """Return the vectors that a request asks for.

    Raises:
        ApiError: It is no such request, or the model is not here.
        EmbedderError: The model does not work.
    """
    body = parse_object(raw)
    texts = _texts(body.get("input"))
    name = body.get("model")
    opened = _embedder(name if isinstance(name, str) and name else _AUTO)
    if opened.embedder is None:
        hint = f". Run `{opened.hint}`" if opened.hint else ""
        raise ApiError(404, f"{opened.reason}{hint}", code="model_not_found", param="model")
    vectors = opened.embedder.passages(texts)
    encoding = body.get("encoding_format") or "float"
    if encoding == "base64":
        made: list[Any] = [
            base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors
        ]
    elif encoding == "float":
        made = [[float(x) for x in row] for row in vectors]
    else:
        raise ApiError(400, "'encoding_format' must be float or base64", param="encoding_format")
    words = sum(len(text.split()) for text in texts)
    return answering.embeddings(opened.embedder.spec.name, made, words)


def _embedder(name: str) -> Opened:
    if name not in _opened or _opened[name].embedder is None:
        _opened[name] = open_embedder(name, cache_dir())
    return _opened[name]


def _texts(given: object) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts):
        raise ApiError(400, "'input' must be a text or a list of texts", param="input")
    if sum(map(len, texts)) > MOST_CHARS:
        raise ApiError(413, f"'input' holds more than {MOST_CHARS:,} characters", param="input")
    if len(texts) > _MOST_TEXTS:
        raise ApiError(400, f"'input' holds more than {_MOST_TEXTS:,} texts", param="input")
    return texts
