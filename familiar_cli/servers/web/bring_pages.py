"""The page that imports a card, a book, a chat or memories after a preview."""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.files import status_of
from familiar_cli.base.text import bare_lines
from familiar_cli.base.times.clock import now
from familiar_cli.servers.web.asking import PageRequest, PageView, Redirect, WebPage, http_status

if TYPE_CHECKING:
    from familiar_cli.actions.bring.import_files import FileImportOptions, ImportItem

_TOKEN: Final = re.compile(r"[\w-]{16,40}", re.ASCII)
_MAKES_FAMILIAR: Final = frozenset({"card", "persona", "folder", "export"})
_MOST_UPLOADS: Final = 20
_UPLOAD_S: Final = 3600  # how long a file waits to be imported
_NAME_CHARS: Final = 60  # of a file's name; a letter takes up to four bytes of 255
_ANSWERS: Final = ("me", "character", "dates", "year", "whose")


def show_import(request: PageRequest) -> PageView:
    """Return the page that takes a file."""
    _drop_uploads()
    return _page(request)


def _page(request: PageRequest, status: int = 200, **values: Any) -> PageView:  # noqa: ANN401
    known = {name: request.form.get(name, ()) for name in _ANSWERS}
    empty: dict[str, Any] = {"preview": "", "problems": [], "question": None}
    empty |= {"token": "", "name": ""}
    return PageView("import", {**empty, **values, "answers": known}, status)


def take_file(request: PageRequest) -> PageView | Redirect:
    """Preview an uploaded file, or import the one that was previewed."""
    try:
        path = (
            _kept_upload(request.sent("token")) if request.sent("token") else _keep_upload(request)
        )
    except FamiliarError as error:
        return _page(request, http_status(error), problems=[_sentence(error)])
    is_preview = request.sent("do") != "import"
    items, question = _import(request, path, dry_run=is_preview)
    problems = [_sentence(item.error) for item in items if item.error]
    from familiar_cli.pages.bring_pages import import_page

    words = "\n".join(import_page(items, dry_run=is_preview).lines("utf-8"))
    if is_preview or question or not any(item.done for item in items):
        place: dict[str, Any] = {"token": path.parent.name, "name": path.name}
        shown: dict[str, Any] = {"preview": words, "problems": problems, "question": question}
        return _page(request, **shown, **place)
    shutil.rmtree(path.parent, ignore_errors=True)
    text = next((item.familiar for item in items if item.kind in _MAKES_FAMILIAR), "")
    lines = tuple(line for line in bare_lines(words) if line.strip())
    waits = any(getattr(done, "plan", "") for item in items for done in item.done)
    to = f"/f/{text}/" if text else request.to("review" if waits else "import")
    return Redirect(to, (*lines, *problems))


def _keep_upload(request: PageRequest) -> Path:
    """Write an uploaded file below the cache."""
    if not request.file_name or not request.file:
        raise UsageError("No file was chosen; nothing was imported")
    _drop_uploads()
    uploads = cache_dir() / "uploads"
    uploads.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = uploads / secrets.token_urlsafe(16)
    place.mkdir(mode=0o700)
    name = re.sub(r"[^\w. ()-]", "_", request.file_name.replace("\\", "/").rpartition("/")[2])
    path = place / (name.lstrip(".")[-_NAME_CHARS:].lstrip(".") or "file")
    path.write_bytes(request.file)
    return path


def _drop_uploads() -> None:
    """Delete files that nobody imported for an hour, and all but the newest."""
    places = (cache_dir() / "uploads").glob("*")
    times = {place: seen.st_mtime for place in places if (seen := status_of(place))}
    long_ago = now().timestamp() - _UPLOAD_S
    for number, path in enumerate(sorted(times, key=times.__getitem__, reverse=True)):
        if number >= _MOST_UPLOADS or times[path] < long_ago:
            shutil.rmtree(path, ignore_errors=True)


def _kept_upload(token: str) -> Path:
    place = cache_dir() / "uploads" / token
    if _TOKEN.fullmatch(token) and place.is_dir():
        for path in place.iterdir():
            return path
    raise NotFoundError(
        "The file is no longer stored; nothing was imported", hint="Choose it again."
    )


def _import(
    request: PageRequest, path: Path, *, dry_run: bool
) -> tuple[list[ImportItem], tuple[str, tuple[tuple[str, str], ...]] | None]:
    """Import a file; return what became of it, and the question that only a person can answer."""
    from msgspec.structs import replace

    from familiar_cli.actions.bring.import_files import FileImporter

    options = _options(request, dry_run=dry_run)
    question, home = None, request.familiar.paths.root.parent
    with closing(FileImporter(home, options, lambda _: None)) as importer:
        items = importer.recognise([path])
        options = importer.options
        for item in items:
            makes = item.kind in _MAKES_FAMILIAR
            own = "" if makes else request.familiar.paths.id
            importer.options = replace(options, familiar_id=own)
            question = question or next(iter(importer.questions_of(item)), None)
            if item.error is None and not question:
                try:
                    importer.run(item)
                except FamiliarError as error:
                    item.error, question = error, error.question
    return items, question


def _options(request: PageRequest, *, dry_run: bool) -> FileImportOptions:
    from familiar_cli.actions.bring.import_files import FileImportOptions

    options = FileImportOptions(dry_run=dry_run)
    for name in _ANSWERS:
        for value in filter(None, map(str.strip, request.form.get(name, ()))):
            options = options.answered(f"--{name}", value)
    return options


def _sentence(error: FamiliarError) -> str:
    return f"{error}. {error.hint or ''}".strip()


PAGES: Final = (
    WebPage("/import", show_import),
    WebPage("/import", take_file, "POST", is_long=True),
)
