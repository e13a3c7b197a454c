"""Errors as chat programs expect them: OpenAI's shape, and the status that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import (
    AnsweredError,
    ChannelBusyError,
    ConfigError,
    LimitError,
    LockedError,
    ModelError,
    ModelTimeoutError,
    NotFoundError,
    OutOfTimeError,
    PromptTooLongError,
    RateLimitError,
    RefusedError,
    RequestRefusedError,
    UsageError,
    bounded,
)
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from familiar_cli.errors import FamiliarError

_STATUS: Final = (  # the first that fits counts
    (RateLimitError, 429),
    (PromptTooLongError, 400),
    (RequestRefusedError, 400),
    (ModelTimeoutError, 504),
    (ModelError, 502),
    (ConfigError, 503),
    (UsageError, 400),
    (OutOfTimeError, 413),
    (LimitError, 400),
    (NotFoundError, 404),
    (ChannelBusyError, 429),
    (LockedError, 503),
    (AnsweredError, 409),
    (RefusedError, 409),
)
_KINDS: Final = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
_SERVER_ERRORS: Final = 500
_CODES: Final = {"prompt_too_long": "context_length_exceeded"}


class ApiError(Exception):
    """What went wrong with a request, for the program that sent it.

    Args:
        status: The HTTP status.
        message: What happened, and what to do.
        code: A word for it.
        param: The part of the request that it is about.
    """

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(bounded(message))
        self.status = status
        self.code = code
        self.param = param

    def to_json(self) -> dict[str, Any]:
        """Return the body of the response."""
        usual = "server_error" if self.status >= _SERVER_ERRORS else "invalid_request_error"
        kind = _KINDS.get(self.status, usual)
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


def other_character(name: str, model: str) -> ApiError:
    """Return the error for a chat with a character that is not the familiar of the model."""
    return ApiError(
        409,
        f"This chat is with {one_line(name, 60)!r}, and the model is {one_line(model, 60)!r}, "
        "which takes no part in it; nothing was asked or kept. Choose the model of that character "
        "(SillyTavern: API Connections, Model), or make it a familiar with `familiar init`",
        code="other_character",
        param="model",
    )


def from_error(error: FamiliarError) -> ApiError:
    """Return the error of this program's as one for a chat program."""
    status = next((number for kind, number in _STATUS if isinstance(error, kind)), 500)
    hint = f". {error.hint}" if error.hint else ""
    return ApiError(status, f"{error}{hint}", code=_CODES.get(error.code, error.code))
