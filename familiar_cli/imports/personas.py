"""Persona folders (`IDENTITY.md`, `SOUL.md`, …), and the templates in that form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.errors import BadInputError, UsageError
from familiar_cli.base.files import directories_in
from familiar_cli.base.languages import ENGLISH, language_of, phrases
from familiar_cli.base.markdown import title_of
from familiar_cli.base.text import fold, one_line, slugify, typed
from familiar_cli.base.who.identity import Author, check_familiar_id
from familiar_cli.imports import folders, import_plan
from familiar_cli.imports.cards import MAIN_INSTRUCTION
from familiar_cli.imports.contract import ForeignMemories, ForeignMemory
from familiar_cli.imports.create import id_from
from familiar_cli.imports.foreign_files import read_json
from familiar_cli.imports.memory_lists import build_memories, read_day, read_lines
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.desk import MAX_CHARS, ItemStatus, items_in
from familiar_cli.store.memory.layout import SESSIONS_DIR, digest_path, people_path
from familiar_cli.store.memory.pages.front_matter import (
    PERSONA_DIR,
    TIERS_NOTE,
    field_markdown,
    self_file,
)
from familiar_cli.store.memory.store.store import MemoryStore

_TITLES: Final = ("title", "task", "text", "name", "description", "content")
_MARKS: Final = {
    **dict.fromkeys(("done", "completed", "complete", "closed", "finished"), ItemStatus.done),
    **dict.fromkeys(("dropped", "cancelled", "canceled", "abandoned"), ItemStatus.dropped),
}
_OPEN: Final = frozenset({"open", "todo", "pending", "new"})
_DUE: Final = ("due", "due_date", "due_at", "deadline")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")  # as written in a line of the task list


def tasks_markdown(text: str) -> str | None:
    """Convert JSON tasks to a Markdown list; None if there is no list of tasks.

    Fields of a task other than title, time and status become indented lines below it.
    """
    try:
        value, _ = read_json(text, origin="TASKS.json")
    except BadInputError:
        return None
    listed = value.get("tasks") if isinstance(value, dict) else value
    if not isinstance(listed, list):
        return None
    tasks = [_task_text(task) for task in listed]
    if any(task is None for task in tasks):
        return None
    listed = "".join(f"{task}\n" for task in tasks)
    return f"# {phrases(language_of(listed) or ENGLISH.code).tasks}\n\n{listed}"


def _task_text(task: object) -> str | None:
    if isinstance(task, str):
        return f"- [ ] {one_line(task, MAX_CHARS)}" if task.strip() else None
    if not isinstance(task, dict):
        return None
    title = next((key for key in _TITLES if isinstance(task.get(key), str)), "")
    if not (title and task[title].strip()):
        return None
    due = next((key for key in _DUE if isinstance(task.get(key), str) and task[key]), "")
    mark, parts = _task_status(task)
    line = f"- [{mark}] {one_line(task[title], MAX_CHARS)}{_due_text(task.get(due, ''))}"
    return "\n".join([line, *_extra_fields(task, {title, due, *parts})])


def _due_text(due: str) -> str:
    if _DAY.fullmatch(due):
        return f" @{due}"
    return f" (due {one_line(due, 40)})" if due else ""


def _task_status(task: dict[str, Any]) -> tuple[ItemStatus, set[str]]:
    """Return the status of a task, and the fields that state it."""
    keys = {key for key in _MARKS if task.get(key) is False}
    value = task.get("status")
    status = value.strip().lower() if isinstance(value, str) else ""
    if status in _MARKS:
        return _MARKS[status], {"status", *keys}
    ended = next((key for key in _MARKS if task.get(key) is True), None)
    if ended:
        return _MARKS[ended], {ended, *keys}
    return ItemStatus.open, {"status", *keys} if status in _OPEN else keys


def _extra_fields(task: dict[str, Any], parts: set[str]) -> Iterator[str]:
    for key, value in task.items():
        if key in parts:
            continue
        # A name with Markdown characters could begin a list or a code block.
        name = key if key.replace("_", "").isalnum() else json.dumps(key, ensure_ascii=False)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"  {one_line(name, MAX_CHARS)}: {one_line(text, MAX_CHARS)}".rstrip()


KEPT_DIR: Final = PERSONA_DIR
LEDGER: Final = f"{KEPT_DIR}/.ledger.json"
IDENTITY: Final = "IDENTITY.md"
SOUL: Final = "SOUL.md"
PROTOCOLS: Final = "PROTOCOLS.md"
USER: Final = "USER.md"
PARTS: Final = (IDENTITY, SOUL, PROTOCOLS, USER)
"""What every persona has, at least; the first three make a folder one."""

FIELDS: Final = {IDENTITY: "description", SOUL: "personality", PROTOCOLS: "system_prompt"}
"""Which field of a character each part is, and so which file of `self/`."""

REMINDERS: Final = "REMINDERS.md"
VERBATIM: Final = {
    "MEMORY_SHORT.md": digest_path("short"),
    "MEMORY_MID.md": digest_path("mid"),
    "MEMORY_LONG.md": digest_path("long"),
    REMINDERS: layout.REMINDERS,
    "SCRATCH.md": layout.SCRATCH,
}
TIERS: Final = "CONTEXT_TIERS.md"
TASKS: Final = "TASKS.json"

_SESSION: Final = re.compile(rf"{SESSIONS_DIR}/\d{{4}}-\d{{2}}-\d{{2}}\.md")
_NAME_LABELS: Final = (
    "preferred name|full name|name|called|nombre|nom|nome|naam|rufname|vorname|имя"
    "|ім'я|imię|jméno|isim|名前|お名前|氏名|呼び名|名字|姓名|이름|الاسم|اسم|نام|שם|नाम"
)
_NAME: Final = re.compile(
    rf"^\s*(?:[-*+]\s+)?\**(?:{_NAME_LABELS})\**\s*[:：]\**\s*(\S.*)$", re.IGNORECASE | re.MULTILINE
)
# Words of headings that describe the file rather than name a person.
_NO_NAME: Final = re.compile(
    r"\b(?:user|users|human|about|profile|notes?|me|person|who|your|the|owner|operator|client"
    r"|usuario|usuaria|sobre|perfil|utilisateur|utilisatrice|profil|benutzer|benutzerin|nutzer|über"
    r"|пользователь)\b|ユーザー|利用者|プロフィール|について|用户|使用者|用戶|사용자|프로필|المستخدم|حول|עלי|משתמש",
    re.IGNORECASE,
)
_MOST_NAME_WORDS: Final = 4
_MOST_NAME_CHARS: Final = 80
_MAX_NAME_CHARS: Final = 200


class PersonaDir(Struct, frozen=True):
    """A persona folder.

    Args:
        path: Where it is.
        name: The persona's name: that of the folder.
        user: Its user, if the path states one: `home/{user}/persona/{name}`.
    """

    path: Path
    name: str
    user: str = ""


def find_personas(directory: Path) -> list[PersonaDir]:
    """Find the persona at `directory`, or all of a user's or home's below it.

    Raises:
        NotFoundError: The directory does not exist.
        BadInputError: It is a file, or contains no persona.
    """
    folders.require_there(directory)
    dirs = list(_find_personas(directory))
    if not dirs:
        raise BadInputError(
            f"{str(directory)!r} contains no persona: no {IDENTITY}, {SOUL} or {PROTOCOLS} in it "
            "or in a folder `persona/NAME` below it; nothing was written",
            hint="Give their folder, or start with `familiar init --template keeper`.",
        )
    return dirs


def own_name(files: Mapping[str, bytes]) -> str:
    """Return the name that a persona's `IDENTITY.md` gives it; empty if none."""
    source = next((name for name in files if fold(name) == fold(IDENTITY)), "")
    match = _NAME.search(files.get(source, b"").decode("utf-8", "replace"))
    name = one_line(match[1].strip(" *_`"), _MOST_NAME_CHARS) if match else ""
    return name if any(map(str.isalnum, name)) else ""


