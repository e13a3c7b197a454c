"""The settings of a turn, with what follows from them: its budget, its pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.times.clock import now
from familiar_cli.context.budget import MESSAGE_TOKENS, Allowance, Window, prompt_allowance
from familiar_cli.context.providers.character import CharacterProvider
from familiar_cli.context.providers.passages import Sight, open_gates
from familiar_cli.context.providers.pins import PinnedMemory
from familiar_cli.context.request import ContextRequest
from familiar_cli.context.tiers import DEEP, LARGE_WINDOW
from familiar_cli.context.types import Modality

if TYPE_CHECKING:
    from familiar_cli.base.config.channel import Channel
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.context.character import Character
    from familiar_cli.familiar import Familiar
    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.store.search.build import Pins


class TurnSetup(Struct, frozen=True):
    """The settings of one turn, read once.

    Args:
        channel: The settings of its channel.
        character: The provider of the character.
        allowance: The token budget of its prompt.
        processors: Enabled processors whose slot is configured.
        slot: The server and model that reply.
    """

    channel: Channel
    character: CharacterProvider
    allowance: Allowance
    processors: tuple[str, ...]
    slot: ResolvedSlot

    @property
    def char(self) -> str:
        """The familiar's name."""
        return self.character.character.name


_LATELY: Final = 20  # turns among which macros look for the newest of each side


def turn_setup(
    familiar: Familiar, channel_id: str, modality: str = "text", slot: ResolvedSlot | None = None
) -> TurnSetup:
    """Read the settings of a turn.

    Args:
        modality: The modality of the message.
        slot: The server and model that reply, if they are known already.

    Raises:
        ConfigError: The channel's file or `character.toml` is invalid.
    """
    slot, set_to = slot or familiar.models.slot(), familiar.config
    channel = channel_in(familiar, channel_id, modality, slot)
    character = CharacterProvider(
        familiar.character(),
        system_prompt=set_to.system_prompt,
        user_name=set_to.user_name,
        zone=familiar.zone,
        recent=lambda request: familiar.history.recent(
            request.channel_id, _LATELY, request.before_id, viewer=request.viewer
        ),
    )
    switched = channel.processors.items()
    processors = tuple(name for name, on in switched if on and name in set_to.llm.slots)
    allowed = allowance_in(familiar, channel, character.character, slot)
    return TurnSetup(channel, character, allowed, processors, slot)


def channel_in(
    familiar: Familiar, channel_id: str, modality: str = "text", slot: ResolvedSlot | None = None
) -> Channel:
    """Return a channel's settings; the tier defaults to one that suits the model's context size."""
    channel = familiar.channel(channel_id, modality)
    if Window.of(slot or familiar.models.slot()).context_tokens < LARGE_WINDOW:
        return channel
    return channel.with_usual_tier(DEEP, "model's window")


def allowance_in(
    familiar: Familiar,
    channel: Channel,
    character: Character | None = None,
    slot: ResolvedSlot | None = None,
) -> Allowance:
    """Return the token budget of prompts in a channel.

    Args:
        channel: The channel's settings.
        character: The character, if it has been read already.
        slot: The server and model that reply, if they are known already.

    Raises:
        ConfigError: The model's settings leave no room for a prompt.
    """
    texts = [
        *(character or familiar.character()).who(channel.tier),
        max((me.persona(familiar.phrases) for me in familiar.me_in(channel).owners), key=len),
    ]
    needed = sum(MESSAGE_TOKENS + familiar.counter.count(text) for text in texts if text)
    window = Window.of(slot or familiar.models.slot())
    return prompt_allowance(
        channel.budget, mode=channel.mode, window=window, character_tokens=needed
    )


def request_now(
    familiar: Familiar, setup: TurnSetup, channel_id: str, said: str, *, viewer: Viewer
) -> ContextRequest:
    """Build the request of a hypothetical turn, to inspect its prompt."""
    return ContextRequest(
        familiar_id=familiar.paths.root.name,
        channel_id=channel_id,
        author=None,
        utterance=said,
        modality=Modality.text,
        at=now(),
        budget_tokens=setup.allowance.total,
        viewer=viewer,
        layer_tokens=setup.allowance.layers,
        tier=setup.channel.tier,
        phrases=familiar.phrases,
    )


def pinned_memory(familiar: Familiar, setup: TurnSetup, find: Callable[[], Pins]) -> PinnedMemory:
    """Return the pinned memory of a turn.

    Args:
        setup: The settings of the turn.
        find: Finds the pinned files.
    """
    # Lines that rest on turns in the prompt stay, so that a pin is the same in each prompt.
    return PinnedMemory(find, familiar.memory, familiar.counter, partial(sight_of, familiar, setup))


def sight_of(familiar: Familiar, setup: TurnSetup, request: ContextRequest) -> Sight:
    """Return the memory filter of a turn, ignoring which turns its prompt already contains."""
    macros = setup.character.macros_of(request)
    gates = open_gates(familiar.memory, familiar.history, request, macros)
    return Sight(
        request.viewer, frozenset, macros, request.phrases, familiar.numbering, gates=gates
    )
