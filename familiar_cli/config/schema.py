"""Every setting of a familiar: its name, type, default and meaning. `character.toml` mirrors it.

So do the files of channels, with a table of their own: `ChannelConfig`.

A section is a frozen dataclass; a setting is a field whose metadata holds `doc`, and `choices`,
`minimum`, `rule` (see `config.check`) or `env` (the variable that overrides it) where they apply.
The loader, the error messages, `config show` and the reference page all read this one table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from familiar_cli.config.channel_context import KINDS, PRIVATE_KINDS
from familiar_cli.config.modes import ChannelMode
from familiar_cli.config.tiers import DEFAULT_TIER, TIERS

PRESETS = ("local", "openrouter", "openai", "ollama", "lmstudio", "llamacpp", "custom")
SLOTS = (
    "main",
    "history_summary",
    "memory_writer",
    "content_filter",
    "stepped_thinking",
    "recast",
    "consolidation",
)
EMBEDDERS = ("auto", "none", "bge-small-en-v1.5", "bge-base-en-v1.5", "minilm-l6-v2")
LAYERS = (
    "core",
    "character",
    "content",
    "history_summary",
    "recent_history",
    "author_note",
    "depth_inject",
    "digest",
    "desk",
)
ROLES = ("system", "user", "assistant")
NOTE_PLACES = ("depth", "scenario")
SWITCH = ("auto", "on", "off")
TIME_PLACES = ("chat", "start")
ON_OFF = ("on", "off")
PRIVACY = ("private", "share")
# What a slot with a preset of its own must not take from `[llm]`: a key or an address meant for one
# server never reaches another.
OF_PRESET = ("base_url", "model", "api_key_env", "context_tokens", "max_tokens")


ANY_NAME = "NAME"
"""Stands in a dotted key for the name that a person gives a table."""


def _set(
    default: Any,  # noqa: ANN401
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    rule: str = "",
    env: str = "",
) -> Any:  # noqa: ANN401
    about = {"doc": doc, "choices": choices, "minimum": minimum, "rule": rule, "env": env}
    return field(default=default, metadata={**about, "maximum": maximum})


@dataclass(frozen=True, slots=True)
class SlotSettings:
    """`[llm]`, and `[llm.slots.<slot>]` where a side task uses another model.

    In a slot, whatever is not set is taken from `[llm]`; but a slot with a preset of its own does
    not take what belongs to the preset of `[llm]`: see `OF_PRESET`.
    """

    preset: str = _set("local", "Which kind of server answers", choices=PRESETS)
    base_url: str = _set(
        "",
        "The server's address up to /v1; empty: the preset's own",
        rule="url",
        env="FAMILIAR_LLM_BASE_URL",
    )
    model: str = _set(
        "", "The model's name at that server; empty: the preset's own", env="FAMILIAR_LLM_MODEL"
    )
    api_key_env: str = _set(
        "", "Environment variable holding the key; empty: the preset's own", rule="variable"
    )
    context_tokens: int = _set(
        0, "Most tokens the model reads and writes together; 0: the preset's own", minimum=0
    )
    max_tokens: int = _set(0, "Most tokens of one reply; 0: the preset's own", minimum=0)
    temperature: float = _set(0.8, "How freely the model chooses its words", minimum=0)
    timeout_s: float = _set(120.0, "Longest silence of the server, in seconds", minimum=0.1)
    retries: int = _set(2, "How often a busy or failing server is asked again", minimum=0)


@dataclass(frozen=True, slots=True)
class LLMSettings(SlotSettings):
    """`[llm]`: the model that speaks for the familiar, and the slots that differ from it."""

    slots: dict[str, SlotSettings] = field(
        default_factory=dict, metadata={"each": SlotSettings, "names": SLOTS}
    )


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """`[budget]`: how many tokens a prompt may take. 0 means the default of the channel's mode."""

    total: int = _set(0, "Most tokens of a whole prompt", minimum=0)
    core: int = _set(0, "Most tokens of the main instructions", minimum=0)
    character: int = _set(0, "Most tokens of the character's own files", minimum=0)
    content: int = _set(0, "Most tokens of what memory adds", minimum=0)
    history_summary: int = _set(0, "Most tokens of the summary of older turns", minimum=0)
    recent_history: int = _set(0, "Most tokens of recent turns", minimum=0)
    author_note: int = _set(0, "Most tokens of the author's note", minimum=0)
    depth_inject: int = _set(0, "Most tokens inserted between turns", minimum=0)
    digest: int = _set(0, "Most tokens of the digests of memory", minimum=0)
    desk: int = _set(0, "Most tokens of reminders, tasks and the scratchpad", minimum=0)


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """`[history]`: what of the conversation is shown to the model."""

    recent_turns: int = _set(
        40, "Most recent turns of the channel to show; unless set, the mode's own", minimum=0
    )
    summary_every: int = _set(
        20,
        "How many turns must have left the prompt before they are summarised; 0: never",
        minimum=0,
    )
    summary_batch_tokens: int = _set(
        3000, "Most tokens of turns that are summarised in one step", minimum=200
    )
    elsewhere_channels: int = _set(
        3, "Most other channels to tell of what was said there meanwhile; 0: none", minimum=0
    )


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """`[context]`: how a prompt is gathered and remembered."""

    tier: int = _set(
        DEFAULT_TIER,
        "How much of the memory a prompt is made of",
        minimum=TIERS[0],
        maximum=TIERS[-1],
    )
    datetime: str = _set("on", "Whether a prompt tells the date and the time", choices=ON_OFF)
    datetime_place: str = _set(
        "chat",
        "Where it does: in the chat, right before what you say, or at the start of the prompt",
        choices=TIME_PLACES,
    )
    provider_deadline_s: float = _set(
        2.0, "Longest time a source of context may take, in seconds", minimum=0.01
    )
    processor_deadline_s: float = _set(
        20.0, "Longest time thinking first, or tidying a reply up, may take", minimum=0.01
    )
    keep_traces: int = _set(
        1000, "How many turns' traces are kept, newest first; 0 keeps all", minimum=0
    )
    jobs_limit_s: float = _set(
        60.0, "Longest time for work after a reply before a command ends, in seconds", minimum=0
    )


