"""Paths in a memory, trailers for the program's parts that change it, and run ids."""

from __future__ import annotations

import os
import re
from datetime import date
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from familiar_cli.base.text import fold, sha256_of
from familiar_cli.base.times import clock
from familiar_cli.base.who import visibility

SUFFIXES: Final = (".md", ".markdown", ".txt")
"""Endings of the files that are text of the memory."""

SELF_DIR: Final = "self"
"""The familiar's identity."""

CARD_JSON: Final = f"{SELF_DIR}/card.json"
"""Character card fields without a file of their own."""

PEOPLE_DIR: Final = "people"
"""One file per person, named after their account; see `people_path`."""

ALIASES_JSON: Final = f"{PEOPLE_DIR}/_aliases.json"
"""People's names, for other programs and for readers."""

TOPICS_DIR: Final = "topics"
"""One file per recurring topic."""

PLACES_DIR: Final = "places"
"""One file per place, for people who keep places apart from topics."""

LORE_DIR: Final = "lore"
"""Facts about the familiar's world."""

IMPORTED_LORE_DIR: Final = f"{LORE_DIR}/imported"
"""Target of imported lorebooks."""

SESSIONS_DIR: Final = "sessions"
"""Sessions by part of the day, and the memory writer's watermark."""

PENDING_DIR: Final = f"{SESSIONS_DIR}/.pending"
"""Plans waiting for approval."""

REJECTED_DIR: Final = f"{SESSIONS_DIR}/.rejected"
"""Rejected proposals."""

DAILY_DIR: Final = "daily"
WEEKLY_DIR: Final = "weekly"
MONTHLY_DIR: Final = "monthly"
YEARLY_DIR: Final = "yearly"

PERIOD_DIRS: Final = (DAILY_DIR, WEEKLY_DIR, MONTHLY_DIR, YEARLY_DIR)
"""Periods into which sessions are consolidated, each from the one before."""

SIGNIFICANT_DIR: Final = "significant"
"""Moments that are never consolidated."""

DIGEST_DIR: Final = "digest"
"""Included in every prompt: `short.md`, `mid.md` and `long.md`."""

WRITER_JSON: Final = f"{SESSIONS_DIR}/.writer.json"
"""The memory writer's watermark."""

DERIVED: Final = frozenset({ALIASES_JSON, WRITER_JSON})
"""Derived files, which the program regenerates."""

RELATION_KINDS: Final = "relations.md"
"""Inverses of relations, which a person may extend."""

NOTES: Final = "notes.md"
REMINDERS: Final = "reminders.md"
TASKS: Final = "tasks.md"
SCRATCH: Final = "scratch.md"

_DESK: Final = frozenset({NOTES, REMINDERS, TASKS, SCRATCH})

CONFLICTS_DIR: Final = "conflicts"
"""The other version of each file that two machines changed differently."""

CONFLICTS_LIST: Final = f"{CONFLICTS_DIR}/README.md"
"""List of conflicts."""

INDEX_DIR: Final = ".index"
"""Search index. Safe to delete at any time."""

PRIVATE_DIRS: Final = (INDEX_DIR, ".git", ".obsidian", ".trash")
"""Never part of the memory, at any depth; the last two belong to Obsidian."""

_STAYS_HERE: Final = frozenset({ALIASES_JSON, WRITER_JSON, PENDING_DIR, REJECTED_DIR})


def is_synced(rel_path: str) -> bool:
    """Tell whether a file is synced to every machine.

    Derived files stay on their machine, and so does machine-local state: the memory writer's
    watermark, pending plans and rejected ones. Names that differ only in case count as one, as on
    some file systems.
    """
    parts = rel_path.casefold().split("/")
    return not _STAYS_HERE.intersection(("/".join(parts), "/".join(parts[:2]))) and not set(
        PRIVATE_DIRS
    ).intersection(parts)


def is_hidden(rel_path: str) -> bool:
    """Tell whether a file is internal to the program and hidden from search."""
    return rel_path.startswith(".") or "/." in rel_path


def is_in_conflicts(rel_path: str) -> bool:
    """Tell whether a file belongs to sync conflicts rather than to the memory."""
    return rel_path.startswith(f"{CONFLICTS_DIR}/")


