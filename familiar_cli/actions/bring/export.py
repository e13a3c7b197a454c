"""Export familiars, their chats and what they remember as files that other programs can read."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, to_builtins

from familiar_cli import __version__
from familiar_cli.base import errors, markdown
from familiar_cli.base.config.home import find_familiar, list_familiars
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import patiently, read_plain
from familiar_cli.base.text import counted, one_line, typed
from familiar_cli.base.times.clock import iso, now
from familiar_cli.base.who.identity import Me
from familiar_cli.base.who.visibility import OWNER, Viewer
from familiar_cli.familiar import Familiar
from familiar_cli.imports.contract import ForeignMemory, Format, load_format
from familiar_cli.imports.create import EXPORT_VERSION, TURNS_FILE
from familiar_cli.imports.export_card import CardFormat, export_card
from familiar_cli.imports.export_lorebook import collect_lore, own_format, to_json
from familiar_cli.imports.folders import kept_paths
from familiar_cli.imports.foreign_files import dump_json, write_lines, write_result
from familiar_cli.imports.formats import memory_text, portable_memory
from familiar_cli.imports.import_plan import EXPORT_MANIFEST, MEMORY_DIR
from familiar_cli.imports.lorebook_shelf import shelved_books
from familiar_cli.imports.memory_lists import build_memories, read_day, resolve_days
from familiar_cli.store.history.attachments import DIRECTORY, picture_files, pictures_in
from familiar_cli.store.history.marks import withdrawn_channels
from familiar_cli.store.history.selection import TurnFilter, select_turns
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.layout import is_hidden, is_page, is_synced, scope_of_path
from familiar_cli.store.memory.pages.facts import ended_on, heading_of
from familiar_cli.store.memory.pages.items import bullet_items
from familiar_cli.store.memory.pages.lines import normal_line, number_spans, readable_text
from familiar_cli.store.memory.pages.visible_lines import visible_in

_README: Final = "README.md"
_LOREBOOKS_DIR: Final = "lorebooks"
_CHATS_DIR: Final = "chats"
_IGNORED: Final = ".gitignore"  # of the memory's own journal
_FORMATS: Final[tuple[CardFormat, ...]] = ("png", "json")


_ALL: Final = "Everything is here, including private conversations: keep it safe."
_PUBLIC: Final = "Everything private was left out."
_ABOUT: Final = """\
# Familiars, exported on {made}

{what}

In the directory of each familiar:

- `card.png` and `card.json`: the character with its lorebook, for SillyTavern and all programs
  that read character cards.
- `lorebooks/*.json`: lorebooks, as SillyTavern's World Info or as `lorebook_v3`.
- `chats/*.jsonl`: one conversation each, with swipes, for SillyTavern (*Import chat*).
- `turns.jsonl`: every turn that stands, with time and author, one JSON object per line;
  its first line names the conversation that another branched off.
- `memory/`: the memory as Markdown, for every editor; Obsidian opens it as a vault.

`familiar import DIR` makes the same familiars from this directory on another machine.

