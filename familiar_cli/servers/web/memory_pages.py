"""Pages of the memory: its files, each day of the past, and the journal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.memory.facts import ChangeSentence, change_sentences, page_title
from familiar_cli.base import errors
from familiar_cli.base.markdown import newline_of, split_front_matter
from familiar_cli.base.text import counted, unified
from familiar_cli.servers.web.asking import Data, PageRequest, PageView, Redirect, WebPage
from familiar_cli.servers.web.drawing import RENDERED_CHARS, render_inline, render_markdown
from familiar_cli.servers.web.fact_rows import evidence_of_lines, words_to_reader
from familiar_cli.store.memory.layout import SUFFIXES
from familiar_cli.store.memory.pages.lines import without_references
from familiar_cli.store.memory.pages.links import PageNames, move_with_links
from familiar_cli.store.memory.store.files import parse_path

if TYPE_CHECKING:
    from familiar_cli.servers.web.html.elements import Html
    from familiar_cli.store.journal.history import LoggedChange

_MOST_LISTED: Final = 100
_SHOWN_CHARS: Final = 400_000
_MOST_BLAMED: Final = 3_000
_MOST_CHANGES: Final = 30
_DIRECTORIES: Final = {
    "people": "People",
    "topics": "Topics",
    "sessions": "Conversations",
    "lore": "Lore",
    "self": "The character",
    "daily": "Days",
    "weekly": "Weeks",
    "monthly": "Months",
    "yearly": "Years",
    "significant": "Moments",
    "digest": "Digests",
    "conflicts": "Conflicts",
}
_REFRESH_S: Final = 0.25  # seconds for the first scan of all files
_NOT_IN_FORMS: Final = re.compile(r"\x00|\r(?!\n)|[\ud800-\udfff]")


def show_memory(request: PageRequest) -> PageView | Data:
    """Return a directory or a file."""
    rel_path = parse_path(request.path.get("path", ""))
    memory = request.familiar.memory
    if not rel_path or (memory.root / rel_path).is_dir():
        return _directory_page(request, rel_path)
    if "raw" in request.query:
        return Data(
            memory.read_bytes(rel_path), "application/octet-stream", rel_path.split("/")[-1]
        )
    return _file_page(request, rel_path)


def _directory_page(request: PageRequest, rel_path: str) -> PageView:
    after, memory = request.query.get("after", ""), request.familiar.memory
    entries, count = memory.list_page(rel_path, after=after, most=_MOST_LISTED)
    head = memory.head_reader()
    more = entries[-1].rel_path.rpartition("/")[2] if len(entries) == _MOST_LISTED else ""
    values = {
        "rel_path": rel_path,
        "directories": [
            (entry, _DIRECTORIES.get(entry.rel_path, entry.rel_path.split("/")[-1]))
            for entry in entries
            if entry.is_dir
        ],
        "files": [
            (entry, page_title(memory, entry.rel_path, head))
            for entry in entries
            if not entry.is_dir
        ],
        "title": _DIRECTORIES.get(rel_path, rel_path or "Memory"),
        "count": count,
    }
    return PageView("directory", {**values, "more": more, "crumbs": path_crumbs(rel_path)})


def _file_page(request: PageRequest, rel_path: str) -> PageView:
    view = request.query.get("view") or "text"
    if view not in _SHOW:
        raise errors.UsageError(f"There is no view {view[:40]!r} of a file")
    values: dict[str, Any] = {
        "rel_path": rel_path,
        "title": page_title(request.familiar.memory, rel_path),
        "view": view,
        "crumbs": path_crumbs(rel_path),
        "is_there": True,
        "problem": "",
        "text": "",
        "sha256": "",
    }
    if not request.familiar.memory.exists(rel_path):
        values |= _absent_page(request, rel_path)
        return PageView("file", {**values, **_history_view(request, rel_path, "")})
    try:
        file = request.familiar.memory.read(rel_path)
    except errors.BadInputError as error:
        return PageView("file", {**values, "view": "text", "problem": str(error), "parts": None})
    values |= {"text": file.text, "sha256": file.sha256}
    return PageView("file", {**values, **_SHOW[view](request, rel_path, file.text)})


def _absent_page(request: PageRequest, rel_path: str) -> dict[str, Any]:
    """Return the values of the page for a file that is no longer in memory.

    Raises:
        NotFoundError: The journal has nothing about it.
    """
    if not recent_changes(request, 1, rel_path):
        raise errors.NotFoundError(f"No memory file at {rel_path!r}")
    problem = "This page is no longer in memory. Its past is kept, and can be brought back."
    return {"view": "history", "is_there": False, "problem": problem}


def _text_view(request: PageRequest, rel_path: str, text: str) -> dict[str, Any]:
    if not rel_path.lower().endswith(SUFFIXES):
        return {"parts": {"front": "", "html": None, "rest": text[:_SHOWN_CHARS]}}
    front, body = split_front_matter(text)
    cut = body.rfind("\n", 0, RENDERED_CHARS) + 1 if len(body) > RENDERED_CHARS else len(body)
    html = render_markdown(
        body[: cut or RENDERED_CHARS],
        rel_path,
        request.base,
        request.familiar.numbering,
        request.viewer,
    )
    rest = body[cut or RENDERED_CHARS :][:_SHOWN_CHARS]
    return {"parts": {"front": front or "", "html": html, "rest": rest}}


def _source_view(request: PageRequest, rel_path: str, text: str) -> dict[str, Any]:
    del request, rel_path
    return {"parts": {"front": "", "html": None, "rest": text[:_SHOWN_CHARS]}}


def _blame_view(request: PageRequest, rel_path: str, _: str) -> dict[str, Any]:
    start = request.number("from") or 0
    try:
        every = request.familiar.past.blame(rel_path)
    except errors.FamiliarError as error:
        return {"groups": [], "problem": str(error), "next_from": None}
    lines = every[start : start + _MOST_BLAMED]
    next_from = start + _MOST_BLAMED if len(every) > start + _MOST_BLAMED else None
    evidence = evidence_of_lines(request, [one.text for one in lines])
    rows = [
        (one, links, without_references(one.text))
        for one, links in zip(lines, evidence, strict=True)
    ]
    groups = [(key, list(run)) for key, run in groupby(rows, lambda row: row[0].commit)]
    return {"groups": groups, "next_from": next_from}


def _history_view(request: PageRequest, rel_path: str, _: str) -> dict[str, Any]:
    changes = recent_changes(request, _MOST_CHANGES, rel_path)
    return {"changes": told_changes(request, changes, _MOST_OF_FILE, below=rel_path)}


def _links_view(request: PageRequest, rel_path: str, _: str) -> dict[str, Any]:
    from familiar_cli.store.search.hits import links_of

    index = request.familiar.index
    if index.directory.is_dir():
        index.touch([rel_path])
    else:
        index.refresh(within_s=_REFRESH_S)
    out, broken, back = index.use(lambda db: links_of(db, rel_path, _MOST_LISTED))
    return {"out": out, "back": back, "broken": broken}


def _edit_view(request: PageRequest, rel_path: str, text: str) -> dict[str, Any]:
    request.familiar.past.log(rel_path, limit=1)  # the journal has the version that was edited
    fits = not _NOT_IN_FORMS.search(text) and not _mixes_ends(text)
    return {"fits": fits}


_SHOW: Final[dict[str, Callable[[PageRequest, str, str], dict[str, Any]]]] = {
    "text": _text_view,
    "source": _source_view,
    "blame": _blame_view,
    "history": _history_view,
    "links": _links_view,
    "edit": _edit_view,
}


def save_file(request: PageRequest) -> PageView | Redirect:
    """Write a file, merged with changes since the person read it."""
    from familiar_cli.store.memory.merge.content import stage_merged
    from familiar_cli.store.memory.store.transactions import check_is_text

    rel_path = parse_path(request.path["path"])
    known = request.sent("sha256")
    content = _as_in_file(request, rel_path, request.sent("text"))
    check_is_text(rel_path, content)
    base = request.familiar.past.version(rel_path, known) if known else None

    memory = request.familiar.memory
    try:
        with memory.transaction("human", f"write {rel_path}") as tx:
            if base is None:
                tx.write(rel_path, content, expect=known or "missing")
            else:
                stage_merged(tx, memory, rel_path, base, content)
    except errors.ConflictError as error:
        return _conflict_page(request, rel_path, content, error)
    return Redirect(
        request.to("memory", rel_path), (f"Wrote {rel_path}. The journal can undo it.",)
    )


def _conflict_page(
    request: PageRequest, rel_path: str, content: str, error: errors.ConflictError
) -> PageView:
    """Return both versions, and a form based on the current one."""
    memory = request.familiar.memory
    there = memory.read(rel_path) if memory.exists(rel_path) else None
    text = there.text if there else ""
    values = {
        "rel_path": rel_path,
        "crumbs": path_crumbs(rel_path),
        "message": str(error),
        "theirs": text,
        "mine": content,
        "sha256": there.sha256 if there else "",
        "diff_text": unified(text, content, "in memory now", "yours"),
    }
    return PageView("conflict", values, 409)


def delete_file(asked: PageRequest) -> Redirect:
    """Delete a file if unchanged since the person read it."""
    rel_path = parse_path(asked.path["path"])
    with asked.familiar.memory.transaction("human", f"rm {rel_path}") as tx:
        tx.delete(rel_path, expect=asked.sent("sha256") or None)
    return Redirect(asked.to("journal"), (f"Deleted {rel_path}. The newest change can be undone.",))


def move_file(asked: PageRequest) -> Redirect:
    """Move a file, and update the links to it and in it."""
    old, new = asked.path["path"], asked.sent("to").strip()
    moved = move_with_links(asked.familiar.memory, old, new, dry_run=False)
    text = f"Moved {old} to {new}."
    if moved.relinked:
        text += f" Updated the links in {counted(len(moved.relinked), 'file')}."
    return Redirect(asked.to("memory", new), (text,))


def restore_file(request: PageRequest) -> Redirect:
    """Restore a file to its content at a commit."""
    rel_path, at = request.path["path"], request.sent("at")
    result = request.familiar.past.restore(rel_path, at)
    text = (
        f"Restored {rel_path} as of {at[:10]}."
        if result.changes
        else "Nothing to restore: it is unchanged since then."
    )
    return Redirect(request.to("memory", rel_path), (text,))


def make_file(request: PageRequest) -> Redirect:
    """Redirect to the form for a new file."""
    rel_path = parse_path(request.sent("path").strip())
    if not rel_path:
        raise errors.UsageError("A file needs a name, e.g. topics/tea.md")
    name = rel_path if "." in rel_path.split("/")[-1] else f"{rel_path}.md"
    if not request.familiar.memory.exists(name):
        title = name.split("/")[-1].rpartition(".")[0].replace("-", " ").capitalize()
        request.familiar.memory.write_file(name, f"# {title}\n", expect="missing")
    return Redirect(request.to("memory", name, view="edit"))


def find_file(request: PageRequest) -> Redirect:
    """Redirect to the file that a wiki link names."""
    name, source = request.query.get("name", ""), request.query.get("from", "")
    walk = request.familiar.memory.walk()
    there = PageNames({entry.rel_path for entry in walk.files}, {}).find_path(name, source)
    return Redirect(request.to("memory", there) if there else request.to("search", q=name))


def path_crumbs(rel_path: str) -> list[tuple[str, str]]:
    """Return the parent directories of a path with their names, and the path itself."""
    parts = rel_path.split("/") if rel_path else []
    paths = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    return [(_DIRECTORIES.get(path, path.split("/")[-1]), path) for path in paths]


def _as_in_file(request: PageRequest, rel_path: str, text: str) -> str:
    """Return a form's text with the line endings of the file; browsers send CRLF."""
    memory, end = request.familiar.memory, "\n"
    if memory.exists(rel_path):
        end = newline_of(memory.read_file(rel_path))
    return text.replace("\r\n", "\n").replace("\n", end)


