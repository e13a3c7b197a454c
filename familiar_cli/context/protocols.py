"""What the pipeline asks of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.context.types import ContextRequest, Contribution


class ContextProvider(Protocol):
    """Offers pieces of a prompt.

    It runs beside the others. What takes long and is not awaited (files, databases) goes through
    `jobs.in_thread`, or nothing can stop waiting for it.
    """

    @property
    def name(self) -> str:
        """What it is called in a trace."""

    @property
    def deadline_s(self) -> float:
        """How long it may take before the prompt is made without it."""

    async def contribute(self, request: ContextRequest) -> Sequence[Contribution]:
        """Return what it offers, in the order in which equals are to stand."""


class PreProcessor(Protocol):
    """Changes what was offered, before the budget is filled."""

    @property
    def name(self) -> str:
        """What it is called in a trace."""

    @property
    def deadline_s(self) -> float:
        """How long it may take before the prompt is made without it."""

    async def process(
        self, request: ContextRequest, contributions: Sequence[Contribution]
    ) -> Sequence[Contribution]:
        """Return the contributions that take the place of those given."""


class PostProcessor(Protocol):
    """Changes a reply, before it is shown and kept."""

    @property
    def name(self) -> str:
        """What it is called in a trace."""

    @property
    def deadline_s(self) -> float:
        """How long it may take before the reply stays as it is."""

    async def process(self, request: ContextRequest, reply: str) -> str:
        """Return the text that takes the reply's place."""