Not included: what was withdrawn, replies that were replaced (except swipes in `chats/`), the
journal that `familiar memory undo` needs, records of what was sent to models, settings and keys.
For a second machine with all of that, use `familiar sync`, or copy the familiar's own directory.
"""


class FamiliarExport(Struct, frozen=True):
    """The exported data of one familiar.

    Args:
        id: Its id, and the name of its directory.
        card: Whether it has a card.
        lorebooks: The file of each lorebook.
        chats: The file of each channel, by channel.
        private: Private channels.
        channel_kinds: Kinds of the channels, where declared.
        turns: Number of turns.
        files: Number of memory files.
        warnings: What could not be exported, and why.
    """

    id: str
    name: str
    card: bool
    lorebooks: tuple[str, ...]
    chats: dict[str, str]
    private: tuple[str, ...]
    channel_kinds: dict[str, str]
    turns: int
    files: int
    warnings: tuple[str, ...]


class Export(Struct, frozen=True):
    """The result of an export.

    Args:
        path: The directory.
        public: Private content was left out.
        familiars: The exported data of each familiar.
    """

    path: str
    public: bool
    familiars: tuple[FamiliarExport, ...]


def export_familiars(
    home: Path,
    directory: Path,
    *,
    only: str | None = None,
    public: bool = False,
    force: bool = False,
    dry_run: bool = False,
) -> Export:
    """Export all familiars of a home, or one of them, completely or not at all.

    Args:
        home: The directory of the familiars.
        directory: Target of the export.
        only: Only this familiar; None for all.
        public: Leave out private content.
        force: Replace an earlier export in `directory`.
        dry_run: Leave nothing on disk.

    Raises:
        NotFoundError: No such familiar, or none at all.
        ConflictError: `directory` contains something else, or an export, without `force`.
        FamiliarError: Something cannot be read or written.
    """
    ids = [find_familiar(home, only).id] if only else list_familiars(home)
    if not ids:
        find_familiar(home)  # says how to make one
    check_target(directory, force=force)
    with staged_directory(directory, keep=not dry_run) as staging:
        exports = tuple(_export_familiar(home, name, staging / name, public=public) for name in ids)
        export = Export(str(directory), public, exports)
        manifest = {"familiar_export": EXPORT_VERSION, "made": iso(now())} | to_builtins(export)
        del manifest["path"]
        write_result(staging / EXPORT_MANIFEST, (dump_json(manifest) + "\n").encode())
        write_result(staging / _README, _describe_export(export).encode())
    return export


def check_target(directory: Path, manifest: str = EXPORT_MANIFEST, *, force: bool) -> None:
    """Refuse a directory that holds something else, or without `force` an earlier export.

    Args:
        directory: Target of the export.
        manifest: The file that marks an earlier one.
        force: Allow replacing it.

    Raises:
        ConflictError: It cannot be used.
    """
    if not os.path.lexists(directory) or (directory.is_dir() and not any(directory.iterdir())):
        return
    hint = "Choose a new directory: `familiar export DIR`."
    if (directory / manifest).is_file() and not directory.is_symlink():
        if force:
            return
        hint = "Add `--force` to replace the export in it, or choose another directory."
    raise errors.ConflictError(f"{str(directory)!r} already exists; it was not changed", hint=hint)


@contextmanager
def staged_directory(directory: Path, *, keep: bool) -> Iterator[Path]:
    """Provide a directory to build in, and move it into place on success."""
    if not keep:
        with tempfile.TemporaryDirectory(prefix="familiar-") as scratch:
            yield Path(scratch)
        return
    target = directory.absolute()
    staging = target.with_name(f".{target.name}.new-{os.getpid()}")
    try:
        staging.mkdir(mode=0o700, parents=True)
        yield staging
        _replace(staging, target)
    except OSError as error:
        raise errors.FamiliarError(
            f"{str(directory)!r} cannot be written: {error.strerror or error}; it was not changed",
            hint="Choose another directory: `familiar export DIR`.",
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _replace(staging: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    with suppress(FileNotFoundError):
        patiently(os.rename, str(target), str(old))
    patiently(os.rename, str(staging), str(target))
    shutil.rmtree(old, ignore_errors=True)


def _export_familiar(home: Path, name: str, place: Path, *, public: bool) -> FamiliarExport:
    place.mkdir(mode=0o700)
    warnings: list[str] = []
    with Familiar.load_from_disk(home, name, warnings.append) as familiar:
        viewer = familiar.privacy.program() if public else OWNER
        private, kinds = familiar.privacy.rules().private_channels, familiar.channels.kinds()
        out = withdrawn_channels(familiar.history)
        there = [one.channel_id for one in familiar.history.channels()]
        channels = [name for name in there if viewer.sees_channel(name) and name not in out]
        warnings += _withdrawn(familiar, out) if viewer.sees_everything else ()
        return FamiliarExport(
            name,
            familiar.config.name or name,
            _export_card(familiar, place, warnings),
            _export_lorebooks(familiar, place, warnings),
            _export_chats(familiar, place, channels, viewer),
            tuple(sorted(private.intersection(channels))),
            {channel: kinds[channel] for channel in channels if kinds.get(channel)},
            _export_turns(familiar, place, channels, viewer),
            _export_memory(familiar, place / MEMORY_DIR, viewer, warnings),
            tuple(warnings),
        )


def _withdrawn(familiar: Familiar, channels: Collection[str]) -> Iterator[str]:
    """Say what was withdrawn, and is therefore not exported."""
    for name in sorted(channels):
        back = f"`familiar channel restore {typed(name)}`"
        yield f"the channel {one_line(name)} is withdrawn, and left out; {back} brings it back"
    sql = (
        "SELECT turn_id FROM set_aside JOIN turns ON id = turn_id WHERE withdrawn AND "
        "NOT superseded_by AND channel_id NOT IN (SELECT channel_id FROM channels_set_aside)"
    )
    if ids := [row[0] for row in familiar.history.rows(sql)]:
        count, numbers = counted(len(ids), "withdrawn turn"), number_spans(ids)
        yield f"{count} left out ({numbers}); `familiar history restore TURN` brings one back"


def _export_card(familiar: Familiar, place: Path, warnings: list[str]) -> bool:
    try:
        for card_format in _FORMATS:
            export = export_card(familiar.memory, card_format, default_name=familiar.name)
            write_result(place / f"card.{card_format}", export.content)
            if card_format == "png":  # a JSON file can hold even less
                warnings += [f"card.png cannot carry {thing}" for thing in export.left_out]
    except errors.NotFoundError:
        return False
    except errors.BadInputError as error:
        warnings.append(f"the card was not exported: {error}")
        return False
    return True


def _export_lorebooks(familiar: Familiar, place: Path, warnings: list[str]) -> tuple[str, ...]:
    books: dict[str, dict[str, Any]] = {}
    try:
        for shelved in shelved_books(familiar.memory):
            book = collect_lore(familiar.memory, shelved.directory, book_id=shelved.book_id)
            name = one_line(shelved.record.name) or shelved.book_id
            books[_free_name(name, books)] = to_json(book, own_format(book))
    except errors.FamiliarError as error:
        warnings.append(f"not every lorebook was exported: {error}")
    paths = kept_paths((f"{name}.json" for name in books), _LOREBOOKS_DIR)
    return tuple(
        _write(place, paths[f"{name}.json"], [dump_json(made)]) for name, made in books.items()
    )


def _free_name(name: str, taken: Collection[str]) -> str:
    name = name.replace("/", "-")
    names = (name, *(f"{name} {number}" for number in range(2, len(taken) + 2)))
    return next(one for one in names if one not in taken)


def _export_chats(
    familiar: Familiar, place: Path, channels: Sequence[str], viewer: Viewer
) -> dict[str, str]:
    names = {channel: f"{channel.replace('/', '%2F')}.jsonl" for channel in channels}
    paths = kept_paths(names.values(), _CHATS_DIR)
    files = {}
    for channel in channels:
        lines = export_chat(
            familiar.history,
            channel,
            "sillytavern",
            familiar_name=familiar.name,
            me=familiar.me(),
            viewer=viewer,
        )
        files[channel] = _write(place, paths[names[channel]], lines)
    return files


def _export_turns(familiar: Familiar, place: Path, channels: Sequence[str], viewer: Viewer) -> int:
    if not channels:
        return 0
    name, me = familiar.name, familiar.me()
    lines = export_chat(familiar.history, None, "jsonl", familiar_name=name, me=me, viewer=viewer)
    pictures: set[str] = set()

    def noted() -> Iterator[str]:
        for line in lines:
            pictures.update(pictures_in(line))
            yield line

    repeated = (
        kept.turn.channel_id != branch.channel_id
        for branch in familiar.history.branches()
        if branch.channel_id in channels and branch.parent in channels
        for kept in select_turns(familiar.history, TurnFilter(viewer, branch.channel_id))
    )
    count = write_lines(place / TURNS_FILE, noted()) - 1 - sum(repeated)
    for path in picture_files(familiar.paths.root, pictures):
        _write(place, f"{DIRECTORY}/{path.name}", read_plain(path))
    return count


def _export_memory(familiar: Familiar, place: Path, viewer: Viewer, warnings: list[str]) -> int:
    """Write the memory files unchanged, without content that the viewer may not see."""
    listing = familiar.memory.walk(hidden=True)
    skipped = ((one_line(one.rel_path), one.reason) for one in listing.skipped)
    warnings += [f"{rel_path} was not exported: {reason}" for rel_path, reason in skipped]
    count = 0
    for file in listing.files:
        content = _visible_content(familiar, file.rel_path, viewer)
        if file.is_dir or content is None:
            continue
        _write(place, file.rel_path, content)
        count += 1
    return count


def _visible_content(familiar: Familiar, rel_path: str, viewer: Viewer) -> bytes | None:
    """Return the exportable part of a memory file; None if there is none."""
    if not is_synced(rel_path) or rel_path == _IGNORED:
        return None
    raw = familiar.memory.read_bytes(rel_path)
    if viewer.sees_everything:
        return raw
    if is_hidden(rel_path) or not is_page(rel_path) or not viewer.sees((scope_of_path(rel_path),)):
        return None
    text = visible_in(raw.decode("utf-8", errors="replace"), viewer, rel_path)
    return text.encode() if text.strip() else None  # nor that there is a page to hide


def _describe_export(export: Export) -> str:
    """Write the README of the export."""
    parts = [_ABOUT.format(made=f"{now():%Y-%m-%d}", what=_PUBLIC if export.public else _ALL)]
    for one in export.familiars:
        facts = [
            f"`{one.id}/card.png`, `{one.id}/card.json`: the character" if one.card else "",
            *(f"`{one.id}/{path}`: a lorebook" for path in one.lorebooks),
            f"`{one.id}/{TURNS_FILE}`: {counted(one.turns, 'turn')}" if one.turns else "",
            *(
                f"`{one.id}/{path}`: channel {_as_code(channel)}"
                + (", private" if channel in one.private else "")
                for channel, path in one.chats.items()
            ),
            f"`{one.id}/{MEMORY_DIR}/`: {counted(one.files, 'file')} of memory",
        ]
        listed = "\n".join(f"- {fact}" for fact in facts if fact)
        parts.append(f"## {one_line(one.name)}\n\n{listed}\n")
        if one.warnings:
            listed = "\n".join(f"- {one_line(warning, 400)}" for warning in one.warnings)
            parts.append(f"What is missing:\n\n{listed}\n")
    return "\n".join(parts)


def _as_code(text: str) -> str:
    return f"`{one_line(text).replace('`', '')}`"


def _write(place: Path, rel_path: str, content: bytes | Iterable[str]) -> str:
    path = place / rel_path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if isinstance(content, bytes):
        write_result(path, content)
    else:
        write_lines(path, content)
    return rel_path


ExportFormat = Literal["sillytavern", "jsonl"]


def export_chat(
    history: HistoryStore,
    channel_id: str | None,
    chat_format: ExportFormat,
    *,
    familiar_name: str,
    me: Me = Me(),  # noqa: B008  # frozen
    viewer: Viewer = OWNER,
) -> Iterator[str]:
    """Yield the lines of a channel, or of all channels, without line ends.

    Args:
        channel_id: The channel; None: the only one, or all of them as plain lines.
        chat_format: The output format.
        familiar_name: The familiar's name where the source does not state one.
        me: The owner's identity.
        viewer: Turns hidden from this viewer are left out.

    Raises:
        NotFoundError: The channel has no turns.
        UsageError: There are several channels, but a SillyTavern chat holds one.
    """
    there = [summary.channel_id for summary in history.channels()]
    channels = [channel for channel in there if viewer.sees_channel(channel)]
    if not channels:
        raise errors.NotFoundError(
            "There are no turns yet", hint='Start with `familiar ask "Hello"`.'
        )
    known = {*channels, *(branch.channel_id for branch in history.branches())}
    if channel_id is not None and channel_id not in known:
        raise errors.NotFoundError(
            f"There are no turns in channel {channel_id!r}", hint="Run `familiar history list`."
        )
    if chat_format == "jsonl":
        selection = [channel_id] if channel_id is not None else sorted(channels)
        return _write_chats(load_format("plain"), history, selection, me, viewer)
    if channel_id is None and len(channels) > 1:
        raise errors.UsageError(
            f"There are {len(channels)} channels, but a SillyTavern chat holds only one",
            hint=f"Add `--channel {channels[0]}`, or `--format jsonl` for all.",
        )
    channel = channel_id or channels[0]
    return _write_chats(load_format("sillytavern"), history, channel, familiar_name, me, viewer)


def _write_chats(format_: Format, *values: object) -> Iterator[str]:
    assert format_.write
    lines: Iterator[str] = format_.write(*values)
    return lines


MemoryFormat = Literal["mem", "text"]
"""Formats of exported memories: a bundle of Portable Memory, or dated lines of text."""

# Who it is, its world, and what is made of the other pages.
_APART: Final = (
    *(layout.SELF_DIR, layout.LORE_DIR, layout.SESSIONS_DIR, layout.DIGEST_DIR),
    *layout.PERIOD_DIRS,
)
_NO_MEMORIES: Final = ("aliases", "sessions", "people", "topics")
_DATED: Final = re.compile(r"(\d{4}-\d{2}-\d{2}): (?=\S)")


class MemoryExport(Struct, frozen=True):
    """Exported memories.

    Args:
        memories: The memories.
        files: The bytes of each file of the export, by its path below it.
        warnings: What could not be exported, and why.
    """

    memories: tuple[ForeignMemory, ...]
    files: dict[str, bytes]
    warnings: tuple[str, ...]


def export_memories(
    familiar: Familiar, memory_format: MemoryFormat, *, public: bool = False
) -> MemoryExport:
    """Export the memories about people and topics in a format.

    What is private to other people than the owner is left out: another program gets it.

    Args:
        familiar: The familiar.
        memory_format: The format; text is one file without a name.
        public: Leave out what is private to the owner, too.
    """
    warnings: list[str] = []
    everybody = familiar.privacy.program()
    viewer = everybody if public else familiar.privacy.owner()
    own = {layout.people_path(slug) for slug in familiar.me().slugs}
    found: list[ForeignMemory] = []
    left_out = 0
    listing = familiar.memory.walk()
    warnings += [f"{one_line(one.rel_path)}: {one.reason}" for one in listing.skipped]
    for file in listing.files:
        path = file.rel_path
        if path.split("/")[0] in _APART or not layout.is_page(path):
            continue
        try:
            whole = familiar.memory.read_file(path)
            text = visible_in(whole, viewer, path)
            left_out += text != whole
        except FamiliarError as error:
            warnings.append(f"{one_line(path)}: {error}")
            continue
        about = markdown.title_of(text)
        is_own = path in own or about == familiar.me().name
        is_public = everybody.sees((layout.scope_of_path(path),))
        heard = _items_on(visible_in(text, everybody, path)) if is_public else frozenset[str]()
        found += _memories_on(familiar, path, text, "" if is_own else about, viewer, heard=heard)
    if left_out and not public:
        pages = counted(left_out, "page has lines", "pages have lines")
        warnings.append(f"What other people said in private is left out: {pages} based on it")
    memories = build_memories("familiar", "", found).memories
    if memory_format == "mem":
        files = portable_memory.write_bundle(memories, f"familiar {__version__}")
    else:
        files = {"": memory_text.write_text(memories).encode()}
    return MemoryExport(memories, files, tuple(warnings))


def write_export(export: MemoryExport, path: Path, *, force: bool = False) -> None:
    """Write exported memories: a bundle as a directory, text as a file.

    Raises:
        ConflictError: `path` contains something else, or an export, without `force`.
        FamiliarError: It cannot be written; everything is as before.
    """
    if "" in export.files:
        write_result(path, export.files[""], force=force)
        return
    check_target(path, portable_memory.MANIFEST, force=force)
    with staged_directory(path, keep=True) as staging:
        for rel_path, content in export.files.items():
            _write(staging, rel_path, content)


def _items_on(text: str) -> frozenset[str]:
    """Return the bullets and paragraphs of a page, normalized."""
    sections = markdown.sections(markdown.split_front_matter(text)[1], 2)
    return frozenset(normal_line(item) for one in sections for item in bullet_items(one.body))


def _memories_on(
    familiar: Familiar,
    rel_path: str,
    text: str,
    about: str,
    viewer: Viewer,
    *,
    heard: frozenset[str],
) -> Iterator[ForeignMemory]:
    """Yield the bullets and paragraphs of a page, each with the newest day it rests on.

    Those are private that are not among `heard`, the ones that everybody may hear.
    """
    dated = layout.dated_name(rel_path)
    page_day = dated[1] if dated else ""
    for section in markdown.sections(markdown.split_front_matter(text)[1], 2):
        if heading_of(section) in _NO_MEMORIES:
            continue
        items = [
            item
            for item in bullet_items(section.body)
            if normal_line(item) and not ended_on(item) and not item.startswith("#")
        ]
        for item, cited in zip(items, familiar.numbering.newest_days(items, viewer), strict=True):
            said = markdown.without_marker(readable_text(item).strip())
            stated = _DATED.match(said)
            day = read_day(stated[1]) if stated else cited or read_day(page_day)
            said = said[stated.end() :] if stated and day else said
            words = resolve_days(" ".join(said.split()), day)
            is_private = normal_line(item) not in heard
            yield ForeignMemory(words, 0, day, about, is_private=is_private)