def is_owners_page(rel_path: str) -> bool:
    """Tell whether a page is the owner's, whatever it rests on: their desk, or a moment."""
    name = path_without_scope(rel_path).casefold()
    return name in _DESK or name.startswith(f"{SIGNIFICANT_DIR}/")


def is_page(rel_path: str) -> bool:
    """Tell whether a file is part of the memory's text: searched, linked, shown to a model.

    Conflict copies are not, or they would act as a second memory.
    """
    return rel_path.lower().endswith(SUFFIXES) and not is_in_conflicts(rel_path)


_DAY: Final = r"\d{4}-\d{2}-\d{2}"
_DATED: Final = {
    DAILY_DIR: rf"({_DAY})(?:_([^/]+))?",
    WEEKLY_DIR: r"(\d{4}-W\d{2})()",
    MONTHLY_DIR: r"(\d{4}-\d{2})()",
    YEARLY_DIR: r"(\d{4})()",
    SIGNIFICANT_DIR: rf"({_DAY})_([^/]+)",
}
TIERS: Final = tuple(_DATED)
_DAY_OF: Final = {WEEKLY_DIR: "-1", MONTHLY_DIR: "-01", YEARLY_DIR: "-01-01"}


def dated_name(rel_path: str) -> tuple[str, str, str] | None:
    """Return the tier of a memory of some date, that date, and whose it is or what it is called."""
    tier, _, name = rel_path.partition("/")
    match = re.fullmatch(rf"{_DATED.get(tier, '(?!)')}\.md", name, re.ASCII)
    try:
        date.fromisoformat(match[1] + _DAY_OF.get(tier, "") if match else "")
    except ValueError:
        return None
    return (tier, match[1], match[2] or "") if match else None


def digest_path(name: str) -> str:
    """Return the path of the digest `short`, `mid` or `long`."""
    return f"{DIGEST_DIR}/{name}.md"


SCOPED_DIRS: Final = frozenset({SESSIONS_DIR, *PERIOD_DIRS, DIGEST_DIR})
"""Directories with a folder for each private scope; others have one for public pages at most."""

STANDARD_NAMES: Final = frozenset(
    {*SCOPED_DIRS, *_DESK, SELF_DIR, LORE_DIR, PEOPLE_DIR, PLACES_DIR, TOPICS_DIR}
    | {SIGNIFICANT_DIR, CONFLICTS_DIR, INDEX_DIR, ALIASES_JSON, RELATION_KINDS}
)
"""Names that mean the same in every memory, also where a person is called so."""


def standard_name_blocked_by(rel_path: str) -> str:
    """Return the standard name that a path makes unusable, spelling it otherwise; else empty."""
    top = rel_path.partition("/")[0]
    return fold(top) if top not in STANDARD_NAMES and fold(top) in STANDARD_NAMES else ""


_OF_A_PERSON: Final = "@"
_OF_A_CHANNEL: Final = "+"
_IN_BASE32: Final = "="  # prefix of a shortened name; no other name starts with it
_IS_HASH: Final = "=="
_MOST_PLAIN_CHARS: Final = 120
_MOST_FOLDER_CHARS: Final = 250  # of the 255 bytes that a name may have
_UNKNOWN: Final = visibility.channel_scope("\0")  # no channel has this name


@lru_cache(maxsize=512)
def scope_folder(scope: str) -> str:
    """Return the folder of a private scope in each directory of periods; empty if public.

    Folders are unique even where case is ignored. The folder of a name over 150 bytes does not
    reveal its scope: only the owner sees its contents.
    """
    kind, name = visibility.split_scope(scope)
    if not kind:
        return ""
    folder = "".join(map(_folder_letter, name))
    if len(folder) > _MOST_PLAIN_CHARS:
        from base64 import b32encode  # only for long names

        coded = b32encode(name.encode("utf-8", errors="surrogatepass")).decode("ascii")
        folder = f"{_IN_BASE32}{coded.rstrip('=').lower()}"
    if len(folder) > _MOST_FOLDER_CHARS:
        folder = f"{_IS_HASH}{sha256_of(name)[:32]}"
    return f"{_OF_A_PERSON if kind == 'person' else _OF_A_CHANNEL}{folder}"