_MEMORY: Final = re.compile(r"MEMORY\.md|memory/[^/]+\.md", re.IGNORECASE)
_NOTES_OF: Final = re.compile(r"memory/(\d{4}-\d{2}-\d{2})\.md", re.IGNORECASE)


def persona_memories(files: Mapping[str, bytes]) -> ForeignMemories:
    """Return what a persona remembers: `MEMORY.md`, and a day's notes below `memory/`."""
    memories: list[ForeignMemory] = []
    for source, content in sorted(files.items()):
        if _MEMORY.fullmatch(source):
            notes_of = _NOTES_OF.fullmatch(source)
            day = read_day(notes_of[1]) if notes_of else None
            lines = read_lines(content.decode("utf-8", "replace").replace("\r\n", "\n"))
            memories += (replace(one, day=one.day or day, file=source) for one in lines)
    return build_memories("OpenClaw", "memory", memories)


def map_persona(
    files: Mapping[str, bytes], user: Author, user_name: str
) -> tuple[list[folders.FolderPage], list[str]]:
    """Map the files of a persona to pages of memory; also return oddities.

    Args:
        files: The bytes of each, by its path in the folder.
        user: The person whom `USER.md` describes.
        user_name: Their name if `USER.md` does not state one; empty: that of `user`.
    """
    kept = folders.kept_paths(files, KEPT_DIR)
    parts = _persona_parts(files)
    mapping = _Mapping(user, one_line(user_name, _MOST_NAME_CHARS), [])
    pieces: list[folders.FolderPage] = []
    for source, content in sorted(files.items()):
        mapped = mapping.of(source, content, parts.get(source, ""))
        pieces += mapped
        # The program itself may rewrite the verbatim ones.
        if not any(p.is_original and p.rel_path not in VERBATIM.values() for p in mapped):
            pieces.append(
                folders.FolderPage(source, kept[source], content, is_original=True, is_hidden=True)
            )
    missing = [f"{name} is missing" for name in PARTS if name not in parts.values()]
    return pieces, [*mapping.warnings, *missing]


