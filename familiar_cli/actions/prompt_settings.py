"""Settings and pinned files as they take effect in prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from familiar_cli.config.channel_kinds import MODES, OF_MODALITY
from familiar_cli.errors import FamiliarError, RefusedError
from familiar_cli.memory.pages.links import SUFFIXES
from familiar_cli.memory.pages.pins import with_pin, without_pin
from familiar_cli.memory.pages.self_files import SELF_FILES
from familiar_cli.memory.store import paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.context.providers.pins import Pinned
    from familiar_cli.context.types import Contribution
    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.store.types import Applied


if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.config.fields import Value
    from familiar_cli.config.origin import Effective
    from familiar_cli.familiar import Familiar

    Resolved = Iterator[tuple[str, Value, str]]

_MODE: Final = OF_MODALITY["text"]
_SLOTS: Final = "llm.slots."
_OF_SLOT: Final = ("base_url", "model", "api_key_env", "context_tokens", "max_tokens")
_WINDOW: Final = {"server": "the server", "model": "the catalogue"}


def with_effective(familiar: Familiar, rows: list[Effective]) -> list[Effective]:
    """Return settings, each with what it comes to in a text conversation with this model.

    Args:
        familiar: Whose settings.
        rows: What holds for each, as `config.origin` says.
    """
    found: dict[str, tuple[Value, str]] = {}
    for prefixes, resolve in _RESOLVERS:
        if not any(row.setting.key.startswith(prefixes) for row in rows):
            continue
        try:
            found |= {key: (value, source) for key, value, source in resolve(familiar, rows)}
        except FamiliarError:  # what is wrong is told where it is used; the settings are shown
            continue
    return [_with(row, found.get(row.setting.key)) for row in rows]


def _with(row: Effective, resolved: tuple[Value, str] | None) -> Effective:
    if resolved is None or resolved[0] == row.value:
        return row
    if row.value != row.setting.default and not row.setting.key.startswith("budget."):
        return row  # it is set; only a budget may be more than there is
    return replace(row, effective=resolved[0], effective_source=resolved[1])


def _of_budget(familiar: Familiar, _: list[Effective]) -> Resolved:
    from familiar_cli.context.budget import PERCENT
    from familiar_cli.context.types import Layer

    found = familiar.allowance(familiar.channel(""))
    yield "budget.total", found.total, found.source
    for layer, tokens in found.layers.items():
        source = f"{PERCENT[layer]} % of budget.total"
        if getattr(familiar.config.budget, layer):
            source = "budget.total"
        elif found.widened_tokens and layer is Layer.character:
            source = "the character's size"
        yield f"budget.{layer}", tokens, source
    yield "recall.tokens", found.layers[Layer.content], "budget.content"


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
        slot = familiar.slot(name)
        yield f"{prefix}preset", slot.preset, "FAMILIAR_LLM_BASE_URL"
        for field in _OF_SLOT:
            source = f"preset {slot.preset}"
            if field == "context_tokens":
                source = _WINDOW.get(slot.context_source, source)
            yield f"{prefix}{field}", getattr(slot, field), source


def _of_machine(familiar: Familiar, _: list[Effective]) -> Resolved:
    from familiar_cli.clock import now, to_zone
    from familiar_cli.config.instance import read_instance

    yield "timezone", to_zone(now(), familiar.zone).tzname() or "", "the system"
    has_id = read_instance(familiar.paths.instance) is not None
    yield "instance.id", familiar.days_name, "instance.id" if has_id else "the host name"
    yield "name", familiar.name, "the character"
    embedder = familiar.embedder.embedder
    yield "embedding.model", embedder.model if embedder else "none", "what is on disk"


def _of_me(familiar: Familiar, _: list[Effective]) -> Resolved:
    for held in familiar.channel("").held:
        if held.key.startswith("me."):
            yield held.key, held.value, held.source


_RESOLVERS: Final = (
    (("budget.", "recall."), _of_budget),
    (("history.", "processors."), _of_mode),
    (("llm.",), _of_model),
    (("me.",), _of_me),
    (("timezone", "instance.", "name", "embedding."), _of_machine),
)


_CHANNEL: Final = "cli"
_SELF: Final = frozenset(entry.rel_path for entry in SELF_FILES)
_NO_ROOM: Final = "no room beside the other pins; prompts show what fits in the room left free"


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A pinned file.

    Args:
        rel_path: Its path.
        tokens: What it costs in a prompt; 0: nothing of it is shown.
        fits: It is in every prompt, whole.
        note: Why it is not, or not all of it; empty: it is.
    """

    rel_path: str
    tokens: int
    fits: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """All pinned files.

    Args:
        pins: The files, sorted by path.
        tokens: What all of them cost together.
        budget_tokens: What prompts guarantee to pins.
        problems: What could not be read.
    """

    pins: tuple[PinnedFile, ...]
    tokens: int
    budget_tokens: int
    problems: tuple[str, ...] = ()

    @property
    def shortage(self) -> str:
        """Why not all of them are in every prompt, in words; empty when they fit."""
        if self.tokens <= self.budget_tokens:
            return ""
        return (
            f"Pinned files have {self.tokens:,} tokens, but prompts guarantee them"
            f" {self.budget_tokens:,}; a full prompt leaves some out"
        )


