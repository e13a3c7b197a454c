"""Memory: directories, a file with who wrote it and when, and changes by hand."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import (
    BadInputError,
    ConflictError,
    FamiliarError,
    NotFoundError,
    UsageError,
)
from familiar_cli.web.asking import Data, Redirect, Shown, WebPage

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.memory.store.transactions import Transaction
    from familiar_cli.web.asking import PageRequest

_VIEWS: Final = ("text", "source", "blame", "history", "links", "edit")
_MOST_LISTED: Final = 200
_RENDERED_CHARS: Final = 24_000  # so much is formatted within 100 ms; the rest is shown as it is
_SHOWN_CHARS: Final = 400_000
_MOST_BLAMED: Final = 3_000
_MOST_CHANGES: Final = 30
_MOST_TOUCHED: Final = 200  # files of a change whose differences are made to show one of them
_REFRESH_S: Final = 2.0  # for the first look at all files
_NOT_IN_FORMS: Final = re.compile(r"\x00|\r(?!\n)|[\ud800-\udfff]")


def show(asked: PageRequest) -> Shown | Data:
    """Return a directory or a file."""
    from familiar_cli.memory.store.files import parse_path

    rel_path = parse_path(asked.path.get("path", ""))
    memory = asked.familiar.memory
    if not rel_path or (memory.root / rel_path).is_dir():
        return _directory(asked, rel_path)
    if "raw" in asked.query:
        return Data(
            memory.read_bytes(rel_path), "application/octet-stream", rel_path.split("/")[-1]
        )
    return _file(asked, rel_path)


def _directory(asked: PageRequest, rel_path: str) -> Shown:
    after = asked.query.get("after", "")
    found, count = asked.familiar.memory.list_page(rel_path, after=after, most=_MOST_LISTED)
    more = found[-1].rel_path.rpartition("/")[2] if len(found) == _MOST_LISTED else ""
    values = {
        "rel_path": rel_path,
        "directories": [entry for entry in found if entry.is_dir],
        "files": [entry for entry in found if not entry.is_dir],
        "count": count,
    }
    return Shown("directory", {**values, "more": more, "crumbs": crumbs(rel_path)})


def _file(asked: PageRequest, rel_path: str) -> Shown:
    view = asked.query.get("view", "text")
    if view not in _VIEWS:
        raise UsageError(f"There is no view {view[:40]!r} of a file")
    values: dict[str, Any] = {
        "rel_path": rel_path,
        "view": view,
        "crumbs": crumbs(rel_path),
        "problem": "",
        "text": "",
        "sha256": "",
    }
    try:
        found = asked.familiar.memory.read(rel_path)
    except BadInputError as error:
        return Shown("file", {**values, "view": "text", "problem": str(error), "parts": None})
    values |= {"text": found.text, "sha256": found.sha256}
    return Shown("file", {**values, **_SHOW[view](asked, rel_path, found.text)})


def _text(asked: PageRequest, rel_path: str, text: str) -> dict[str, Any]:
    from familiar_cli.markdown import split_front_matter
    from familiar_cli.memory.pages.links import SUFFIXES
    from familiar_cli.web.rendering import rendered

    if not rel_path.lower().endswith(SUFFIXES):
        return {"parts": {"front": "", "html": None, "rest": text[:_SHOWN_CHARS]}}
    front, body = split_front_matter(text)
    cut = body.rfind("\n", 0, _RENDERED_CHARS) + 1 if len(body) > _RENDERED_CHARS else len(body)
    html = rendered(body[: cut or _RENDERED_CHARS], rel_path, asked.base, asked.familiar.numbering)
    rest = body[cut or _RENDERED_CHARS :][:_SHOWN_CHARS]
    return {"parts": {"front": front or "", "html": html, "rest": rest}}


def _source(asked: PageRequest, rel_path: str, text: str) -> dict[str, Any]:
    del asked, rel_path
    return {"parts": {"front": "", "html": None, "rest": text[:_SHOWN_CHARS]}}


def _blame(asked: PageRequest, rel_path: str, _: str) -> dict[str, Any]:
    from familiar_cli.memory.pages.lines import turn_ids, without_references

    try:
        lines = asked.familiar.past.blame(rel_path)
    except FamiliarError as error:
        return {"groups": [], "problem": str(error)}
    numbering = asked.familiar.numbering
    groups = [
        (
            commit,
            [(one, turn_ids(one.text, numbering), without_references(one.text)) for one in members],
        )
        for commit, members in (
            (key, list(run)) for key, run in groupby(lines[:_MOST_BLAMED], lambda one: one.commit)
        )
    ]
    return {"groups": groups}


def _history(asked: PageRequest, rel_path: str, _: str) -> dict[str, Any]:
    past = asked.familiar.past
    changes = []
    with suppress(NotFoundError):
        changes = past.log(rel_path, limit=_MOST_CHANGES)
    diffs = {}
    for change in [c for c in changes[:5] if len(c.touched) <= _MOST_TOUCHED]:
        files = past.show(change.commit.id)[1]
        diffs[change.commit.id] = [f for f in files if f.rel_path == (change.rel_path or rel_path)]
    return {"changes": changes, "diffs": diffs}


def _links(asked: PageRequest, rel_path: str, _: str) -> dict[str, Any]:
    from familiar_cli.index.hits import links_of

    index = asked.familiar.index
    if index.directory.is_dir():
        index.touch([rel_path])
    else:
        index.refresh(within_s=_REFRESH_S)
    out, broken, back = index.use(lambda db: links_of(db, rel_path, _MOST_LISTED))
    return {"out": out, "back": back, "broken": broken}


def _edit(asked: PageRequest, rel_path: str, text: str) -> dict[str, Any]:
    asked.familiar.past.log(rel_path, limit=1)  # the journal has the version that is edited
    fits = not _NOT_IN_FORMS.search(text) and not _mixes_ends(text)
    return {"fits": fits}


_SHOW: Final[dict[str, Callable[[PageRequest, str, str], dict[str, Any]]]] = {
    "text": _text,
    "source": _source,
    "blame": _blame,
    "history": _history,
    "links": _links,
    "edit": _edit,
}


def save(asked: PageRequest) -> Shown | Redirect:
    """Write a file, merged with changes since the person read it."""
    from familiar_cli.memory.merge.content import stage_merged
    from familiar_cli.memory.store.files import parse_path

    rel_path = parse_path(asked.path["path"])
    known = asked.sent("sha256")
    content = _as_in_file(asked, rel_path, asked.sent("text"))
    base = asked.familiar.past.version(rel_path, known) if known else None

    def stage(tx: Transaction) -> None:
        if base is None:
            tx.write(rel_path, content, expect=known or "missing")
        else:
            stage_merged(tx, asked.familiar.memory, rel_path, base, content)

    try:
        _change(asked, f"write {rel_path}", stage)
    except ConflictError as error:
        return _conflict(asked, rel_path, content, error)
    return Redirect(asked.to("memory", rel_path), (f"Wrote {rel_path}. The journal can undo it.",))


def _conflict(asked: PageRequest, rel_path: str, content: str, error: ConflictError) -> Shown:
    """Return both versions, and a form that knows of the one that is there now."""
    from familiar_cli.diffs import unified

    memory = asked.familiar.memory
    there = memory.read(rel_path) if memory.exists(rel_path) else None
    text = there.text if there else ""
    values = {
        "rel_path": rel_path,
        "crumbs": crumbs(rel_path),
        "message": str(error),
        "theirs": text,
        "mine": content,
        "sha256": there.sha256 if there else "",
        "diff_text": unified(text, content, "in memory now", "yours"),
    }
    return Shown("conflict", values, 409)


def delete(asked: PageRequest) -> Redirect:
    """Delete a file, if it is still what the person had read."""
    from familiar_cli.memory.store.files import parse_path

    rel_path = parse_path(asked.path["path"])
    expect = asked.sent("sha256") or None
    _change(asked, f"rm {rel_path}", lambda tx: tx.delete(rel_path, expect=expect))
    return Redirect(asked.to("journal"), (f"Deleted {rel_path}. The newest change can be undone.",))


def move(asked: PageRequest) -> Redirect:
    """Move a file, and mend the links to it and in it."""
    from familiar_cli.memory.pages.links import move_with_links
    from familiar_cli.text import counted

    old, new = asked.path["path"], asked.sent("to").strip()
    moved = move_with_links(asked.familiar.memory, old, new, dry_run=False)
    told = f"Moved {old} to {new}."
    if moved.relinked:
        told += f" Updated the links in {counted(len(moved.relinked), 'file')}."
    return Redirect(asked.to("memory", new), (told,))


def restore(asked: PageRequest) -> Redirect:
    """Make a file hold what it held at a commit."""
    rel_path, at = asked.path["path"], asked.sent("at")
    done = asked.familiar.past.restore(rel_path, at)
    told = (
        f"Restored {rel_path} as of {at[:10]}."
        if done.changes
        else "Nothing to restore: it is unchanged since then."
    )
    return Redirect(asked.to("memory", rel_path), (told,))


def make(asked: PageRequest) -> Redirect:
    """Lead to the form for a file that is not there yet."""
    from familiar_cli.memory.store.files import parse_path

    rel_path = parse_path(asked.sent("path").strip())
    if not rel_path:
        raise UsageError("A file needs a name, e.g. topics/tea.md")
    name = rel_path if "." in rel_path.split("/")[-1] else f"{rel_path}.md"
    if not asked.familiar.memory.exists(name):
        title = name.split("/")[-1].rpartition(".")[0].replace("-", " ").capitalize()
        text = f"# {title}\n"
        _change(asked, f"write {name}", lambda tx: tx.write(name, text, expect="missing"))
    return Redirect(asked.to("memory", name, view="edit"))


def find(asked: PageRequest) -> Redirect:
    """Lead to the file that a wiki link names."""
    from familiar_cli.memory.pages.links import PageNames

    name, source = asked.query.get("name", ""), asked.query.get("from", "")
    walk = asked.familiar.memory.walk()
    there = PageNames({entry.rel_path for entry in walk.files}, {}).find_path(name, source)
    return Redirect(asked.to("memory", there) if there else asked.to("search", q=name))


def crumbs(rel_path: str) -> list[tuple[str, str]]:
    """Return the directories above a path, each with its name, and the path itself."""
    parts = rel_path.split("/") if rel_path else []
    return [(part, "/".join(parts[: n + 1])) for n, part in enumerate(parts)]


def _as_in_file(asked: PageRequest, rel_path: str, text: str) -> str:
    """Return what a form sent with the line ends of the file; a form ends all with two marks."""
    from familiar_cli.markdown import newline_of

    memory, end = asked.familiar.memory, "\n"
    if memory.exists(rel_path):
        end = newline_of(memory.read_file(rel_path))
    return text.replace("\r\n", "\n").replace("\n", end)


def _mixes_ends(text: str) -> bool:
    both = text.count("\r\n")
    return both not in (0, text.count("\n"))


def _change(asked: PageRequest, message: str, stage: Callable[[Transaction], None]) -> None:
    with asked.familiar.memory.transaction("human", message) as tx:
        stage(tx)


PAGES: Final = (
    WebPage("/memory", show),
    WebPage("/memory/", show),
    WebPage("/memory/{path:path}", show),
    WebPage("/find", find),
    WebPage("/new", make, "POST"),
    WebPage("/save/{path:path}", save, "POST"),
    WebPage("/delete/{path:path}", delete, "POST"),
    WebPage("/move/{path:path}", move, "POST"),
    WebPage("/restore/{path:path}", restore, "POST"),
)