def _mixes_ends(text: str) -> bool:
    both = text.count("\r\n")
    return both not in (0, text.count("\n"))


_MOST_CHANGED: Final = 200
_MOST_SENTENCES: Final = 4  # of one change in a list
_DIGESTS: Final = "consolidation"
_MOST_OF_FILE: Final = 40  # sentences of one change of one file
_MOST_TOLD: Final = 12  # files of a change that are read for its sentences
_A_PAGE: Final = 50


def show_journal(request: PageRequest) -> PageView:
    """Return a page of changes."""
    source, path = request.query.get("source", ""), request.query.get("path", "")
    start = request.number("from") or 0
    changes = recent_changes(request, start + _A_PAGE + 1, path, source)[start:]
    told = iter(told_changes(request, changes[:_A_PAGE]))
    runs = [list(islice(told, len(run))) for run in change_runs(changes[:_A_PAGE])]
    older = start + _A_PAGE if len(changes) > _A_PAGE else None
    values = {"runs": runs, "source": source, "path": path, "start": start, "older": older}
    return PageView("journal", values)


def change_runs(changes: Iterable[LoggedChange]) -> list[list[LoggedChange]]:
    """Group neighbouring changes that are displayed as one."""
    return [list(run) for _, run in groupby(changes, key=_run_key)]


