"""Errors of a server, in the shape of the OpenAI API."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base import errors
from familiar_cli.base.config.serving import BY_OTHERS
from familiar_cli.base.text import well_formed

if TYPE_CHECKING:
    from starlette.types import Scope, Send

_CLOSING: Final = frozenset({400, 405, 408, 413, 501, 503})  # a body may still be arriving
_STATUS: Final = (  # the first match wins
    (errors.RateLimitError, 429),
    (errors.PromptTooLongError, 400),
    (errors.RequestRefusedError, 400),
    (errors.ModelTimeoutError, 504),
    (errors.ModelError, 502),
    (errors.ConfigError, 503),
    (errors.UsageError, 400),
    (errors.OutOfTimeError, 413),
    (errors.LimitError, 400),
    (errors.NotFoundError, 404),
    (errors.ChannelBusyError, 429),
    (errors.LockedError, 503),
    (errors.AnsweredError, 409),
    (errors.ForgottenPersonError, 403),
    (errors.RefusedError, 409),
)


_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


_SERVER_ERRORS: Final = 500


# What others than the owner are told of an error whose words name servers, settings or keys.
_PUBLIC: Final = (  # the first match wins
    (errors.RateLimitError, "The model's server accepts no more requests for now"),
    (errors.PromptTooLongError, "The prompt is too long for the model"),
    (errors.RequestRefusedError, "The model's server does not accept such a request"),
    (errors.ModelTimeoutError, "The model's server took too long"),
    (errors.ModelUnreachableError, "The model's server cannot be reached"),
    (errors.ModelUnknownError, "The model's server does not have the model"),
    (errors.CutOffError, "The reply broke off"),
    (errors.ModelError, "The model or its server failed"),
    (errors.ConfigError, "Something is wrong with the settings of this server or familiar"),
)
_CODES: Final = dict.fromkeys(("prompt_too_long", "limit"), "context_length_exceeded")


class ApiError(Exception):
    """An error to be sent to a chat program.

    Args:
        status: HTTP status.
        message: What went wrong, and what to do.
        code: Error code.
        param: The offending part of the request.
        retry_s: Seconds after which the request may be repeated; None if unknown.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_s: float | None = None,
    ) -> None:
        super().__init__(errors.bounded(message))
        self.status = status
        self.retry_s = retry_s
        self.code = code
        self.param = param

    def to_json(self) -> dict[str, Any]:
        """Build the body of the response."""
        usual = "server_error" if self.status >= _SERVER_ERRORS else "invalid_request_error"
        kind = _KINDS.get(self.status, usual)
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


# The directories of a quoted path, which say nothing to somebody on another machine.
_DIRECTORY: Final = re.compile(r"""(['"])(?:/|[A-Za-z]:[\\/]|\\\\)(?:[^'"]*[\\/])?([^'"]*)(?=\1)""")


_ADDRESS: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]*://[^\s'\"`;,)]+|(?:\blocalhost|\b(?:[\w-]+\.)+(?!md\b)[\w-]+|\[[0-9a-f:]+\]):\d+\b"
)


def too_many_requests(retry_s: float) -> ApiError:
    """Build the error for a request beyond a token's limits."""
    return ApiError(
        429,
        f"Too many requests with this token; try again in {retry_s:.0f} s",
        code="rate_limit_exceeded",
        retry_s=retry_s,
    )


def public_words(error: errors.FamiliarError) -> str:
    """Say what went wrong to somebody who is not to know servers, settings or keys."""
    return next((words for kind, words in _PUBLIC if isinstance(error, kind)), str(error))


def without_places(text: str) -> str:
    """Remove addresses, and the directories of quoted paths, from a text."""
    return _ADDRESS.sub("…", _DIRECTORY.sub(r"\1\2", text))


def from_error(error: errors.FamiliarError, *, is_public: bool = False) -> ApiError:
    """Convert an error of this program to an API error.

    Args:
        is_public: Others than the owner may read it.
    """
    status = next((number for kind, number in _STATUS if isinstance(error, kind)), 500)
    words = public_words(error) if is_public else str(error)
    hint = f". {error.hint}" if error.hint and words == str(error) else ""
    text = _DIRECTORY.sub(r"\1\2", f"{words}{hint}")
    return ApiError(status, text, code=_CODES.get(error.code, error.code))


def to_api_error(error: Exception, scope: Scope | None = None) -> ApiError:
    """Convert any error to an API error, as whoever sent the request may read it."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, errors.FamiliarError):
        return from_error(error, is_public=bool(scope and scope.get(BY_OTHERS)))
    return ApiError(500, f"The server failed: {type(error).__name__}")


async def respond_error(
    send: Send, error: ApiError, extra: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send an error response."""
    words = json.dumps(error.to_json(), ensure_ascii=False, separators=(",", ":"))
    body = well_formed(words).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *extra,
    ]
    if error.status == 401:  # noqa: PLR2004
        headers.append((b"www-authenticate", b"Bearer"))
    if error.status in _CLOSING:
        headers.append((b"connection", b"close"))
    retry_s = 5 if error.status == 503 else error.retry_s  # noqa: PLR2004
    if retry_s is not None:
        headers.append((b"retry-after", str(math.ceil(retry_s)).encode()))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
