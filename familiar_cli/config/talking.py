"""The sections of `character.toml` that say how a prompt is made and who answers it."""

from __future__ import annotations

from dataclasses import dataclass, field

from familiar_cli.config.choices import (
    NOTE_PLACES,
    ON_OFF,
    PRESETS,
    ROLES,
    SLOTS,
    SWITCH,
    TIME_PLACES,
)
from familiar_cli.config.fields import setting
from familiar_cli.config.tiers import DEFAULT_TIER, TIERS


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
    timeout_s: float = setting(120.0, "Longest silence of the server, in seconds", minimum=0.1)
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
        6, "Most passages of memory that are looked up for a prompt; 0: none", minimum=0
    )
    snippet_tokens: int = setting(150, "Most tokens of one such passage", minimum=20)


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
