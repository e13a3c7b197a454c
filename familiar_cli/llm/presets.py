"""The kinds of servers: where each listens, where its key is, and how much it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL_MODEL = "smollm2-135m-instruct"


@dataclass(frozen=True, slots=True)
class Preset:
    """What is assumed of one kind of server where the settings say nothing.

    Args:
        base_url: Its address up to `/v1`; empty when only the user can know.
        model: The model's name there; empty when the user must choose.
        api_key_env: The environment variable that its key is usually kept in.
        context_tokens: Most tokens that are safe to send and get together.
        max_tokens: Most tokens of one reply.
        key_needed: It answers nobody without a key.
        limit_name: What it calls the limit of a reply.
        prefill: It goes on from an assistant message at the end of the prompt.
        extra: What it understands beyond the common API.
        start: How to start it, or how to find out what is wrong.
        choose: How to choose a model.
    """

    base_url: str
    model: str
    api_key_env: str
    context_tokens: int
    max_tokens: int
    key_needed: bool = False
    limit_name: str = "max_tokens"
    prefill: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)
    start: str = ""
    choose: str = "Run `familiar config set llm.model NAME`."


# Context sizes are what these servers give without being configured, or less: Ollama cuts longer
# prompts without a word (docs.ollama.com, "Context length"), so its default is what counts.
PRESETS: Mapping[str, Preset] = {
    "local": Preset(
        "",
        LOCAL_MODEL,
        "",
        context_tokens=1536,
        max_tokens=256,
        prefill=True,
    ),
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
    ),
    "llamacpp": Preset(
        "http://127.0.0.1:8080/v1",
        "default",  # a llama.cpp server has one model and ignores the name
        "",
        context_tokens=4096,
        max_tokens=512,
        prefill=True,
        start="Start it: `llama-server -m MODEL.gguf --port 8080`.",
    ),
    "custom": Preset(
        "",
        "default",
        "FAMILIAR_LLM_API_KEY",
        context_tokens=8192,
        max_tokens=512,
        start="Start it, or run `familiar config set llm.base_url URL`.",
    ),
}
