from __future__ import annotations

import inspect

import httpx
import httpx_sse
import pytest

from familiar_cli.config.schema import LLMSettings
from familiar_cli.errors import (
    BadReplyError,
    CutOffError,
    ModelError,
    ModelTimeoutError,
    ModelUnreachableError,
)
from familiar_cli.llm.failures import from_transport
from familiar_cli.llm.slots import resolve

SLOT = resolve(LLMSettings(preset="ollama", model="m"))

# What each exception of httpx becomes. A new one in a new version of httpx fails the test below.
EXPECTED = {
    "CloseError": CutOffError,
    "ConnectError": ModelUnreachableError,
    "ConnectTimeout": ModelUnreachableError,
    "CookieConflict": ModelError,
    "DecodingError": BadReplyError,
    "HTTPError": ModelError,
    "HTTPStatusError": ModelError,
    "InvalidURL": ModelError,
    "LocalProtocolError": ModelError,
    "NetworkError": CutOffError,
    "PoolTimeout": ModelTimeoutError,
    "ProtocolError": ModelError,
    "ProxyError": ModelUnreachableError,
    "ReadError": CutOffError,
    "ReadTimeout": ModelTimeoutError,
    "RemoteProtocolError": CutOffError,
    "RequestError": ModelError,
    "RequestNotRead": CutOffError,
    "ResponseNotRead": CutOffError,
    "StreamClosed": CutOffError,
    "StreamConsumed": CutOffError,
    "StreamError": CutOffError,
    "TimeoutException": ModelTimeoutError,
    "TooManyRedirects": BadReplyError,
    "TransportError": ModelError,
    "UnsupportedProtocol": ModelError,
    "WriteError": CutOffError,
    "WriteTimeout": ModelTimeoutError,
}


def exceptions_of_httpx() -> dict[str, type[Exception]]:
    members = inspect.getmembers(httpx, inspect.isclass)
    return {name: kind for name, kind in members if issubclass(kind, Exception)}


def made(kind: type[Exception]) -> Exception:
    needed = inspect.signature(kind.__init__).parameters
    extra = {name: None for name in ("request", "response") if name in needed}
    return kind("what happened", **extra) if "message" in needed else kind()


def test_every_exception_of_httpx_is_listed_here() -> None:
    assert set(exceptions_of_httpx()) == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_exception_of_httpx_is_translated(name) -> None:
    failure = from_transport(SLOT, made(exceptions_of_httpx()[name]), "so far")
    assert type(failure.error) is EXPECTED[name]
    assert "ollama at http://127.0.0.1:11434/v1" in str(failure.error)


def test_the_exception_of_the_stream_reader_is_translated() -> None:
    error = from_transport(SLOT, httpx_sse.SSEError("odd")).error
    assert isinstance(error, ModelError)


@pytest.mark.parametrize("error", [OSError(2, "no such file"), ValueError("x"), ImportError("y")])
def test_errors_of_proxies_and_certificates_are_translated(error) -> None:
    assert type(from_transport(SLOT, error).error) is ModelError


def test_only_a_failed_connection_is_worth_asking_again() -> None:
    again = {
        name
        for name, kind in exceptions_of_httpx().items()
        if from_transport(SLOT, made(kind)).again
    }
    assert again == {"ConnectError", "ConnectTimeout"}
