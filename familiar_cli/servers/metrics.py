"""Metrics of a running server, in the text format of Prometheus, and its log."""

from __future__ import annotations

import json
import logging
from collections.abc import Sized
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from familiar_cli.base.times.clock import iso, since_1970, stopwatch_s

_LOG: Final = logging.getLogger("familiar_cli.servers.chat_api")
_LOG.addHandler(logging.NullHandler())  # without `start_log`, nothing is written


class _JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; of a request, with its fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": iso(since_1970(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def start_log() -> logging.Logger:
    """Write the log to standard error from now on, and return the server's logger.

    Of other packages only warnings are written.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    _LOG.setLevel(logging.INFO)
    return _LOG


class ServerMetrics:
    """Counts, times and logs requests, and reports what is open.

    Labels are templates of routes and status codes, so no name of a familiar or person is in them.

    Args:
        pool: The open familiars.
        turns: The turns under way.
    """

    def __init__(self, pool: Sized, turns: Sized) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "familiar_requests",
            "Requests answered, by route and status",
            ("route", "status"),
            registry=self._registry,
        )
        self._durations = Histogram(
            "familiar_request_duration_seconds",
            "Time from a request to the end of its response",
            ("route",),
            buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
            registry=self._registry,
        )
        for name, about, counted in (
            ("familiar_open_familiars", "Familiars that are open for requests", pool),
            ("familiar_turns_under_way", "Replies that are being made", turns),
        ):
            Gauge(name, about, registry=self._registry).set_function(counted.__len__)

    async def show(self, request: Request) -> Response:
        """Return all metrics."""
        del request
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    def measured(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application so that its requests are counted."""

        async def measure(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            begun_s, status = stopwatch_s(), "none"

            async def note(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = str(message["status"])
                await send(message)

            error = None
            try:
                await app(scope, receive, note)
            except Exception as raised:
                error = raised
                raise
            finally:
                route = getattr(scope.get("route"), "path", "none")
                elapsed_s = stopwatch_s() - begun_s
                self._requests.labels(route, status).inc()
                self._durations.labels(route).observe(elapsed_s)
                fields = {"method": scope["method"], "route": route, "status": status}
                _LOG.log(
                    logging.ERROR if error else logging.INFO,
                    "%(method)s %(route)s %(status)s",
                    fields,
                    exc_info=error,
                    extra={"request": {**fields, "ms": round(1_000 * elapsed_s, 1)}},
                )

        return measure
