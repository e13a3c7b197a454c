"""The familiars of one home, each opened once and again when its settings change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.config.home import find_familiar, list_familiars
from familiar_cli.familiar import Familiar
from familiar_cli.serve.conversations import Conversations
from familiar_cli.serve.known import KnownLines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KNOWN_FILE: Final = "served.sqlite"


@dataclass(slots=True)
class Served:
    """A familiar that is open.

    Args:
        familiar: The familiar.
        conversations: Its conversations.
        stamp: When its settings were last changed, and their size.
        turns: How many turns are under way.
        is_old: It is closed when the last of them has ended.
    """

    familiar: Familiar
    conversations: Conversations
    known: KnownLines
    stamp: tuple[int, int]
    turns: int = 0
    is_old: bool = False

    async def aclose(self) -> None:
        """Let go of its files and its models."""
        self.known.close()
        await self.familiar.aclose()


class Familiars:
    """Opens familiars as they are asked for.

    Args:
        home: Where they live.
        tell: Told in words what a person should know.
        on_open: Told of each familiar that is opened for the first time.
    """

    def __init__(
        self,
        home: Path,
        tell: Callable[[str], None],
        on_open: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.home = home
        self.tell = tell
        self._on_open = on_open
        self._open: dict[str, Served] = {}

    def ids(self) -> list[str]:
        """Return the ids of all familiars.

        Raises:
            ConfigError: Their directory cannot be read.
        """
        return list_familiars(self.home)

    def made_at(self) -> list[tuple[str, int]]:
        """Return all ids, with when each familiar's settings were written, in seconds."""
        return [(name, self._stamp(name)[0] // 10**9) for name in self.ids()]

    async def take(self, familiar_id: str) -> Served:
        """Return a familiar for one turn; `give_back` must follow.

        Raises:
            NotFoundError: There is no such familiar.
        """
        stamp, served = self._stamp(familiar_id), self._open.get(familiar_id)
        if served is None or served.stamp != stamp:
            is_new = served is None
            if served:
                await self._retire(served)
            served = self._opened(familiar_id, stamp)
            self._open[familiar_id] = served
            if is_new:
                self._on_open(familiar_id)
        served.turns += 1
        return served

    async def give_back(self, served: Served) -> None:
        """Say that a turn has ended."""
        served.turns -= 1
        if served.is_old and not served.turns:
            await served.aclose()

    async def aclose(self) -> None:
        """Close all of them."""
        while self._open:
            _, served = self._open.popitem()
            await served.aclose()

    def _opened(self, familiar_id: str, stamp: tuple[int, int]) -> Served:
        familiar = Familiar(find_familiar(self.home, familiar_id), self.tell)
        known = KnownLines(familiar.paths.root / KNOWN_FILE, familiar.history)
        return Served(familiar, Conversations(familiar, known), known, stamp)

    async def _retire(self, served: Served) -> None:
        served.is_old = True
        if not served.turns:
            await served.aclose()

    def _stamp(self, familiar_id: str) -> tuple[int, int]:
        try:
            found = (self.home / familiar_id / "character.toml").stat()
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)
