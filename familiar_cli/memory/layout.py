"""Where things live in a memory, which parts of the program change it, and the ids of runs."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote

from familiar_cli import clock
from familiar_cli.text import sha256_of
from familiar_cli.visibility import PUBLIC, channel_scope, person_scope, split_scope

SELF_DIR: Final = "self"
"""Who the familiar is."""

CARD_JSON: Final = f"{SELF_DIR}/card.json"
"""Every field of a character card that has no file of its own."""

PEOPLE_DIR: Final = "people"
"""A file for each person, named after their account; see `people_path`."""

ALIASES_JSON: Final = f"{PEOPLE_DIR}/_aliases.json"
"""Who is called what, for other programs and for people to read."""

TOPICS_DIR: Final = "topics"
"""A file for each subject that comes up again."""

PLACES_DIR: Final = "places"
"""A file for each place, where a person keeps places apart from topics."""

LORE_DIR: Final = "lore"
"""What is true in the familiar's world."""

IMPORTED_LORE_DIR: Final = f"{LORE_DIR}/imported"
"""Where lorebooks are imported to."""

SESSIONS_DIR: Final = "sessions"
"""What was said, by part of the day; and how far the memory writer has come."""

PENDING_DIR: Final = f"{SESSIONS_DIR}/.pending"
"""Plans that wait for a person."""

REJECTED_DIR: Final = f"{SESSIONS_DIR}/.rejected"
"""What a person said no to."""

DAILY_DIR: Final = "daily"
WEEKLY_DIR: Final = "weekly"
MONTHLY_DIR: Final = "monthly"
YEARLY_DIR: Final = "yearly"

PERIOD_DIRS: Final = (DAILY_DIR, WEEKLY_DIR, MONTHLY_DIR, YEARLY_DIR)
"""What sessions are consolidated into, each from the one before it."""

SIGNIFICANT_DIR: Final = "significant"
"""Moments that are never consolidated away."""

DIGEST_DIR: Final = "digest"
"""What is in every prompt: `short.md`, `mid.md` and `long.md`."""

WRITER_JSON: Final = f"{SESSIONS_DIR}/.writer.json"
"""How far the memory writer has come."""

DERIVED: Final = frozenset({ALIASES_JSON, WRITER_JSON})
"""What the program makes again by itself."""

RELATION_KINDS: Final = "relations.md"
"""What relations are the other way round, where a person adds to the table."""

NOTES: Final = "notes.md"
REMINDERS: Final = "reminders.md"
TASKS: Final = "tasks.md"
SCRATCH: Final = "scratch.md"

CONFLICTS_DIR: Final = "conflicts"
"""The other version of each file that two machines changed, each in its own way."""

CONFLICTS_LIST: Final = f"{CONFLICTS_DIR}/README.md"
"""Which conflicts there are."""

INDEX_DIR: Final = ".index"
"""What search needs. It can be deleted at any time."""

PRIVATE_DIRS: Final = (INDEX_DIR, ".git", ".obsidian", ".trash")
"""What is never part of the memory, at any depth; the last two are Obsidian's own."""

_STAYS_HERE: Final = frozenset({ALIASES_JSON, WRITER_JSON, PENDING_DIR, REJECTED_DIR})


def is_synced(rel_path: str) -> bool:
    """Tell whether a file belongs to the memory on every machine.

    What is made again from other files stays where it is, and so does what one machine alone goes
    by: how far its memory writer has come, the plans that wait here, and those that were rejected.
    Names that differ only in case count as one, as they do on some machines.
    """
    parts = rel_path.casefold().split("/")
    return not _STAYS_HERE.intersection(("/".join(parts), "/".join(parts[:2]))) and not set(
        PRIVATE_DIRS
    ).intersection(parts)


def is_hidden(rel_path: str) -> bool:
    """Tell whether a file is kept for the program, so that no search sees it."""
    return rel_path.startswith(".") or "/." in rel_path


def is_in_conflicts(rel_path: str) -> bool:
    """Tell whether a file belongs to the conflicts between machines, not to what is remembered."""
    return rel_path.startswith(f"{CONFLICTS_DIR}/")


