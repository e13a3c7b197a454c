"""Metrics of a running server, in the text format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.responses import Response

from familiar_cli.clock import stopwatch_s

if TYPE_CHECKING:
    from collections.abc import Sized

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ServerMetrics:
    """Counts and times requests, and reports what is open.

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

            try:
                await app(scope, receive, note)
            finally:
                route = getattr(scope.get("route"), "path", "none")
                self._requests.labels(route, status).inc()
                self._durations.labels(route).observe(stopwatch_s() - begun_s)

        return measure