def _run_key(change: LoggedChange) -> str:
    """Return the grouping key of a change: digests and periods are grouped."""
    return _DIGESTS if change.commit.source == _DIGESTS else change.commit.id


def recent_changes(
    request: PageRequest, most: int, path: str = "", source: str = ""
) -> list[LoggedChange]:
    """Return the newest changes of memory; empty without a journal."""
    with suppress(errors.NotFoundError):
        return list(request.familiar.past.log(path, source=source or None, limit=most))
    return []


def told_changes(
    request: PageRequest,
    changes: Iterable[LoggedChange],
    most: int = _MOST_SENTENCES,
    below: str = "",
) -> list[dict[str, Any]]:
    """Describe changes in sentences, with links to their evidence.

    Args:
        request: The request.
        most: Maximum number of sentences per change.
        below: Only files at or below this path or its former name.
    """
    title = cache(partial(page_title, request.familiar.memory))
    told: list[dict[str, Any]] = []
    for change in changes:
        path = (change.rel_path or below) if below else ""
        files = request.familiar.past.differences(change.commit, path, _MOST_TOLD)
        sentences = change_sentences(change.commit.source, files, title)
        left = len(sentences[most:]) + (0 if below else len(change.touched[_MOST_TOLD:]))
        told.append({"change": change, "sentences": sentences[:most], "more": left, "files": files})
    shown = iter(cited_sentences(request, [one for row in told for one in row["sentences"]]))
    for row in told:
        row["sentences"] = [next(shown) for _ in row["sentences"]]
    return told


