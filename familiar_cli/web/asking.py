"""Requests and answers of the page, and the names of speakers beside their turns."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, quote, urlencode

from familiar_cli.errors import (
    ConfigError,
    LockedError,
    ModelError,
    NotFoundError,
    RefusedError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from starlette.types import Receive

    from familiar_cli.familiar import Familiar
    from familiar_cli.history.rows import Turn
    from familiar_cli.visibility import Viewer


_MOST_FIELDS: Final = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page.

    Args:
        familiar: Whose page it is; nobody else uses it meanwhile.
        viewer: Who asks: the owner, or a program.
        ids: All familiars of the home.
        base: What the addresses of this familiar's pages begin with: empty, or `/f/NAME`.
        path: The parts of the address that vary.
        query: What stands behind its `?`; the last of each name.
        form: What a form sent, each name with all its values.
    """

    familiar: Familiar
    viewer: Viewer
    ids: tuple[str, ...]
    base: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, list[str]] = field(default_factory=dict)

    def sent(self, name: str) -> str:
        """Return the value of the form field `name`, or an empty string."""
        return field_of(self.form, name)

    def number(self, name: str) -> int | None:
        """Return the number that the address gives for `name`; None: it gives none.

        Raises:
            UsageError: It is not a number.
        """
        text = self.query.get(name, "")
        if not text:
            return None
        return to_number(text, name)

    def day(self, name: str) -> date | None:
        """Return the day that the address or a form gives for `name`; None: it gives none.

        Raises:
            UsageError: It is not a date.
        """
        text = self.path.get(name, "") or self.query.get(name, "") or self.sent(name)
        try:
            return date.fromisoformat(text) if text else None
        except ValueError:
            raise UsageError(f"{text[:40]!r} is not a date; write it as 2026-01-31") from None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, and close what the familiar opened for it."""

        async def run() -> T:
            try:
                return await work
            finally:
                await self.familiar.aclose()

        return asyncio.run(run())

    def to(self, *parts: object, **query: object) -> str:
        """Return the address of a page; parameters that are None or empty are left out."""
        return page_address(self.base, *parts, **query)


@dataclass(frozen=True, slots=True)
class Shown:
    """A page to draw.

    Args:
        template: The name of its template, without `.html`.
        values: What it shows.
        status: The HTTP status.
    """

    template: str
    values: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Something was done: the browser is sent on, so that reloading does not do it again.

    Args:
        to: The address.
        told: What was done, a line each; shown once, on the page that comes.
    """

    to: str
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes to hand on as they are.

    Args:
        body: Its content.
        media_type: What they are.
        name: The file name under which a browser keeps them; empty: it shows them.
        status: The HTTP status.
    """

    body: bytes
    media_type: str
    name: str = ""
    status: int = 200


Answer = Shown | Redirect | Data


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page.

    Args:
        path: Its address, as Starlette writes it, e.g. `/turns/{turn}`.
        answer: Answers a request for it.
        method: GET or POST.
        is_long: It may take long, so it gets a familiar of its own, and other pages go on.
    """

    path: str
    answer: Callable[[PageRequest], Answer]
    method: str = "GET"
    is_long: bool = False


_STATUS: Final = (  # the first that fits counts
    (NotFoundError, 404),
    (UsageError, 400),
    (LockedError, 503),
    (ConfigError, 503),
    (RefusedError, 409),
    (ModelError, 502),
)


def http_status(error: Exception) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def field_of(form: Mapping[str, list[str]], name: str) -> str:
    """Return the value of a form's field, or an empty string."""
    return form.get(name, [""])[-1]


def to_number(text: str, name: str) -> int:
    """Return a whole number that is not negative.

    Raises:
        UsageError: `text` is something else.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 19):  # noqa: PLR2004  # 63 bits
        raise UsageError(f"{name} must be a number, not {text[:40]!r}")
    return int(text)


def page_address(base: str, *parts: object, **query: object) -> str:
    """Return the address of a page; parameters that are None or empty are left out."""
    path = "/".join(quote(str(part), safe="/") for part in parts)
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"{base}/{path}" + (f"?{urlencode(given)}" if given else "")


def read_form(body: bytes) -> dict[str, list[str]]:
    """Parse the fields of a form. Lines end with CRLF, as browsers send them.

    Raises:
        UsageError: It is not a form.
    """
    try:
        return parse_qs(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError as error:
        raise UsageError(f"The form cannot be read: {error}; nothing was changed") from error


def with_speakers(familiar: Familiar, turns: Iterable[Turn]) -> list[tuple[Turn, str]]:
    """Return turns, each with what its speaker is called."""
    found = list(turns)
    labels, name = familiar.labels(turn.author for turn in found), familiar.name

    def speaker(turn: Turn) -> str:
        if turn.author:
            return labels.of(turn.author)
        return name if turn.role == "assistant" else turn.role

    return [(turn, speaker(turn)) for turn in found]


async def play_while_connected(
    receive: Receive, play: Coroutine[Any, Any, None], cancel: Callable[[], Awaitable[None]]
) -> None:
    """Send a reply with `play` until its end or until the client hangs up, then call `cancel`."""

    async def wait_for_hang_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    watching, playing = map(asyncio.ensure_future, (wait_for_hang_up(), play))
    try:
        await asyncio.wait({watching, playing}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            await playing
    finally:
        watching.cancel()
        playing.cancel()
        await cancel()
        await asyncio.wait({watching, playing})
