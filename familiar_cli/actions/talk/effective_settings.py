"""Settings in effect: values that follow from the model, the machine or the owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from familiar_cli.actions.talk.turn_setup import allowance_in, channel_in
from familiar_cli.base.config.channel_kinds import MODES, OF_MODALITY
from familiar_cli.base.config.home import read_instance
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.times.clock import now, to_zone
from familiar_cli.context import types
from familiar_cli.context.budget import percent_of
from familiar_cli.llm.slots import PLAN_TOKENS, for_plans

if TYPE_CHECKING:
    from familiar_cli.base.config.settings import Effective
    from familiar_cli.base.config.values import Value
    from familiar_cli.familiar import Familiar

    Resolved = Iterator[tuple[str, Value, str]]


_MODE: Final = OF_MODALITY["text"]
_SLOTS: Final = "llm.slots."
_OF_SLOT: Final = ("base_url", "model", "api_key_env", "context_tokens", "max_tokens")
_WINDOW: Final = {"server": "the server", "model": "the catalogue"}


def with_effective(familiar: Familiar, rows: list[Effective]) -> list[Effective]:
    """Add to settings their effective values in a text conversation with this model.

    Args:
        rows: The value of each setting, from `config.settings`.
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
        source = f"{percent_of(layer, allowance.total)} % of budget.total"
        if getattr(familiar.config.budget, layer):
            source = "budget.total"
        elif allowance.widened_tokens and layer is types.Layer.character:
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
    from familiar_cli.llm.embedding_slot import resolve_embedding_server

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
