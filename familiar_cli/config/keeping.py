"""The sections of `character.toml` that say how memory is kept, found and tidied up."""

from __future__ import annotations

from dataclasses import dataclass

from familiar_cli.config.choices import EMBEDDERS, ON_OFF, PRIVACY, SLOTS, SWITCH
from familiar_cli.config.fields import setting


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
