"""Locate homes, familiars and caches, and identify the instance on this machine.

`instance.id` is in the familiar's directory but outside its memory, so that it is never synced:

    id = "laptop-7f3a"      # this instance
    began = "laptop-7f3a"   # the instance that the familiar began on

`id` is generated once from the machine's name and random digits. It is ASCII, since it becomes part
of file names, citations and git refs.

`instance.place` holds the directory's inode number and the change time of `instance.id`. Renaming
the directory keeps both; no copy does, and no restored archive. `history.cursor` holds the newest
turn written under this instance's id. Neither is backed up.
"""

from __future__ import annotations

import os
import platform
import re
import tomllib
import unicodedata
from contextlib import suppress
from datetime import tzinfo
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base import errors, files
from familiar_cli.base.text import one_line, sha256_of, slugify
from familiar_cli.base.who import identity

if TYPE_CHECKING:
    from familiar_cli.base.config.schema import HomeSettings

CHOSEN_FILE = ".chosen"
ME_FILE = "me.toml"
IS_MOVING: Final = "not finished"
"""Second line of `moved.txt` during a move, whose process holds `moving_lock`."""
NEAREST = Path("data") / "familiars"


class _FamiliarFile:
    """A file or directory of a familiar, as an attribute of `FamiliarPaths`."""

    def __init__(self, rel_path: str) -> None:
        self._rel_path = rel_path

    def __set_name__(self, owner: type[FamiliarPaths], name: str) -> None:
        self._name = name

    def __get__(self, paths: FamiliarPaths, owner: type[FamiliarPaths]) -> Path:
        path = paths.__dict__[self._name] = paths.root / self._rel_path
        return path


class FamiliarPaths(Struct, frozen=True, dict=True):
    """The files of one familiar. See docs/reference/layout.md."""

    root: Path

    @property
    def id(self) -> str:
        """The familiar's id."""
        return self.root.name

    config = _FamiliarFile("character.toml")
    """`character.toml`."""

    instance = _FamiliarFile("instance.id")
    """`instance.id`: the familiar's instance on this machine."""

    moved = _FamiliarFile("moved.txt")
    """`moved.txt`: where the familiar went; this copy no longer answers."""

    moving_lock = _FamiliarFile(".moving.lock")
    """Lock held during a move."""

    @property
    def me(self) -> Path:
        """`me.toml` of the home: its owners."""
        return self.root.parent / ME_FILE

    forgetting = _FamiliarFile(".forgetting.json")
    """`.forgetting.json`: the person being forgotten, until that is complete."""

    channels = _FamiliarFile("channels")
    """Settings files of individual channels."""

    subscriptions = _FamiliarFile("subscriptions.toml")
    """`subscriptions.toml`: the subscribed channels."""

    memory = _FamiliarFile("memory")
    """The memory directory."""

    journal = _FamiliarFile("journal.git")
    """The git repository with every change of the memory."""

    history = _FamiliarFile("history.db")
    """The SQLite file of turns."""

    embodiments = _FamiliarFile("embodiments.json")
    """The embodiments that sync with this familiar, and what each has seen."""

    reminded = _FamiliarFile("reminded.json")
    """Which due reminders were shown, and where."""

    jobs = _FamiliarFile("jobs.toml")
    """`jobs.toml`: scheduled jobs."""

    turn_vectors = _FamiliarFile("recall")
    """Vectors of turns; derived from the history."""

    traces = _FamiliarFile("traces")
    """One JSON file per turn: the request and its explanation."""

    runs = _FamiliarFile("runs")
    """One record per pass of the memory writer."""

    quarantine = _FamiliarFile("quarantine")
    """Unusable model replies, verbatim."""

    failures = _FamiliarFile("runs/failed")
    """One file per background pass that failed and has not succeeded since."""

    lock = _FamiliarFile(".lock")
    """The lock held while writing to this familiar."""

    def channel_lock(self, channel_id: str) -> Path:
        """Return the lock held while replying in a channel."""
        digest = sha256_of(channel_id)
        return self.runs / "locks" / f"channel-{digest[:32]}.lock"


def find_home(value: str | None = None) -> Path:
    """Return the directory of familiars, which may not exist yet.

    In this order: `value`, `FAMILIAR_HOME`, the nearest `data/familiars` from the working directory
    upwards, the platform's user data directory.
    """
    return home_and_reason(value)[0]


