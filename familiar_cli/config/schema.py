"""Every setting of a familiar: its name, type, default and meaning. `character.toml` mirrors it.

So do the files of channels, with a table of their own: `ChannelConfig`.

A section is a frozen dataclass, and a setting is a field of it that `config.fields.setting` made.
The loader, the error messages, `config show` and the reference page all read this one table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from familiar_cli.config.channel_kinds import KINDS, PRIVATE_KINDS, ChannelMode
from familiar_cli.config.fields import (
    DEFAULT_TIER,
    EMBEDDERS,
    NOTE_PLACES,
    ON_OFF,
    PRESETS,
    PRIVACY,
    ROLES,
    SLOTS,
    SWITCH,
    TIERS,
    TIME_PLACES,
    setting,
)


@dataclass(frozen=True, slots=True)
class SlotSettings:
    """`[llm]`, and `[llm.slots.<slot>]` where a side task uses another model.

    In a slot, whatever is not set is taken from `[llm]`; but a slot with a preset of its own does
    not take what belongs to the preset of `[llm]`: see `OF_PRESET`.
    """

    preset: str = setting("local", "Which kind of server answers", choices=PRESETS)
    base_url: str = setting(
        "",
        "The server's address up to /v1; empty: the preset's own",
        rule="url",
        env="FAMILIAR_LLM_BASE_URL",
    )
    model: str = setting(
        "", "The model's name at that server; empty: the preset's own", env="FAMILIAR_LLM_MODEL"
    )
    api_key_env: str = setting(
        "", "Environment variable holding the key; empty: the preset's own", rule="variable"
    )
    context_tokens: int = setting(
        0, "Most tokens the model reads and writes together; 0: the preset's own", minimum=0
    )
    max_tokens: int = setting(0, "Most tokens of one reply; 0: the preset's own", minimum=0)
    temperature: float = setting(0.8, "How freely the model chooses its words", minimum=0)
    timeout_s: float = setting(
        120.0, "Longest time without a word of a reply, in seconds", minimum=0.1
    )
    deadline_s: float = setting(1800.0, "Longest time for a whole reply, in seconds", minimum=0.1)
    retries: int = setting(2, "How often a busy or failing server is asked again", minimum=0)


@dataclass(frozen=True, slots=True)
class LLMSettings(SlotSettings):
    """`[llm]`: the model that speaks for the familiar, and the slots that differ from it."""

    slots: dict[str, SlotSettings] = field(
        default_factory=dict, metadata={"each": SlotSettings, "names": SLOTS}
    )


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """`[budget]`: how many tokens a prompt may take. 0 means the default of the channel's mode."""

    total: int = setting(0, "Most tokens of a whole prompt", minimum=0)
    core: int = setting(0, "Most tokens of the main instructions", minimum=0)
    character: int = setting(0, "Most tokens of the character's own files", minimum=0)
    content: int = setting(0, "Most tokens of what memory adds", minimum=0)
    history_summary: int = setting(0, "Most tokens of the summary of older turns", minimum=0)
    recent_history: int = setting(0, "Most tokens of recent turns", minimum=0)
    author_note: int = setting(0, "Most tokens of the author's note", minimum=0)
    depth_inject: int = setting(0, "Most tokens inserted between turns", minimum=0)
    digest: int = setting(0, "Most tokens of the digests of memory", minimum=0)
    desk: int = setting(0, "Most tokens of reminders, tasks and the scratchpad", minimum=0)


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """`[history]`: what of the conversation is shown to the model."""

    recent_turns: int = setting(
        40, "Most recent turns of the channel to show; unless set, the mode's own", minimum=0
    )
    summary_every: int = setting(
        20,
        "How many turns must have left the prompt before they are summarised; 0: never",
        minimum=0,
    )
    summary_batch_tokens: int = setting(
        3000, "Most tokens of turns that are summarised in one step", minimum=200
    )
    elsewhere_channels: int = setting(
        3, "Most other channels to tell of what was said there meanwhile; 0: none", minimum=0
    )


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """`[context]`: how a prompt is gathered and remembered."""

    tier: int = setting(
        DEFAULT_TIER,
        "How much of the memory a prompt is made of",
        minimum=TIERS[0],
        maximum=TIERS[-1],
    )
    datetime: str = setting("on", "Whether a prompt tells the date and the time", choices=ON_OFF)
    datetime_place: str = setting(
        "chat",
        "Where it does: in the chat, right before what you say, or at the start of the prompt",
        choices=TIME_PLACES,
    )
    greeting: str = setting(
        "on", "Whether the character's greeting opens a new conversation", choices=ON_OFF
    )
    channel_wait_s: float = setting(
        300.0,
        "Longest wait for the reply to another message of the same channel, in seconds",
        minimum=0,
    )
    provider_deadline_s: float = setting(
        2.0, "Longest time a source of context may take, in seconds", minimum=0.01
    )
    processor_deadline_s: float = setting(
        20.0, "Longest time thinking first, or tidying a reply up, may take", minimum=0.01
    )
    keep_traces: int = setting(
        1000, "How many turns' traces are kept, newest first; 0 keeps all", minimum=0
    )
    jobs_limit_s: float = setting(
        60.0, "Longest time for work after a reply before a command ends, in seconds", minimum=0
    )


