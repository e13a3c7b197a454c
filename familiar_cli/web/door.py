"""Who may look: a link that works once becomes a cookie, and only that cookie opens the pages."""

from __future__ import annotations

import hmac
import secrets
import threading
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final

from familiar_cli.clock import stopwatch_s

TOKEN: Final = "token"  # noqa: S105  # the name of a parameter
LINK_S: Final = 600.0
"""Lifetime of the link, in seconds."""

_BYTES: Final = 32


class Door:
    """The key to the pages of one server, for as long as it runs.

    A cookie is sent to every port of a machine, so its name holds the port: two servers do not
    take each other's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link: str | None = secrets.token_urlsafe(_BYTES)
        self._made_at_s = stopwatch_s()
        self._key = secrets.token_urlsafe(_BYTES)
        self.link = f"/?{TOKEN}={self._link}"
        """Path and query that open the pages once, within `LINK_S`."""

    def take(self, token: str) -> bool:
        """Consume the link's `token`; tell whether it was valid, unused and recent."""
        with self._lock:
            if stopwatch_s() - self._made_at_s > LINK_S:
                self._link = None
            if self._link is None or not _same(token, self._link):
                return False
            self._link = None
            return True

    def is_open(self, cookie: str, host: str) -> bool:
        """Tell whether whoever sent these headers came through the link."""
        try:
            found = SimpleCookie(cookie).get(_name(host))
        except CookieError:
            return False
        return found is not None and _same(found.value, self._key)

    def cookie(self, host: str) -> str:
        """Return the header that sets the cookie; it lasts as long as the browser runs."""
        return f"{_name(host)}={self._key}; Path=/; HttpOnly; SameSite=Strict"


def _name(host: str) -> str:
    port = host.rpartition(":")[2]
    return f"familiar-{port if port.isdecimal() and port.isascii() else 80}"


def _same(given: str, known: str) -> bool:
    def digest(text: str) -> bytes:
        return sha256(text.encode("utf-8", "surrogatepass")).digest()

    return hmac.compare_digest(digest(given), digest(known))
