"""`ContentSearchProvider`: runs the tiers, and answers for what they offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.context.providers.content_search.people import RECENT_AUTHORS, People
from familiar_cli.memory.aliases import PEOPLE_DIR

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.context.types import ContextRequest, Contribution, Subject
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.memory.aliases import Aliases
    from familiar_cli.memory.store import MemoryStore
    from familiar_cli.tokens import TokenCounter

_SHARE: Final = 0.8  # of the deadline; what is found by then is offered, so that some is always


class ContentSearchProvider:
    """Offers the files of the people who take part, and of those who are named.

    Args:
        store: The memory.
        history: Who spoke where.
        aliases: Opens who is called what; it is closed after each use.
        counter: What counts tokens.
        recent_author_limit: How many of those who spoke last in the channel are remembered.
        share_private: What was said in private is shown everywhere.
        deadline_s: How long it may take.
    """

    name: Final = "content_search"
    looks_at: Final = f"{PEOPLE_DIR}/<platform>-<id>.md of who takes part or is named"

    def __init__(
        self,
        store: MemoryStore,
        history: HistoryStore,
        aliases: Callable[[], Aliases],
        counter: TokenCounter,
        *,
        recent_author_limit: int = RECENT_AUTHORS,
        share_private: bool = False,
        deadline_s: float = 2.0,
    ) -> None:
        self.deadline_s = deadline_s
        self._people = People(
            store,
            history,
            aliases,
            counter,
            recent_author_limit=recent_author_limit,
            share_private=share_private,
            limit_s=_SHARE * deadline_s,
        )

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return what the tiers offer, in their order."""
        return await self._people.contribute(request)

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a person's file is not in a prompt; see `protocols.Explains`."""
        return self._people.why_not(subject, request)
