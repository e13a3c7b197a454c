from __future__ import annotations

import asyncio
import inspect
import socket
import ssl

import anyio
import h11
import httpcore
import httpx
import pytest
from msgspec.structs import replace

from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.errors import (
    BadReplyError,
    CutOffError,
    ModelError,
    ModelTimeoutError,
    ModelUnreachableError,
)
from familiar_cli.llm.client import LLMClient
from familiar_cli.llm.slots import resolve_slot
from familiar_cli.llm.wire import from_transport
from tests.support.cases import each

SLOT = resolve_slot(LLMSettings(preset="ollama", model="m"))

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


@each("name", sorted(EXPECTED))
def test_every_exception_of_httpx_is_translated(name) -> None:
    failure = from_transport(SLOT, made(exceptions_of_httpx()[name]), "so far")
    assert type(failure.error) is EXPECTED[name]
    assert "Ollama at 127.0.0.1:11434" in str(failure.error)


@each("error", [OSError(2, "no such file"), ValueError("x"), ImportError("y")])
def test_errors_of_proxies_and_certificates_are_translated(error) -> None:
    assert type(from_transport(SLOT, error).error) is ModelError


def test_only_a_failed_connection_is_worth_asking_again() -> None:
    again = {
        name
        for name, kind in exceptions_of_httpx().items()
        if from_transport(SLOT, made(kind)).again
    }
    assert again == {"ConnectError", "ConnectTimeout"}


def exceptions_below_httpx() -> list[type[Exception]]:
    modules = (httpcore, h11, anyio, ssl, socket, asyncio)
    members = [
        kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)
    ]
    ours = {kind for kind in members if issubclass(kind, Exception)}
    return sorted(ours | BUILT_IN, key=lambda kind: f"{kind.__module__}.{kind.__qualname__}")


# What a transport may raise of Python's own: a port out of range, a length of 5,000 digits, a name
# that no resolver takes, a peer that is gone, memory that is not there.
BUILT_IN = {
    *(ArithmeticError, AssertionError, AttributeError, BufferError, BrokenPipeError, EOFError),
    *(ConnectionResetError, ImportError, IndexError, KeyError, LookupError, MemoryError),
    *(NotImplementedError, OSError, OverflowError, PermissionError, RecursionError, RuntimeError),
    *(StopIteration, TimeoutError, TypeError, UnicodeError, ValueError, ZeroDivisionError),
}


@each("kind", exceptions_below_httpx(), ids=lambda kind: kind.__qualname__)
@each("grouped", [0, 1, 2])
async def test_whatever_a_transport_raises_becomes_an_error_of_the_model(
    kind, grouped, monkeypatch
) -> None:
    error = bare(kind)
    for _ in range(grouped):
        error = ExceptionGroup("several", [error])

    async def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", broken)
    model = LLMClient(replace(SLOT, retries=0))
    with pytest.raises(ModelError) as caught:
        await model.complete(model.prepare([{"role": "user", "content": "Hi"}]))
    assert caught.value.exit_code == 6
    assert "Ollama at 127.0.0.1:11434" in str(caught.value)


def bare(kind: type[Exception]) -> Exception:
    """Return an exception of that kind, whatever it wants to be made of."""
    error = kind.__new__(kind, "what happened")
    error.args = ("what happened",)
    return error


PASSWORD = "pass-word-1"


@each(
    "proxy",
    [
        f"http://user:{PASSWORD}@127.0.0.1:99999",
        f"http://user:x/{PASSWORD}@127.0.0.1:80",
        f"gopher://user:{PASSWORD}@127.0.0.1:80",
        f"http://user:{PASSWORD}@[::1",
        f"user:{PASSWORD}@127.0.0.1:p",
        f"socks9://user:{PASSWORD}@127.0.0.1:80",
    ],
)
@each("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_wrong_proxy_is_an_error_that_keeps_its_password(
    proxy, variable, monkeypatch
) -> None:
    monkeypatch.delenv("FAMILIAR_OFFLINE")
    monkeypatch.setenv(variable, proxy)
    slot = replace(SLOT, base_url="http://192.0.2.1/v1", retries=0, timeout_s=1)
    model = LLMClient(slot)
    with pytest.raises(ModelError) as caught:
        await model.complete(model.prepare([{"role": "user", "content": "Hi"}]))
    told = f"{caught.value} {caught.value.hint} {caught.value!r}"
    assert PASSWORD not in told
    assert "prox" in told
