"""Requests and responses of pages, and speakers' names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from datetime import date
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, quote, urlencode
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from familiar_cli.actions.talk.channels import names_of_speakers
from familiar_cli.base import errors
from familiar_cli.base.times.clock import now, to_zone
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.familiar import Familiar
from familiar_cli.servers.connection import state_of_files
from familiar_cli.store.history.rows import Turn

_MOST_FIELDS: Final = 1000

NAVIGATION: Final = {  # what a person looks for, and the pages below it; the first is its own
    "Home": {
        "": "Overview",
        "desk": "Reminders",
        "review": "Review",
        "sync": "Sync",
        "import": "Import",
        "settings": "Settings",
        "doctor": "Health",
    },
    "Talk": {"chat": "Talk", "turns": "Conversations", "turns/layers": "Prompts"},
    "People": {"people": "Everyone", "graph": "Relations"},
    "Memory": {"memory": "Pages", "search": "Search", "journal": "Changes", "distill": "Digests"},
    "Time": {"timeline": "Timeline", "diary": "Diary", "asof": "As of a day"},
}
"""The pages of the site by what a person looks for."""

T = TypeVar("T")


_MOST_MADE: Final = 100
# Cached parts of pages by familiar and name, each with the state of the files.
_MADE: Final[WeakKeyDictionary[Familiar, dict[Hashable, tuple[Any, ...]]]] = WeakKeyDictionary()


class PageRequest(Struct, frozen=True):
    """A request for a page.

    Args:
        familiar: The familiar, used by no one else meanwhile.
        viewer: The viewer: the owner or a program.
        ids: All familiars of the home.
        base: Address prefix of this familiar's pages: empty, or `/f/NAME`.
        path: Variable parts of the address.
        query: Query parameters; the last of each name.
        form: Form fields, each with all values.
        file_name: Name of an uploaded file; empty for none.
        file: Its content.
    """

    familiar: Familiar
    viewer: Viewer
    ids: tuple[str, ...]
    base: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, list[str]] = field(default_factory=dict)
    file_name: str = ""
    file: bytes = b""

    def sent(self, name: str) -> str:
        """Return the value of the form field `name`, or an empty string."""
        return field_of(self.form, name)

    def number(self, name: str) -> int | None:
        """Return the numeric query parameter `name`, or None.

        Raises:
            UsageError: It is not a number.
        """
        text = self.query.get(name, "")
        if not text:
            return None
        return to_number(text, name)

    def day(self, name: str) -> date | None:
        """Return the date parameter or field `name`, or None.

        Raises:
            UsageError: It is not a date.
        """
        text = self.path.get(name, "") or self.query.get(name, "") or self.sent(name)
        try:
            return date.fromisoformat(text) if text else None
        except ValueError:
            raise errors.UsageError(
                f"{text[:40]!r} is not a date; write it as 2026-01-31"
            ) from None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work`, then close what it opened."""

        async def run() -> T:
            try:
                return await work
            finally:
                await self.familiar.aclose()

        return asyncio.run(run())

    def once_per_state(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, which is called once for each day and state of the files."""
        made = _MADE.setdefault(self.familiar, {})
        key = (self.base, self.viewer.scopes, self.viewer.channel_id, name)
        today = to_zone(now(), self.familiar.zone).date()
        state = today, state_of_files(self.familiar.paths)
        if made.get(key, (None,))[0] != state:
            if len(made) >= _MOST_MADE:
                made.clear()
            made[key] = state, make()
        return made[key][1]  # type: ignore[no-any-return]

    def to(self, *parts: object, **query: object) -> str:
        """Build a page address, leaving out parameters that are None or empty."""
        return page_address(self.base, *parts, **query)


class PageView(Struct, frozen=True):
    """A page to draw.

    Args:
        template: The name of its template, without `.html`.
        values: Template values.
        status: The HTTP status.
    """

    template: str
    values: Mapping[str, Any]
    status: int = 200


class Redirect(Struct, frozen=True):
    """Redirect after a change, so that reloading does not repeat it.

    Args:
        to: The address.
        told: Messages to show once on the next page, a line each.
    """

    to: str
    told: tuple[str, ...] = ()


class Data(Struct, frozen=True):
    """Raw response data.

    Args:
        body: Its content.
        name: File name for downloads; empty to display it.
        status: The HTTP status.
    """

    body: bytes
    media_type: str
    name: str = ""
    status: int = 200


Answer = PageView | Redirect | Data


class WebPage(Struct, frozen=True):
    """A page.

    Args:
        path: Its route, in Starlette syntax, e.g. `/turns/{turn}`.
        answer: Handles a request.
        method: GET or POST.
        is_long: Whether it may be slow, and so gets a familiar of its own.
    """

    path: str
    answer: Callable[[PageRequest], Answer]
    method: str = "GET"
    is_long: bool = False


_STATUS: Final = (  # the first match wins
    (errors.NotFoundError, 404),
    (errors.UsageError, 400),
    (errors.LockedError, 503),
    (errors.ConfigError, 503),
    (errors.RefusedError, 409),
    (errors.ModelError, 502),
)


def http_status(error: Exception) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def field_of(form: Mapping[str, list[str]], name: str) -> str:
    """Return the value of a form's field, or an empty string."""
    return form.get(name, [""])[-1]


def to_number(text: str, name: str) -> int:
    """Parse a non-negative integer.

    Raises:
        UsageError: `text` is not one.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 19):  # noqa: PLR2004  # 63 bits
        raise errors.UsageError(f"{name} must be a number, not {text[:40]!r}")
    return int(text)


def page_address(base: str, *parts: object, **query: object) -> str:
    """Build a page address, leaving out parameters that are None or empty."""
    path = "/".join(quote(str(part), safe="/") for part in parts)
    given = {name: "" if value is None else str(value) for name, value in query.items()}
    sent = urlencode({name: text for name, text in given.items() if text})
    return f"{base}/{path}" + (f"?{sent}" if sent else "")


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
        raise errors.UsageError(f"The form cannot be read: {error}; nothing was changed") from error


def with_speakers(familiar: Familiar, turns: Iterable[Turn]) -> list[tuple[Turn, str]]:
    """Return turns, each with its speaker's name."""
    found = list(turns)
    names = names_of_speakers(familiar, (turn.author for turn in found))
    own = familiar.name if found else ""

    def speaker(turn: Turn) -> str:
        if turn.author:
            return names[turn.author]
        return own if turn.role == "assistant" else turn.role

    return [(turn, speaker(turn)) for turn in found]
