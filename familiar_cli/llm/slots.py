"""Resolve slots to servers and models, from settings, the environment and preset defaults.

The configuration loader has already filled the gaps of each slot from `[llm]`, so slots are
complete. The environment replaces `[llm]`: it overrides the main slot, and every slot without a
server or model of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, TypeGuard
from urllib.parse import urlsplit

from msgspec import Struct

from familiar_cli.base.config import environment
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.config.schema import SLOTS, EmbeddingSettings, LLMSettings, SlotSettings
from familiar_cli.base.errors import ConfigError
from familiar_cli.base.files import read_object, write_whole
from familiar_cli.base.text import Discreet, nearest, one_line, without_secrets
from familiar_cli.base.times.clock import elapsed_s, iso, now, parse_iso

LOCAL_MODEL = "smollm2-135m-instruct"


class Preset(Struct, frozen=True):
    """The defaults for one kind of server.

    Args:
        base_url: Its address up to `/v1`; empty if only the user can know.
        model: The model's name there; empty when the user must choose.
        api_key_env: The usual environment variable for its key.
        context_tokens: Safe limit for prompt and reply together.
        max_tokens: Maximum tokens of one reply.
        key_needed: Whether it requires a key.
        limit_name: Its parameter for the reply limit.
        prefill: Whether it continues an assistant message at the end of the prompt.
        extra: Parameters beyond the common API.
        start: How to start or troubleshoot it.
        choose: How to choose a model.
        title: Its common name; empty if unknown.
    """

    base_url: str
    model: str
    api_key_env: str
    context_tokens: int
    max_tokens: int
    key_needed: bool = False
    limit_name: str = "max_tokens"
    prefill: bool = False
    extra: Mapping[str, object] = {}
    start: str = ""
    choose: str = "Run `familiar config set llm.model NAME`."
    title: str = ""


# Context sizes are the servers' defaults, or less: Ollama silently truncates longer
# prompts (docs.ollama.com, "Context length"), so its default matters.
PRESETS: Mapping[str, Preset] = {
    "local": Preset("", LOCAL_MODEL, "", context_tokens=1536, max_tokens=256, prefill=True),
    "openrouter": Preset(
        "https://openrouter.ai/api/v1",
        "",
        "OPENROUTER_API_KEY",
        context_tokens=16384,
        max_tokens=1024,
        key_needed=True,
        extra={"usage": {"include": True}},
        start="Check the network.",
        choose="Run `familiar config set llm.model VENDOR/NAME` with a name from OpenRouter's list "
        "of models.",
        title="OpenRouter",
    ),
    "openai": Preset(
        "https://api.openai.com/v1",
        "",
        "OPENAI_API_KEY",
        context_tokens=16384,
        max_tokens=1024,
        key_needed=True,
        limit_name="max_completion_tokens",
        start="Check the network.",
        title="OpenAI",
    ),
    "ollama": Preset(
        "http://127.0.0.1:11434/v1",
        "",
        "",
        context_tokens=4096,
        max_tokens=512,
        prefill=True,
        start="Start it: `ollama serve`.",
        choose="Run `ollama list`, then `familiar config set llm.model NAME`.",
        title="Ollama",
    ),
    "lmstudio": Preset(
        "http://127.0.0.1:1234/v1",
        "",
        "",
        context_tokens=4096,
        max_tokens=512,
        prefill=True,
        start="Start it: `lms server start`, or the Developer page of LM Studio.",
        choose="Run `lms ls`, then `familiar config set llm.model NAME`.",
        title="LM Studio",
    ),
    "llamacpp": Preset(
        "http://127.0.0.1:8080/v1",
        "default",  # a llama.cpp server has one model and ignores the name
        "",
        context_tokens=4096,
        max_tokens=512,
        prefill=True,
        start="Start it: `llama-server -m MODEL.gguf --port 8080`.",
        title="llama.cpp",
    ),
    "custom": Preset(
        "",
        "default",
        "FAMILIAR_LLM_API_KEY",
        context_tokens=8192,
        max_tokens=512,
        start="Start it, or correct its address in `llm.base_url`.",
    ),
}


_LEAST: Final = 256
_MOST: Final = 100_000_000


WINDOWS: Final = "windows.json"
"""The file in `cache_dir` with the context windows that servers reported."""

THINKING: Final = "thinking.json"
"""The file in `cache_dir` with the way each model was seen to think."""


def known_window(base_url: str, model: str) -> int:
    """Return the context window that a server reported for a model; 0: none."""
    said = _window_entry(base_url, model).get("tokens")
    return said if is_window(said) else 0


def window_age_s(base_url: str, model: str) -> float:
    """Return the seconds since a server was asked for its window; infinite if that is unknown."""
    try:
        return elapsed_s(parse_iso(str(_window_entry(base_url, model).get("at"))))
    except ValueError:
        return math.inf


def keep_window(base_url: str, model: str, tokens: int) -> None:
    """Store the window reported for a model. Write errors are ignored, as it can be asked again."""
    entry = {"tokens": tokens, "at": iso(now())}
    _keep_known(cache_dir() / WINDOWS, _window_key(base_url, model), entry)


def _window_entry(base_url: str, model: str) -> dict[str, object]:
    said = read_object(cache_dir() / WINDOWS).get(_window_key(base_url, model))
    return said if isinstance(said, dict) else {"tokens": said}


def _keep_known(path: Path, key: str, value: object) -> None:
    with suppress(OSError):
        kept = read_object(path) | {key: value}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(kept, indent=1, sort_keys=True), durable=False)


BEGINS_INSIDE: Final = "begins inside"
"""Of a model whose replies begin with reasoning that has no opening mark."""

_THINKING_TOKENS: Final = 3072  # room for reasoning, beside that for the reply
_THINKERS: Final = re.compile(
    r"think|reason|magistral|\bqwq\b|\bqwen-?3(?!.*instruct)|gpt-oss|gpt-5|(?:^|[/:_-])[ro][134]\b",
    re.IGNORECASE,
)


def known_thinking(base_url: str, model: str) -> str:
    """Return the way a model thinks: `none`, `marked`, `begins inside`, or empty if unknown."""
    said = read_object(cache_dir() / THINKING).get(_window_key(base_url, model))
    return said if isinstance(said, str) else ""


def keep_thinking(base_url: str, model: str, kind: str) -> None:
    """Store how a model was seen to think. Write errors are ignored, as it can be seen again."""
    _keep_known(cache_dir() / THINKING, _window_key(base_url, model), kind)


def is_window(value: object) -> TypeGuard[int]:
    """Tell whether a value is a plausible number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and _LEAST <= value <= _MOST