@dataclass(frozen=True, slots=True)
class NoteSettings:
    """`[author_note]`: a reminder to the model, where SillyTavern places an author's note."""

    text: str = _set("", "The author's note; macros such as {{char}} work; empty: none")
    place: str = _set("depth", "Where the note stands", choices=NOTE_PLACES)
    depth: int = _set(4, "How many turns of the chat stand below the note", minimum=0)
    role: str = _set("system", "As whose words the note is shown", choices=ROLES)
    interval: int = _set(
        1, "The note is there at every so many-th thing said to the familiar; 0: never", minimum=0
    )


@dataclass(frozen=True, slots=True)
class InjectSettings:
    """`[inject.NAME]`: a text of your own between the turns of the chat."""

    text: str = _set("", "The text; macros such as {{char}} work; empty: none")
    depth: int = _set(4, "How many turns of the chat stand below the text", minimum=0)
    role: str = _set("system", "As whose words the text is shown", choices=ROLES)


@dataclass(frozen=True, slots=True)
class ProcessorSettings:
    """`[processors]`: what may happen before and after the reply. `auto` is as the mode has it."""

    stepped_thinking: str = _set(
        "auto", "Whether the model thinks first, where the slot is set up", choices=SWITCH
    )
    recast: str = _set(
        "auto", "Whether a reply is tidied up, where the slot is set up", choices=SWITCH
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """`[memory]`: limits of the memory directory."""

    max_file_bytes: int = _set(256 * 1024, "Largest file that may be written", minimum=1024)
    max_results: int = _set(1000, "Most results of one search or listing", minimum=1)
    max_dir_files: int = _set(20_000, "Most files in one directory", minimum=1)
    lock_timeout_s: float = _set(10.0, "Longest wait for another writer, in seconds", minimum=0)


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """`[embedding]`: how memories are found by meaning."""

    model: str = _set(
        "auto",
        "The model that reads them; auto: bge-small, else MiniLM, if on disk; none: words alone",
        choices=EMBEDDERS,
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """`[search]`: which memories are added to a prompt because they fit what was said."""

    k: int = _set(6, "Most passages of memory that are looked up for a prompt; 0: none", minimum=0)
    snippet_tokens: int = _set(150, "Most tokens of one such passage", minimum=20)


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """`[filter]`: the model that chooses among them, where `llm.slots.content_filter` is set."""

    strong: float = _set(
        0.7, "From this strength on the best passage stands, though the filter drops it", minimum=0
    )
    answer_tokens: int = _set(300, "Most tokens of what the filter makes of them", minimum=20)
    deadline_s: float = _set(
        15.0, "Longest time for the filter, beside that for the search, in seconds", minimum=0.01
    )


@dataclass(frozen=True, slots=True)
class MemoryWriterSettings:
    """`[memory_writer]`: how what was said becomes memory."""

    auto: str = _set(
        "auto",
        "Whether memory is written after a reply; auto: with preset local at the threshold only",
        choices=SWITCH,
    )
    turn_threshold: int = _set(50, "So many turns that wait are written at once", minimum=1)
    idle_timeout: float = _set(
        1800.0, "After so long a silence, in seconds, what waits is written", minimum=1
    )
    batch_turns: int = _set(60, "Most turns of one question to the model", minimum=1)
    batch_tokens: int = _set(
        4000, "Most tokens of turns in one question; a small model gets fewer", minimum=100
    )
    dm: str = _set(
        "private",
        "Whether what is learned in a direct message stays there, or is shared everywhere",
        choices=PRIVACY,
    )
    structured: str = _set(
        "auto",
        "Whether the server is asked to constrain replies to the schema; auto: until it refuses",
        choices=SWITCH,
    )


@dataclass(frozen=True, slots=True)
class HousekeepingSettings:
    """`[housekeeping]`: what `familiar housekeep` goes by."""

    stale_days: int = _set(
        365, "How old a statement that bears a day may be before it is named", minimum=1
    )
    likeness: float = _set(
        0.8,
        "From which share of common runs of words two files are nearly the same, 0 to 1",
        minimum=0.3,
    )


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """`[instance]`: one of the places where a familiar lives."""

    id: str = _set(
        "", "What this machine is called in daily files; empty: its own name", rule="slug"
    )


@dataclass(frozen=True, slots=True)
class ConsolidationSettings:
    """`[consolidation]`: how days become weeks, months and years."""

    auto: str = _set("on", "Whether the daemon makes what is due", choices=ON_OFF)
    cutoff_hour: int = _set(
        5, "When the night ends, and with it the day; local time", minimum=0, maximum=12
    )
    part_tokens: int = _set(
        6000, "Most tokens of one question to the model; a small model gets fewer", minimum=400
    )
    structured: str = _set(
        "auto",
        "Whether the server is asked to constrain replies to the schema; auto: until it refuses",
        choices=SWITCH,
    )


@dataclass(frozen=True, slots=True)
class DistillSettings:
    """`[distill]`: the digests that are always in a prompt."""

    auto: str = _set("on", "Whether the daemon makes digests at their times", choices=ON_OFF)
    short: str = _set("on", "Whether the daemon makes the short one", choices=ON_OFF)
    mid: str = _set("on", "Whether the daemon makes the middle one", choices=ON_OFF)
    long: str = _set(
        "off", "Whether the daemon makes the long one; look at the first one first", choices=ON_OFF
    )
    short_at: str = _set("daily 03:00", "When it makes the short one, local time")
    mid_at: str = _set("weekly sun 03:30", "When it makes the middle one, local time")
    long_at: str = _set("monthly 1 04:00", "When it makes the long one, local time")
    short_tokens: int = _set(3000, "Most tokens of the short one", minimum=100)
    mid_tokens: int = _set(2000, "Most tokens of the middle one", minimum=100)
    long_tokens: int = _set(2000, "Most tokens of the long one", minimum=100)
    mid_slot: str = _set(
        "consolidation", "The slot whose model makes the middle one", choices=SLOTS
    )
    long_slot: str = _set("consolidation", "The slot whose model makes the long one", choices=SLOTS)
    notify: tuple[str, ...] = _set(
        (), "A program with its arguments, told in one more argument that a digest was made"
    )
    notify_timeout_s: float = _set(30.0, "Longest time it may take, in seconds", minimum=0.1)


@dataclass(frozen=True, slots=True)
class CharacterConfig:
    """All of `character.toml`."""

    name: str = _set("", "The familiar's name; empty: the card's")
    user_name: str = _set("User", "What {{user}} becomes when the speaker has no name")
    timezone: str = _set("", "Timezone such as Europe/Oslo; empty: the system's", rule="timezone")
    system_prompt: str = _set(
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

    mode: str = _set(
        "auto", "How one talks there; auto: as what is said comes", choices=("auto", *ChannelMode)
    )
    name: str = _set("", "What people call the channel; empty: its id")
    kind: str = _set("text", "What kind of channel it is", choices=KINDS)
    parent: str = _set("", "The channel that a thread or a post belongs to")
    recent_turns: int = _set(0, "Most recent turns to show; 0: as everywhere", minimum=0)
    tier: int = _set(
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


def doc_of(section: type, key: str) -> str:
    """Return the meaning of the setting `key` of `section`, as the reference page shows it."""
    found = next(f for f in fields(section) if f.name == key)
    return str(found.metadata.get("doc", ""))
