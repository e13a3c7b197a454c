"""The pages of `familiar model`: what there is, and how a model did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from familiar_cli.llm.probe import Probe
    from familiar_cli.models.store import ListedModel

_STATES = {"ready": "yes", "partial": "in part", "absent": "no"}


def models_page(models: Sequence[ListedModel]) -> RenderableType:
    """Return the models as a table."""
    rows = [
        [
            plain(model.name, "bold" if model.state == "ready" else ""),
            plain(model.kind),
            plain(size(model.size_bytes)),
            plain(size(model.memory_bytes) if model.memory_bytes else ""),
            plain(model.licence),
            plain(_on_disk(model), "red" if model.broken else ""),
            plain(model.purpose),
        ]
        for model in models
    ]
    return columns(
        rows, ("name", "kind", "size", "memory", "licence", "on disk", "used for"), right=(2, 3)
    )


def size(size_bytes: int) -> str:
    """Return a size in words."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"  # noqa: PLR2004


def probe_page(slot: str, where: str, probe: Probe, window_tokens: int = 0) -> RenderableType:
    """Return how a model did, and how many tokens its server says that it reads."""
    lines = [*_lines(slot, where, probe)]
    lines += [("reads", f"{window_tokens:,} tokens")] if window_tokens else []
    return columns([[plain(name, "dim"), plain(text)] for name, text in lines])


def _on_disk(model: ListedModel) -> str:
    return "broken" if model.broken else _STATES[model.state]


def _lines(slot: str, where: str, probe: Probe) -> Iterator[tuple[str, str]]:
    yield "slot", slot
    yield "server", where
    yield "model", probe.model
    yield "first text", f"{probe.first_text_s:.2f} s"
    if probe.tokens_per_s is not None:
        yield "speed", f"{probe.tokens_per_s:.0f} tokens/s"
    cut = " (cut off at the token limit)" if probe.finish_reason == "length" else ""
    yield "reply", " ".join(probe.reply.split()) + cut
