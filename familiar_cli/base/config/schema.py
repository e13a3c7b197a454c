"""Every setting of a familiar: its name, type, default and meaning. `character.toml` mirrors it.

So do the files of channels, with a table of their own: `ChannelConfig`.

A section is a `SettingsTable`, and a setting is a field of it that `setting` made.
The loader, the error messages, `config show` and the reference page all read this one table.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from familiar_cli.base.config.channel_kinds import KINDS, PRIVATE_KINDS, ChannelMode
from familiar_cli.base.config.values import ON_OFF, SettingsTable, setting
from familiar_cli.base.text import LANGUAGES as KNOWN_LANGUAGES

# The words that settings may be set to, and the names of slots.
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
EMBEDDING_PROVIDERS = ("auto", "local", "openai")
EMBEDDERS = ("auto", "none", "bge-small-en-v1.5", "bge-base-en-v1.5", "minilm-l6-v2")
ROLES = ("system", "user", "assistant")
NOTE_PLACES = ("depth", "scenario")
SWITCH = ("auto", "on", "off")
TIME_PLACES = ("chat", "start")
FRAMES = ("auto", "short", "full")
LANGUAGES = ("auto", *KNOWN_LANGUAGES)
PRIVACY = ("private", "share")
# What a slot with a preset of its own must not take from `[llm]`: a key or an address meant for one
# server never reaches another.
OF_PRESET = ("base_url", "model", "api_key_env", "context_tokens", "max_tokens")

TIERS: Final = (1, 2, 3, 4)
DEFAULT_TIER: Final = 2
"""The usual one: a whole character, who takes part, and digests of what was."""

ANY_NAME = "NAME"
"""Stands in a dotted key for the name that a person gives a table."""


class SlotSettings(SettingsTable):
    """`[llm]`, and `[llm.slots.<slot>]` where a side task uses another model.

    In a slot, whatever is not set is taken from `[llm]`; but a slot with a preset of its own does
    not take what belongs to the preset of `[llm]`: see `OF_PRESET`. `written` holds the names of
    what a slot sets itself; the loader fills it in.
    """

    preset: str = setting("local", "Kind of server to use", choices=PRESETS)
    base_url: str = setting(
        "",
        "The server's address up to /v1; empty: the preset's own",
        rule="url",
        env="FAMILIAR_LLM_BASE_URL",
    )
    model: str = setting(
        "",
        "The model's name at that server; empty: the preset's own",
        rule="name",
        env="FAMILIAR_LLM_MODEL",
    )
    api_key_env: str = setting(
        "", "Environment variable holding the key; empty: the preset's own", rule="variable"
    )
    context_tokens: int = setting(
        0, "Context size of the model, in tokens; 0: the preset's own", minimum=0
    )
    max_tokens: int = setting(0, "Maximum tokens of one reply; 0: the preset's own", minimum=0)
    temperature: float = setting(0.8, "Sampling temperature", minimum=0)
    timeout_s: float = setting(
        120.0, "Maximum time without receiving any text, in seconds", minimum=0.1
    )
    deadline_s: float = setting(1800.0, "Maximum time for a whole reply, in seconds", minimum=0.1)
    retries: int = setting(2, "How often to retry a busy or failing server", minimum=0)
    written: frozenset[str] = field(default_factory=frozenset, metadata={"loader": True})


class LLMSettings(SlotSettings):
    """`[llm]`: the model that speaks for the familiar, and the slots that differ from it."""

    vision: str = setting(
        "off",
        "Whether to send the newest earlier pictures of a conversation again",
        choices=("off", "on"),
    )
    slots: dict[str, SlotSettings] = field(
        default_factory=dict, metadata={"each": SlotSettings, "names": SLOTS}
    )


class MeSettings(SettingsTable):
    """`[me]`: who you are."""

    name: str = setting("", "What you are called; empty: user_name", rule="name")
    description: str = setting("", "Who you are, for {{persona}}; macros work")
    pronouns: str = setting("", "Your pronouns, e.g. they/them")
    also: tuple[str, ...] = setting((), "Your other accounts, as PLATFORM:ID", rule="accounts")


class HomeSettings(MeSettings):
    """`me.toml` at the home: who you are, and its other owners by the names after `--as`."""

    owners: dict[str, MeSettings] = field(
        default_factory=dict, metadata={"each": MeSettings, "names": (), "inherits": False}
    )


class BudgetSettings(SettingsTable):
    """`[budget]`: how many tokens a prompt may take. 0 means the default of the channel's mode."""

    total: int = setting(0, "Maximum tokens of a whole prompt", minimum=0)
    core: int = setting(0, "Maximum tokens of the main instructions", minimum=0)
    character: int = setting(0, "Maximum tokens of the character's own files", minimum=0)
    content: int = setting(
        0, "Maximum tokens of memory and recall; 0: its share, and then free room", minimum=0
    )
    history_summary: int = setting(0, "Maximum tokens of the summary of older turns", minimum=0)
    recent_history: int = setting(0, "Maximum tokens of recent turns", minimum=0)
    author_note: int = setting(0, "Maximum tokens of the author's note", minimum=0)
    depth_inject: int = setting(0, "Maximum tokens inserted between turns", minimum=0)
    digest: int = setting(0, "Maximum tokens of the memory digests", minimum=0)
    desk: int = setting(0, "Maximum tokens of reminders, tasks and the scratchpad", minimum=0)
    pinned: int = setting(0, "Maximum tokens of pinned files", minimum=0)


