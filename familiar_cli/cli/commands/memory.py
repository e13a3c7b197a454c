"""`familiar memory`: read, change and pin the files, and see and restore their past."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from familiar_cli.base.errors import PartialError, UsageError
from familiar_cli.base.text import counted, typed
from familiar_cli.cli.commands._base import familiar_of, group, moment_of, output, text_or_stdin
from familiar_cli.cli.commands._options import DryRun, MemoryPath
from familiar_cli.cli.commands._options import since as since_option
from familiar_cli.pages.emit import Output, exact, exact_bytes

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.files import FileListing, Omission, WriteResult
    from familiar_cli.store.memory.store.transactions import Transaction


app = group("Read and change the memory directory, and see and restore its past.")

Text = Annotated[str, typer.Argument(metavar="TEXT|-", help="Text; `-` reads standard input.")]
Below = Annotated[str, typer.Argument(metavar="[DIR]", help="Only files below this directory.")]
All = Annotated[bool, typer.Option("--all", "-a", help="Include names that begin with a dot.")]


@app.command("list")
def ls(ctx: typer.Context, directory: Below = "", *, everything: All = False) -> None:
    """List files: as a tree on a terminal, one path per line in a pipe.

    \b
    familiar memory list
    familiar memory list people
    """
    out = output(ctx)
    familiar = familiar_of(ctx)
    listing = familiar.memory.walk(directory, hidden=everything)
    _tell_skipped(out, listing.skipped)
    if not listing.files:
        out.note("No files yet. Write one: `familiar memory write notes.md TEXT`.")
    if sys.stdout.isatty() and not out.as_json:
        from familiar_cli.pages.memory_pages import tree_page
        from familiar_cli.pages.page import print_page

        return print_page(tree_page(listing.files, familiar.zone)) if listing.files else None
    return _lines(out, _data(listing), [entry.rel_path for entry in listing.files])


@app.command()
def cat(ctx: typer.Context, path: MemoryPath) -> None:
    """Print one file, byte for byte in a pipe; --json adds its hash, for --expect.

    \b
    familiar memory cat people/alice.md
    """
    out = output(ctx)
    memory = familiar_of(ctx).memory
    if out.as_json:
        return out.answer(memory.read(path), "")
    return exact_bytes(memory.read_bytes(path))


@app.command()
def grep(
    ctx: typer.Context,
    pattern: str,
    directory: Below = "",
    *,
    case_sensitive: Annotated[bool, typer.Option("--case-sensitive", "-s")] = False,
    files: Annotated[bool, typer.Option("--files", "-l")] = False,
    everything: All = False,
) -> None:
    """Search the lines of all files, ignoring case, and print `path:line:text`.

    Exits with 0 even if nothing matches, and with 7 if there are too many matches.

    \b
    familiar memory grep tea
    familiar memory grep -s "^# A" people
    familiar memory grep --files "elden.ring"

    Args:
        pattern (PATTERN): Regular expression.
        case_sensitive: Match case.
        files: Print only paths.
    """
    from familiar_cli.pages import memory_pages

    out = output(ctx)
    result = familiar_of(ctx).memory.search(
        pattern, directory, case_insensitive=not case_sensitive, hidden=everything
    )
    _tell_skipped(out, result.skipped)
    if not result.hits:
        out.note(f"No line matches {pattern!r}. List all files with `familiar memory list`.")
    paths = list(dict.fromkeys(hit.rel_path for hit in result.hits))

    def render() -> None:
        from familiar_cli.pages.page import print_page

        if sys.stdout.isatty() and not files:
            print_page(memory_pages.hits_page(result.hits))
        else:
            lines = [f"{hit.rel_path}:{hit.line}:{hit.text}" for hit in result.hits]
            _lines(out, result, paths if files else lines)

    cut = PartialError(
        f"{pattern!r} matches more lines than the first {len(result.hits):,} shown",
        hint="Narrow the pattern, search one directory, or raise `memory.max_results`.",
    )
    out.answer(result, render, [cut] if result.truncated else [])


@app.command()
def glob(ctx: typer.Context, pattern: str) -> None:
    """Print the files whose path matches a pattern; `**` matches any directories.

    \b
    familiar memory glob "people/*.md"
    familiar memory glob "**/*ring*"

    Args:
        pattern (PATTERN): Pattern with `*`, `?`, `[ab]` or `**`.
    """
    out = output(ctx)
    items = familiar_of(ctx).memory.glob(pattern)
    if not items:
        out.note(f"No file matches {pattern!r}. List all files with `familiar memory list`.")
    _lines(out, {"files": items}, items)


@app.command()
def write(
    ctx: typer.Context,
    path: MemoryPath,
    text: Text,
    *,
    expect: str | None = None,
    base: str | None = None,
    dry_run: DryRun = False,
) -> None:
    """Write a file, replacing its whole text.

    With --base, what was changed since that version is kept. Exits with 5 if the same place was
    changed.

    \b
    familiar memory write notes.md "Ask Bob about it."
    familiar memory write people/alice.md - < alice.md

    Args:
        expect (SHA256): Change the file only if it has this hash; `missing`: only if it does not
            exist.
        base (SHA256): Hash of the version the text was made from; later changes are merged with it.
    """
    content = _text_for(path, text, exact=True)
    familiar = familiar_of(ctx)
    begun = familiar.past.version(path, base) if base else None

    def stage(tx: Transaction) -> None:
        if begun is None:
            tx.write(path, content, expect=base or expect)
        else:
            from familiar_cli.store.memory.merge.content import stage_merged

            stage_merged(tx, familiar.memory, path, begun, content)

    with _note_audience(ctx, path):
        _change(ctx, f"write {path}", stage, dry_run)


def _text_for(path: str, text: str, *, exact: bool = False) -> str:
    from familiar_cli.store.memory.store.transactions import check_is_text

    content = text_or_stdin(text, exact=exact)
    check_is_text(path, content)
    return content


@app.command()
def append(ctx: typer.Context, path: MemoryPath, text: Text, *, dry_run: DryRun = False) -> None:
    """Append text to a file, on a line of its own.

    \b
    familiar memory append people/alice.md "- likes green tea"
    """
    content = _text_for(path, text)

    def stage(tx: Transaction) -> None:
        tx.append(path, content, on_new_line=True)

    with _note_audience(ctx, path):
        _change(ctx, f"append {path}", stage, dry_run)


@app.command()
def rm(ctx: typer.Context, paths: list[str], *, dry_run: DryRun = False) -> None:
    """Delete files: all of them, or none if one cannot be deleted.

    \b
    familiar memory rm notes.md topics/old.md

    Args:
        paths (PATH...): Files to delete.
    """

    def stage(tx: Transaction) -> None:
        for path in dict.fromkeys(paths):
            tx.delete(path)

    _change(ctx, f"rm {' '.join(paths)}", stage, dry_run)


@app.command()
def mv(ctx: typer.Context, old: str, new: str, *, dry_run: DryRun = False) -> None:
    """Move or rename a file, and update the links to it and in it.

    This covers Markdown links, `[[wiki links]]` and the nodes of a canvas.

    \b
    familiar memory mv notes.md topics/concert.md
    familiar memory mv topics/tea.md topics/chai.md --dry-run

    Args:
        old (OLD): A file.
        new (NEW): New path; must not exist yet.
    """
    from familiar_cli.store.memory.pages.links import move_with_links

    moved = move_with_links(familiar_of(ctx).memory, old, new, dry_run=dry_run)
    out = output(ctx)
    _tell_skipped(out, moved.skipped)
    if moved.relinked:
        files = counted(len(moved.relinked), "file")
        out.note(f"{'Would update' if dry_run else 'Updated'} the links in {files}.")
    answer_applied(ctx, moved.applied, dry_run=dry_run, relinked=moved.relinked)


@app.command()
def links(
    ctx: typer.Context, path: MemoryPath, *, depth: Annotated[int, typer.Option(min=1)] = 1
) -> None:
    """Show a file's links: Markdown links in both directions, and people and topics it names.

    \b
    familiar memory links people/alice.md
    familiar memory links notes.md --depth 2

    Args:
        depth (N): Maximum distance, in links.
    """
    from familiar_cli.pages import memory_pages
    from familiar_cli.store.memory.pages.relations import build_graph
    from familiar_cli.store.memory.store.files import parse_path

    out, path = output(ctx), parse_path(path)
    graph = build_graph(familiar_of(ctx).memory)
    steps = graph.around(path, depth)
    _tell_skipped(out, graph.skipped)
    if not steps:
        out.note("No links to or from it. Link files with `[name](people/alice.md)`.")
    broken = [link for link in graph.broken if link.source == path]
    out.warn(*(f"{one.source} links to {one.target}, which does not exist" for one in broken))
    data = {"rel_path": path, "depth": depth, "steps": steps, "broken": broken}
    out.answer(data, memory_pages.links_page(steps) if steps else None)


@app.command()
def pin(ctx: typer.Context, paths: list[str], *, dry_run: DryRun = False) -> None:
    """Include files in every prompt, by setting `pinned: true` in their front matter.

    They are included whole, up to `budget.pinned`; `familiar memory pins` shows which fit.

    \b
    familiar memory pin lore/rules.md
    familiar memory pin people/alice.md notes.md --dry-run

    Args:
        paths (PATH...): Files to pin.
    """
    _set(ctx, paths, pinned=True, dry_run=dry_run)


@app.command()
def unpin(ctx: typer.Context, paths: list[str], *, dry_run: DryRun = False) -> None:
    """Remove `pinned` from the front matter of files; they are then included only when relevant.

    \b
    familiar memory unpin lore/rules.md

    Args:
        paths (PATH...): Files to unpin.
    """
    _set(ctx, paths, pinned=False, dry_run=dry_run)


@app.command()
def pins(ctx: typer.Context) -> None:
    """List the pinned files with their tokens, and show which do not fit in `budget.pinned`.

    \b
    familiar memory pins
    """
    from familiar_cli.actions.memory.pins import list_pins
    from familiar_cli.pages.memory_pages import pins_page

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        found = list_pins(familiar)
    if not found.pins:
        out.note("Nothing is pinned. Pin a file: `familiar memory pin PATH`.")
    out.warn(*found.problems)
    out.answer(found, pins_page(found) if found.pins else None)


@app.command()
def publish(
    ctx: typer.Context, target: str, *, to: str | None = None, dry_run: DryRun = False
) -> None:
    """Share a page or section that was private to you.

    Only you can see your desk, moments and imported memories, and anything based on what you said
    in private. Publishing adds a mark to the heading.

    \b
    familiar memory publish notes.md
    familiar memory publish people/alice.md#Facts --to Alice

    Args:
        target (PATH[#SECTION]): The page, or one of its sections.
        to (PERSON|CHANNEL): Share it only with them; default: everybody.
    """
    from familiar_cli.actions.memory.audience import scope_named, set_audience
    from familiar_cli.base.who.visibility import PUBLIC

    with familiar_of(ctx) as familiar:
        scope = PUBLIC if to is None else scope_named(familiar, to)
        changes = set_audience(familiar, target, scope, dry_run=dry_run)
    answer_applied(ctx, changes, dry_run=dry_run)


@app.command()
def unpublish(ctx: typer.Context, target: str, *, dry_run: DryRun = False) -> None:
    """Make a page or section private, so that only you can see it.

    \b
    familiar memory unpublish topics/surgery.md
    familiar memory unpublish people/alice.md#Facts

    Args:
        target (PATH[#SECTION]): The page, or one of its sections.
    """
    from familiar_cli.actions.memory.audience import set_audience
    from familiar_cli.base.who.visibility import OWNERS

    with familiar_of(ctx) as familiar:
        changes = set_audience(familiar, target, OWNERS, dry_run=dry_run)
    answer_applied(ctx, changes, dry_run=dry_run)


@app.command()
def log(
    ctx: typer.Context,
    path: Annotated[str, typer.Argument()] = "",
    *,
    source: str | None = None,
    since: Annotated[str | None, since_option("changes")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1)] = None,
) -> None:
    """List changes to memory, newest first. A file is followed through renames.

    \b
    familiar memory log
    familiar memory log people/alice.md --since 7d
    familiar memory log --source memory_writer

    Args:
        path ([PATH]): Only changes to this file or directory.
        source (NAME): Only changes from this source, e.g. human.
        limit (N): Maximum number of changes to show.
    """
    from familiar_cli.pages import memory_pages

    out = output(ctx)
    familiar = familiar_of(ctx)
    begin = moment_of(familiar, since)
    changes = familiar.past.log(path, source=source, since=begin, limit=limit)
    if not changes:
        out.note("No change matches. Try without --source or --since.")
    data = {"commits": [memory_pages.change_data(change) for change in changes]}
    out.answer(data, lambda: memory_pages.log_page(changes, familiar.zone) if changes else None)


@app.command()
def show(ctx: typer.Context, commit: str) -> None:
    """Show one change: its author, time, reason and diff.

    \b
    familiar memory show 1a2b3c
    familiar memory show HEAD

    Args:
        commit (COMMIT): Start of a commit id, `HEAD` or `HEAD~2`.
    """
    from familiar_cli.pages import memory_pages

    familiar = familiar_of(ctx)
    change, files = familiar.past.show(commit)
    data = {**memory_pages.change_data(change), "files": files}
    _print_diff(
        output(ctx),
        data,
        memory_pages.head_text(change, familiar.zone) + memory_pages.diff_text(files),
    )


@app.command()
def diff(ctx: typer.Context, words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Show the differences between two commits, or between one commit and now.

    Without a commit, show the newest change, or the newest to PATH.

    \b
    familiar memory diff
    familiar memory diff 1a2b3c people/alice.md
    familiar memory diff HEAD~5 HEAD~2

    Args:
        words ([A] [B] [PATH]): Commits to compare, and a file or directory to limit it to.
    """
    from familiar_cli.pages import memory_pages

    out = output(ctx)
    difference = familiar_of(ctx).past.diff(words or [])
    if not difference.files:
        out.note(f"Nothing differs in {memory_pages.range_text(difference)}.")
    data = {
        "from": memory_pages.commit_data(difference.old) if difference.old else None,
        "to": memory_pages.commit_data(difference.new),
        "files": difference.files,
    }
    _print_diff(out, data, memory_pages.diff_text(difference.files))


@app.command()
def blame(
    ctx: typer.Context, path: MemoryPath, *, words: Annotated[bool, typer.Option("--words")] = False
) -> None:
    """Show which change last wrote each line of a file, when, and by whom.

    \b
    familiar memory blame people/alice.md
    familiar memory blame people/alice.md --words

    Args:
        words: Below each line, print the turns it is based on.
    """
    from familiar_cli.pages import memory_pages
    from familiar_cli.store.memory.pages.lines import turn_ids

    with familiar_of(ctx) as familiar:
        lines = familiar.past.blame(path)
        numbering = familiar.numbering
        rests_on = {line.line: turn_ids(line.text, numbering) for line in lines}
        wanted = {n for ids in rests_on.values() for n in ids} if words else set()
        turns = {n: turn for n in wanted if (turn := familiar.history.turn(n))}
    data = {
        "lines": [
            {
                "line": line.line,
                "text": line.text,
                "commit": memory_pages.commit_data(line.commit),
                "turns": list(rests_on[line.line]),
            }
            for line in lines
        ]
    }
    said = {line: [turns[n] for n in ids if n in turns] for line, ids in rests_on.items()}
    output(ctx).answer(data, lambda: exact(memory_pages.blame_text(lines, familiar.zone, said)))


@app.command()
def undo(
    ctx: typer.Context,
    commit: Annotated[str | None, typer.Argument()] = None,
    *,
    run: str | None = None,
    yes: Annotated[bool, typer.Option("--yes")] = False,
    dry_run: DryRun = False,
) -> None:
    """Undo a change with a new change; later changes elsewhere are kept.

    Without COMMIT, undo the newest change in effect that the program made here, so running it again
    goes one step further back. To undo an undo, an edit made by hand, or what came from another
    machine, give its id. Undoing a merge shows what it would remove, and asks. Exits with 5 if
    later changes touch the same lines.

    \b
    familiar memory undo
    familiar memory undo 1a2b3c --dry-run
    familiar memory undo --run 20260131T235959-a1b2c3

    Args:
        commit ([COMMIT]): Commit to undo; default: the newest change in effect made by the program.
        run (ID): Undo all changes of one run.
        yes: Undo what other machines wrote without asking.
    """
    from familiar_cli.actions.memory.past import undo
    from familiar_cli.pages import memory_pages

    if commit and run:
        raise UsageError("COMMIT and --run cannot be combined", hint="Use only one.")
    out = output(ctx)
    familiar = familiar_of(ctx)
    if (commit or run) and not (yes or dry_run or out.as_json) and sys.stdin.isatty():
        from familiar_cli.cli.terminal.prompts import ask_yes

        would, _ = undo(familiar, commit, run=run, dry_run=True)
        if would.changes and would.is_from_elsewhere:
            _print_diff(out, None, memory_pages.undone_text(would, dry_run=True))
            yes = ask_yes("Remove this here and, with the next sync, everywhere?")
    undone, notices = undo(familiar, commit, run=run, dry_run=dry_run, merges=yes)
    data = {**memory_pages.undone_data(undone, dry_run=dry_run), "notices": list(notices)}
    _print_diff(out, data, memory_pages.undone_text(undone, dry_run=dry_run))
    if undone.changes:
        what = f"run {run}" if run else undone.commit.message
        out.note(f"{'Would undo' if dry_run else 'Undid'}: {what}")
    out.note(*notices)


@app.command()
def restore(
    ctx: typer.Context,
    path: MemoryPath,
    *,
    at: Annotated[str, typer.Option()],
    dry_run: DryRun = False,
) -> None:
    """Restore a file, even a deleted one, as it was at a commit.

    \b
    familiar memory restore people/alice.md --at 1a2b3c

    Args:
        at (COMMIT): Commit whose version to restore.
    """
    from familiar_cli.pages import memory_pages

    result = familiar_of(ctx).past.restore(path, at, dry_run=dry_run)
    data = memory_pages.undone_data(result, dry_run=dry_run)
    _print_diff(output(ctx), data, memory_pages.undone_text(result, dry_run=dry_run))


@app.command()
def compact(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Pack the journal to save disk space. No history is lost.

    \b
    familiar memory compact
    """
    from familiar_cli.pages.memory_pages import compacted_text

    done = familiar_of(ctx).past.compact(dry_run=dry_run)
    output(ctx).answer({**asdict(done), "dry_run": dry_run}, compacted_text(done))


def _print_diff(out: Output, data: object, text: str) -> None:
    from familiar_cli.pages.memory_pages import diff_page

    def render() -> None:
        if not sys.stdout.isatty():
            return exact(text)
        from familiar_cli.pages.page import print_page

        return print_page(diff_page(text))

    out.answer(data, render)


def answer_applied(ctx: typer.Context, done: WriteResult, *, dry_run: bool, **more: object) -> None:
    """Print what a change of memory files did, or would do; `more` goes into `--json`."""
    from familiar_cli.pages.memory_pages import applied_text

    out = output(ctx)
    out.answer({**asdict(done), **more, "dry_run": dry_run}, applied_text(done, dry_run=dry_run))
    if dry_run:
        out.note("Nothing was changed (--dry-run).")


def _set(ctx: typer.Context, paths: list[str], *, pinned: bool, dry_run: bool) -> None:
    from familiar_cli.actions.memory.pins import set_pins

    changes = set_pins(familiar_of(ctx), paths, pinned=pinned, dry_run=dry_run)
    answer_applied(ctx, changes, dry_run=dry_run)


@contextmanager
def _note_audience(ctx: typer.Context, path: str) -> Iterator[None]:
    """Say so if others may see a page that is new, or has lost its marks of privacy."""
    from familiar_cli.store.memory.pages.visible_lines import may_hide

    memory = familiar_of(ctx).memory
    before = memory.readable(path)
    yield
    familiar = familiar_of(ctx)
    if before and (not may_hide(before, path) or may_hide(familiar.memory.readable(path), path)):
        return
    from familiar_cli.actions.memory.audience import has_others, is_heard

    if (before or has_others(familiar)) and is_heard(familiar, path):
        output(ctx).note(
            f"Everybody may see it; `familiar memory unpublish {typed(path)}` keeps it to you."
        )


def _change(
    ctx: typer.Context, message: str, stage: Callable[[Transaction], None], dry_run: bool
) -> None:
    with familiar_of(ctx).memory.transaction("human", message, dry_run=dry_run) as tx:
        stage(tx)
    answer_applied(ctx, tx.result, dry_run=dry_run)


def _data(walk: FileListing) -> dict[str, object]:
    fields = ("rel_path", "is_dir", "size_bytes", "modified")
    files = [{name: getattr(entry, name) for name in fields} for entry in walk.files]
    return {"files": files, "skipped": walk.skipped}


def _lines(out: Output, data: object, lines: list[str]) -> None:
    out.answer(data, lambda: exact("".join(f"{line}\n" for line in lines)))


def _tell_skipped(out: Output, skipped: tuple[Omission, ...]) -> None:
    if skipped:
        from familiar_cli.pages.memory_pages import skipped_text

        out.warn(skipped_text(skipped))