def home_and_reason(value: str | None = None) -> tuple[Path, str]:
    """Return the directory of familiars and how it was chosen; see `find_home`."""
    for name, reason in ((value, "--home"), (os.environ.get("FAMILIAR_HOME"), "FAMILIAR_HOME")):
        if name:
            return files.path_of(name), reason
    here = Path.cwd()
    for directory in (here, *here.parents):
        if (directory / NEAREST).is_dir():
            return directory / NEAREST, f"the nearest {NEAREST.as_posix()}"
    import platformdirs  # noqa: PLC0415  # only the last resort needs it

    data = Path(platformdirs.user_data_dir("familiar", appauthor=False))
    return data / "familiars", "the user's data directory"


def cache_dir() -> Path:
    """Return the directory of model files and tokenizers, shared by all familiars.

    `FAMILIAR_CACHE` overrides the platform's cache directory.
    """
    name = os.environ.get("FAMILIAR_CACHE")
    if name:
        return files.path_of(name)
    import platformdirs  # noqa: PLC0415

    return Path(platformdirs.user_cache_dir("familiar", appauthor=False))


def fastembed_cache_dir() -> Path | None:
    """Return fastembed's shared model directory, if `FASTEMBED_CACHE_PATH` names it."""
    name = os.environ.get("FASTEMBED_CACHE_PATH")
    return files.path_of(name) if name else None


def list_familiars(home: Path) -> list[str]:
    """List the ids of all familiars in `home`, sorted.

    Raises:
        ConfigError: Not a directory, or unreadable.
    """
    try:
        if not home.exists():
            return []
        items = sorted(
            entry.name
            for entry in home.iterdir()
            if not entry.name.startswith(".") and _is_familiar(entry)
        )
    except OSError as error:
        raise errors.ConfigError(
            f"{str(home)!r} cannot be read: {error.strerror or error}",
            hint="Check its permissions, or choose another directory with --home.",
        ) from error
    _close_to_others(home, items)
    return items


def _close_to_others(home: Path, familiar_ids: list[str]) -> None:
    """Remove others' permissions from a home that was left readable to them."""
    for name in familiar_ids:
        files.close_to_others(home / name)
    if familiar_ids:
        files.close_to_others(home, (CHOSEN_FILE, ME_FILE))


def find_familiar(home: Path, given: str | None = None) -> FamiliarPaths:
    """Resolve a familiar by id or default.

    In this order: `given`, `FAMILIAR_ID`, the one chosen with `familiar use`, the only familiar.

    Raises:
        NotFoundError: No familiar has that name, or `home` has none.
        UsageError: There are several and none was chosen, or the id is invalid.
        RefusedError: It was moved away.
    """
    paths = familiar_and_reason(home, given)[0]
    check_here(paths)
    return paths


def has_familiar(home: Path, name: str) -> bool:
    """Tell whether `home` has a familiar of that id, without reading all of `home`."""
    if not name or slugify(name) != name:
        return False
    path = os.path.join(home, name)  # noqa: PTH118  # each request of a server asks
    try:
        is_one = os.path.isfile(f"{path}/character.toml") or _is_familiar(home / name)  # noqa: PTH113
        if not is_one or files.is_misspelled(path):
            return False
    except PermissionError:  # of the home: `list_familiars` says what is wrong
        return False
    _close_to_others(home, [name])
    return True


def check_here(paths: FamiliarPaths) -> None:
    """Make sure that a familiar was not moved away.

    Raises:
        RefusedError: It was; the message says where to.
    """
    if not os.path.exists(paths.moved):  # noqa: PTH110  # False in a closed directory, too
        return
    if _undo_unfinished_move(paths):
        return
    raise errors.RefusedError(
        f"{paths.id!r} was moved to {moved_to(paths)}; this copy no longer answers, and was not "
        "changed",
        hint=f"If it never arrived there, delete {paths.moved.name!r} in its directory.",
    )


def moved_to(paths: FamiliarPaths) -> str:
    """Describe where a familiar was moved."""
    try:
        text = files.read_plain(paths.moved).decode("utf-8", "replace")
    except OSError:
        return "another place"
    return text.partition("\n")[0].strip() or "another place"


def _undo_unfinished_move(paths: FamiliarPaths) -> bool:
    """Let a familiar answer again if the process that was moving it ended too early.

    Returns:
        Whether it was such a move.
    """
    try:
        if not _is_moving(paths):
            return False
        with files.locked(paths.moving_lock, 0):
            if is_unfinished := _is_moving(paths):  # it may have been completed meanwhile
                files.remove(paths.moved)
            return is_unfinished
    except (OSError, errors.LockedError):
        return False


