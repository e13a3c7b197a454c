"""A chat model around another: it asks that one, and changes a part of how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.llm.types import ChatModel, Completion, Message, PreparedRequest


class Wrapping:
    """Asks `model` as it is asked itself; see `ChatModel`. A subclass changes what it must.

    Args:
        model: Who is asked.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """See `ChatModel`."""
        return self._model.name

    @property
    def context_tokens(self) -> int:
        """See `ChatModel`."""
        return self._model.context_tokens

    @property
    def max_tokens(self) -> int:
        """See `ChatModel`."""
        return self._model.max_tokens

    def prepare(self, messages: Sequence[Message], **how: Any) -> PreparedRequest:  # noqa: ANN401
        """See `ChatModel`."""
        return self._model.prepare(messages, **how)

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """See `ChatModel`."""
        return await self._model.complete(request, on_text, on_event)

    async def aclose(self) -> None:
        """See `ChatModel`."""
        await self._model.aclose()