def _window_key(base_url: str, model: str) -> str:
    return f"{base_url} {model}"


MAIN = "main"
_PLAN_TEMPERATURE = 0.2


class ResolvedSlot(Discreet, frozen=True):
    """Everything needed to talk to one model. The key is left out of reprs.

    Args:
        slot: The slot's name.
        preset: The kind of server.
        base_url: Its address up to `/v1`, without a trailing slash; empty for preset `local`.
        model: The model's name there; for preset `local` also a path to a GGUF file.
        api_key: The key, or an empty string.
        api_key_env: Name of the variable for the key, or an empty string.
        context_tokens: Limit for prompt and reply together.
        thinking: How the model thinks; see `known_thinking`.
        context_source: Source of that number: `setting`, `server`, `model` (the catalogue) or
            `preset`, which is a guess.
        max_tokens: Maximum tokens of one reply.
        temperature: Sampling temperature.
        timeout_s: Longest time without any text from the server.
        deadline_s: Time limit for a complete reply, including retries.
        retries: Number of retries for a busy or failing server.
    """

    shown: ClassVar = ("slot", "preset", "base_url", "model")

    slot: str
    preset: str
    base_url: str
    model: str
    api_key: str
    api_key_env: str
    context_tokens: int
    max_tokens: int
    temperature: float
    timeout_s: float
    deadline_s: float
    retries: int
    context_source: str = "preset"
    thinking: str = ""

    @property
    def where(self) -> str:
        """Display name of the server."""
        if self.preset == "local":
            return "the local model"
        preset, host = PRESETS[self.preset], urlsplit(self.base_url).netloc
        if not preset.title or self.base_url != preset.base_url:
            return f"{preset.title or 'the server'} at {self.base_url}"
        return preset.title if preset.key_needed else f"{preset.title} at {host}"

    @property
    def subject(self) -> str:
        """`where`, capitalised for the beginning of a sentence."""
        return f"{self.where[:1].upper()}{self.where[1:]}"


