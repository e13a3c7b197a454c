"""Write the generated parts of the reference pages; `cog` calls these between its markers."""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import MISSING, Field, fields
from datetime import date
from enum import Enum
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml
from msgspec import Struct

import familiar_cli
from familiar_cli.actions.share import backup
from familiar_cli.base import errors
from familiar_cli.base.config import settings as settings_files
from familiar_cli.base.config.channel_kinds import MODES
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.config.settings import all_settings
from familiar_cli.base.config.values import SettingsTable
from familiar_cli.base.languages import tables
from familiar_cli.cli import app as cli
from familiar_cli.cli.commands._contents import HIDDEN, SECTIONS, first_screen
from familiar_cli.context.budget import LARGE_TOKENS, LOCAL_TOKENS, PERCENT, percent_of
from familiar_cli.context.tiers import LOADED
from familiar_cli.imports import foreign_files
from familiar_cli.imports.lorebook_reading import MAX_ENTRIES
from familiar_cli.llm import wire
from familiar_cli.llm.reply import MAX_REPLY_CHARS
from familiar_cli.servers.limits import MOST_STREAMS
from familiar_cli.store.memory.store.files import (
    MAX_NAME_BYTES,
    MAX_PATH_BYTES,
    MAX_READ_BYTES,
    Limits,
)
from familiar_cli.store.memory.store.walk import MAX_PATTERN_CHARS
from familiar_cli.writing.writer.contract import bounds_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.base.config.values import Setting
    from familiar_cli.context.types import Layer

WIDTH = 88
DOCS = Path(__file__).parent
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def commands() -> str:
    """Return the help of every command, as `docs/reference/commands.md` shows it."""
    root: Any = typer.main.get_command(cli.app)
    parts = [_help(root, "familiar")]
    for section, names in {**SECTIONS, "Older names": HIDDEN}.items():
        parts.append(f"## {section}\n")
        for name in names:
            parts.extend(_pages(root.get_command(None, name), f"familiar {name}"))
    return "\n".join(parts)


def command_counts() -> str:
    """Return how much there is to learn, beside `llm` 0.36, as its `--help` lists it."""
    root: Any = typer.main.get_command(cli.app)
    names = [*chain.from_iterable(SECTIONS.values()), *HIDDEN]
    every = [*chain.from_iterable(_within(root.get_command(None, name)) for name in names)]
    shared = {"--home", "--familiar", "--json", "--quiet", "--help"}
    options = [p for one in every for p in one.params if p.param_type_name == "option"]
    own = sum(not shared & {*option.opts} for option in options)
    shown = sum(map(len, first_screen().values()))
    rows = [
        "| | `llm` 0.36 | `familiar` |",
        "|---|---|---|",
        f"| commands listed by `--help` | 19 | {shown} |",
        f"| commands in all, groups included | 61 | {len(every)} |",
        f"| options in all, apart from those of every command | 167 | {own} |",
    ]
    return "\n".join(rows)


def _within(command: Any) -> list[Any]:  # noqa: ANN401
    """Return a command with all commands below it."""
    below = getattr(command, "commands", {}).values()
    return [command, *chain.from_iterable(map(_within, below))]