@dataclass(frozen=True, slots=True)
class NoteSettings:
    """`[author_note]`: a reminder to the model, where SillyTavern places an author's note."""

    text: str = setting("", "The author's note; macros such as {{char}} work; empty: none")
    place: str = setting("depth", "Where the note stands", choices=NOTE_PLACES)
    depth: int = setting(4, "How many turns of the chat stand below the note", minimum=0)
    role: str = setting("system", "As whose words the note is shown", choices=ROLES)
    interval: int = setting(
        1, "The note is there at every so many-th thing said to the familiar; 0: never", minimum=0
    )


@dataclass(frozen=True, slots=True)
class InjectSettings:
    """`[inject.NAME]`: a text of your own between the turns of the chat."""

    text: str = setting("", "The text; macros such as {{char}} work; empty: none")
    depth: int = setting(4, "How many turns of the chat stand below the text", minimum=0)
    role: str = setting("system", "As whose words the text is shown", choices=ROLES)


@dataclass(frozen=True, slots=True)
class ProcessorSettings:
    """`[processors]`: what may happen before and after the reply. `auto` is as the mode has it."""

    stepped_thinking: str = setting(
        "auto", "Whether the model thinks first, where the slot is set up", choices=SWITCH
    )
    recast: str = setting(
        "auto", "Whether a reply is tidied up, where the slot is set up", choices=SWITCH
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """`[search]`: which memories are added to a prompt because they fit what was said."""

    k: int = setting(
        40, "Most files and conversations that a prompt quotes; 0: nothing is searched", minimum=0
    )
    snippet_tokens: int = setting(150, "Most tokens of one line or turn of them", minimum=20)


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """`[recall]`: what of memory and of the past is quoted because it fits what was said."""

    enabled: str = setting(
        "on", "Whether past turns are searched for a prompt, beside memory", choices=ON_OFF
    )
    tokens: int = setting(
        0, "Most tokens of such quotes; 0: what budget.content and the prompt leave", minimum=0
    )


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """`[filter]`: the model that chooses among them, where `llm.slots.content_filter` is set."""

    strong: float = setting(
        0.7, "From this strength on the best passage stands, though the filter drops it", minimum=0
    )
    answer_tokens: int = setting(300, "Most tokens of what the filter makes of them", minimum=20)
    deadline_s: float = setting(
        15.0, "Longest time for the filter, beside that for the search, in seconds", minimum=0.01
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """`[memory]`: limits of the memory directory."""

    max_file_bytes: int = setting(256 * 1024, "Largest file that may be written", minimum=1024)
    max_results: int = setting(1000, "Most results of one search or listing", minimum=1)
    max_dir_files: int = setting(20_000, "Most files in one directory", minimum=1)
    lock_timeout_s: float = setting(10.0, "Longest wait for another writer, in seconds", minimum=0)


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """`[embedding]`: how memories are found by meaning."""

    model: str = setting(
        "auto",
        "The model that reads them; auto: bge-small, else MiniLM, if on disk; none: words alone",
        choices=EMBEDDERS,
    )


@dataclass(frozen=True, slots=True)
class MemoryWriterSettings:
    """`[memory_writer]`: how what was said becomes memory."""

    auto: str = setting(
        "auto",
        "Whether memory is written after a reply; auto: with preset local at the threshold only",
        choices=SWITCH,
    )
    turn_threshold: int = setting(50, "So many turns that wait are written at once", minimum=1)
    idle_timeout: float = setting(
        1800.0, "After so long a silence, in seconds, what waits is written", minimum=1
    )
    batch_turns: int = setting(60, "Most turns of one question to the model", minimum=1)
    batch_tokens: int = setting(
        4000, "Most tokens of turns in one question; a small model gets fewer", minimum=100
    )
    dm: str = setting(
        "private",
        "Whether what is learned in a direct message stays there, or is shared everywhere",
        choices=PRIVACY,
    )
    structured: str = setting(
        "auto",
        "Whether the server is asked to constrain replies to the schema; auto: until it refuses",
        choices=SWITCH,
    )


@dataclass(frozen=True, slots=True)
class HousekeepingSettings:
    """`[housekeeping]`: what `familiar housekeep` goes by."""

    stale_days: int = setting(
        365, "How old a statement that bears a day may be before it is named", minimum=1
    )
    likeness: float = setting(
        0.8,
        "From which share of common runs of words two files are nearly the same, 0 to 1",
        minimum=0.3,
    )


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """`[instance]`: one of the places where a familiar lives."""

    id: str = setting(
        "", "What this machine is called in daily files; empty: its own name", rule="slug"
    )


@dataclass(frozen=True, slots=True)
class ConsolidationSettings:
    """`[consolidation]`: how days become weeks, months and years."""

    auto: str = setting("on", "Whether the daemon makes what is due", choices=ON_OFF)
    cutoff_hour: int = setting(
        5, "When the night ends, and with it the day; local time", minimum=0, maximum=12
    )
    part_tokens: int = setting(
        6000, "Most tokens of one question to the model; a small model gets fewer", minimum=400
    )
    structured: str = setting(
        "auto",
        "Whether the server is asked to constrain replies to the schema; auto: until it refuses",
        choices=SWITCH,
    )


@dataclass(frozen=True, slots=True)
class DistillSettings:
    """`[distill]`: the digests that are always in a prompt."""

    auto: str = setting("on", "Whether the daemon makes digests at their times", choices=ON_OFF)
    short: str = setting("on", "Whether the daemon makes the short one", choices=ON_OFF)
    mid: str = setting("on", "Whether the daemon makes the middle one", choices=ON_OFF)
    long: str = setting(
        "off", "Whether the daemon makes the long one; look at the first one first", choices=ON_OFF
    )
    short_at: str = setting(
        "daily 03:00", "When it makes the short one, local time", rule="schedule"
    )
    mid_at: str = setting(
        "weekly sun 03:30", "When it makes the middle one, local time", rule="schedule"
    )
    long_at: str = setting(
        "monthly 1 04:00", "When it makes the long one, local time", rule="schedule"
    )
    short_tokens: int = setting(3000, "Most tokens of the short one", minimum=100)
    mid_tokens: int = setting(2000, "Most tokens of the middle one", minimum=100)
    long_tokens: int = setting(2000, "Most tokens of the long one", minimum=100)
    mid_slot: str = setting(
        "consolidation", "The slot whose model makes the middle one", choices=SLOTS
    )
    long_slot: str = setting(
        "consolidation", "The slot whose model makes the long one", choices=SLOTS
    )
    notify: tuple[str, ...] = setting(
        (), "A program with its arguments, told in one more argument that a digest was made"
    )
    notify_timeout_s: float = setting(30.0, "Longest time it may take, in seconds", minimum=0.1)


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
    recall: RecallSettings = field(default_factory=RecallSettings)
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
    greeting: str = setting(
        "auto", "Whether the greeting opens the conversation; auto: as everywhere", choices=SWITCH
    )
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