PLAN_TOKENS: Final[Mapping[str, int]] = {"memory_writer": 4096, "consolidation": 1600}
"""Most tokens of a reply that is a plan, by the slot that is asked for it."""


def for_plans(
    slot: ResolvedSlot, settings: LLMSettings, most_tokens: int
) -> tuple[int, float | None]:
    """Return the token limit and temperature for replies that are plans, not chat.

    Settings of the slot or of `[llm]` take precedence. Otherwise plans may be longer than chat
    messages, as far as the context window allows, and are sampled for faithfulness.

    Args:
        settings: The model settings.
        most_tokens: Maximum tokens of a plan; less for a model with a small context.

    Returns:
        Maximum tokens of a reply, and the temperature; None: that of the slot.
    """
    chosen = settings.slots.get(slot.slot, settings)
    reply_tokens = slot.max_tokens
    if not chosen.max_tokens:
        reply_tokens = max(reply_tokens, min(most_tokens, slot.context_tokens // 4))
    is_set = "temperature" in chosen.written or slot.temperature != type(settings)().temperature
    return reply_tokens, None if is_set else _PLAN_TEMPERATURE


def resolve_slot(settings: LLMSettings, slot: str = MAIN) -> ResolvedSlot:
    """Resolve a slot; without settings of its own, it is the main model.

    A missing key or model is not an error here, so that prompts can be assembled and shown without
    either: see `check_usable`.

    Raises:
        ConfigError: The slot is unknown, or its address or key is invalid.
    """
    if slot not in SLOTS:
        guess = nearest(slot, SLOTS)
        raise ConfigError(
            f"No such slot: {slot!r}",
            hint=f"Did you mean {guess!r}?" if guess else f"Slots: {', '.join(SLOTS)}.",
        )
    chosen = _with_environment(settings.slots.get(slot, settings), settings)
    preset = PRESETS[chosen.preset]
    key_env = chosen.api_key_env or preset.api_key_env
    base_url = server_url(chosen.base_url or preset.base_url)
    model = chosen.model or preset.model
    context_tokens, context_source = _window_of(chosen, base_url, model)
    thinking = known_thinking(base_url, model)
    return ResolvedSlot(
        slot=slot,
        preset=chosen.preset,
        base_url=base_url,
        model=model,
        api_key=environment.find_key(key_env),
        api_key_env=key_env,
        context_tokens=context_tokens,
        max_tokens=chosen.max_tokens or _default_limit(preset, model, thinking, context_tokens),
        temperature=chosen.temperature,
        timeout_s=chosen.timeout_s,
        deadline_s=chosen.deadline_s,
        retries=chosen.retries,
        context_source=context_source,
        thinking=thinking,
    )


def _window_of(settings: SlotSettings, base_url: str, model: str) -> tuple[int, str]:
    """Return the context window of the model, and its source."""
    if settings.context_tokens:
        return settings.context_tokens, "setting"
    said = known_window(base_url, model) if base_url else 0
    if said:
        return said, "server"
    if settings.preset == "local":
        from familiar_cli.llm.models.catalog import CATALOG  # noqa: PLC0415  # servers have their own

        if model in CATALOG and CATALOG[model].context_tokens:
            return CATALOG[model].context_tokens, "model"
    return PRESETS[settings.preset].context_tokens, "preset"


def _default_limit(preset: Preset, model: str, thinking: str, context_tokens: int) -> int:
    """Return the default for `max_tokens`, which is larger for a model that thinks."""
    room = context_tokens // 2  # the prompt needs the rest
    if thinking in {"", "none"} and not (not thinking and _THINKERS.search(model)):
        return min(preset.max_tokens, room)
    return min(preset.max_tokens + _THINKING_TOKENS, room)


def check_usable(slot: ResolvedSlot) -> None:
    """Check that the configuration of `slot` is complete.

    Raises:
        ConfigError: Address, model or key is missing, or there is no room for a prompt.
    """
    preset = PRESETS[slot.preset]
    if not slot.base_url and slot.preset != "local":
        raise ConfigError(
            f"Preset {slot.preset!r} requires the address of a server",
            hint="Run `familiar config set llm.base_url http://127.0.0.1:8000/v1`.",
        )
    if not slot.model:
        raise ConfigError(f"No model is chosen for {slot.where}", hint=preset.choose)
    if preset.key_needed and not slot.api_key:
        raise ConfigError(
            f"No key for {slot.where}: {slot.api_key_env!r} is not set",
            hint=f"Set the environment variable {slot.api_key_env}, or write it into "
            f"{str(environment.keys_file())!r} (a file that only you may read).",
        )
    is_told = slot.context_source == "server"
    if slot.max_tokens >= slot.context_tokens:
        raise ConfigError(
            f"max_tokens = {slot.max_tokens} leaves no room for a prompt in "
            f"context_tokens = {slot.context_tokens}",
            hint="`familiar config set llm.max_tokens 0` lets the window decide"
            + ("; `familiar doctor` asks the server again" if is_told else "")
            + "; `familiar config set llm.context_tokens N` sets it.",
        )


def check_on_disk(slot: ResolvedSlot) -> None:
    """Check that the built-in model has been downloaded.

    Raises:
        ConfigError: It has not.
    """
    if slot.preset != "local":
        return
    from familiar_cli.llm.models.catalog import CATALOG  # noqa: PLC0415  # servers have their own
    from familiar_cli.llm.models.store import path_of  # noqa: PLC0415  # only here

    if slot.model not in CATALOG:
        return
    if path_of(slot.model, cache_dir()) is None:
        raise ConfigError(
            f"The model {slot.model!r} is not on this machine yet",
            hint=f"Run `familiar model pull {slot.model}`, or choose another: "
            "`familiar config set llm.preset ollama`.",
        )


def _with_environment(settings: SlotSettings, main: SlotSettings) -> SlotSettings:
    """Return `settings` with the environment's server and model, where it has none of its own."""
    base_url, model = map(environment.variable, (environment.BASE_URL, environment.MODEL))
    if (settings.preset, settings.base_url) != (main.preset, main.base_url):
        return settings
    own_model = settings.model != main.model
    if base_url:
        settings = replace(settings, base_url=base_url)
    if model and not own_model:
        settings = replace(settings, model=model)
    if settings.base_url and settings.preset == "local":
        # A server was named, so this is not the built-in model.
        settings = replace(settings, preset="custom")
    return settings


def server_url(url: str) -> str:
    """Normalise `url`, stripping a trailing slash and a copied endpoint.

    Raises:
        ConfigError: It is not an HTTP address, or contains a password.
    """
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ConfigError(
            f"{one_line(without_secrets(url))!r} is not the address of a server",
            hint="It begins with http:// or https:// and usually ends in /v1.",
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Traces and errors show the address, so this message does not repeat it.
        raise ConfigError(
            f"The address of the server at {parts.hostname!r} must not contain "
            "a user, password or query",
            hint="Keep the key in an environment variable and name it in `llm.api_key_env`.",
        )
    return url.rstrip("/").removesuffix("/chat/completions").rstrip("/")


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
    named = environment.variable(environment.EMBEDDING_BASE_URL)
    model = environment.variable(environment.EMBEDDING_MODEL) or settings.model
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
