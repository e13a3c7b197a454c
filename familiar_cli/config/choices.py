"""The words that settings may be set to, and the names of slots."""

from __future__ import annotations

PRESETS = ("local", "openrouter", "openai", "ollama", "lmstudio", "llamacpp", "custom")
SLOTS = (
    "main",
    "history_summary",
    "memory_writer",
    "content_filter",
    "stepped_thinking",
    "recast",
    "consolidation",
)
EMBEDDERS = ("auto", "none", "bge-small-en-v1.5", "bge-base-en-v1.5", "minilm-l6-v2")
ROLES = ("system", "user", "assistant")
NOTE_PLACES = ("depth", "scenario")
SWITCH = ("auto", "on", "off")
TIME_PLACES = ("chat", "start")
ON_OFF = ("on", "off")
PRIVACY = ("private", "share")
# What a slot with a preset of its own must not take from `[llm]`: a key or an address meant for one
# server never reaches another.
OF_PRESET = ("base_url", "model", "api_key_env", "context_tokens", "max_tokens")

ANY_NAME = "NAME"
"""Stands in a dotted key for the name that a person gives a table."""
