"""What the pipeline asks of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.context.types import ContextRequest, Contribution, Subject


class ContextProvider(Protocol):
    """Offers pieces of a prompt.

    It runs beside the others, in a thread and an event loop of its own: whatever it does, the
    prompt is made at its deadline. When it is late it is cancelled, and may still be running
    afterwards. So it reads, and never writes.
    """

    @property
    def name(self) -> str:
        """What it is called in a trace."""

    @property
    def deadline_s(self) -> float | None:
        """How long it may take before the prompt is made without it; None: it never is."""

    async def contribute(self, request: ContextRequest) -> Sequence[Contribution]:
        """Return what it offers, in the order in which equals are to stand."""


@runtime_checkable
class Explains(Protocol):
    """A provider that can say why something is not in a prompt."""

    @property
    def name(self) -> str:
        """What it is called in a trace."""

    @property
    def looks_at(self) -> str:
        """Which files or turns it reads at all, in words."""

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why it would offer nothing of `subject` for `request`, as things are now.

        Returns:
            A reason, as the end of a sentence; empty when nothing speaks against it; None when it
            never looks at such a thing.
        """


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
