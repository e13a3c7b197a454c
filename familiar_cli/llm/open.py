"""From a resolved slot to a model that can be talked to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.llm.types import ChatModel


def open_model(
    slot: ResolvedSlot, *, cache_dir: Path, on_wait: Callable[[str], None] | None = None
) -> ChatModel:
    """Return the model that `slot` means. Nothing is loaded or connected until `complete`.

    Args:
        slot: What `slots.resolve` returned.
        cache_dir: Where model files are kept; used by preset `local` only.
        on_wait: Told in one line before the client waits to ask a busy server again.
    """
    if slot.preset == "local":
        from familiar_cli.llm.local import LocalModel  # noqa: PLC0415

        return LocalModel(slot, cache_dir=cache_dir)
    from familiar_cli.llm.client import LLMClient  # noqa: PLC0415

    return LLMClient(slot, on_wait=on_wait)