def set_pins(
    familiar: Familiar, rel_paths: Iterable[str], *, pinned: bool, dry_run: bool = False
) -> Applied:
    """Pin files, or unpin them: all of them, or none if one cannot be changed.

    Raises:
        NotFoundError: There is no such file.
        RefusedError: It is no file for pins.
        BadInputError: It is not text, or its front matter cannot take the key.
    """
    memory = familiar.memory
    clean = list(dict.fromkeys(map(paths.parse, rel_paths)))
    message = f"{'pin' if pinned else 'unpin'} {' '.join(clean)}"
    with memory.transaction("human", message, dry_run=dry_run) as tx:
        for rel_path in clean:
            file = memory.read(rel_path)
            if pinned:
                _check(rel_path)
            text = with_pin(file.text, rel_path) if pinned else without_pin(file.text)
            tx.write(rel_path, text, expect=file.sha256)
    return tx.result


def list_pins(familiar: Familiar, *, by_index: bool = True) -> PinnedFiles:
    """Return the pinned files as the prompts of a direct conversation have them.

    Args:
        familiar: Whose.
        by_index: Found by the index, which is brought up to date; else by a look at all files.
    """
    from familiar_cli.actions.prompt import pinned_memory, turn_setup
    from familiar_cli.clock import now
    from familiar_cli.context.types import ContextRequest, Layer, Modality
    from familiar_cli.index.build import find_pins, pins_in_files

    setup = turn_setup(familiar, _CHANNEL)
    request = ContextRequest(
        familiar_id=familiar.paths.root.name,
        channel_id=_CHANNEL,
        author=None,
        utterance="",
        modality=Modality.text,
        at=now(),
        budget_tokens=setup.allowance.total,
        viewer=familiar.privacy.viewer_in(_CHANNEL, familiar.me().author),
        layer_tokens=setup.allowance.layers,
        tier=setup.channel.tier,
        phrases=familiar.phrases,
    )
    by_files = partial(pins_in_files, familiar.memory)
    find = partial(find_pins, familiar.index) if by_index else by_files
    pinned = pinned_memory(familiar, setup, find).of(request)
    pins = sorted(
        (_file(familiar, piece, pinned) for piece in pinned.pieces if piece.rel_path),
        key=lambda pin: pin.rel_path,
    )
    problems = tuple(piece.problem for piece in pinned.pieces if not piece.rel_path)
    budget = setup.allowance.layers[Layer.pinned]
    return PinnedFiles(tuple(pins), sum(pin.tokens for pin in pins), budget, problems)


def _file(familiar: Familiar, piece: Contribution, pinned: Pinned) -> PinnedFile:
    from familiar_cli.context.budget import MESSAGE_TOKENS

    assert piece.rel_path
    if not piece.text:
        return PinnedFile(piece.rel_path, 0, fits=False, note=piece.problem or piece.remark)
    tokens = MESSAGE_TOKENS + familiar.counter.count(piece.text)
    if piece.rel_path not in pinned.shown:
        return PinnedFile(piece.rel_path, tokens, fits=False, note=_NO_ROOM)
    return PinnedFile(piece.rel_path, tokens, not piece.shortened, piece.shortened)


def _check(rel_path: str) -> None:
    if rel_path in _SELF:
        raise RefusedError(
            f"{rel_path!r} is part of the character, which is already in every prompt;"
            " nothing was changed",
            hint="Pin a file of its own, e.g. `familiar memory write lore/rules.md TEXT`.",
        )
    if not rel_path.lower().endswith(SUFFIXES):
        raise RefusedError(
            f"{rel_path!r} cannot be pinned: only {', '.join(SUFFIXES)} files can;"
            " nothing was changed",
            hint="Copy its text to a Markdown file, and pin that.",
        )
    if any(part.startswith(".") for part in rel_path.split("/")):
        raise RefusedError(
            f"{rel_path!r} cannot be pinned: prompts never include hidden files;"
            " nothing was changed",
            hint="Move it to a name without a leading dot first.",
        )
