"""Pictures in requests to models that can see."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from familiar_cli.base.errors import UsageError
from familiar_cli.llm.types import ChatModel, Completion, Message, PreparedRequest, encode_body
from familiar_cli.store.history.attachments import load_picture, media_type, pictures_in

MOST_PICTURES: Final = 8
"""Maximum number of pictures in one message, and of earlier ones sent again."""


class PictureModel:
    """A chat model that is sent the pictures of messages.

    Args:
        pictures: The pictures of the current message, as parts of it.
        earlier: The directory of the familiar, to send the newest pictures of earlier turns as
            well; None to send none of them.
    """

    def __init__(
        self,
        model: ChatModel,
        pictures: Sequence[Mapping[str, Any]] = (),
        earlier: Path | None = None,
    ) -> None:
        self.name = model.name
        self.context_tokens = model.context_tokens
        self.max_tokens = model.max_tokens
        self._model = model
        self._pictures = pictures
        self._earlier = earlier

    def prepare(self, messages: Sequence[Message], **how: Any) -> PreparedRequest:  # noqa: ANN401
        """Build the request, including the pictures."""
        request = self._model.prepare(messages, **how)
        if not self._pictures and self._earlier is None:
            return request
        body = json.loads(request.body)
        body["messages"] = self._with_pictures(body["messages"])
        return replace(request, body=encode_body(body))

    def _with_pictures(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add pictures to the users' messages that mention them, newest first."""
        left, current = MOST_PICTURES, list(self._pictures)
        for message in reversed(messages):
            if message["role"] != "user" or not left:
                continue
            kept = stored_parts(self._earlier, message["content"]) if self._earlier else []
            pictures = current or kept[:left]
            current, left = [], left - len(pictures)
            if pictures:
                text = {"type": "text", "text": message["content"]}
                message["content"] = [text, *pictures]
        return messages

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


def stored_parts(root: Path, text: str) -> list[dict[str, Any]]:
    """Return the stored pictures that a text mentions, as parts of a message."""
    urls = (load_picture(root, name) for name in pictures_in(text))
    return [picture_part(url) for url in urls if url]


def picture_part(url: str) -> dict[str, Any]:
    """Return a picture as a part of a message."""
    return {"type": "image_url", "image_url": {"url": url}}


def picture_address(name: str, content: bytes) -> str:
    """Return a picture file as a `data:` address.

    Raises:
        UsageError: It is not a picture that models take.
    """
    kind = media_type(content)
    if not kind:
        raise UsageError(
            f"{name!r} is not a picture (PNG, JPEG, GIF or WebP); nothing was sent",
            hint="Choose another file, or import it on the page Import.",
        )
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