def copy_line() -> str:
    """Return the line that says how to get a copy; empty while the project has no address."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "")
    return f"A copy: `git clone {address} familiar && cd familiar`.\n" if address else ""


def list_pages(section: str) -> str:
    """Return the pages of a section of the site, each with its title and its first sentence."""
    nav = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text("utf-8"))["nav"]
    parts: list[str] = []
    for entry in next(part[section] for part in nav if section in part):
        groups = entry.items() if isinstance(entry, dict) else [("", [entry])]
        for title, paths in groups:
            parts += [f"\n## {title}\n"] if title else []
            parts += [_listed(path, section) for path in paths if not path.endswith("README.md")]
    return "\n".join(parts).strip("\n")


def _listed(path: str, section: str) -> str:
    text = (DOCS / path).read_text("utf-8")
    title, _, rest = text.removeprefix("# ").partition("\n")
    first = " ".join(rest.strip().partition("\n\n")[0].split())
    sentence = _LINK.sub(r"\1", first).partition(". ")[0].rstrip(".:")
    folder, _, name = path.partition("/")
    beside = folder == _folder(section)
    return f"- [{title}]({name if beside else f'../{path}'}): {sentence}"


def _folder(section: str) -> str:
    return section.removesuffix("s").lower().replace(" ", "-")


def writer_bounds() -> str:
    """Return how long replies to the memory writer may be, for common sizes of a reply."""
    rows = [
        "| reply (tokens) | operations | lines each | characters per line | per summary |",
        "|---|---|---|---|---|",
    ]
    for reply_tokens in (384, 1024, 2048, 4096, 8192):
        b = bounds_for(reply_tokens)
        cells = (b.operations, b.lines, b.line_chars, b.summary_chars)
        rows.append(" | ".join([f"| {reply_tokens:,}", *(f"{n:,}" for n in cells)]) + " |")
    return "\n".join(rows)


def _pages(command: Any, path: str) -> list[str]:  # noqa: ANN401  # Click's command, whoever vendors it
    pages = [f"### {path}\n", _help(command, path)]
    for name in getattr(command, "commands", {}):
        pages.extend(_pages(command.commands[name], f"{path} {name}"))
    return pages


def _help(command: Any, path: str) -> str:  # noqa: ANN401
    context = command.make_context(path, [], resilient_parsing=True)
    context.terminal_width = WIDTH
    context.max_content_width = WIDTH
    return f"```text\n{command.get_help(context)}\n```\n"


def settings() -> str:
    """Return a table of the settings of each section, as `docs/reference/settings.md` shows it."""
    parts: list[str] = []
    rows = [s for s in all_settings().values() if not s.key.startswith("llm.slots.")]
    for section, members in groupby(rows, key=lambda setting: setting.section):
        parts.append(f"## `[{section}]`\n" if section else "## At the top of the file\n")
        parts.append("| setting | may be | default | meaning |\n|---|---|---|---|")
        parts.extend(_setting(member) for member in members)
        parts.append("")
    return "\n".join(parts)


LIBRARY = {
    "A conversation": """
        Familiar Author Said Modality take_turn TurnResult hear KeptMessage assemble
        opening_of Trace
    """,
    "The work after a reply": "begin_due_work DueWork Drained",
    "Storage": "MemoryStore IndexingMemoryStore HistoryStore Turn",
    "Search": "EmbeddingIndex SearchOptions SearchResult",
    "Making a prompt": """
        ContextPipeline ContextRequest Contribution Layer Budgeter CharacterProvider HistoryProvider
        ContentSearchProvider SteppedThinkingPreProcessor RecastPostProcessor
    """,
    "Reminders and tasks": """
        read_todos Desk ListedItem add_todo mark_todo ItemStatus ItemChange fire_reminders
    """,
    "Importing": "import_files FileImportOptions ImportItem",
    "Writing memory": "write_memory consolidate_memories MemoryWriter MemoryWriterScheduler",
    "Models": "ChatModel ScriptedModel",
    "Settings": "CharacterConfig ChannelConfig ChannelMode SubscriptionRegistry",
}
"""The public names by what they are for; the errors come last, as a tree."""


ERRORS = (
    "The package has {names}. The whole tree is in `familiar_cli.base.errors`, with the exit code "
    "and the `code` of `--json`:"
)


def library() -> str:
    """Return every public name of the package, as `docs/reference/library.md` shows it."""
    parts = []
    for title, names in LIBRARY.items():
        parts += [f"## {title}", *(_public(name) for name in names.split())]
    listed = {name for names in LIBRARY.values() for name in names.split()}
    rest = [name for name in familiar_cli.__all__ if name not in {*listed, "Heard"}]
    assert all(hasattr(errors, name) for name in rest), rest
    told = ", ".join(f"`{name}`" for name in rest)
    _, _, tree = (errors.__doc__ or "").strip().partition("\n\n")
    parts += ["## Errors", ERRORS.format(names=told), f"```text\n{tree}\n```"]
    return "\n\n".join(parts)


def _public(name: str) -> str:
    """Return a public name with its signature, what it is, and the methods of a class."""
    found = getattr(familiar_cli, name)
    head, _, more = (inspect.getdoc(found) or "").partition("\n\n")
    parts = [f"### {name}", " ".join(head.split())]
    if inspect.isclass(found) and issubclass(found, Enum):
        return "\n\n".join([*parts, ", ".join(f"`{member.name}`" for member in found)])
    if not getattr(found, "_is_protocol", False):
        parts.append(f"```python\n{_signature(name, found)}\n```")
    if more:
        parts.append(f"```text\n{more}\n```")
    if inspect.isclass(found):
        parts.append("\n".join(_members(found)))
    return "\n\n".join(part for part in parts if part)


def _members(found: type) -> list[str]:
    """Return a line for each public method and property, also of a class of ours it rests on."""
    lines = []
    ours = [cls for cls in found.__mro__ if cls.__module__.startswith("familiar_cli.")]
    values = {name: value for cls in reversed(ours) for name, value in vars(cls).items()}
    for name, value in values.items():
        told = inspect.getdoc(getattr(found, name)) if _is_part(value) else None
        if told and not name.startswith("_"):
            head, _, _ = told.partition("\n\n")
            waits = "await " if inspect.iscoroutinefunction(value) else ""
            lines.append(f"- `{waits}{name}`: {' '.join(head.split())}")
    return lines


def _is_part(value: object) -> bool:
    kinds = (property, cached_property, classmethod, staticmethod)
    return inspect.isfunction(value) or isinstance(value, kinds)


def _signature(name: str, found: Callable[..., object]) -> str:
    """Return a signature with a parameter a line, as a formatter would write it."""
    lines, keyword_only = [], False
    signature = inspect.signature(found)
    parameters: Iterable[inspect.Parameter] = signature.parameters.values()
    if inspect.isclass(found) and issubclass(found, SettingsTable):
        parameters = map(_field_parameter, fields(found))
    elif inspect.isclass(found) and issubclass(found, Struct):
        parameters = (one.replace(annotation=_annotation(found, one.name)) for one in parameters)
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("*")
        lines.append(_parameter(parameter))
    prefix = "await " if inspect.iscoroutinefunction(found) else ""
    returns = "" if inspect.isclass(found) else f" -> {signature.return_annotation}"
    short = f"{prefix}{name}({', '.join(lines)}){returns}"
    if len(short) <= WIDTH:
        return short
    return "\n".join([f"{prefix}{name}(", *(f"    {line}," for line in lines), f"){returns}"])


def _annotation(found: type[Struct], name: str) -> str:
    """Return the annotation of a field as it is written."""
    kinds = (kind.__annotations__ for kind in found.__mro__ if "__annotations__" in vars(kind))
    return next(str(written[name]) for written in kinds if name in written)


def _field_parameter(entry: Field[Any]) -> inspect.Parameter:
    default = ... if entry.default is MISSING else entry.default
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(entry.name, kind, default=default, annotation=entry.type)


def _parameter(parameter: inspect.Parameter) -> str:
    told = f"{parameter.name}: {parameter.annotation}"
    default = parameter.default
    if default is parameter.empty:
        return told
    plain = default is None or isinstance(default, (str, int, float, tuple))
    if isinstance(default, Enum):
        return f"{told} = {type(default).__name__}.{default.name}"
    return f"{told} = {default!r}" if plain else f"{told} = ..."


def modes() -> str:
    """Return what each mode of a channel means, as the reference of budgets shows it."""
    rows = [
        f"| `{mode}` | {usual.about} | {usual.total_tokens:,} | {usual.most_tokens:,} "
        f"| {usual.recent_turns} "
        f"| {_switch(usual.stepped_thinking)} | {_switch(usual.recast)} |"
        for mode, usual in MODES.items()
    ]
    names = ("mode", "for", "tokens", "at most", "recent turns", "stepped thinking", "recast")
    head = f"| {' | '.join(names)} |\n" + "|---" * len(names) + "|"
    local = f"| preset `local`, whatever the mode | | at most {LOCAL_TOKENS:,} | | | | |"
    return "\n".join([head, *rows, local])


def tiers() -> str:
    """Return what each context tier loads, as the page on tiers shows it."""
    rows = [
        f"| {entry.tier} | `{entry.rel_path}` | {entry.what} "
        f"| {f'`{entry.persona}`' if entry.persona else ''} |"
        for entry in LOADED
    ]
    head = "| from tier | file | contents | in a persona's folder |\n" + "|---" * 4 + "|"
    return "\n".join([head, *rows])


def layers() -> str:
    """Return each layer's share, in percent and in the tokens of each mode."""
    totals = [usual.total_tokens for usual in MODES.values()] + [LOCAL_TOKENS]
    names = [f"`{mode}`" for mode in MODES] + ["`local`"]
    head = f"| layer | guaranteed share of the prompt | {' | '.join(names)} | setting |"
    rows = [
        f"| `{layer}` | {_percent_words(layer)} | "
        + " | ".join(f"{total * percent_of(layer, total) // 100:,}" for total in totals)
        + f" | `budget.{layer}` |"
        for layer in PERCENT
    ]
    return "\n".join([head, "|---" * (len(names) + 3) + "|", *rows])


