"""Settings in effect: those of a turn, and what follows from its model or the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.config.channel_kinds import MODES, OF_MODALITY
from familiar_cli.base.config.home import read_instance
from familiar_cli.base.config.values import Value
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.times.clock import now, to_zone
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.context import budget
from familiar_cli.context.character import Character
from familiar_cli.context.providers.character import CharacterProvider
from familiar_cli.context.providers.passages import Sight, open_gates
from familiar_cli.context.providers.pins import PinnedMemory
from familiar_cli.context.request import ContextRequest
from familiar_cli.context.tiers import DEEP, LARGE_WINDOW
from familiar_cli.context.types import Layer, Modality
from familiar_cli.familiar import Familiar
from familiar_cli.llm.slots import PLAN_TOKENS, ResolvedSlot, for_plans, resolve_embedding_server
from familiar_cli.store.search.build import Pins

if TYPE_CHECKING:
    from familiar_cli.base.config.channel import Channel
    from familiar_cli.base.config.settings import Effective

    Resolved = Iterator[tuple[str, Value, str]]


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
    allowance: budget.Allowance
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
    if budget.Window.of(slot or familiar.models.slot()).context_tokens < LARGE_WINDOW:
        return channel
    return channel.with_usual_tier(DEEP, "model's window")


def allowance_in(
    familiar: Familiar,
    channel: Channel,
    character: Character | None = None,
    slot: ResolvedSlot | None = None,
) -> budget.Allowance:
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
    needed = sum(budget.MESSAGE_TOKENS + familiar.counter.count(text) for text in texts if text)
    window = budget.Window.of(slot or familiar.models.slot())
    return budget.prompt_allowance(
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


_MODE: Final = OF_MODALITY["text"]
_SLOTS: Final = "llm.slots."
_OF_SLOT: Final = ("base_url", "model", "api_key_env", "context_tokens", "max_tokens")
_WINDOW: Final = {"server": "the server", "model": "the catalogue"}


def with_effective(familiar: Familiar, rows: list[Effective]) -> list[Effective]:
    """Add to settings their effective values in a text conversation with this model.

    Args:
        rows: The value of each setting, from `base.config.settings`.
    """
    result: dict[str, tuple[Value, str]] = {}
    for prefixes, resolve in _RESOLVERS:
        if not any(row.setting.key.startswith(prefixes) for row in rows):
            continue
        try:
            result |= {key: (value, source) for key, value, source in resolve(familiar, rows)}
        except FamiliarError:  # errors are reported where settings are used
            continue
    return [_with_resolved(row, result.get(row.setting.key)) for row in rows]


def _with_resolved(row: Effective, resolved: tuple[Value, str] | None) -> Effective:
    if resolved is None or resolved[0] == row.value:
        return row
    if row.value != row.setting.default and not row.setting.key.startswith("budget."):
        return row  # explicitly set; only a budget may exceed the limit
    return replace(row, effective=resolved[0], effective_source=resolved[1])


def _of_budget(familiar: Familiar, _: list[Effective]) -> Resolved:
    allowance = allowance_in(familiar, familiar.channel(""))
    yield "budget.total", allowance.total, allowance.source
    for layer, tokens in allowance.layers.items():
        source = f"{budget.percent_of(layer, allowance.total)} % of budget.total"
        if getattr(familiar.config.budget, layer):
            source = "budget.total"
        elif allowance.widened_tokens and layer is Layer.character:
            source = "the character's size"
        yield f"budget.{layer}", tokens, source
    yield "recall.tokens", allowance.most_content, "budget.content"


def _of_window(familiar: Familiar, _: list[Effective]) -> Resolved:
    yield "context.tier", channel_in(familiar, "").tier, "model's window"


def _of_mode(familiar: Familiar, rows: list[Effective]) -> Resolved:
    source = f"mode {_MODE}"
    if any(r.setting.key == "history.recent_turns" and r.source == "default" for r in rows):
        yield "history.recent_turns", MODES[_MODE].recent_turns, source
    for name, is_on in familiar.channel("").processors.items():
        if name in familiar.config.llm.slots:
            yield f"processors.{name}", "on" if is_on else "off", source
        else:
            yield f"processors.{name}", "off", f"no llm.slots.{name}"


def _of_model(familiar: Familiar, rows: list[Effective]) -> Resolved:
    names = {r.setting.key.split(".")[2] for r in rows if r.setting.key.startswith(_SLOTS)}
    for prefix, name in (("llm.", "main"), *((f"{_SLOTS}{n}.", n) for n in sorted(names))):
        slot = familiar.models.slot(name)
        yield f"{prefix}preset", slot.preset, "FAMILIAR_LLM_BASE_URL"
        for field in _OF_SLOT:
            source = f"preset {slot.preset}"
            if field == "context_tokens":
                source = _WINDOW.get(slot.context_source, source)
            yield f"{prefix}{field}", getattr(slot, field), source
        if name in PLAN_TOKENS:
            tokens, temperature = for_plans(slot, familiar.config.llm, PLAN_TOKENS[name])
            if tokens != slot.max_tokens:
                yield f"{prefix}max_tokens", tokens, "the context window"
            if temperature is not None:
                yield f"{prefix}temperature", temperature, "the task"


def _of_machine(familiar: Familiar, _: list[Effective]) -> Resolved:
    yield "timezone", to_zone(now(), familiar.zone).tzname() or "", "the system"
    has_id = read_instance(familiar.paths.instance) is not None
    yield "instance.id", familiar.days_name, "instance.id" if has_id else "the host name"
    yield "name", familiar.name, "the character"
    if not resolve_embedding_server(familiar.config.embedding):
        embedder = familiar.finder.embedder.embedder
        yield "embedding.model", embedder.model if embedder else "none", "what is on disk"


def _of_me(familiar: Familiar, _: list[Effective]) -> Resolved:
    for held in familiar.channel("").held:
        if held.key.startswith("me."):
            yield held.key, held.value, held.source


_RESOLVERS: Final = (
    (("budget.", "recall."), _of_budget),
    (("context.",), _of_window),
    (("history.", "processors."), _of_mode),
    (("llm.",), _of_model),
    (("me.",), _of_me),
    (("timezone", "instance.", "name", "embedding."), _of_machine),
)
