"""The page of `familiar import-chat`, and what it says with `--json`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group

from familiar_cli.bootstrap.chats.types import TITLES
from familiar_cli.clock import iso
from familiar_cli.text import counted, one_line
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from familiar_cli.bootstrap.chats.bringing import ImportedChat, SpeakerCount
    from familiar_cli.bootstrap.chats.types import Message
    from familiar_cli.bootstrap.import_chat import ImportedChats

_CHATS: Final = 20  # chats that are shown one by one
_SPEAKERS: Final = 8
_TEXT_CHARS: Final = 80
_NOTE_CHARS: Final = 400
_LINES: Final = 5  # lines that are named for each reason


def imported_page(done: ImportedChats, *, dry_run: bool) -> RenderableType:
    """Return what became of each chat, and a sum where there are several."""
    parts: list[RenderableType] = []
    for chat in done.chats[:_CHATS]:
        parts.append(plain(_headline(chat, dry_run=dry_run), "bold"))
        found = [*_about(chat), *_rows(chat)] if dry_run else _rows(chat)
        rows = [[plain(f"  {kind}", "dim"), plain(what)] for kind, what in found]
        parts.extend([columns(rows)] if rows else [])
    if done.passed_over:
        parts.append(plain(_passed_over(done)))
    if len(done.chats) > 1:
        parts.append(plain(_sum(done, dry_run=dry_run), "bold"))
    return Group(*parts)


def answer_data(done: ImportedChats, *, dry_run: bool) -> dict[str, Any]:
    """Return what `--json` prints."""
    chats = [_chat_data(chat) for chat in done.chats]
    channels = {chat.channel for chat in done.chats}
    return {
        "imported": sum(chat.imported for chat in done.chats),
        "already_there": sum(chat.already_there for chat in done.chats),
        "skipped": [line for chat in chats for line in chat["skipped"]],
        "channel": channels.pop() if len(channels) == 1 else None,
        "chats": chats,
        "files": _files(done),
        "dry_run": dry_run,
    }


def _chat_data(chat: ImportedChat) -> dict[str, Any]:
    return {
        "file": chat.file,
        "name": chat.name,
        "format": chat.format,
        "channel": chat.channel,
        "imported": chat.imported,
        "already_there": chat.already_there,
        "corrected": chat.corrected,
        "withdrawn": chat.withdrawn,
        "doubles": chat.doubles,
        "skipped": [{"line": s.line, "reason": s.reason} for s in chat.skipped],
        "skipped_count": chat.skipped_count,
        "estimated_times": chat.estimated_times,
        "hidden": chat.hidden,
        "other_branches": chat.aside,
        "branch_of": chat.branch_of or None,
        "copy": chat.is_copy,
        "taken_for": chat.taken_for,
        "speakers": [asdict(speaker) for speaker in chat.speakers],
        "first": [_message_data(message) for message in chat.first],
        "notes": list(chat.notes),
    }


def _message_data(message: Message) -> dict[str, Any]:
    return {
        "at": iso(message.at) if message.at else None,
        "speaker": message.speaker,
        "role": message.role,
        "text": message.text,
    }


def _files(done: ImportedChats) -> list[dict[str, Any]]:
    """Return one entry for each file, failed ones with the reason."""
    imported: Counter[str] = Counter()
    for chat in done.chats:
        imported[chat.file] += chat.imported
    errors = {one.file: str(one.error) for one in (*done.passed_over, *done.failed)}
    return [
        {"file": file, "imported": imported[file], "error": errors.get(file)}
        for file in sorted(imported.keys() | errors.keys())
    ]


def _headline(chat: ImportedChat, *, dry_run: bool) -> str:
    deed = "Would import" if dry_run else "Imported"
    name, kind = one_line(chat.name), TITLES[chat.format]
    if chat.is_copy:
        return f"{name} ({kind}) is in channel {one_line(chat.channel)} already, under another name"
    if chat.branch_of:
        deed = "Would branch" if dry_run else "Branched"
        rest = f" with {counted(chat.imported, 'turn')} of its own" if chat.imported else ""
        where = f"channel {one_line(chat.channel)} off {one_line(chat.branch_of)}"
        return f"{deed} {where}{rest}: {name} ({kind})"
    if not chat.imported and (chat.corrected or chat.withdrawn):
        deed = "Would follow" if dry_run else "Followed"
        return f"{deed} changes of {name} ({kind}, channel {one_line(chat.channel)})"
    if not chat.imported:
        return f"Nothing new in {name} ({kind}, channel {one_line(chat.channel)})"
    turns = counted(chat.imported, "turn")
    return f"{deed} {turns} of {name} ({kind}) as channel {one_line(chat.channel)}"


def _about(chat: ImportedChat) -> Iterator[tuple[str, str]]:
    """Yield what a file was taken for, who speaks in it, and how it begins."""
    yield "taken for", chat.taken_for
    speakers = [f"{_speaker(one)} {one.turns:,}" for one in chat.speakers[:_SPEAKERS]]
    more = len(chat.speakers) - len(speakers)
    yield "speakers", ", ".join(speakers) + (f" and {more} more" if more else "")
    for number, message in enumerate(chat.first, start=1):
        when = f"{message.at:%Y-%m-%d %H:%M} " if message.at and not message.estimated else ""
        said = one_line(message.text, _TEXT_CHARS)
        yield f"turn {number}", f"{when}{one_line(message.speaker or message.role)}: {said}"


def _speaker(one: SpeakerCount) -> str:
    is_told = {"familiar": " (the familiar)", "me": " (me)"}
    if one.role == "note":
        return "system notes"
    return f"{one_line(one.name) or 'user'}{is_told.get(one.role, '')}"


def _passed_over(done: ImportedChats) -> str:
    names = [Path(one.file).name for one in done.passed_over]
    more = f" and {len(names) - _LINES} more" if len(names) > _LINES else ""
    return f"Skipped, not chats: {', '.join(map(one_line, names[:_LINES]))}{more}"


def _rows(chat: ImportedChat) -> Iterator[tuple[str, str]]:
    times = "time estimated from neighbouring turns"
    for title, number, about in (
        ("shared" if chat.branch_of else "already there", chat.already_there, ""),
        ("corrected", chat.corrected, ": the old wording is kept, set aside"),
        ("withdrawn", chat.withdrawn, ": deleted in the chat"),
        ("doubles", chat.doubles, ": kept live in another channel, withdrawn there"),
        ("hidden", chat.hidden, ": kept, but never shown to a model"),
        ("no time", chat.estimated_times, f": {times}"),
    ):
        if number:
            yield title, f"{counted(number, 'turn')}{about}"
    if chat.aside:
        yield "other branches", f"{chat.aside:,} messages: kept separately"
    by_reason: dict[str, list[int]] = {}
    for skip in chat.skipped:
        by_reason.setdefault(skip.reason, []).append(skip.line)
    for reason, lines in by_reason.items():
        yield "left out", f"{_named(lines)}: {reason}"
    for note in chat.notes:
        yield "note", one_line(note, _NOTE_CHARS)
    if chat.skipped_count > len(chat.skipped):
        yield "left out", f"{chat.skipped_count - len(chat.skipped):,} more"


def _named(lines: list[int]) -> str:
    named = ", ".join(map(str, lines[:_LINES]))
    more = f" and {len(lines) - _LINES:,} more" if len(lines) > _LINES else ""
    return f"line{'s' if len(lines) > 1 else ''} {named}{more}"


def _sum(done: ImportedChats, *, dry_run: bool) -> str:
    deed = "would be imported" if dry_run else "imported"
    turns = sum(chat.imported for chat in done.chats)
    hidden = len(done.chats) - _CHATS
    more = f" ({hidden:,} chats are not shown; --json has all)" if hidden > 0 else ""
    return f"{len(done.chats):,} chats: {counted(turns, 'turn')} {deed}{more}"
