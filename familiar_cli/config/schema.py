"""Every setting of a familiar: its name, type, default and meaning. `character.toml` mirrors it.

So do the files of channels, with a table of their own: `ChannelConfig`.

A section is a frozen dataclass, and a setting is a field of it that `config.fields.setting` made.
The loader, the error messages, `config show` and the reference page all read this one table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from familiar_cli.config.channel_context import KINDS, PRIVATE_KINDS
from familiar_cli.config.fields import setting
from familiar_cli.config.keeping import (
    ConsolidationSettings,
    DistillSettings,
    EmbeddingSettings,
    HousekeepingSettings,
    InstanceSettings,
    MemorySettings,
    MemoryWriterSettings,
)
from familiar_cli.config.modes import ChannelMode
from familiar_cli.config.talking import (
    BudgetSettings,
    ContextSettings,
    FilterSettings,
    HistorySettings,
    InjectSettings,
    LLMSettings,
    NoteSettings,
    ProcessorSettings,
    SearchSettings,
    SlotSettings,
)
from familiar_cli.config.tiers import TIERS

__all__ = [
    "BudgetSettings",
    "ChannelConfig",
    "CharacterConfig",
    "ConsolidationSettings",
    "ContextSettings",
    "DistillSettings",
    "EmbeddingSettings",
    "FilterSettings",
    "HistorySettings",
    "HousekeepingSettings",
    "InjectSettings",
    "InstanceSettings",
    "LLMSettings",
    "MemorySettings",
    "MemoryWriterSettings",
    "NoteSettings",
    "ProcessorSettings",
    "SearchSettings",
    "SlotSettings",
]


@dataclass(frozen=True, slots=True)
class CharacterConfig:
    """All of `character.toml`."""

    name: str = setting("", "The familiar's name; empty: the card's")
    user_name: str = setting("User", "What {{user}} becomes when the speaker has no name")
    timezone: str = setting(
        "", "Timezone such as Europe/Oslo; empty: the system's", rule="timezone"
    )
    system_prompt: str = setting(
        "Write {{char}}'s next reply in a conversation between {{char}} and {{user}}.",
        "The main instruction; a card's own takes its place, or includes it as {{original}}",
    )
    llm: LLMSettings = field(default_factory=LLMSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    author_note: NoteSettings = field(default_factory=NoteSettings)
    processors: ProcessorSettings = field(default_factory=ProcessorSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    filter: FilterSettings = field(default_factory=FilterSettings)
    memory_writer: MemoryWriterSettings = field(default_factory=MemoryWriterSettings)
    instance: InstanceSettings = field(default_factory=InstanceSettings)
    consolidation: ConsolidationSettings = field(default_factory=ConsolidationSettings)
    distill: DistillSettings = field(default_factory=DistillSettings)
    housekeeping: HousekeepingSettings = field(default_factory=HousekeepingSettings)
    inject: dict[str, InjectSettings] = field(
        default_factory=dict, metadata={"each": InjectSettings, "names": ()}
    )


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """All of a channel's file. What it does not set is as `character.toml` or the mode says."""

    mode: str = setting(
        "auto", "How one talks there; auto: as what is said comes", choices=("auto", *ChannelMode)
    )
    name: str = setting("", "What people call the channel; empty: its id")
    kind: str = setting("text", "What kind of channel it is", choices=KINDS)
    parent: str = setting("", "The channel that a thread or a post belongs to")
    recent_turns: int = setting(0, "Most recent turns to show; 0: as everywhere", minimum=0)
    tier: int = setting(
        0,
        "How much of the memory a prompt is made of; 0: as everywhere",
        minimum=0,
        maximum=TIERS[-1],
    )
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    processors: ProcessorSettings = field(default_factory=ProcessorSettings)
    author_note: NoteSettings = field(default_factory=NoteSettings)
    inject: dict[str, InjectSettings] = field(
        default_factory=dict, metadata={"each": InjectSettings, "names": ()}
    )

    @property
    def private(self) -> bool:
        """Whether what is said there stays there."""
        return self.kind in PRIVATE_KINDS