def _find_personas(directory: Path) -> Iterator[PersonaDir]:
    if _is_persona(directory):
        whole = directory.resolve()
        in_home = whole.parent.name == "persona"
        yield PersonaDir(directory, whole.name, whole.parent.parent.name if in_home else "")
        return
    here = directory.resolve().name
    user = directory.resolve().parent.name if here == "persona" else ""
    for path in _persona_directories(directory):
        if path.name == "persona":
            yield from (
                PersonaDir(p, p.name, here) for p in _persona_directories(path) if _is_persona(p)
            )
        elif _is_persona(path):
            yield PersonaDir(path, path.name, user)
        else:
            below = _persona_directories(path / "persona")
            yield from (PersonaDir(p, p.name, path.name) for p in below if _is_persona(p))


def _persona_directories(directory: Path) -> list[Path]:
    return directories_in(directory, lambda path: not path.is_symlink())


def _is_persona(directory: Path) -> bool:
    try:
        names = {fold(path.name) for path in directory.iterdir()}
    except OSError:
        return False
    return any(fold(name) in names for name in FIELDS)


def _persona_parts(files: Mapping[str, bytes]) -> dict[str, str]:
    """Map files to parts; case is ignored, with the usual spelling preferred."""
    known = {fold(name): name for name in (*PARTS, *VERBATIM, TIERS, TASKS)}
    parts: dict[str, str] = {}
    for source in sorted(files, key=lambda name: (name not in known.values(), name)):
        part = known.get(fold(source))
        if part and part not in parts.values():
            parts[source] = part
    return parts


class _Mapping(Struct, frozen=True):
    """Maps each file to pages for people, search and prompts."""

    user: Author
    user_name: str
    warnings: list[str]

    def of(self, source: str, content: bytes, part: str) -> list[folders.FolderPage]:
        """Map a file to pages besides its original; none for an unknown file."""
        if _SESSION.fullmatch(source) and folders.is_plain(source):
            return [folders.FolderPage(source, source, content, is_original=True)]
        text = self._text(source, content) if part else ""
        if not text.strip():
            return []
        if part == TIERS:
            return [folders.FolderPage(source, TIERS_NOTE, content, is_original=True)]
        if part in VERBATIM:
            if part == REMINDERS and not items_in(text):
                self.warnings.append(
                    f"{one_line(source)} contains no list, so nothing in it can be due"
                )
            return [folders.FolderPage(source, VERBATIM[part], content, is_original=True)]
        page = self._page(source, part, text)
        return [
            folders.FolderPage(source, rel_path, made.encode(), is_original=False)
            for rel_path, made in page
        ]

    def _text(self, source: str, content: bytes) -> str:
        try:
            return content.decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            why = f"is not UTF-8 ({error.reason}); it is kept unchanged"
            self.warnings.append(f"{one_line(source)} {why}")
            return ""

    def _page(self, source: str, part: str, text: str) -> list[tuple[str, str]]:
        if part == USER:
            name = _name_in(text) or self.user_name or self.user.label
            title = "" if title_of(text) == name else f"# {name}\n\n"
            return [(people_path(self.user.slug), title + text)]
        if part in FIELDS:
            above = MAIN_INSTRUCTION if part == PROTOCOLS and "{{original}}" not in text else ""
            field = FIELDS[part]
            return [(self_file(field).rel_path, field_markdown(field, above + text))]
        tasks = tasks_markdown(text)
        if tasks is None:
            self.warnings.append(
                f"{one_line(source)} contains no list of tasks; it is kept unchanged"
            )
            return []
        return [(layout.TASKS, tasks)]


def _name_in(text: str) -> str:
    """Return the person a text is about: from a line that says so, else from its title."""
    match = _NAME.search(text)
    if match:
        return one_line(match[1].strip(" *_`"), _MOST_NAME_CHARS)
    title = one_line(title_of(text), _MOST_NAME_CHARS)
    is_name = not _NO_NAME.search(title) and len(title.split()) <= _MOST_NAME_WORDS
    return title if is_name else ""


