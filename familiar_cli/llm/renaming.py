"""A chat model that is told some names as others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from familiar_cli.llm.wrapping import Wrapping

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from familiar_cli.llm.types import ChatModel, Completion, Message, PreparedRequest


class Renaming(Wrapping):
    """Shows `model` some words as others, and reads them in its replies as what they stand for.

    Args:
        model: Who is asked.
        shown: What is shown in place of a word.
        meant: What a word of a reply stands for.
    """

    def __init__(
        self, model: ChatModel, shown: Mapping[str, str], meant: Mapping[str, str]
    ) -> None:
        super().__init__(model)
        self._shown = _replacing(shown)
        self._meant = _replacing(meant)

    def prepare(
        self,
        messages: Sequence[Message],
        *,
        reply_schema: Mapping[str, Any] | None = None,
        **how: Any,  # noqa: ANN401  # as `ChatModel.prepare` takes it
    ) -> PreparedRequest:
        """See `ChatModel`."""
        told: list[Message] = [
            {"role": message["role"], "content": self._shown(message["content"])}
            for message in messages
        ]
        if reply_schema is not None:
            reply_schema = json.loads(self._shown(json.dumps(reply_schema)))
        return self._model.prepare(told, reply_schema=reply_schema, **how)

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """See `ChatModel`; what comes piece by piece is handed on as it is."""
        completion = await self._model.complete(request, on_text, on_event)
        return replace(completion, text=self._meant(completion.text))


def _replacing(words: Mapping[str, str]) -> Callable[[str], str]:
    either = "|".join(map(re.escape, words))
    pattern = re.compile(rf"(?<![\w-])(?:{either})(?![\w%-])")
    return lambda text: pattern.sub(lambda found: words[found[0]], text)
