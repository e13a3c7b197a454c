"""What holds in a channel: its own file first, then `character.toml`, then its mode."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.config.channel_kinds import MODES, OF_MODALITY, ChannelContext, ChannelMode
from familiar_cli.config.home import ME_FILE
from familiar_cli.config.schema import (
    BudgetSettings,
    ChannelConfig,
    CharacterConfig,
    InjectSettings,
    MeSettings,
    NoteSettings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.config.load import Written
    from familiar_cli.config.settings import Value

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class Held:
    """What holds for one setting of a channel.

    Args:
        key: The setting.
        value: What holds.
        source: `channel`, `character.toml`, `me.toml`, `mode <mode>` or `default`.
    """

    key: str
    value: Value
    source: str


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel, with everything that holds there.

    Args:
        id: Its id.
        config: Its own file.
        mode: Its mode.
        context: What it is called.
        greets: The character's greeting opens the conversation.
        recent_turns: Most recent turns in a prompt.
        tier: How much of the memory a prompt is made of.
        budget: The budget's settings; 0 is the mode's default.
        processors: Which are switched on, by their names.
        author_note: The author's note; its text may be empty.
        inject: The texts between the turns, by their names.
        me: Who speaks there, unless it is said.
        held: Each setting with where it comes from.
    """

    id: str
    config: ChannelConfig
    mode: ChannelMode
    context: ChannelContext
    greets: bool
    recent_turns: int
    tier: int
    budget: BudgetSettings
    processors: Mapping[str, bool]
    author_note: NoteSettings
    inject: Mapping[str, InjectSettings]
    me: MeSettings
    held: tuple[Held, ...]


def effective_channel(
    channel_id: str,
    own: Written[ChannelConfig],
    everywhere: Written[CharacterConfig],
    modality: str = "text",
    at_home: Written[MeSettings] | None = None,
) -> Channel:
    """Return a channel with everything that holds there.

    Args:
        channel_id: Its id.
        own: Its file.
        everywhere: `character.toml`.
        modality: How what is said comes: `text` or `voice`.
        at_home: `me.toml`; None: there is none.
    """
    return _Merge(own, everywhere, modality, at_home).channel(channel_id)


class _Merge:
    """The channel's file first, then `character.toml`, then the mode, then the default."""

    def __init__(
        self,
        own: Written[ChannelConfig],
        everywhere: Written[CharacterConfig],
        modality: str,
        at_home: Written[MeSettings] | None,
    ) -> None:
        self._at_home = at_home
        self._config, self._own = own.settings, own.tables
        self._character, self._everywhere = everywhere.settings, everywhere.tables
        config = own.settings
        set_here = config.mode != AUTO
        self._mode = ChannelMode(config.mode) if set_here else OF_MODALITY[modality]
        self._held = [Held("mode", str(self._mode), "channel" if set_here else f"{modality} turns")]

    @cached_property
    def _of_mode(self) -> dict[str, Any]:
        usual = MODES[self._mode]
        return {
            "budget.total": usual.total_tokens,
            "processors.stepped_thinking": "on" if usual.stepped_thinking else "off",
            "processors.recast": "on" if usual.recast else "off",
        }

    def channel(self, channel_id: str) -> Channel:
        for key in ("name", "kind", "parent"):
            source = "channel" if key in self._own else "default"
            self._held.append(Held(key, getattr(self._config, key), source))
        config = self._config
        greets = self._greeting() == "on"
        recent_turns = self._recent_turns()
        tier = self._tier()
        budget = self._section("budget")
        switches = self._section("processors")
        note = self._section("author_note")
        me = self._section("me")
        return Channel(
            id=channel_id,
            config=config,
            mode=self._mode,
            context=ChannelContext(config.name or channel_id, config.kind, config.parent),
            greets=greets,
            recent_turns=recent_turns,
            tier=tier,
            # Of the budget, the mode's default stays 0: the model may have a smaller one.
            budget=BudgetSettings(**{k: v if s else 0 for k, (v, s) in budget.items()}),
            processors={name: value == "on" for name, (value, _) in switches.items()},
            author_note=NoteSettings(**{name: value for name, (value, _) in note.items()}),
            inject=self._inject(),
            me=MeSettings(**{name: value for name, (value, _) in me.items()}),
            held=tuple(self._held),
        )

    def _greeting(self) -> str:
        value, source = self._character.context.greeting, "default"
        if "greeting" in self._everywhere.get("context", {}):
            source = "character.toml"
        if self._config.greeting != AUTO:
            value, source = self._config.greeting, "channel"
        self._held.append(Held("greeting", value, source))
        return value

    def _recent_turns(self) -> int:
        value, source = MODES[self._mode].recent_turns, f"mode {self._mode}"
        if "recent_turns" in self._everywhere.get("history", {}):
            value, source = self._character.history.recent_turns, "character.toml"
        if self._config.recent_turns:
            value, source = self._config.recent_turns, "channel"
        self._held.append(Held("recent_turns", value, source))
        return value

    def _tier(self) -> int:
        value, source = self._character.context.tier, "default"
        if "tier" in self._everywhere.get("context", {}):
            source = "character.toml"
        if self._config.tier:
            value, source = self._config.tier, "channel"
        self._held.append(Held("tier", value, source))
        return value

    def _section(self, name: str) -> dict[str, tuple[Any, bool]]:
        """Return each setting of a table that both files have, and whether a person set it."""
        found = {}
        for entry in fields(getattr(self._config, name)):
            key = f"{name}.{entry.name}"
            value, source = self._one(name, entry.name)
            is_set = source in {"channel", "character.toml"}
            found[entry.name] = (value, is_set)
            self._held.append(Held(key, value, source))
        return found

    def _one(self, section: str, name: str) -> tuple[Any, str]:
        unset = {"budget": 0, "processors": AUTO}.get(section)
        places = (
            (self._own, self._config, "channel"),
            (self._everywhere, self._character, "character.toml"),
        )
        for tables, config, source in places:
            value = getattr(getattr(config, section), name)
            if name in tables.get(section, {}) and (unset is None or value != unset):
                return value, source
        key = f"{section}.{name}"
        if section == "me" and self._at_home and name in self._at_home.tables:
            return getattr(self._at_home.settings, name), ME_FILE
        if key in self._of_mode:
            return self._of_mode[key], f"mode {self._mode}"
        return getattr(getattr(ChannelConfig(), section), name), "default"

    def _inject(self) -> dict[str, InjectSettings]:
        merged = {**self._character.inject, **self._config.inject}
        for name, entry in merged.items():
            source = "channel" if name in self._config.inject else "character.toml"
            self._held += [
                Held(f"inject.{name}.{f.name}", getattr(entry, f.name), source)
                for f in fields(entry)
            ]
        return merged
