"""`familiar import` and `familiar export`: everything in, and everything out."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec.structs import asdict, replace

from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.text import counted
from familiar_cli.cli.commands import _options
from familiar_cli.cli.commands._base import App, familiar_of, globals_of, home_of, output
from familiar_cli.pages.emit import Output, exact_lines

if TYPE_CHECKING:
    from familiar_cli.actions.bring.import_files import FileImporter, ImportItem

import_app = App()


@import_app.command("import")
def import_files(
    ctx: typer.Context,
    paths: list[str],
    *,
    kind: Literal[
        "card", "lorebook", "chat", "sillytavern", "persona", "memories", "vault", "export"
    ]
    | None = None,
    me: list[str] | None = None,
    character: list[str] | None = None,
    as_: Annotated[str | None, typer.Option("--as")] = None,
    dates: Literal["dmy", "mdy", "ymd"] | None = None,
    year: _options.Year = None,
    update: _options.Update = False,
    force: Annotated[bool, typer.Option("--force", "--overwrite")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    allow_network: Annotated[bool, typer.Option("--allow-network")] = False,
    dry_run: _options.DryRun = False,
) -> None:
    """Import a card, a lorebook, chats, memories, a persona or a vault of notes.

    Cards, persona folders and SillyTavern's data folder become familiars; everything else goes into
    the familiar that was just made, that speaks in the chat, or that is chosen. Nothing is imported
    twice. --dry-run says what each file is, and what would be done.

    \b
    familiar import mira.png
    familiar import mira.png world.json chat.jsonl
    familiar import https://a.example/mira.png
    familiar import chat.txt --me Robin --dry-run
    familiar import SillyTavern/data/default-user
    familiar import my-vault/ --kind vault

    Args:
        paths (FILE|DIR|ADDRESS...): What to import; `-` reads a file from standard input.
        kind (KIND): What it is, if that is ambiguous: card, lorebook, chat,
            sillytavern, persona, memories, vault or export.
        me (NAME): Your name in chats, or - if you say nothing in them; may be repeated.
        character (NAME): Name of the familiar in chats, or - if it says nothing in them; may be
            repeated.
        as_ (PLATFORM:ID): Account of the user in chats.
        dates: Order of day, month and year in dates such as 01/02/2024.
        force: Overwrite even files that you edited or deleted.
        allow_network: Fetch addresses even without a terminal.
        yes: Add the memories of another program at once, instead of proposing them for review.
    """
    from familiar_cli.actions.bring.import_files import FileImporter, FileImportOptions, personas_in
    from familiar_cli.cli.commands.init import adopt_jobs, familiar_option

    out, home = output(ctx), home_of(ctx)
    options = FileImportOptions(
        familiar_id=globals_of(ctx).familiar or "",
        kind=kind or "",
        person=as_ or "",
        mine=tuple(me or ()),
        character=tuple(character or ()),
        dates=dates,
        year=year,
        update=update,
        force=force,
        at_once=yes,
        dry_run=dry_run,
    )
    with (
        _options.default_kept(out, home),
        _copies_of(paths, may_fetch=allow_network or _can_ask(out)) as copies,
    ):
        options = replace(options, typed={str(copy): path for path, copy in copies.items()})
        files = [copies.get(path) or Path(path).expanduser() for path in paths]
        with closing(FileImporter(home, options, out.warn)) as importer:
            items = importer.recognise(files)
            options = importer.options
            for item in items:
                try:
                    _choose_kind(out, item)
                    _import_item(out, importer, item)
                except EOFError:
                    item.error = UsageError(
                        f"{item.path.name!r} was not imported: its question was not answered",
                        hint="Options answer it, too: `--kind`, `--me`, `--character`, `--dates` "
                        "and `--year`.",
                    )
                importer.options = options  # an answer holds for one file
            _index_all(ctx, out, importer)
    made = [item for item in items if item.kind in ("card", "persona", "export") and item.done]
    notes = [] if dry_run else [n for one in personas_in(made) for n in adopt_jobs(home, one)]
    _report_items(out, items, dry_run=dry_run)
    if made and not dry_run:
        next_step = f'Next: `familiar ask {familiar_option(home, made[0].familiar)}"Hello"`'
        out.note("\n".join([*notes, next_step]))


@contextmanager
def _copies_of(paths: Sequence[str], *, may_fetch: bool) -> Iterator[dict[str, Path]]:
    """Yield temporary files of standard input and of what is at addresses, by what was typed."""
    import tempfile

    addresses = [path for path in paths if path.lower().startswith(("https://", "http://"))]
    if addresses and not may_fetch:
        raise UsageError(
            f"{addresses[0]!r} is an address; nothing was fetched or imported",
            hint="Add `--allow-network` to fetch it.",
        )

    with tempfile.TemporaryDirectory(prefix="familiar-") as scratch:
        copy = Path(scratch) / "stdin"
        if "-" in paths:
            with copy.open("wb") as stream:
                shutil.copyfileobj(sys.stdin.buffer, stream)
        yield {"-": copy, **_fetch_all(addresses, Path(scratch))}


def _fetch_all(addresses: Sequence[str], directory: Path) -> dict[str, Path]:
    if not addresses:
        return {}
    from familiar_cli.base.config import environment
    from familiar_cli.imports.foreign_files import fetch_file, parse_address
    from familiar_cli.llm.wire import is_loopback

    places = map(parse_address, addresses)
    remote = [place.geturl() for place in places if not is_loopback(place.geturl())]
    if remote and environment.offline():
        raise UsageError(
            f"{remote[0]!r} was not fetched, because {environment.OFFLINE} is set",
            hint=f"Unset {environment.OFFLINE}, or download the file and import that.",
        )
    numbered = enumerate(dict.fromkeys(addresses))  # two may have the same file name
    return {address: fetch_file(address, directory / str(n)) for n, address in numbered}


def _choose_kind(out: Output, item: ImportItem) -> None:
    """Ask how to interpret an ambiguous file; without a terminal, choose the safest way."""
    from familiar_cli.cli.terminal.prompts import ask_choice

    if not item.others:
        return
    if not _can_ask(out):
        others = " or ".join(f"`--kind {one.kind}`" for one in item.others)
        out.note(f"{item.path.name} is read as {item.title}; {others} reads it differently")
        return
    readings = [(item.kind, item.title), *((one.kind, one.title) for one in item.others)]
    question = f"{item.path.name} can be read in several ways:"
    item.kind = ask_choice(question, readings, "1")
    item.title = dict(readings)[item.kind]


def _import_item(out: Output, importer: FileImporter, item: ImportItem) -> None:
    """Import one item, asking for what only a person knows."""
    from familiar_cli.cli.terminal.prompts import ask_choice
    from familiar_cli.pages.progress import show_count

    if item.error:
        return None
    for option, choices in importer.questions_of(item) if _can_ask(out) else ():
        answer = ask_choice(f"Who wrote the messages in {item.path.name}?", choices)
        importer.options = importer.options.answered(option, answer)
    while True:
        try:
            with show_count(out, "reading") as report:
                return importer.run(item, report)
        except FamiliarError as error:
            if not error.question or not _can_ask(out):
                item.error = UsageError(str(error), hint=error.hint)
                return None
            option, choices = error.question
            question = str(error).removesuffix("; nothing was imported") + "."
            importer.options = importer.options.answered(option, ask_choice(question, choices))


def _can_ask(out: Output) -> bool:
    from familiar_cli.pages.emit import is_terminal

    return is_terminal() and not out.as_json


def _index_all(ctx: typer.Context, out: Output, importer: FileImporter) -> None:
    from familiar_cli.familiar import Familiar

    for familiar_id in sorted(importer.changed):
        with Familiar.load_from_disk(home_of(ctx), familiar_id, out.warn) as familiar:
            _options.index_words(out, familiar)
            _options.warn_of_pins(out, familiar)


def _report_items(out: Output, items: Sequence[ImportItem], *, dry_run: bool) -> None:
    """Print the outcome of every item; a single failure is the command's error.

    Raises:
        FamiliarError: Nothing could be imported.
    """
    from familiar_cli.pages.bring_pages import import_page, items_data, warnings_of

    for item in items if len(items) > 1 else ():
        if item.error and item.path.name not in str(item.error):
            item.error.args = (f"{item.shown or str(item.path)!r}: {item.error}",)
    errors = [error for item in items if item.error for error in item.problems]
    for error in errors if any(item.done for item in items) else ():  # something was
        error.args = (str(error).replace("; nothing was imported", "; it was not imported"),)
    data = {"items": items_data(items, dry_run=dry_run), "dry_run": dry_run}
    out.warn(*warnings_of(items))
    if errors and not any(item.done for item in items):
        is_alone, code = len(errors) == 1, errors[0].exit_code
        out.answer(data, None, errors, exit_code=code, is_failure=is_alone)
    out.report(data, import_page(items, dry_run=dry_run), errors)


export_app = App()


@export_app.command()
def export(
    ctx: typer.Context,
    directory: Annotated[Path | None, typer.Argument()] = None,
    *,
    out_dir: Annotated[Path | None, typer.Option("--out")] = None,
    memory_format: Annotated[Literal["mem", "text"] | None, typer.Option("--format")] = None,
    public: Annotated[bool, typer.Option("--public")] = False,
    force: Annotated[bool, typer.Option("--force")] = False,
    dry_run: _options.DryRun = False,
) -> None:
    """Export all familiars into a directory that other programs can read.

    For each familiar: its card as PNG and JSON, its lorebooks, its chats as SillyTavern's, all of
    its turns, and its memory as Markdown; README.md describes the files. --familiar exports one.
    --format exports only what one familiar remembers about people and topics, for another
    assistant.

    \b
    familiar export backup/
    familiar export backup/ --familiar mira
    familiar export for-a-friend/ --public
    familiar export mira.mem --format mem
    familiar export --format text

    Args:
        directory ([DIR]): New directory; with --format text, a file.
        out_dir (DIR): The same as DIR.
        memory_format: Export only memories: as mem (Portable Memory), or as text for the import
            pages of ChatGPT and Claude.
        public: Leave out everything private.
        force: Replace an earlier export in DIR.
    """
    from familiar_cli.actions.bring.export import export_familiars
    from familiar_cli.pages.bring_pages import exported_page

    path = directory or out_dir
    if (directory and out_dir) or (path is None and memory_format != "text"):
        name = " --format mem" if memory_format else ""
        raise UsageError(
            "The export needs one directory; nothing was written",
            hint=f"Give a new one: `familiar export DIR{name}`.",
        )
    out, path = output(ctx), path.expanduser() if path else None
    if memory_format or path is None:
        _export_memories(
            ctx, memory_format or "text", path, public=public, force=force, dry_run=dry_run
        )
        return
    done = export_familiars(
        home_of(ctx),
        path,
        only=globals_of(ctx).familiar,
        public=public,
        force=force,
        dry_run=dry_run,
    )
    for one in done.familiars:
        out.warn(*(f"{one.id}: {warning}" for warning in one.warnings))
    data = asdict(done) | {"dry_run": dry_run}
    out.report(data, exported_page(done, dry_run=dry_run))


def _export_memories(
    ctx: typer.Context,
    memory_format: Literal["mem", "text"],
    path: Path | None,
    *,
    public: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Export what a familiar remembers to a path, or text to standard output."""
    from familiar_cli.actions.bring.export import export_memories, write_export

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        done = export_memories(familiar, memory_format, public=public)
    out.warn(*done.warnings)
    data = {
        "familiar": familiar.paths.id,
        "format": memory_format,
        "memories": len(done.memories),
        "public": public,
        "warnings": list(done.warnings),
        "dry_run": dry_run,
    }
    words = counted(len(done.memories), "memory", "memories")
    if path is not None:
        if not dry_run:
            write_export(done, path, force=force)
        deed = "Would write" if dry_run else "Wrote"
        out.answer(data | {"path": str(path)}, f"{deed} {words} to {path}")
        return
    lines = done.files[""].decode().split("\n")[:-1]
    if out.as_json or not lines:
        out.answer(data | {"text": lines}, "It remembers nothing about people or topics yet.")
    else:
        exact_lines(lines)
