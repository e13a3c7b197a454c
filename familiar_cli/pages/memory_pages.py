"""Pages of memory: files and their changes, people and their graph, housekeeping and the desk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from familiar_cli.base.text import bare_lines, counted, harmless, one_line, shorten_list, size_words
from familiar_cli.pages.emit import Output, exact
from familiar_cli.pages.page import (
    Columns,
    IndentedPart,
    Name,
    PagePart,
    Stack,
    Words,
    local_time,
    named_values,
    plain,
)
from familiar_cli.store.journal.history import SHORT, FileDiff, LoggedChange
from familiar_cli.store.memory.layout import PENDING_DIR

if TYPE_CHECKING:
    from rich.console import RenderableType

    from familiar_cli.actions.memory.desk import Desk, ItemChange, ListedItem
    from familiar_cli.actions.memory.graph import Around
    from familiar_cli.actions.memory.housekeep import FindingWithPlan, HousekeepingResult
    from familiar_cli.actions.memory.pins import PinnedFiles
    from familiar_cli.actions.memory.search import IndexBuildResult, TurnsStatus
    from familiar_cli.actions.people.forget import ExportReport, ForgetReport, WordLoss
    from familiar_cli.actions.people.people import KnownPerson
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.journal.exchange import CompactionResult
    from familiar_cli.store.journal.past import BlamedLine, Difference, UndoResult
    from familiar_cli.store.journal.repository import Commit
    from familiar_cli.store.memory.aliases import SharedName
    from familiar_cli.store.memory.desk import ListChange
    from familiar_cli.store.memory.pages.relations import Link, LinkStep
    from familiar_cli.store.memory.relation_index import Edge, GraphPage
    from familiar_cli.store.memory.store.files import GrepHit, MemoryEntry, Omission, WriteResult
    from familiar_cli.store.search.build import IndexStatus
    from familiar_cli.store.search.embedder import EmbedderChoice

_MOST_NAMED = 5


def tree_page(files: Iterable[MemoryEntry], zone: tzinfo | None) -> PagePart:
    """Render files as a tree, with sizes and times of the last change."""
    rows: list[list[object]] = []
    above: list[str] = []
    for entry in files:
        *directories, name = entry.rel_path.split("/")
        for depth, directory in enumerate(directories):
            if directories[: depth + 1] != above[: depth + 1]:
                rows.append([plain("  " * depth + directory + "/", "bold"), "", ""])
        above = directories
        time = local_time(entry.modified, zone)
        size = plain(size_words(entry.size_bytes), "dim")
        rows.append(["  " * len(directories) + name, size, plain(time, "dim")])
    return Columns(rows, right=(1,))


def pins_page(found: PinnedFiles) -> PagePart:
    """Render the pinned files with their token counts and the budget for them."""
    rows = [
        [
            plain(pin.rel_path, "bold"),
            f"{pin.tokens:,} tokens",
            plain(pin.note, "yellow" if pin.note else "dim"),
        ]
        for pin in found.pins
    ]
    total = f"{found.tokens:,} tokens of the {found.budget_tokens:,} guaranteed to pins"
    return Stack(Columns(rows, right=(1,)), plain(total, "dim"))


def hits_page(hits: Iterable[GrepHit]) -> PagePart:
    """Render hits by file, with matches highlighted."""
    rows: list[list[object]] = []
    above = ""
    for hit in hits:
        if hit.rel_path != above:
            above = hit.rel_path
            rows.append([plain(hit.rel_path, "bold"), ""])
        line = plain(hit.text[: hit.start])
        line.append(hit.text[hit.start : hit.end], "bold yellow")
        line.append(hit.text[hit.end :])
        rows.append([plain(f"{hit.line:>6}", "dim"), line])
    return Columns(rows)


def applied_text(changes: WriteResult, *, dry_run: bool) -> str:
    """Describe a change, one line for each file."""
    wrote, deleted = ("would write", "would delete") if dry_run else ("wrote", "deleted")
    groups = (
        (wrote, changes.written),
        ("unchanged", changes.unchanged),
        (deleted, changes.deleted),
    )
    return "".join(f"{what} {path}\n" for what, paths in groups for path in paths)


def skipped_text(skipped: tuple[Omission, ...]) -> str:
    """Summarise what was skipped and why."""
    lines = [f"skipped {s.rel_path!r}: it {s.reason}" for s in skipped[:_MOST_NAMED]]
    more = len(skipped) - _MOST_NAMED
    return "\n".join([*lines, *([f"and {more:,} more; --json names all"] if more > 0 else [])])


def links_page(steps: Iterable[LinkStep]) -> PagePart:
    """List the files reached, each with the link that led there."""
    rows = [
        [
            plain(step.distance, "dim"),
            step.rel_path,
            plain(f"{step.link.source} {_link_verb(step.link)} {step.link.target}", "dim"),
        ]
        for step in steps
    ]
    return Columns(rows)


def _link_verb(link: Link) -> str:
    if link.relation:
        return f"is {link.relation}"
    return "links to" if link.kind == "link" else "names"


def files_page(rel_paths: Sequence[str]) -> PagePart:
    """List the files written to the memory directory."""
    return Stack(*(plain(f"   memory/{rel_path}", "green") for rel_path in rel_paths))


_SAID_CHARS = 160
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def commit_data(commit: Commit) -> dict[str, Any]:
    """Build the JSON of a commit."""
    return {
        "id": commit.id,
        "time": commit.time,
        "source": commit.source,
        "message": commit.message,
        "run_id": commit.run_id,
    }


def change_data(change: LoggedChange) -> dict[str, Any]:
    """Build the JSON of a commit and its changes."""
    return {
        **commit_data(change.commit),
        "paths": [touched.rel_path for touched in change.touched],
        "touched": change.touched,
        "run": change.commit.run,
        "lengths": change.commit.lengths,
    }


def log_page(changes: Iterable[LoggedChange], zone: tzinfo | None) -> PagePart:
    """Render changes as a table: id, time, source, message."""
    return Columns(
        [
            plain(change.commit.id[:SHORT], "yellow"),
            plain(local_time(change.commit.time, zone), "dim"),
            plain(change.commit.source, "bold"),
            change.commit.message,
        ]
        for change in changes
    )


def head_text(change: LoggedChange, zone: tzinfo | None) -> str:
    """Render the heading of a change."""
    commit = change.commit
    lines = [
        f"commit  {commit.id}",
        f"source  {commit.source}",
        f"time    {local_time(commit.time, zone, seconds=True)}",
        *([f"run     {commit.run_id}"] if commit.run_id else []),
        *(f"undoes  {id_[:SHORT]}" for id_ in commit.undoes),
        "",
        f"    {commit.message}",
        "",
    ]
    return "".join(f"{line}\n" for line in lines)


def range_text(difference: Difference) -> str:
    """Name the two states that are compared."""
    old = difference.old
    return f"{old.id[:SHORT] if old else 'nothing'}..{difference.new.id[:SHORT]}"


def diff_text(files: Iterable[FileDiff]) -> str:
    """Render differences as a unified diff."""
    return "".join(file.diff for file in files)


def diff_page(text: str) -> PagePart:
    """Render differences with colours."""
    return Stack(*(plain(line, _STYLES.get(line[:1], "")) for line in bare_lines(text)))


def blame_text(
    lines: Sequence[BlamedLine],
    zone: tzinfo | None,
    turns: Mapping[int, Sequence[Turn]] | None = None,
) -> str:
    """Render each line with the commit, time and source that wrote it.

    Args:
        lines: The lines of a file.
        zone: The timezone of the times shown.
        turns: Turns to show below a line, by its number.
    """
    width = max((len(line.commit.source) for line in lines), default=0)
    return "".join(
        f"{line.commit.id[:SHORT]}  {local_time(line.commit.time, zone)}"
        f"  {line.commit.source:<{width}}  {line.line:>{len(str(len(lines)))}}  {line.text}\n"
        + "".join(map(_turn_words, (turns or {}).get(line.line, ())))
        for line in lines
    )


def _turn_words(turn: Turn) -> str:
    who = turn.author.label if turn.author else turn.role
    return f"    {one_line(f'[{turn.id}] {who}: {turn.content}', _SAID_CHARS)}\n"


def undone_text(undone: UndoResult, *, dry_run: bool) -> str:
    """Describe an undo, one line for each file, followed by its diff in a dry run."""
    if not undone.changes:
        return f"nothing to do: {undone.commit.id[:SHORT]} is no longer in effect\n"
    diff = diff_text(undone.files) if dry_run else ""
    return applied_text(undone.result, dry_run=dry_run) + diff


def undone_data(undone: UndoResult, *, dry_run: bool) -> dict[str, Any]:
    """Build the JSON of an undo."""
    return {
        "commit": commit_data(undone.commit),
        "commits": [commit_data(commit) for commit in undone.commits],
        "files": undone.files,
        **asdict(undone.result),
        "dry_run": dry_run,
    }


def compacted_text(done: CompactionResult) -> str:
    """Describe the outcome of packing."""
    if not done.objects:
        return "the journal is already packed\n"
    if done.bytes_after is None:
        return f"would pack {done.objects:,} objects, {size_words(done.bytes_before)} on disk\n"
    sizes = f"{size_words(done.bytes_before)} -> {size_words(done.bytes_after)}"
    return f"packed {done.objects:,} objects, {sizes} on disk\n"


_HEADER = ("person", "name", "names", "turns", "last seen", "file")


def people_page(people: Iterable[KnownPerson], zone: tzinfo | None) -> PagePart:
    """Render people as a table, most recent speaker first."""
    return Columns((_person_row(person, zone) for person in people), _HEADER, right=(2, 3, 5))


def forgotten_text(report: ForgetReport) -> str:
    """Describe what forgetting somebody removed, or would remove."""
    done = "Would forget" if report.dry_run else "Forgot"
    turns, replies = counted(report.turns, "turn"), counted(report.replies, "reply", "replies")
    records = counted(report.records, "record")
    what = "of what was sent, or copies"
    if report.records_of_others:
        what += f" ({report.records_of_others:,} of replies to others, with a word of theirs in it)"
    lines = [f"{done} {turns}, {replies} of the familiar and {records} {what}."]
    lines += [f"deleted  {harmless(path)}" for path in report.files]
    lines += [f"renamed  {harmless(old)} to {harmless(new)}" for old, new in report.renamed.items()]
    lines += [
        f"renamed  channel {harmless(old)} to {harmless(new)}"
        for old, new in report.channels.items()
    ]
    lines += [
        f"changed  {harmless(path)} ({f'{count:,} bytes less' if count else 'its name'})"
        for path, count in report.changed.items()
    ]
    if any(path.startswith(f"{PENDING_DIR}/") for path in report.changed):
        lines.append("A plan that awaits review keeps its pieces about others.")
    if report.to_others:
        many = counted(len(report.to_others), "reply", "replies")
        lose = "loses" if len(report.to_others) == 1 else "lose"
        lines.append(f"{many} to others {lose} a name or a quotation, and nothing else:")
        lines += [f"  turn {one.turn}: {_loss_text(one)}" for one in report.to_others]
    if report.quoting:
        numbers = ", ".join(map(str, report.quoting))
        lines.append(f"Other turns that may name or quote them, and are not changed: {numbers}")
        lines.append("Add --turn N for each of them whose words should be removed, too.")
    if report.remaining:
        lines.append("Lines that keep a word like their name:")
        lines += [f"  {harmless(place)}" for place in report.remaining]
        lines.append("Add --line PATH:N for each of them that should go, too.")
    return "\n".join([*lines, *_shared_lines(report.shared)]) + "\n"


def exported_text(report: ExportReport, directory: str) -> str:
    """Describe what was exported of somebody, and what may be about them, too."""
    lines = [f"{counted(report.turns, 'turn')} and what rests on them: {harmless(directory)}"]
    if report.remaining:
        lines.append("Lines with a word like their name that were left out, as not certain:")
        lines += [f"  {harmless(place)}" for place in report.remaining]
        lines.append("Add --line PATH:N for each of them that is about this person.")
        lines += _shared_lines(report.shared)
    return "\n".join(lines) + "\n"


def _shared_lines(shared: Sequence[str]) -> list[str]:
    names = ", ".join(map(harmless, shared))
    told = f"Others have these names, too, so only you can tell who is meant: {names}"
    return [told] if shared else []


def _loss_text(loss: WordLoss) -> str:
    words = ", ".join(f'"{harmless(one_line(text))}"' for text in loss.words)
    return f"{words or counted(loss.chars, 'character')} ({loss.why})"


def shared_line(names: SharedName) -> str:
    """Say that several people share a name."""
    return f"{names.name!r} is shared by {', '.join(names.slugs)}"


def _person_row(person: KnownPerson, zone: tzinfo | None) -> list[object]:
    size = "none" if person.size_bytes is None else size_words(person.size_bytes)
    return [
        Name(person.slug, "bold"),
        person.name,
        person.aliases,
        person.turns,
        plain(local_time(person.last_seen, zone) or "never", "dim"),
        plain(f"{size} (cannot be read)" if person.problem else size, "dim"),
    ]


_MOST_OF_A_CHECK: Final = 20
_MOST_QUOTES: Final = 4
_CHARS: Final = 160
_VERDICTS: Final = {"real": "the model agrees", "not": "the model disagrees", "unsure": "unsure"}


def housekeeping_page(tidying: HousekeepingResult) -> PagePart:
    """Render the findings by check, with the affected lines."""
    return Stack(*_finding_parts(tidying))


def summary_line(tidying: HousekeepingResult) -> str:
    """Summarise in one line how much was checked and found."""
    looked = f"{counted(len(tidying.checks), 'check')} of {counted(tidying.files, 'file')}"
    if not tidying.found:
        return f"Nothing to tidy up: {looked} found nothing."
    mendable = sum(
        bool(one.finding.repair) and not one.plan_id and not one.rejected for one in tidying.found
    )
    more = f" `--propose` makes plans for {mendable} of them." if mendable else ""
    new = ""
    if proposed := len(tidying.proposed):
        awaits = "awaits" if proposed == 1 else "await"
        new = f" {counted(proposed, 'new plan')} {awaits} review: `familiar review list`."
    return (
        f"{looked}: {counted(len(tidying.found), 'finding')}.{new or ' Nothing was changed.'}{more}"
    )


def _finding_parts(tidying: HousekeepingResult) -> Iterator[PagePart]:
    from familiar_cli.writing.housekeeping.run import TITLES

    for number, (check, group) in enumerate(groupby(tidying.found, lambda one: one.finding.check)):
        items = list(group)
        if number:
            yield plain("")
        yield plain(f"{TITLES[check]} ({len(items)})", "bold")
        for one in items[:_MOST_OF_A_CHECK]:
            yield from _finding_lines(one)
        if len(items) > _MOST_OF_A_CHECK:
            left = len(items) - _MOST_OF_A_CHECK
            yield plain(f"  … {left} more: `familiar housekeep {check} --json`", "dim")


def _finding_lines(one: FindingWithPlan) -> Iterator[PagePart]:
    finding = one.finding
    where = shorten_list((one_line(path, _CHARS) for path in finding.paths), _MOST_QUOTES)
    yield Words([(f"  {where}: ", "cyan"), (one_line(finding.message, _CHARS), "")])
    for quote in finding.evidence[:_MOST_QUOTES]:
        place = f"{one_line(quote.rel_path, _CHARS)}:{quote.line}"
        yield Words([(f"    {place}: ", "dim"), (one_line(quote.text, _CHARS), "")])
    if len(finding.evidence) > _MOST_QUOTES:
        yield plain(f"    … {len(finding.evidence) - _MOST_QUOTES} more lines", "dim")
    if one.judgement:
        told = f"{_VERDICTS[one.judgement.verdict]}: {one.judgement.reason}"
        yield plain(f"    {one_line(told, _CHARS)}", "magenta")
    if one.plan_id:
        yield plain(f"    plan: familiar review show {one.plan_id}", "green")
    elif one.rejected:
        yield plain("    you rejected its plan; --propose --redo makes it again", "dim")
    elif finding.hint:
        yield plain(f"    {one_line(finding.hint, 240)}", "dim")


_ADD = {
    "reminders.md": 'No open reminders: `familiar remind add TEXT --at "tomorrow 9:00"`.',
    "tasks.md": "No open tasks: `familiar task add TEXT`.",
}
_BOXES = {"open": " ", "done": "x", "dropped": "-"}


def show_items(out: Output, desk: Desk, *, every: bool) -> None:
    """Print a list; only open items, unless `every`."""
    items = _shown_items(desk, every=every)
    rows = _item_rows(items)
    page = Columns(rows, ("no.", "", "when", "what"), right=(0,)) if rows else None
    out.answer(_desk_data(desk, items), page)
    if not items:
        out.note(_ADD[desk.rel_path])


def show_todo(out: Output, reminders: Desk, tasks: Desk, notes: str, *, every: bool) -> None:
    """Print both lists with their ids, and the notes; only open items, unless `every`."""
    lists = {"reminders": reminders, "tasks": tasks}
    shown = {name: _shown_items(desk, every=every) for name, desk in lists.items()}
    data = {name: _desk_data(desk, shown[name]) for name, desk in lists.items()}
    rows = [row for name, items in shown.items() for row in _item_rows(items, name[0])]
    parts: list[PagePart] = [Columns(rows, ("id", "", "when", "what"))] if rows else []
    if notes.strip():
        gap = [plain("")] if rows else []
        parts += [*gap, plain("Notes", "bold"), IndentedPart(plain(notes.strip()), 2)]
    out.answer({**data, "notes": notes}, parts or None)
    if not parts:
        out.note('Nothing to do: `familiar todo add TEXT`, with `--at "every monday 9:00"`, …')


def _shown_items(desk: Desk, *, every: bool) -> list[ListedItem]:
    return [item for item in desk.items if every or item.mark == "open"]


def _desk_data(desk: Desk, shown: list[ListedItem]) -> dict[str, object]:
    return {
        "rel_path": desk.rel_path,
        "items": shown,
        "open": sum(item.mark == "open" for item in desk.items),
        "due": sum(item.is_due for item in desk.items),
    }


def show_change(out: Output, change: ItemChange, *, is_new: bool = False) -> None:
    """Print the diff of the file, and the item."""
    out.answer(change, lambda: exact(change.diff))
    item, item_id = change.item, f"{change.rel_path[:1]}{change.item.number}"
    if not change.changed:
        out.note(f"{item_id} is already {item.mark}; nothing was changed.")
        return
    when = f", {_due_words(item)}" if item.mark == "open" and item.due else ""
    deed = ("Would add" if change.dry_run else "Added") + f" {item_id}"
    out.note(f"{deed if is_new else f'{item_id} is {item.mark}'}{when}.")
    if change.dry_run:
        out.note("Nothing was changed (--dry-run).")


def show_scratch_change(out: Output, change: ListChange) -> None:
    """Print the diff of the scratchpad."""
    data = {"rel_path": change.rel_path, "text": change.after, "before": change.before}
    more = {"changed": change.changed, "diff": change.diff, "dry_run": change.dry_run}
    out.answer(data | more, lambda: exact(change.diff))
    if not change.changed:
        what = "unchanged" if change.before else "empty"
        out.note(f"The scratchpad is {what}; nothing was changed.")
    elif change.dry_run:
        out.note("Nothing was changed (--dry-run).")


def _item_rows(items: list[ListedItem], letter: str = "") -> list[list[object]]:
    return [
        [
            f"{letter}{item.number}",
            f"[{_BOXES[item.mark]}]",
            plain(_due_words(item), "bold" if item.is_due else "dim"),
            item.text,
        ]
        for item in items
    ]


def _due_words(item: ListedItem) -> str:
    if item.due is None:
        return "due" if item.is_due else ""
    if item.at is None:
        return f"{item.due}: not a valid time"
    when = f"due since {item.due}" if item.is_due else item.due
    return f"{when}, {item.every}" if item.every and item.every != item.due else when


def built_text(built: IndexBuildResult) -> str:
    """Describe a build of the index in a few lines."""
    done, vectors = built.refreshed, built.embedded
    lines = [f"rebuilt: {done.rebuilt}"] if done.rebuilt else []
    lines.append(
        f"files: {len(done.changed)} read, {len(done.removed)} removed, {done.unchanged} unchanged"
    )
    if vectors.replaced_model:
        lines.append(f"vectors from {vectors.replaced_model} were discarded")
    if vectors.busy:
        lines.append("vectors: another process is making them")
    else:
        lines.append(f"vectors: {vectors.done} made, {vectors.waiting} waiting")
    if built.turns.busy:
        lines.append("vectors of turns: another process is making them")
    elif built.turns.done or built.turns_waiting:
        lines.append(f"vectors of turns: {built.turns.done} made, {built.turns_waiting} waiting")
    return harmless("\n".join(lines))


def status_page(status: IndexStatus, turns: TurnsStatus, opened: EmbedderChoice) -> PagePart:
    """Render the state of the index."""
    return named_values(_index_facts(status, turns, opened))


def _index_facts(
    status: IndexStatus, turns: TurnsStatus, opened: EmbedderChoice
) -> Iterator[tuple[str, str]]:
    if not status.exists:
        yield "index", "none yet: `familiar index build`, or search for something"
    else:
        stale = f", {status.stale_files} changed since" if status.stale_files else ""
        yield "files", f"{status.files}{stale}"
        yield "pieces", f"{counted(status.passages, 'passage')}, {counted(status.lines, 'line')}"
        waiting = f", {status.waiting} waiting: `familiar index build`" if status.waiting else ""
        of_model = f" of {status.model}" if status.model else ""
        of_tokens = f", {status.token_vectors} of tokens" if status.vectors else ""
        yield "vectors", f"{status.vectors}{of_model}{of_tokens}{waiting}"
        yield "size", f"{status.size_bytes / 1e6:.1f} MB"
    if turns.turns:
        unread = f", {turns.unread} not read yet" if turns.unread else ""
        yield "turns", f"{turns.turns}{unread}"
        waiting = f", {turns.waiting} waiting: `familiar index build`" if turns.waiting else ""
        of_tokens = f", {turns.token_vectors} of tokens" if turns.vectors else ""
        size = f"{turns.size_bytes / 1e6:.1f} MB"
        yield "their vectors", f"{turns.vectors}{of_tokens}{waiting}, {size}"
    yield "model", opened.embedder.model if opened.embedder else _no_vectors(opened)
    for problem in status.problems:
        yield "left out", f"{problem.rel_path}: {problem.reason}"


def _no_vectors(opened: EmbedderChoice) -> str:
    return f"none: {opened.reason}" + (f": `{opened.hint}`" if opened.hint else "")


def graph_tree(graph: Around) -> RenderableType:
    """Render a page with its neighbourhood as a tree, each page once, nearest first."""
    from rich.tree import Tree

    assert graph.center
    titles = {node.path: node for node in graph.nodes}
    root = Tree(plain(f"{graph.center.title}  {graph.center.path}", "bold"))
    branches = {graph.center.path: root}
    told: set[Edge] = set()
    level = [graph.center.path]
    while level:
        below: list[str] = []
        for path in level:
            for edge in graph.edges:
                if edge in told or path not in {edge.source, edge.target}:
                    continue
                told.add(edge)
                other = edge.target if path == edge.source else edge.source
                is_new = other not in branches
                child = branches[path].add(plain(edge_text(edge, path, titles)))
                if is_new:
                    branches[other] = child
                    below.append(other)
        level = below
    return root


def overview_text(graph: Around) -> str:
    """List all relations, one per line."""
    titles = {node.path: node for node in graph.nodes}
    return "".join(
        f"{_title(edge.source, titles)}: {edge.relation} "
        f"{_title(edge.target, titles)}{edge_span(edge)}\n"
        for edge in graph.edges
    )


def edge_text(edge: Edge, path: str, titles: dict[str, GraphPage]) -> str:
    """Render an edge as seen from one end."""
    if path == edge.source:
        return f"{edge.relation} {_titled_path(edge.target, titles)}{edge_span(edge)}"
    from familiar_cli.store.memory.relation_index import LINKS

    if edge.relation == LINKS:
        return f"{_titled_path(edge.source, titles)} {LINKS} it"
    relation = f"is {edge.relation} {_title(path, titles)}{edge_span(edge)}"
    return f"{_titled_path(edge.source, titles)} {relation}"


def edge_span(edge: Edge) -> str:
    """Render the period of a relation in brackets; empty if unknown."""
    parts = [f"since {edge.since}"] if edge.since else []
    parts += [f"until {edge.until}"] if edge.until else []
    return f" ({', '.join(parts)})" if parts else ""


def dot_text(graph: Around) -> str:
    """Render the graph in Graphviz's language."""
    nodes = "".join(
        f"  {json.dumps(node.id)} [label={json.dumps(node.title, ensure_ascii=False)}];\n"
        for node in graph.nodes
    )
    edges = "".join(
        f"  {json.dumps(_node_id(edge.source))} -> {json.dumps(_node_id(edge.target))}"
        f" [label={json.dumps(edge.relation + edge_span(edge), ensure_ascii=False)}];\n"
        for edge in graph.edges
    )
    return f"digraph familiar {{\n{nodes}{edges}}}\n"


def _titled_path(path: str, titles: dict[str, GraphPage]) -> str:
    node = titles.get(path)
    missing = ", which does not exist" if node and node.kind == "missing" else ""
    return f"{_title(path, titles)}  {path}{missing}"


def _title(path: str, titles: dict[str, GraphPage]) -> str:
    return titles[path].title if path in titles else _node_id(path)


def _node_id(path: str) -> str:
    return path.removesuffix(".md")
