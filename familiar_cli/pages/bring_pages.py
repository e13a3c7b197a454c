"""Pages of `import` and `export`: the kind of each file, and the result for each part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict, replace

from familiar_cli.base.text import counted, one_line, shorten_list, typed
from familiar_cli.base.times.clock import iso
from familiar_cli.base.who.visibility import EVERYBODY
from familiar_cli.imports.contract import ForeignMessage
from familiar_cli.imports.import_chat import ImportedChat, ImportedChats, SpeakerCount
from familiar_cli.imports.import_plan import ImportedLines, ImportReport
from familiar_cli.imports.reading import title_of_format
from familiar_cli.imports.sillytavern import (
    NOT_NAMED,
    OUTCOMES,
    FamiliarInFolder,
    FileReport,
    ImportedFolder,
)
from familiar_cli.pages.page import Columns, PagePart, Stack, local_time, plain

if TYPE_CHECKING:
    from familiar_cli.actions.bring.export import Export
    from familiar_cli.actions.bring.import_files import Done, ImportItem


_MOST_EFFECTS: Final = 20
_EFFECT_CHARS: Final = 120


def report_page(report: ImportReport, *, dry_run: bool) -> PagePart:
    """Describe the result for each file, and the effect of each setting."""
    groups = [
        ("In every prompt", report.in_every_prompt),
        ("In prompts when relevant", report.found_when_it_fits),
        ("Kept for export, without effect here", report.kept_unmapped),
    ]
    if not (report.in_every_prompt or report.found_when_it_fits):  # the kept ones are files
        groups = []
    rows = replace(report, kept_unmapped=()) if groups else report
    effects = (_name_group(title, names) for title, names in groups if names)
    headline = plain(report.headline(dry_run=dry_run), "bold")
    return Stack(headline, _reports_table(rows), *effects)


def _name_group(title: str, names: Sequence[str]) -> PagePart:
    shown = [one_line(name, _EFFECT_CHARS) for name in names[:_MOST_EFFECTS]]
    if len(names) > _MOST_EFFECTS:
        shown.append(f"{len(names) - _MOST_EFFECTS} more, which `--json` lists")
    return plain(f"{title}: {'; '.join(shown)}", "dim")


_MOST_LINES: Final = 60
_CHARS: Final = 120
_JOBS: Final = "CRONS.JSON"


def lines_page(done: ImportedLines, *, dry_run: bool) -> PagePart:
    """Describe the import of another program's memories: used, known, and refused."""
    deed = "Would import" if dry_run else "Imported"
    if done.plan:
        deed = "Proposed for review:"
    if not done.lines:
        deed = "Nothing new to import:"
    known = f"; {done.known:,} known already" if done.known else ""
    headline = f"{deed} {counted(done.lines, 'memory', 'memories')} of {done.program}{known}"
    rows = [("  used", "green", one) for one in done.found_when_it_fits]
    rows += [("  refused", "red", one) for one in done.refused]
    parts: list[PagePart] = [plain(headline)]
    if rows:
        parts.append(Columns([plain(k, s), plain(w)] for k, s, w in rows))
    if done.plan:
        parts.append(plain(f"Decide with `familiar review show {done.plan}`.", "dim"))
    return Stack(*parts)


def _reports_table(report: ImportReport) -> PagePart:
    rows = list(_report_rows(report))
    more = len(rows) - _MOST_LINES
    shown = rows if more <= 1 else [*rows[:_MOST_LINES], ("  …", "dim", f"{more} more (--json)")]
    return Columns([plain(kind, style), plain(what)] for kind, style, what in shown)