def _folder_letter(char: str) -> str:
    if char in "0123456789abcdefghijklmnopqrstuvwxyz_-":
        return char
    return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", errors="surrogatepass"))


@lru_cache(maxsize=2048)  # a prompt asks for the same pages many times
def scope_of_path(rel_path: str) -> str:
    """Return the private scope of a session, a period or a digest; empty if public.

    A folder not created by the program belongs to a scope that nobody has. Any page may have a
    public version of its own.
    """
    directory, _, rest = rel_path.partition("/")
    folder, slash, _ = rest.partition("/")
    if (folder if slash else directory) == _ALL:
        return visibility.SHARED
    if not slash or directory not in SCOPED_DIRS or folder[:1] not in _SIGNS:
        return visibility.PUBLIC
    try:
        scope = _SIGNS[folder[0]](_name_of_folder(folder[1:]))
    except ValueError:
        return _UNKNOWN
    return scope if scope_folder(scope) == folder else _UNKNOWN


_ALL: Final = scope_folder(visibility.SHARED)
_SIGNS: Final = {_OF_A_PERSON: visibility.person_scope, _OF_A_CHANNEL: visibility.channel_scope}


def _name_of_folder(folder: str) -> str:
    if not folder.startswith(_IN_BASE32):
        return unquote(folder, errors="surrogatepass")
    coded = folder.removeprefix(_IN_BASE32).upper()
    from base64 import b32decode  # as above

    return b32decode(coded + "=" * (-len(coded) % 8)).decode("utf-8", errors="surrogatepass")


def is_of_known_scope(rel_path: str) -> bool:
    """Tell whether a path is public or in a scope that someone may have."""
    return scope_of_path(rel_path) != _UNKNOWN


def path_in_scope(rel_path: str, scope: str) -> str:
    """Return the path of a session, a period or a digest in a scope."""
    directory, slash, name = rel_path.partition("/")
    folder = scope_folder(scope)
    if not folder:
        return rel_path
    return f"{directory}/{folder}/{name}" if slash else f"{folder}/{directory}"


def path_without_scope(rel_path: str) -> str:
    """Return the public equivalent of a path; the inverse of `path_in_scope`."""
    if scope_of_path(rel_path) == visibility.PUBLIC:
        return rel_path
    directory, _, rest = rel_path.partition("/")
    return rest if directory == _ALL else f"{directory}/{rest.partition('/')[2]}"


def told_path(rel_path: str, viewer: visibility.Viewer | None = None) -> str:
    """Return the path by which `viewer`, or anybody but the owner, knows a page.

    Only the owner is told that a public page stands apart from a private one.
    """
    is_hidden = scope_of_path(rel_path) == visibility.SHARED and not (viewer and viewer.is_owner)
    return path_without_scope(rel_path) if is_hidden else rel_path


def told_text(message: str) -> str:
    """Return an error about a page as others than the owner are told it; see `told_path`."""
    return message.replace(f"{_ALL}/", "").replace(f"/{_ALL}", "")


def people_path(slug: str) -> str:
    """Return the path of a person's file; see `Author.slug`."""
    return f"{PEOPLE_DIR}/{slug}.md"


MEMORY_WRITER: Final = "memory_writer"
CONSOLIDATION: Final = "consolidation"
HOUSEKEEPING: Final = "housekeeping"
SYNC: Final = "sync"


RUN_ID: Final = "Run-Id"
"""Commit trailer that groups related changes."""

_FORM: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}", re.ASCII)


def new_run_id() -> str:
    """Return a new id that sorts chronologically, e.g. `20260131T235959-a1b2c3`."""
    return f"{clock.now():%Y%m%dT%H%M%S}-{os.urandom(3).hex()}"


def is_run_id(text: str) -> bool:
    """Tell whether `text` is the id of a pass."""
    return bool(_FORM.fullmatch(text))


def pass_trailers(run: str) -> dict[str, str]:
    """Return the trailers of transactions in the pass `run`; none for any other text."""
    return {RUN_ID: run} if is_run_id(run) else {}