PERSONA_TEMPLATES: Final[dict[str, str]] = {"keeper": "Tamsin", "workmate": "Juniper"}
"""Each template, and what its persona is called when the user gives no name."""


def template_folder(template: str) -> folders.FolderContents:
    """Return the files of a template.

    Args:
        template: One of `NAMES`.
    """
    here = resources.files(__package__) / "persona_templates" / template
    return folders.FolderContents({part: (here / part).read_bytes() for part in PARTS})


_OVERWRITE_PERSONA = (
    "Add `--overwrite` to use the persona's text, or `--familiar ID` to make another familiar."
)


class PersonaCard(Struct, frozen=True):
    """A persona that was read.

    Args:
        id: The id for the familiar.
        folder: Its files.
        user: The person whom `USER.md` describes.
        user_name: Their name if `USER.md` does not state one.
    """

    id: str
    name: str
    folder: folders.FolderContents
    user: Author
    user_name: str = ""


def read_personas(
    dirs: Sequence[PersonaDir], user: Author, *, familiar_id: str | None = None
) -> list[PersonaCard]:
    """Read the personas in folders, giving each a unique id.

    Raises:
        UsageError: One id was given for several, or `familiar_id` is not a valid id.
        FamiliarError: A folder cannot be read.
    """
    if familiar_id and len(dirs) > 1:
        listed = "; ".join(f"`familiar init --from-persona {typed(str(p.path))}`" for p in dirs)
        raise UsageError(
            f"There are {len(dirs)} personas, but only one ID; nothing was written",
            hint=f"Omit the ID to create all of them, or choose one: {listed}.",
        )
    return [_read_persona(one, dirs, user, familiar_id) for one in dirs]


def _read_persona(
    one: PersonaDir, among: Sequence[PersonaDir], user: Author, familiar_id: str | None
) -> PersonaCard:
    """Read a persona; a folder that stands alone has the name that its identity states."""
    folder = folders.read_folder(one.path)
    stated = "" if one.user or len(among) > 1 else own_name(folder.files)
    target = familiar_id and check_familiar_id(familiar_id)
    return PersonaCard(
        id=target or slugify(stated) or persona_id(one, among),
        name=one_line(stated or _shown_branch(one.name), _MAX_NAME_CHARS),
        folder=folder,
        user=user,
        user_name=_shown_branch(one.user),
    )


def template_persona(template: str, user: Author, *, familiar_id: str | None = None) -> PersonaCard:
    """Return the persona of a template.

    Raises:
        UsageError: `familiar_id` is not a valid id.
    """
    name = _shown_branch(familiar_id) if familiar_id else PERSONA_TEMPLATES[template]
    target = check_familiar_id(familiar_id) if familiar_id else slugify(name)
    return PersonaCard(target, name, template_folder(template), user)


def persona_id(one: PersonaDir, among: Sequence[PersonaDir] = ()) -> str:
    """Return the default id of a persona: its name, prefixed by the user's if ambiguous."""
    twins = [other for other in among if slugify(other.name) == slugify(one.name)]
    return id_from(one.name if len(twins) < 2 else f"{one.user} {one.name}")  # noqa: PLR2004


def create_from_persona(
    home: Path,
    persona: PersonaCard,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    *,
    update: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
) -> import_plan.FamiliarReport:
    """Create a familiar from a persona, or update an existing one, in one transaction.

    Args:
        home: The directory of all familiars; created if missing.
        open_store: Opens the memory of a familiar.
        update: Allow rewriting files whose source has changed.
        overwrite: Allow overwriting files with other contents as well.
        dry_run: Check everything without leaving anything on disk.

    Raises:
        RefusedError: The familiar has other text, or the folder has changed.
        FamiliarError: A file cannot be written; everything is as before.
    """
    wish = folders.FolderImportOptions(update, overwrite, force_hint=_OVERWRITE_PERSONA)
    return import_plan.build_familiar(
        FamiliarPaths(home / persona.id),
        open_store,
        lambda store: _persona_plan(store, persona, wish),
        name=persona.name,
        message=f"persona {one_line(persona.name, 60)}",
        dry_run=dry_run,
    )


def _persona_plan(
    store: MemoryStore, persona: PersonaCard, wish: folders.FolderImportOptions
) -> import_plan.ImportPlan:
    contents = persona.folder
    pages, warnings = map_persona(contents.files, persona.user, persona.user_name)
    return folders.plan_folder(store, pages, LEDGER, wish, folder=contents, warnings=warnings)


def _shown_branch(name: str) -> str:
    """Capitalise a folder's name for display; one with a capital stays as it is."""
    return name.replace("-", " ").replace("_", " ").title() if name.islower() else name