def _report_rows(report: ImportReport) -> Iterator[tuple[str, str, str]]:
    for path in report.written:
        overwritten = path in report.overwritten
        yield ("  overwritten" if overwritten else "  written", "green", path)
    for path in report.removed:
        yield "  removed", "red", path
    for path in report.edited:
        is_gone = path in report.deleted
        how = "deleted or moved here; not restored" if is_gone else "edited since; kept"
        yield "  yours", "cyan", f"{path} ({how})"
    for path in report.unchanged:
        yield "  unchanged", "dim", path
    for name in report.kept_unmapped:
        use = "its jobs are scheduled" if name.upper() == _JOBS else "not used"
        yield "  kept", "dim", f"{one_line(name, _CHARS)} ({use})"
    for left in report.left_out:
        yield "  left out", "red", f"{left.file}: {one_line(left.reason, _CHARS)}"


_CHATS: Final = 20  # chats listed individually
_SPEAKERS: Final = 8
_TEXT_CHARS: Final = 80
_NOTE_CHARS: Final = 400
_SAMPLE_CHARS: Final = 40
_LINES: Final = 5  # lines listed for each reason


def imported_chats_page(done: ImportedChats, *, dry_run: bool) -> PagePart:
    """Describe the import of each chat, with a sum if there are several."""
    parts: list[PagePart] = []
    for chat in done.chats[:_CHATS]:
        parts.append(plain(_chats_headline(chat, dry_run=dry_run), "bold"))
        facts = [*_chat_facts(chat), *_chat_rows(chat)] if dry_run else _chat_rows(chat)
        rows = [[plain(f"  {kind}", "dim"), plain(what)] for kind, what in facts]
        parts.extend([Columns(rows)] if rows else [])
    if done.passed_over:
        skipped = (one_line(Path(one.file).name) for one in done.passed_over)
        parts.append(plain(f"Skipped, not chats: {shorten_list(skipped, _LINES)}"))
    if len(done.chats) > 1:
        parts.append(plain(_sum_words(done, dry_run=dry_run), "bold"))
    return Stack(*parts)


def answer_data(done: ImportedChats, *, dry_run: bool) -> dict[str, Any]:
    """Build the data for `--json`."""
    chats = [_chat_data(chat) for chat in done.chats]
    channels = {chat.channel for chat in done.chats}
    return {
        "imported": sum(chat.imported for chat in done.chats),
        "already_there": sum(chat.already_there for chat in done.chats),
        "skipped": [line for chat in chats for line in chat["skipped"]],
        "channel": channels.pop() if len(channels) == 1 else None,
        "chats": chats,
        "files": _file_entries(done),
        "dry_run": dry_run,
    }


def _chat_data(chat: ImportedChat) -> dict[str, Any]:
    same = (
        *("file", "name", "format", "channel", "imported", "already_there", "corrected"),
        *("withdrawn", "doubles", "skipped_count", "estimated_times", "hidden", "taken_for"),
        *("speakers", "heard_by", "notes"),
    )
    return {name: getattr(chat, name) for name in same} | {
        "skipped": [{"line": s.line, "reason": s.reason} for s in chat.skipped],
        "other_branches": chat.aside,
        "branch_of": chat.branch_of or None,
        "copy": chat.is_copy,
        "first": [_message_data(message) for message in chat.first],
    }


def _message_data(message: ForeignMessage) -> dict[str, Any]:
    return {
        "at": iso(message.at) if message.at else None,
        "speaker": message.speaker,
        "role": message.role,
        "text": message.text,
    }


def _file_entries(done: ImportedChats) -> list[dict[str, Any]]:
    """Return one entry per file; failed ones have a reason."""
    imported: Counter[str] = Counter()
    for chat in done.chats:
        imported[chat.file] += chat.imported
    errors = {one.file: str(one.error) for one in (*done.passed_over, *done.failed)}
    return [
        {"file": file, "imported": imported[file], "error": errors.get(file)}
        for file in sorted(imported.keys() | errors.keys())
    ]