def digest_path(name: str) -> str:
    """Return the file of the digest `short`, `mid` or `long`."""
    return f"{DIGEST_DIR}/{name}.md"


_SCOPED_DIRS: Final = frozenset({SESSIONS_DIR, *PERIOD_DIRS, DIGEST_DIR})
_OF_A_PERSON: Final = "@"
_OF_A_CHANNEL: Final = "+"
_IN_BASE32: Final = "="  # before a name that is shorter so; no other begins with it
_IS_HASH: Final = "=="
_MOST_PLAIN_CHARS: Final = 120
_MOST_FOLDER_CHARS: Final = 250  # of a name that may have 255 bytes
_UNKNOWN: Final = channel_scope("\0")  # no channel is called so


def scope_folder(scope: str) -> str:
    """Return the folder of a private scope in each directory of periods; empty: it is public.

    No two scopes share one, also where upper and lower case are one. From the folder of a name of
    more than 150 bytes nobody can tell whose it is: only the owner sees what is in it.
    """
    kind, name = split_scope(scope)
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


def scope_of_path(rel_path: str) -> str:
    """Return the private scope of a session, a period or a digest; empty: its path is public.

    A folder that the program did not name belongs to a scope that nobody has.
    """
    directory, _, rest = rel_path.partition("/")
    folder, slash, _ = rest.partition("/")
    if not slash or directory not in _SCOPED_DIRS or folder[:1] not in _SIGNS:
        return PUBLIC
    try:
        scope = _SIGNS[folder[0]](_name_of_folder(folder[1:]))
    except ValueError:
        return _UNKNOWN
    return scope if scope_folder(scope) == folder else _UNKNOWN


_SIGNS: Final = {_OF_A_PERSON: person_scope, _OF_A_CHANNEL: channel_scope}


def _name_of_folder(folder: str) -> str:
    if not folder.startswith(_IN_BASE32):
        return unquote(folder, errors="surrogatepass")
    coded = folder.removeprefix(_IN_BASE32).upper()
    from base64 import b32decode  # as above

    return b32decode(coded + "=" * (-len(coded) % 8)).decode("utf-8", errors="surrogatepass")


def is_of_known_scope(rel_path: str) -> bool:
    """Tell whether the scope of a path is public, or one that somebody may have."""
    return scope_of_path(rel_path) != _UNKNOWN


def path_in_scope(rel_path: str, scope: str) -> str:
    """Return where a session, a period or a digest of a scope is kept."""
    directory, _, name = rel_path.partition("/")
    folder = scope_folder(scope)
    return f"{directory}/{folder}/{name}" if folder else rel_path


def path_without_scope(rel_path: str) -> str:
    """Return the path that a file would have if it were public; undoes `path_in_scope`."""
    if scope_of_path(rel_path) == PUBLIC:
        return rel_path
    directory, _, rest = rel_path.partition("/")
    return f"{directory}/{rest.partition('/')[2]}"


def people_path(slug: str) -> str:
    """Return the file of a person; see `Author.slug`."""
    return f"{PEOPLE_DIR}/{slug}.md"


MEMORY_WRITER: Final = "memory_writer"
CONSOLIDATION: Final = "consolidation"
HOUSEKEEPING: Final = "housekeeping"
SYNC: Final = "sync"


RUN_ID: Final = "Run-Id"
"""The line of a commit that names what it belongs together with."""

_FORM: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}", re.ASCII)


def new_run_id() -> str:
    """Return an id that sorts as passes happen, e.g. `20260131T235959-a1b2c3`."""
    return f"{clock.now():%Y%m%dT%H%M%S}-{os.urandom(3).hex()}"


def is_run_id(text: str) -> bool:
    """Tell whether `text` is the id of a pass."""
    return bool(_FORM.fullmatch(text))


def pass_trailers(run: str) -> dict[str, str]:
    """Return the trailers of a transaction that belongs to the pass `run`; none for other text."""
    return {RUN_ID: run} if is_run_id(run) else {}