def _is_moving(paths: FamiliarPaths) -> bool:
    lines = files.read_plain(paths.moved).decode("utf-8", "replace").split("\n")
    return lines[1:2] == [IS_MOVING]


def familiar_and_reason(home: Path, value: str | None = None) -> tuple[FamiliarPaths, str]:
    """Resolve a familiar, and tell how it was chosen; see `find_familiar`."""
    for name, reason in ((value, "--familiar"), (os.environ.get("FAMILIAR_ID"), "FAMILIAR_ID")):
        if name:
            return _find_familiar(home, name), reason
    familiars = list_familiars(home)
    choice = chosen_familiar(home)
    if choice in familiars:
        return FamiliarPaths(home / choice), "familiar use"
    if len(familiars) == 1:
        return FamiliarPaths(home / familiars[0]), "the only familiar"
    if not familiars:
        raise errors.NotFoundError(
            f"There are no familiars in {str(home)!r}",
            hint="Create one: `familiar init --from-card CARD.png`, or try `familiar demo`.",
        )
    raise errors.UsageError(
        f"There are several familiars and none is chosen: {', '.join(familiars)}",
        hint=f"Choose one: `familiar use {familiars[0]}`, or add `--familiar {familiars[0]}`.",
    )


def chosen_familiar(home: Path) -> str:
    """Return the id written by `familiar use`, or an empty string."""
    try:
        return files.read_plain(home / CHOSEN_FILE).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def choose_familiar(home: Path, name: str) -> FamiliarPaths:
    """Make `name` the default familiar, and return it.

    Raises:
        NotFoundError: No such familiar; the choice is unchanged.
        FamiliarError: The choice cannot be written; it is unchanged.
    """
    paths = _find_familiar(home, name)
    try:
        files.write_whole(home / CHOSEN_FILE, name + "\n")
    except OSError as error:
        raise errors.FamiliarError(
            f"{str(home)!r} cannot be written to: {error.strerror or error}; nothing was changed",
            hint=files.write_hint(error.errno),
        ) from error
    return paths


def _find_familiar(home: Path, name: str) -> FamiliarPaths:
    if has_familiar(home, name):
        return FamiliarPaths(home / name)
    familiars = list_familiars(home)
    if name in familiars:
        return FamiliarPaths(home / identity.check_familiar_id(name))
    raise errors.NotFoundError(
        f"No familiar {name!r} in {str(home)!r}; there are: {', '.join(familiars) or 'none'}",
        hint=f"Did you mean {guess!r}?"
        if (guess := slugify(name)) in familiars
        else "Run `familiar list`, or create one with `familiar init`.",
    )


def _is_familiar(directory: Path) -> bool:
    """Tell whether a directory is a familiar; an unreadable one counts, and fails later."""
    if directory.is_dir() and not os.access(directory, os.X_OK):
        return True
    return (directory / "character.toml").is_file() or (directory / "memory").is_dir()


def who_speaks(
    value: str | None = None,
    name: str | None = None,
    me: identity.Me = identity.Me(),  # noqa: B008  # frozen
    *,
    field: str = "The account",
) -> identity.Author:
    """Return the author given as an owner or as `PLATFORM:ID`, or the default speaker.

    Args:
        value: `PLATFORM:ID`, the name of one of the `others` in `me.toml`, or None.
        name: Their name, or None.
        me: The default speaker.
        field: Name of the value in errors.

    Raises:
        UsageError: `value` is not valid.
    """
    text = identity.clean_name(name)
    owners = {one.account.user_id: one for one in me.others}
    if value is not None and value not in owners:
        if owners and ":" not in value:
            raise errors.UsageError(
                f"{field} {one_line(repr(value), 80)} is neither PLATFORM:ID nor an owner",
                hint=f"Owners here: {', '.join(owners)}.",
            )
        return identity.parse_author(value, display_name=text, field=field)
    author = (me if value is None else owners[value]).author
    return replace(author, display_name=text or author.display_name)


def other_owners(settings: HomeSettings) -> tuple[identity.Me, ...]:
    """Return the owners that `me.toml` has beside the first; each has an account `cli:NAME`."""
    mes = []
    for name, set_to in settings.owners.items():
        accounts = (
            identity.Author(identity.NEUTRAL.platform, name),
            *map(identity.parse_author, set_to.also),
        )
        mes.append(
            identity.Me(
                accounts[0],
                one_line(set_to.name) or name,
                set_to.description,
                one_line(set_to.pronouns),
                name,
                frozenset(account.slug for account in accounts),
            )
        )
    return tuple(mes)