def _chats_headline(chat: ImportedChat, *, dry_run: bool) -> str:
    deed = "Would import" if dry_run else "Imported"
    name, kind = one_line(chat.name), title_of_format(chat.format)
    if chat.is_copy and chat.name != chat.channel:
        return f"{name} ({kind}) is already in channel {one_line(chat.channel)}, under another name"
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


def _chat_facts(chat: ImportedChat) -> Iterator[tuple[str, str]]:
    """Yield the format of a chat file, its speakers, and its beginning."""
    yield "read as", chat.taken_for
    speakers = (f"{_speaker_words(one)} {one.turns:,}" for one in chat.speakers)
    yield "speakers", shorten_list(speakers, _SPEAKERS)
    for number, message in enumerate(chat.first, start=1):
        is_stated = message.at and not message.estimated
        when = f"{local_time(message.at, chat.zone)} " if is_stated else ""
        said = one_line(message.text, _TEXT_CHARS)
        yield f"turn {number}", f"{when}{one_line(message.speaker or message.role)}: {said}"


def _speaker_words(one: SpeakerCount) -> str:
    is_told = {"familiar": " (the familiar)", "me": " (me)"}
    if one.role == "note":
        under = f" under {one_line(one.name)}" if one.name else ""
        return f"hidden notices{under} (such as “{one_line(one.sample, _SAMPLE_CHARS)}”)"
    name = "assistant" if one.role == "familiar" else "user"
    return f"{one_line(one.name) or name}{is_told.get(one.role, '')}"


def _chat_rows(chat: ImportedChat) -> Iterator[tuple[str, str]]:
    for title, number, about in (
        ("shared" if chat.branch_of else "already there", chat.already_there, ""),
        ("corrected", chat.corrected, ": the old wording is kept as an alternative"),
        ("withdrawn", chat.withdrawn, ": deleted in the chat"),
        ("doubles", chat.doubles, ": kept live in another channel; withdrawn there"),
        ("hidden", chat.hidden, ": kept, but never shown to a model"),
        ("no time", chat.estimated_times, ": time estimated from neighbouring turns"),
    ):
        if number:
            yield title, f"{counted(number, 'turn')}{about}"
    if chat.aside:
        yield "other branches", f"{counted(chat.aside, 'message')}: kept separately"
    by_reason: dict[str, list[int]] = {}
    for skip in chat.skipped:
        by_reason.setdefault(skip.reason, []).append(skip.line)
    for reason, lines in by_reason.items():
        yield "left out", f"{_names_words(lines)}: {reason}"
    mine = [one_line(one.name) for one in chat.speakers if one.role == "me" and one.name]
    if chat.imported and mine and any(one.role == "person" for one in chat.speakers):
        told = "say `--me NAME`, or `--me -` for nobody, when you import it"
        yield "you", f"{shorten_list(mine, _SPEAKERS)}; if that is somebody else, {told}"
    for note in chat.notes:
        yield "note", one_line(note, _NOTE_CHARS)
    if chat.is_new and chat.imported and chat.heard_by:
        yield "heard by", f"{chat.heard_by}{_audience_change(chat)}"
    if chat.skipped_count > len(chat.skipped):
        yield "left out", f"{chat.skipped_count - len(chat.skipped):,} more"


def _audience_change(chat: ImportedChat) -> str:
    """Return the command by which others may hear a chat, or no longer; empty: none is likely."""
    command = f"familiar channel set {typed(chat.channel)} --kind"
    if chat.is_closed:
        return f"; `{command} group_dm` opens it to its speakers, `text` to everybody"
    return f"; `{command} dm` makes it private" if chat.heard_by == EVERYBODY else ""


def _names_words(lines: list[int]) -> str:
    return f"line{'s' if len(lines) > 1 else ''} {shorten_list(map(str, lines), _LINES)}"