class HistorySettings(SettingsTable):
    """`[history]`: what of the conversation is shown to the model."""

    recent_turns: int = setting(
        40, "Maximum number of recent turns of the channel; unless set, the mode's own", minimum=0
    )
    summary_every: int = setting(
        20,
        "Number of turns that must leave the prompt before they are summarised; 0: never",
        minimum=0,
    )
    elsewhere_channels: int = setting(
        3, "Maximum number of other channels to quote recent turns from; 0: none", minimum=0
    )


class ContextSettings(SettingsTable):
    """`[context]`: how a prompt is gathered and remembered."""

    tier: int = setting(
        DEFAULT_TIER,
        "How much of the memory a prompt includes; unless set, 3 if the model reads 16,000 tokens",
        minimum=TIERS[0],
        maximum=TIERS[-1],
    )
    datetime: str = setting("on", "Whether a prompt includes the date and time", choices=ON_OFF)
    datetime_place: str = setting(
        "chat",
        "Where: in the chat, right before your message, or at the start of the prompt",
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
        2.0, "Maximum time for one context provider, in seconds", minimum=0.01
    )
    processor_deadline_s: float = setting(
        20.0,
        "Maximum time for stepped thinking, or for recasting a reply, in seconds",
        minimum=0.01,
    )
    frame: str = setting(
        "auto",
        "Whether prompts and replies are short; auto: only with a small model on this machine",
        choices=FRAMES,
    )
    keep_traces: int = setting(1000, "Number of newest traces to keep; 0: all", minimum=0)
    jobs_limit_s: float = setting(
        60.0, "Maximum time for work after a reply before a command exits, in seconds", minimum=0
    )


class NoteSettings(SettingsTable):
    """`[author_note]`: a reminder to the model, where SillyTavern places an author's note."""

    text: str = setting("", "The author's note; macros such as {{char}} work; empty: none")
    place: str = setting("depth", "Where the note is placed", choices=NOTE_PLACES)
    depth: int = setting(4, "Number of chat messages below the note", minimum=0)
    role: str = setting("system", "Role of the note's message", choices=ROLES)
    interval: int = setting(1, "Include the note in every Nth turn; 0: never", minimum=0)


class InjectSettings(SettingsTable):
    """`[inject.NAME]`: a text of your own between the turns of the chat."""

    text: str = setting("", "The text; macros such as {{char}} work; empty: none")
    depth: int = setting(4, "Number of chat messages below the text", minimum=0)
    role: str = setting("system", "Role of the text's message", choices=ROLES)


class ProcessorSettings(SettingsTable):
    """`[processors]`: what may happen before and after the reply. `auto` is as the mode has it."""

    stepped_thinking: str = setting(
        "auto", "Whether the model thinks first, if its slot is set up", choices=SWITCH
    )
    recast: str = setting(
        "auto", "Whether a reply is tidied up, if its slot is set up", choices=SWITCH
    )


class SearchSettings(SettingsTable):
    """`[search]`: which memories are added to a prompt because they fit what was said."""

    k: int = setting(
        40, "Maximum number of files and conversations quoted in a prompt; 0: no search", minimum=0
    )
    snippet_tokens: int = setting(150, "Maximum tokens of each line or turn quoted", minimum=20)


class RecallSettings(SettingsTable):
    """`[recall]`: what of memory and of the past is quoted because it fits what was said."""

    enabled: str = setting(
        "on", "Whether past turns are searched as well as memory", choices=ON_OFF
    )
    tokens: int = setting(
        0, "Maximum tokens of all quotes; 0: what budget.content and the prompt leave", minimum=0
    )


class FilterSettings(SettingsTable):
    """`[filter]`: the model that chooses among them, where `llm.slots.content_filter` is set."""

    strong: float = setting(
        0.7,
        "Minimum score at which the best passage is kept even if the filter drops it",
        minimum=0,
    )
    answer_tokens: int = setting(300, "Maximum tokens of the filter's answer", minimum=20)
    deadline_s: float = setting(
        15.0, "Maximum time for the filter, in addition to the search, in seconds", minimum=0.01
    )


