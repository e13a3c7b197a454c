"""The model inside the program: a GGUF file, loaded by llama.cpp and served on loopback.

The same `LLMClient` talks to it as to any other server. A random key keeps other users of this
machine out; the port is whichever is free.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from familiar_cli.config.environment import llm_threads
from familiar_cli.errors import ModelError, ModelUnknownError
from familiar_cli.llm.client import LLMClient
from familiar_cli.llm.types import Slotted
from familiar_cli.models.catalog import CATALOG
from familiar_cli.models.store import path_of
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.llm.types import Completion, Message, PreparedRequest

# The program counts tokens in another way than the model does, and the model's own count can be
# twice as high (Chinese, Japanese, Korean), so it is given more room than is promised to callers.
_ROOM = 2
_LEAST_ROOM_TOKENS = 4096
# Without it so small a model soon says one phrase over and over until its tokens run out.
_REPEAT_PENALTY = 1.15


class LocalModel(Slotted):
    """A chat model that needs no server and no network. It is loaded when first asked.

    Args:
        slot: Its `model` is a name in the catalog of models, or the path of a GGUF file.
        cache_dir: Where model files are kept.
    """

    def __init__(self, slot: ResolvedSlot, *, cache_dir: Path) -> None:
        super().__init__(slot)
        self._cache_dir = cache_dir
        self._client: LLMClient | None = None
        self._server: Any = None
        self._loading = threading.Lock()

    def prepare(
        self,
        messages: Sequence[Message],
        **how: Any,  # noqa: ANN401  # as `LLMClient.prepare` takes it
    ) -> PreparedRequest:
        """Return the exact bytes that `complete` would send. Nothing is loaded for that."""
        request = LLMClient(self._slot).prepare(messages, **how)
        return replace(request, url=f"local:{self._slot.model}/chat/completions")

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """Load the model if that is still to be done, and let it answer.

        Raises:
            ModelError: The model is not on disk, cannot be loaded, or gave no whole reply.
        """
        client = await asyncio.to_thread(self._loaded)
        sent = replace(request, url=client.prepare(()).url)
        completion = await client.complete(sent, on_text, on_event)
        return replace(completion, model=self._slot.model)  # the server would name the file's path

    async def aclose(self) -> None:
        """Stop the server and give its memory back."""
        with self._loading:
            self._client = self._server = None

    def _loaded(self) -> LLMClient:
        with self._loading:
            if self._client is None:
                key = secrets.token_urlsafe(24)
                self._server = _serve(self._file(), self._slot, key)
                address = f"{self._server.listening_address}/v1"
                self._client = LLMClient(replace(self._slot, base_url=address, api_key=key))
            return self._client

    def _file(self) -> Path:
        model = self._slot.model
        if model.endswith(".gguf"):
            path = Path(model).expanduser()
            if path.is_file():
                return path
            raise ModelUnknownError(
                f"No such model file: {model!r}",
                hint="Run `familiar config set llm.model PATH`.",
            )
        kinds = {name: entry.kind for name, entry in CATALOG.items()}
        if kinds.get(model) != "gguf":
            known = [name for name, kind in kinds.items() if kind == "gguf"]
            raise ModelUnknownError(
                f"Preset 'local' has no model {model!r}",
                hint=f"Run `familiar config set llm.model {nearest(model, known) or known[0]}`, or "
                "set the path of a GGUF file.",
            )
        found = path_of(model, self._cache_dir)
        if found is None:
            raise ModelUnknownError(
                f"The model {model!r} is not on this machine yet",
                hint=f"Run `familiar model pull {model}`.",
            )
        return found


def _serve(file: Path, slot: ResolvedSlot, key: str) -> Any:  # noqa: ANN401  # it has no types
    """Load `file` and return the running server; it stops when it is let go."""
    try:
        import xllamacpp  # noqa: PLC0415  # an extra, and native code
    except ImportError as error:
        raise ModelError(
            f"The library that runs local models is not installed: {error}",
            hint="Run `pip install 'familiar-memory[local]'`, or choose a server: "
            "`familiar config set llm.preset ollama`.",
        ) from error
    settings = xllamacpp.CommonParams()
    settings.model.path = str(file)
    settings.n_ctx = max(_LEAST_ROOM_TOKENS, _ROOM * slot.context_tokens)
    settings.n_parallel = 1
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.api_keys = [key]
    settings.ui = False
    settings.warmup = False
    settings.verbosity = -1
    settings.sampling.penalty_repeat = _REPEAT_PENALTY
    threads = llm_threads()
    if threads:
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    try:
        return xllamacpp.Server(settings)
    except RuntimeError as error:
        raise ModelError(
            f"The model file {str(file)!r} could not be loaded: {error}",
            hint="Run `familiar model ls --check`; `familiar model pull` replaces a damaged file.",
        ) from error