def _sum_words(done: ImportedChats, *, dry_run: bool) -> str:
    deed = "would be imported" if dry_run else "imported"
    turns = sum(chat.imported for chat in done.chats)
    hidden = len(done.chats) - _CHATS
    more = f" ({hidden:,} chats are not shown; --json has all)" if hidden > 0 else ""
    return f"{len(done.chats):,} chats: {counted(turns, 'turn')} {deed}{more}"


_MOST_REASONS: Final = 60  # familiars and skipped files listed by name
_DEEDS: Final = {"imported": "made", "updated": "updated"}
_REASON_CHARS: Final = 200
_NAME_CHARS: Final = 40
_EXAMPLES: Final = 3
_CHANGES: Final = frozenset({"imported", "updated"})
_HOUSEKEEPING: Final = frozenset({"backup", "other"})
_NAMES: Final = {
    "character": "characters",
    "world": "lorebooks",
    "chat": "chats",
    "group": "groups",
    "group_chat": "group chats",
    "settings": "settings",
    "link": "links",
}


def imported_folder_page(folder: ImportedFolder, *, dry_run: bool) -> PagePart:
    """Describe the import of the characters and of each kind of file, and what was left out."""
    parts: list[PagePart] = []
    if folder.familiars:
        parts.append(Columns(_familiar_rows(folder)))
    parts.append(Columns(_kind_rows(folder)))
    done = [f for f in folder.files if f.reason and f.outcome in _CHANGES and not _is_problem(f)]
    if done:
        rows = [[plain(f"  {one_line(f.path, _REASON_CHARS)}"), plain(f.reason)] for f in done]
        parts += [plain("Changed here, too:", "bold"), Columns(rows[:_MOST_REASONS])]
    left = list(_left_out_rows([file for file in folder.files if file not in done]))
    parts += [plain("Left out:", "bold"), Columns(left[:_MOST_REASONS])] if left else []
    if max(len(left), len(done)) > _MOST_REASONS or len(folder.familiars) > _MOST_REASONS:
        parts.append(plain("Not everything is shown; `--json` has all of it.", "dim"))
    if dry_run:
        parts.append(plain("Nothing was written (--dry-run).", "bold"))
    return Stack(*parts)


def _familiar_rows(folder: ImportedFolder) -> Iterator[list[object]]:
    for one in folder.familiars[:_MOST_REASONS]:
        yield [
            plain(f"{one_line(one.name, 40)} ({one.id})", "bold"),
            plain(_DEEDS.get(one.outcome, one.outcome)),
            plain(_turns_words(one)),
        ]


def _turns_words(one: FamiliarInFolder) -> str:
    memories = f", {counted(one.memories, 'memory', 'memories')}" if one.memories else ""
    if not one.turns:
        return f"{'no new turns' if one.already_there else 'no chats'}{memories}"
    where = counted(one.channels, "channel")
    return f"{counted(one.turns, 'new turn')} in {where}{memories}"


def _kind_rows(folder: ImportedFolder) -> Iterator[list[object]]:
    counts: dict[str, Counter[str]] = {}
    for file in folder.files:
        counts.setdefault(file.kind, Counter())[file.outcome] += 1
    for kind, name in _NAMES.items():
        if kind in counts:
            what = ", ".join(f"{counts[kind][o]:,} {o}" for o in OUTCOMES[::-1] if counts[kind][o])
            yield [plain(f"  {name}", "dim"), plain(what)]


def _left_out_rows(files: Sequence[FileReport]) -> Iterator[list[object]]:
    """Yield the skipped files: failures first, then those never imported in one line."""
    reports = [file for file in files if file.reason and file.outcome != "read"]
    unnamed = [file.path for file in reports if file.reason == NOT_NAMED]
    for file in sorted(reports, key=lambda file: not _is_problem(file)):
        if file.kind not in _HOUSEKEEPING and file.reason != NOT_NAMED:
            style = "red" if _is_problem(file) else "dim"
            path = plain(f"  {one_line(file.path, _REASON_CHARS)}", style)
            yield [path, plain(one_line(file.reason, _REASON_CHARS))]
    rest = [file.path for file in reports if file.kind in _HOUSEKEEPING]
    for paths, why in ((unnamed, NOT_NAMED), (rest, "never imported")):
        if paths:
            number = counted(len(paths), "file or directory", "files and directories")
            names = ", ".join(one_line(path, _NAME_CHARS) for path in paths[:_EXAMPLES])
            more = ", …" if len(paths) > _EXAMPLES else ""
            yield [plain(f"  {number}", "dim"), plain(f"{why}: {names}{more}")]