class MemorySettings(SettingsTable):
    """`[memory]`: limits of the memory directory."""

    max_file_bytes: int = setting(256 * 1024, "Largest file that may be written", minimum=1024)
    max_results: int = setting(
        1000, "Maximum number of results of one search or listing", minimum=1
    )
    max_dir_files: int = setting(
        20_000, "Maximum number of files in one directory other than `people/`", minimum=1
    )
    lock_timeout_s: float = setting(10.0, "Maximum wait for another writer, in seconds", minimum=0)


class EmbeddingSettings(SettingsTable):
    """`[embedding]`: how memories are found by meaning."""

    provider: str = setting(
        "auto",
        "Where the model runs: local, in this program; openai, at base_url; auto: at base_url if "
        "that is set",
        choices=EMBEDDING_PROVIDERS,
    )
    model: str = setting(
        "auto",
        "Embedding model; auto: bge-small or else MiniLM, if on disk; none: search by words only",
        rule="embedder",
        env="FAMILIAR_EMBEDDING_MODEL",
    )
    base_url: str = setting(
        "",
        "Address up to /v1 of a server with /v1/embeddings; memory and turns are sent there",
        rule="url",
        env="FAMILIAR_EMBEDDING_BASE_URL",
    )
    api_key_env: str = setting(
        "",
        "Environment variable holding its key; empty: the usual one of that server",
        rule="variable",
    )
    query_prefix: str = setting(
        "auto", "What the model expects before a question; auto: as its name suggests"
    )
    passage_prefix: str = setting(
        "auto", "What the model expects before a text; auto: as its name suggests"
    )
    timeout_s: float = setting(
        60.0, "Maximum time for one request to that server, in seconds", minimum=0.1
    )


class MemoryWriterSettings(SettingsTable):
    """`[memory_writer]`: how what was said becomes memory."""

    auto: str = setting(
        "auto",
        "Whether memory is written after a reply; auto: with preset local at the threshold only",
        choices=SWITCH,
    )
    turn_threshold: int = setting(50, "Number of waiting turns that triggers writing", minimum=1)
    idle_timeout: float = setting(1800.0, "Silence that triggers writing, in seconds", minimum=1)
    batch_turns: int = setting(60, "Maximum number of turns per request to the model", minimum=1)
    batch_tokens: int = setting(
        4000, "Maximum tokens of turns per request; less for a small model", minimum=100
    )
    dm: str = setting(
        "private",
        "Whether what is learned in a direct message stays private or is shared everywhere",
        choices=PRIVACY,
    )
    structured: str = setting(
        "auto",
        "Whether the server is asked to constrain replies to the schema; auto: until it refuses",
        choices=SWITCH,
    )


class PrivacySettings(SettingsTable):
    """`[privacy]`: who is told what belongs to the owner."""

    owner: str = setting(
        "private",
        "share: what the owner says in private is public, and so is their desk",
        choices=PRIVACY,
    )
    notes: str = setting(
        "public",
        "Who may see text in memory that is based on no turn, outside self/ and lore/",
        choices=("public", "owner"),
    )


class InstanceSettings(SettingsTable):
    """`[instance]`: one of the places where a familiar lives."""

    id: str = setting(
        "", "Name of this machine in daily files; empty: as in the file `instance.id`", rule="slug"
    )


class ConsolidationSettings(SettingsTable):
    """`[consolidation]`: how days become weeks, months and years."""

    auto: str = setting(
        "on", "Whether the daemon makes days, weeks, months and years that are due", choices=ON_OFF
    )
    cutoff_hour: int = setting(5, "Hour at which a day ends, local time", minimum=0, maximum=12)
    part_tokens: int = setting(
        6000, "Maximum tokens per request to the model; less for a small model", minimum=400
    )
    structured: str = setting(
        "auto",
        "Whether the server is asked to constrain replies to the schema; auto: until it refuses",
        choices=SWITCH,
    )


class DistillSettings(SettingsTable):
    """`[distill]`: the digests that are always in a prompt."""

    auto: str = setting("on", "Whether the daemon makes digests on schedule", choices=ON_OFF)
    short: str = setting("on", "Whether the daemon makes the short digest", choices=ON_OFF)
    mid: str = setting("on", "Whether the daemon makes the middle digest", choices=ON_OFF)
    long: str = setting(
        "off",
        "Whether the daemon makes the long digest; review the first one before you turn it on",
        choices=ON_OFF,
    )
    short_at: str = setting(
        "daily 03:00", "When it makes the short digest, local time", rule="schedule"
    )
    mid_at: str = setting(
        "weekly sun 03:30", "When it makes the middle digest, local time", rule="schedule"
    )
    long_at: str = setting(
        "monthly 1 04:00", "When it makes the long digest, local time", rule="schedule"
    )
    short_tokens: int = setting(3000, "Maximum tokens of the short digest", minimum=100)
    mid_tokens: int = setting(2000, "Maximum tokens of the middle digest", minimum=100)
    long_tokens: int = setting(2000, "Maximum tokens of the long digest", minimum=100)
    mid_slot: str = setting(
        "consolidation", "Slot whose model makes the middle digest", choices=SLOTS
    )
    long_slot: str = setting(
        "consolidation", "Slot whose model makes the long digest", choices=SLOTS
    )
    notify: tuple[str, ...] = setting(
        (), "Command to run after a digest was made; the message is added as its last argument"
    )