def is_alive(pid: int) -> bool:
    """Tell whether a process is running; True if that cannot be determined."""
    if os.name == "nt":  # on Windows, a signal would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def is_abandoned(name: str) -> bool:
    """Tell whether a process of this program that ended left this unfinished file or directory."""
    pid = files.maker_of(name)
    return pid is not None and not is_alive(pid)


def zone_of(name: str) -> tzinfo | None:
    """Return a timezone by name; None, for the system's, if empty."""
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # only who has one pays for it

    return ZoneInfo(name)


MOST_ID_CHARS: Final = 40
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAMELESS: Final = "here"
_RANDOM_BYTES: Final = 2
_MOST_BYTES: Final = 4_096
_LOCK: Final = ".instance.lock"
_NOTE: Final = (
    "# The instance of this familiar that lives here. Made by the program; never copy it to another"
    " machine.\n"
)


class Instance(Struct, frozen=True):
    """An installation of a familiar.

    Args:
        began: The original instance.
        former: Its last id before this one; empty if there was none, or no turn had it.
    """

    id: str
    began: str
    former: str = ""

    @property
    def is_first(self) -> bool:
        """Whether this is the original instance."""
        return self.id == self.began


def is_instance_id(text: str) -> bool:
    """Tell whether `text` is a valid instance id: ASCII letters and digits, separated by `-`."""
    return len(text) <= MOST_ID_CHARS and _ID.fullmatch(text) is not None


def host_name() -> str:
    """Return the machine's name as a slug."""
    return slugify(platform.node().partition(".")[0]) or _NAMELESS


def new_id(choice: str = "") -> str:
    """Generate a unique id.

    Args:
        choice: Configured name of this machine; empty for its host name.
    """
    plain = unicodedata.normalize("NFKD", choice or host_name()).encode("ascii", "ignore").decode()
    suffix = os.urandom(_RANDOM_BYTES).hex()
    readable = slugify(plain)[: MOST_ID_CHARS - len(suffix) - 1].strip("-")
    return f"{readable or _NAMELESS}-{suffix}"