def cited_sentences(
    request: PageRequest, sentences: Sequence[ChangeSentence]
) -> list[tuple[ChangeSentence, Html, Html]]:
    """Return sentences as HTML, said to the owner, with links to their evidence."""
    evidence = evidence_of_lines(request, [one.line for one in sentences])
    say = words_to_reader(request)
    return [
        (one, render_inline(say(one.words), one.rel_path, request.base), links)
        for one, links in zip(sentences, evidence, strict=True)
    ]


def show_change(request: PageRequest) -> PageView:
    """Return one change."""
    change, files = request.familiar.past.show(request.path["commit"])
    memory = request.familiar.memory
    elsewhere = request.familiar.past.came_from_elsewhere(change.commit)
    (told,) = told_changes(request, [change], _MOST_CHANGED)
    return PageView(
        "change",
        {
            "change": change,
            "files": [
                (file, page_title(memory, file.rel_path), memory.exists(file.rel_path))
                for file in files
            ],
            "told": told,
            "is_from_elsewhere": elsewhere,
        },
    )


def undo_change(request: PageRequest) -> Redirect:
    """Take a change back by a new one."""
    from familiar_cli.actions.memory.past import undo as take_back

    undone, notices = take_back(
        request.familiar, request.path["commit"], merges=bool(request.sent("yes"))
    )
    what = undone.commit.message
    text = f"Undone: {what}" if undone.changes else f"No longer in effect: {what}"
    return Redirect(request.to("journal"), (text, *notices))


PAGES: Final = (
    WebPage("/memory", show_memory),
    WebPage("/memory/", show_memory),
    WebPage("/memory/{path:path}", show_memory),
    WebPage("/find", find_file),
    WebPage("/new", make_file, "POST"),
    WebPage("/save/{path:path}", save_file, "POST"),
    WebPage("/delete/{path:path}", delete_file, "POST"),
    WebPage("/move/{path:path}", move_file, "POST"),
    WebPage("/restore/{path:path}", restore_file, "POST"),
    WebPage("/journal", show_journal),
    WebPage("/journal/{commit}", show_change),
    WebPage("/journal/{commit}/undo", undo_change, "POST"),
)
