"""Resolve the server of embeddings, from settings, the environment and preset defaults."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from familiar_cli.base.config import environment
from familiar_cli.base.config.schema import EmbeddingSettings
from familiar_cli.base.errors import ConfigError
from familiar_cli.llm.slots import PRESETS, ResolvedSlot, server_url

KEY: Final = "FAMILIAR_EMBEDDING_API_KEY"
"""The usual variable of the key; the chat model's is never sent to another server."""

SERVED_MULTILINGUAL: Final = "bge-m3"
"""A model for many languages that Ollama, LM Studio and llama.cpp offer by this name."""

_RETRIES: Final = 2

# By a pattern in a model's name, what it expects before a question and before a text.
_SEARCHING: Final = "Represent this sentence for searching relevant passages: "
_PREFIXES: Final = (
    (r"\be5(?!-mistral)", "query: ", "passage: "),
    ("nomic-embed", "search_query: ", "search_document: "),
    ("embeddinggemma", "task: search result | query: ", "title: none | text: "),
    ("qwen3-embed", "Instruct: Retrieve passages that answer the query\nQuery: ", ""),
    ("arctic-embed2|arctic-embed-[lm]-v2", "query: ", ""),
    ("mxbai-embed-large|arctic-embed|bge-(small|base|large)-en", _SEARCHING, ""),
)


_ENGLISH_ONLY: Final = re.compile(
    r"-en\b|(?<!multilingual-)minilm|nomic-embed-text(?!-v2)|mxbai-embed-large|gte-(small|base|large)"
    r"|all-mpnet|\be5-(small|base|large)|arctic-embed(?!2|-[lm]-v2)|text-embedding-ada"
)


def speaks_many_languages(model: str) -> bool:
    """Tell whether a model is not known for English alone."""
    return not re.search(_ENGLISH_ONLY, model.lower().replace("multilingual-e5", "many"))


class EmbeddingServer(Struct, frozen=True):
    """A server and its model.

    Args:
        slot: How it is reached.
        query_prefix: What stands before a question.
        passage_prefix: What stands before a text.
    """

    slot: ResolvedSlot
    query_prefix: str = ""
    passage_prefix: str = ""

    @property
    def name(self) -> str:
        """Its model and address."""
        return f"{self.slot.model} at {self.slot.base_url}"


def resolve_embedding_server(settings: EmbeddingSettings) -> EmbeddingServer | None:
    """Return the server that settings and environment name; None for a model on this machine.

    Raises:
        ConfigError: It has no valid address, key or model.
    """
    named = environment.embedding_base_url()
    model = environment.embedding_model() or settings.model
    is_named = bool(named or settings.base_url) or settings.provider == "openai"
    if settings.provider == "local" or not is_named or model == "none":
        return None
    base_url = server_url(named or settings.base_url).removesuffix("/embeddings")
    if not base_url:
        raise ConfigError(
            "embedding.provider is 'openai', but embedding.base_url is not set",
            hint="familiar config set embedding.base_url http://127.0.0.1:11434/v1",
        )
    if model in {"", "auto"}:
        raise ConfigError(
            f"embedding.model does not name a model of {base_url}",
            hint="familiar config set embedding.model NAME",
        )
    preset = next((name for name, one in PRESETS.items() if one.base_url == base_url), "custom")
    key_env = settings.api_key_env or (PRESETS[preset].api_key_env if preset != "custom" else KEY)
    slot = ResolvedSlot(
        slot="embedding",
        preset=preset,
        base_url=base_url,
        model=model,
        api_key=environment.find_key(key_env),
        api_key_env=key_env,
        context_tokens=0,
        max_tokens=0,
        temperature=0.0,
        timeout_s=settings.timeout_s,
        deadline_s=settings.timeout_s,
        retries=_RETRIES,
    )
    return EmbeddingServer(slot, *prefixes_for(settings, model))


def prefixes_for(settings: EmbeddingSettings, model: str) -> tuple[str, str]:
    """Return the prefixes of a query and of a passage, as configured or as `model` expects."""
    twos = (two for pattern, *two in _PREFIXES if re.search(pattern, model.lower()))
    query, passage = next(twos, ("", ""))
    own_query, own_passage = settings.query_prefix, settings.passage_prefix
    return (
        query if own_query == "auto" else own_query,
        passage if own_passage == "auto" else own_passage,
    )