def read_instance(path: Path) -> Instance | None:
    """Read the instance from a file, or return None if it is missing.

    Raises:
        ConfigError: It is unreadable or invalid.
    """
    try:
        instance = _parse_instance(files.read_plain(path, _MOST_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable_instance(path, f"cannot be read: {files.why(error)}") from error
    if instance is None:
        raise _unusable_instance(path, "is damaged")
    return instance


@lru_cache(maxsize=64)  # it is read again and again
def _parse_instance(content: bytes) -> Instance | None:
    try:
        result = tomllib.loads(content.decode())
        found = Instance(result["id"], result["began"], result.get("former", ""))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    ids = found.id, found.began, found.former or found.id
    return found if all(isinstance(one, str) and is_instance_id(one) for one in ids) else None


def ensure_instance(path: Path, *, chosen: str = "") -> Instance:
    """Return the instance of a familiar, creating it if needed. Safe across processes.

    Args:
        chosen: Configured name of this machine; empty for its host name.

    Raises:
        ConfigError: The file is damaged, or cannot be read or written.
    """
    found = read_instance(path)
    if found is not None:
        return found
    own = new_id(chosen)
    instance = Instance(own, own)
    try:
        return instance if _put_first(path, instance) else _read_again(path)
    except OSError as error:
        raise _unwritable_instance(path, error) from error


def begin_instance(path: Path, began: str) -> Instance:
    """Create the instance of a familiar that comes from another machine.

    Args:
        path: Its file, which must not exist.
        began: The original instance.

    Raises:
        ConfigError: `began` is not an id, or the file exists or cannot be written.
    """
    if not is_instance_id(began):
        raise errors.ConfigError(f"{began!r} is not the id of an instance; nothing was changed")
    instance = Instance(new_id(), began)
    try:
        if not _put_first(path, instance):
            raise _unusable_instance(path, "is there already")
    except OSError as error:
        raise _unwritable_instance(path, error) from error
    return instance


def replace_id(path: Path, taken: str, *, has_turns: bool = True) -> Instance:
    """Give the instance a new id, because another machine uses the old one.

    If several processes notice, one generates the id and the others adopt it. The original instance
    is unchanged, and existing daily files belong to the machine that keeps the id.

    Args:
        taken: The id in use elsewhere.
        has_turns: Whether turns were written under it.

    Raises:
        ConfigError: The file is missing or damaged, or cannot be written.
    """
    try:
        with files.locked(path.with_name(_LOCK), what=str(path)):
            again = _read_again(path)
            if again.id != taken:
                return again
            instance = replace(again, id=new_id(), former=taken if has_turns else "")
            files.write_whole(path, _instance_text(instance))
    except OSError as error:
        raise _unwritable_instance(path, error) from error
    return instance


def _put_first(path: Path, instance: Instance) -> bool:
    """Create the file atomically unless it exists; tell whether it was created."""
    directory = str(path.parent)
    os.makedirs(directory, exist_ok=True)  # noqa: PTH103
    disk, temporary = files.Disk(), files.temp_in(directory, ".new")
    try:
        disk.create(temporary, _instance_text(instance).encode())
        try:
            disk.link(temporary, str(path))
        except FileExistsError:
            return False
        except OSError:  # no hard links here, as on FAT
            return _put_locked(path, instance)
        disk.sync_dir(directory)
    finally:
        files.remove(temporary)
    return True


def _put_locked(path: Path, instance: Instance) -> bool:
    with files.locked(path.with_name(_LOCK), what=str(path)):
        if os.path.lexists(path):
            return False
        files.write_whole(path, _instance_text(instance))
    return True


def _read_again(path: Path) -> Instance:
    instance = read_instance(path)
    if instance is None:
        raise _unusable_instance(path, "is gone")
    return instance


def _instance_text(instance: Instance) -> str:
    # Slugs need no escapes.
    told = {key: getattr(instance, key) for key in ("id", "began", "former")}
    lines = (f'{key} = "{value}"\n' for key, value in told.items() if value)
    return _NOTE + "".join(lines)


def _unwritable_instance(path: Path, error: OSError) -> errors.ConfigError:
    return errors.ConfigError(
        f"{str(path)!r} cannot be written: {files.why(error)}; nothing was changed",
        hint=files.write_hint(error.errno),
    )


def _unusable_instance(path: Path, what: str) -> errors.ConfigError:
    return errors.ConfigError(
        f"{str(path)!r} {what}; nothing was changed",
        hint="Restore it from a backup: it says `id` and `began`. Without a backup,"
        " delete it; this machine then becomes a new instance.",
    )


PLACE: Final = "instance.place"
CURSOR: Final = "history.cursor"
_MOST_NOTE_BYTES: Final = 256
_ID_CHARS: Final = 40


def is_copy(root: Path) -> bool:
    """Tell whether a familiar's directory was copied from where its instance was made.

    On file systems without stable inode numbers the change time alone decides.
    """
    known = _noted_place(root)
    if len(known) != len(_place_of(root)):  # none, or a power cut left it empty
        note_place(root)
        return False
    return not any(one == two for one, two in zip(known, _place_of(root), strict=True))


def _noted_place(root: Path) -> list[str]:
    try:
        return files.read_plain(root / PLACE, _MOST_NOTE_BYTES).decode().split()
    except (OSError, UnicodeDecodeError):
        return []


def note_place(root: Path) -> None:
    """Record where the instance of a familiar is, if it has one and the disk is writable."""
    with suppress(OSError):
        files.write_own(root / PLACE, " ".join(_place_of(root)).encode(), durable=False)


def _place_of(root: Path) -> tuple[str, str]:
    return str(os.stat(root).st_ino), str(os.stat(root / "instance.id").st_ctime_ns)  # noqa: PTH116


def read_cursor(root: Path, instance: str) -> int:
    """Return the newest turn ever written here under an instance's id; 0 if unknown."""
    try:
        turn_id, _, name = files.read_plain(root / CURSOR, _MOST_NOTE_BYTES).decode().partition(" ")
        return int(turn_id) if name.strip() == instance else 0
    except (OSError, ValueError):
        return 0


def missing_turns(paths: FamiliarPaths, newest: int) -> str:
    """Return a notice if the history ends at `newest`, and more was written here; else empty."""
    instance = read_instance(paths.instance)
    last = read_cursor(paths.root, instance.id) if instance else 0
    if last <= newest:
        return ""
    return (
        f"history.db lacks turns up to {last}, which were written here: put it back from a backup "
        "before anything is said, since the next turn begins a new history"
    )


def write_cursor(root: Path, instance: str, turn_id: int) -> None:
    """Record the newest turn, if possible. It is not flushed: a lower number does no harm."""
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(root / CURSOR, flags, 0o600)
        try:
            os.write(descriptor, f"{turn_id:020} {instance:<{_ID_CHARS}}\n".encode())
        finally:
            os.close(descriptor)