class SyncSettings(SettingsTable):
    """`[sync]`: one memory on several machines."""

    turns: str = setting("on", "Whether conversations are synced, too", choices=ON_OFF)
    attachments: str = setting(
        "off", "Whether the pictures of conversations are synced, too", choices=ON_OFF
    )
    interval_s: float = setting(
        300.0, "How often the daemon and the server sync, in seconds; 0: never", minimum=0
    )
    approve: str = setting(
        "off",
        "Whether a new machine waits for `familiar sync allow NAME` before anything is accepted",
        choices=ON_OFF,
    )
    encrypt: tuple[str, ...] = setting(
        (),
        'Who can read a folder: age recipients or SSH public keys, or "passphrase"; empty: anyone',
    )
    key_file: str = setting(
        "",
        "File with the key or the passphrase of an encrypted folder; empty: you are asked for it",
        env="FAMILIAR_SYNC_KEY_FILE",
    )
    old_key_files: tuple[str, ...] = setting(
        (), "Files with former keys, which still open older bundles of a folder"
    )


class ChannelsSettings(SettingsTable):
    """`[channels]`: the kind of channels without settings of their own."""

    private: tuple[str, ...] = setting(
        (), "Patterns of channels that are one-to-one unless their own kind is set, e.g. dm-*"
    )


class CharacterConfig(SettingsTable):
    """All of `character.toml`."""

    name: str = setting("", "The familiar's name; empty: the card's", rule="name")
    user_name: str = setting("User", "Text for {{user}} when the speaker has no name", rule="name")
    timezone: str = setting(
        "", "Time zone such as Europe/Oslo; empty: the system's", rule="timezone"
    )
    language: str = setting(
        "auto",
        "Language of titles, headings and labels in its files and prompts; auto: the one it speaks",
        choices=LANGUAGES,
    )
    system_prompt: str = setting(
        "Write {{char}}'s next reply in a conversation between {{char}} and {{user}}.",
        "Main instruction; a card's own replaces it, or includes it as {{original}}",
    )
    me: MeSettings = field(default_factory=MeSettings)
    llm: LLMSettings = field(default_factory=LLMSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    channels: ChannelsSettings = field(default_factory=ChannelsSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    author_note: NoteSettings = field(default_factory=NoteSettings)
    processors: ProcessorSettings = field(default_factory=ProcessorSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    filter: FilterSettings = field(default_factory=FilterSettings)
    memory_writer: MemoryWriterSettings = field(default_factory=MemoryWriterSettings)
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    instance: InstanceSettings = field(default_factory=InstanceSettings)
    consolidation: ConsolidationSettings = field(default_factory=ConsolidationSettings)
    distill: DistillSettings = field(default_factory=DistillSettings)
    sync: SyncSettings = field(default_factory=SyncSettings)
    inject: dict[str, InjectSettings] = field(
        default_factory=dict, metadata={"each": InjectSettings, "names": ()}
    )


class ChannelConfig(SettingsTable):
    """All of a channel's file. Unset values follow `character.toml` or the mode."""

    mode: str = setting(
        "auto",
        "Mode of the conversation; auto: by the modality of each message",
        choices=("auto", *ChannelMode),
    )
    name: str = setting("", "Display name of the channel; empty: its id", rule="name")
    kind: str = setting("text", "Kind of channel", choices=KINDS)
    parent: str = setting("", "Parent channel of a thread or post")
    greeting: str = setting(
        "auto",
        "Whether the greeting opens the conversation; auto: the general setting",
        choices=SWITCH,
    )
    datetime: str = setting(
        "auto",
        "Whether a prompt includes the date and time; auto: the general setting",
        choices=SWITCH,
    )
    recent_turns: int = setting(
        0, "Maximum number of recent turns; 0: the general setting", minimum=0
    )
    tier: int = setting(
        0,
        "How much of the memory a prompt includes; 0: the general setting",
        minimum=0,
        maximum=TIERS[-1],
    )
    me: MeSettings = field(default_factory=MeSettings)
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