def _is_problem(file: FileReport) -> bool:
    return file.outcome == "refused" or file.incomplete


_MOST_NAMES: Final = 8
_MAKING: Final = frozenset({"folder", "export", "card", "persona"})  # they tell the familiar


def import_page(items: Sequence[ImportItem], *, dry_run: bool) -> PagePart:
    """Describe what each file was recognised as, and what became of it."""
    parts: list[PagePart] = []
    for item in items:
        if item.done:
            is_into = len(items) > 1 and item.familiar and item.kind not in _MAKING
            into = f", into {item.familiar}" if is_into else ""
            parts.append(plain(f"{one_line(item.path.name)}: {item.title}{into}"))
            parts += [_done_page(done, dry_run=dry_run) for done in item.done]
    return Stack(*parts)


def _done_page(done: Done, *, dry_run: bool) -> PagePart:
    match done:
        case ImportedChats():
            return imported_chats_page(done, dry_run=dry_run)
        case ImportedLines():
            return lines_page(done, dry_run=dry_run)
        case ImportedFolder():
            return imported_folder_page(done, dry_run=dry_run)
        case _:
            return report_page(done, dry_run=dry_run)


def items_data(items: Sequence[ImportItem], *, dry_run: bool) -> list[dict[str, Any]]:
    """Build the data for `--json`, one entry per file."""
    return [
        {
            "path": item.shown or str(item.path),
            "kind": "sillytavern" if item.kind == "folder" else item.kind or None,
            "title": item.title,
            "familiar": item.familiar or None,
            "results": [
                answer_data(done, dry_run=dry_run)
                if isinstance(done, ImportedChats)
                else asdict(done)
                for done in item.done
            ],
            "error": str(item.error) if item.error else None,
            "left_out": item.left_out or None,
        }
        for item in items
    ]


def warnings_of(items: Sequence[ImportItem]) -> Iterator[str]:
    """Yield what was unusual about the files."""
    left_out: dict[str, list[str]] = {}
    for item in items:
        if item.left_out:
            left_out.setdefault(item.left_out, []).append(one_line(item.path.name))
    for reason, names in left_out.items():
        several = len(names) > 1
        why = reason.replace("it is", "each is", 1) if several else reason
        verb = "were" if several else "was"
        yield f"{shorten_list(names, _MOST_NAMES)} {verb} left out: {why}"
    for item in items:
        for done in item.done:
            if isinstance(done, ImportedFolder):
                for one in done.familiars:
                    yield from (f"{one.character}: {warning}" for warning in one.warnings)
            elif not isinstance(done, ImportedChats):
                yield from done.warnings


def exported_page(export: Export, *, dry_run: bool) -> PagePart:
    """Describe what an export contains of each familiar."""
    deed = "Would export" if dry_run else "Exported"
    rows = []
    for one in export.familiars:
        facts = (
            "a card" if one.card else "no card",
            counted(len(one.lorebooks), "lorebook"),
            counted(len(one.chats), "chat"),
            counted(one.turns, "turn"),
            counted(one.files, "file") + " of memory",
        )
        name = plain(f"  {one_line(one.name)} ({one.id})", "bold")
        rows.append([name, plain(", ".join(facts))])
    number = counted(len(export.familiars), "familiar")
    return Stack(plain(f"{deed} {number} into {one_line(export.path, 200)}"), Columns(rows))
