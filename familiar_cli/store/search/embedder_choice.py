"""Choose the embedding model that settings and environment name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from familiar_cli.base.config import environment
from familiar_cli.base.errors import ConfigError
from familiar_cli.llm.embedding_slot import prefixes_for, resolve_embedding_server
from familiar_cli.store.search import embedder
from familiar_cli.store.search.embedder import EmbedderChoice

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.base.config.schema import EmbeddingSettings
    from familiar_cli.llm.embedding_slot import EmbeddingServer
    from familiar_cli.store.search.server_embedder import ServerEmbedder


def choose_embedder(settings: EmbeddingSettings, cache_dir: Path) -> EmbedderChoice:
    """Return the configured embedder: at a server, or on this machine.

    Nothing is loaded or connected until it is used.

    Args:
        settings: The `[embedding]` table.
        cache_dir: Directory of model files, and of what is known of servers.
    """
    try:
        server = resolve_embedding_server(settings)
    except ConfigError as error:
        return EmbedderChoice(None, str(error), error.hint or "")
    if server is None:
        model = environment.embedding_model() or settings.model
        return embedder.open_embedder(model, cache_dir, prefixes_for(settings, model))
    lacking = embedder.lacking_libraries("numpy")
    return lacking or EmbedderChoice(_cached_server(server, cache_dir / "embeddings.json"))


@cache
def _cached_server(server: EmbeddingServer, notes: Path) -> ServerEmbedder:
    """Return this process's only embedder for a server."""
    from familiar_cli.store.search.server_embedder import ServerEmbedder  # noqa: PLC0415  # loads asyncio

    return ServerEmbedder(server, notes)