def _percent_words(layer: Layer) -> str:
    most = percent_of(layer, LARGE_TOKENS)
    least = PERCENT[layer]
    return (
        f"{least} %"
        if most == least
        else f"{least} % to {most} %, the latter from {LARGE_TOKENS:,} tokens"
    )


def limits() -> str:
    """Return what is accepted from outside, as the page on hostile input shows it."""
    kept, server = Limits(), LLMSettings()
    rows = (
        ("any file from outside", _size(foreign_files.MAX_FILE_BYTES), "refused"),
        (
            "a card's JSON, unpacked; in a PNG all texts together",
            _size(foreign_files.MAX_CARD_BYTES),
            "",
        ),
        ("a card in YAML", _size(foreign_files.MAX_YAML_BYTES), "refused; so are aliases"),
        ("files in one archive", f"{foreign_files.MAX_MEMBERS:,}", "refused"),
        ("all files of one archive, unpacked", _size(foreign_files.MAX_TOTAL_BYTES), "refused"),
        (
            "a backup's manifest, unpacked; a piece of it",
            f"{_size(backup.MOST_MANIFEST_BYTES)}; {_size(backup.PIECE_BYTES)}",
            "refused",
        ),
        ("nesting of JSON and YAML", f"{foreign_files.MAX_DEPTH} levels", "refused"),
        ("lists and objects in JSON", f"{foreign_files.MAX_CONTAINERS:,}", "refused"),
        ("digits of a number in JSON", f"{foreign_files.MAX_DIGITS:,}", "refused"),
        ("entries of a lorebook", f"{MAX_ENTRIES:,}", "refused"),
        ("`character.toml`", _size(settings_files.MAX_CONFIG_BYTES), "not read"),
        ("parts of a key in it", f"{settings_files.MAX_KEY_PARTS}", "not read"),
        ("a memory file that is written", _size(kept.max_file_bytes), "`memory.max_file_bytes`"),
        ("a memory file that is read", _size(MAX_READ_BYTES), "named, and left out of searches"),
        (
            "files in one memory directory other than `people/`",
            f"{kept.max_dir_files:,}",
            "`memory.max_dir_files`",
        ),
        ("results of one search", f"{kept.max_results:,}", "`memory.max_results`"),
        ("time of one search", f"{kept.grep_timeout_s:g} s", "stopped with an error"),
        ("length of a search pattern", f"{MAX_PATTERN_CHARS:,} characters", "refused"),
        ("a name in a path", f"{MAX_NAME_BYTES} bytes", "refused"),
        ("a path", f"{MAX_PATH_BYTES:,} bytes", "refused"),
        ("a reply of a model", f"{MAX_REPLY_CHARS:,} characters", "the rest is not read"),
        ("an event of a reply, or a reply that is not streamed", _size(wire.MAX_OBJECT_BYTES), ""),
        ("all that a model server sends for one reply", _size(wire.MAX_STREAM_BYTES), ""),
        ("events of one reply", f"{wire.MAX_EVENTS:,}", ""),
        ("silence of a model server", f"{server.timeout_s:g} s", "`llm.timeout_s`"),
        *(
            (f"open streams of events of one {owner}", f"{most:,}", "429")
            for owner, most in MOST_STREAMS.items()
        ),
        ("time of one reply", f"{server.deadline_s:,g} s", "`llm.deadline_s`"),
    )
    head = "| what | at most | beyond |\n|---|---|---|"
    return "\n".join([head, *(f"| {w} | {most} | {so or 'refused'} |" for w, most, so in rows)])


def languages() -> str:
    """Return what each language calls things, as `docs/reference/languages.md` shows it."""
    day = date(2026, 4, 7)
    return "\n".join(
        [
            "| setting | sections of a person, a topic, a session | digests | a session | quotes |",
            "|---|---|---|---|---|",
            *(
                f"| `{table.code}` | {' · '.join(table.headings.values())} "
                f"| {' · '.join(table.digests.values())} "
                f"| {day}{table.comma}{table.part('evening')} "
                f"| `{table.labelled(table.from_memory, table.day(day))}` |"
                for table in tables()
            ),
        ]
    )


def _size(size_bytes: int) -> str:
    return f"{size_bytes // 1024**2} MiB" if size_bytes >= 1024**2 else f"{size_bytes // 1024} KiB"


def _switch(on: bool) -> str:  # noqa: FBT001
    return "on" if on else "off"


def _setting(setting: Setting) -> str:
    name = setting.key.rpartition(".")[2]
    meaning = setting.doc + (f"; `{setting.env}` overrides it" if setting.env else "")
    default = "empty" if setting.default in {"", ()} else f"`{setting.default}`"
    return f"| `{name}` | {setting.allowed} | {default} | {meaning} |"
