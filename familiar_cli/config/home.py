"""Where the familiars live, which one is meant, and what the machine knows."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.errors import ConfigError, NotFoundError, UsageError
from familiar_cli.files import close_to_others, read_plain, write_whole
from familiar_cli.identity import NEUTRAL, Author, check_familiar_id, clean_name, parse_author

if TYPE_CHECKING:
    from datetime import tzinfo


CHOSEN_FILE = ".chosen"
ME_FILE = "me.toml"
NEAREST = Path("data") / "familiars"


@dataclass(frozen=True, slots=True)
class FamiliarPaths:
    """The files of one familiar. See docs/reference/layout.md."""

    root: Path

    @property
    def id(self) -> str:
        """The familiar's id."""
        return self.root.name

    @property
    def config(self) -> Path:
        """`character.toml`."""
        return self.root / "character.toml"

    @property
    def instance(self) -> Path:
        """`instance.id`: which instance of the familiar lives here."""
        return self.root / "instance.id"

    @property
    def me(self) -> Path:
        """`me.toml` of the home: who speaks to its familiars."""
        return self.root.parent / ME_FILE

    @property
    def channels(self) -> Path:
        """One settings file for each channel that differs."""
        return self.root / "channels"

    @property
    def subscriptions(self) -> Path:
        """`subscriptions.toml`: the channels that are listened to."""
        return self.root / "subscriptions.toml"

    @property
    def memory(self) -> Path:
        """The memory directory."""
        return self.root / "memory"

    @property
    def journal(self) -> Path:
        """The git repository that knows every change of the memory."""
        return self.root / "journal.git"

    @property
    def history(self) -> Path:
        """The SQLite file of turns."""
        return self.root / "history.db"

    @property
    def embodiments(self) -> Path:
        """The embodiments that sync with this familiar, and what each has seen."""
        return self.root / "embodiments.json"

    @property
    def turn_vectors(self) -> Path:
        """What finds turns by meaning; derived from the history."""
        return self.root / "recall"

    @property
    def traces(self) -> Path:
        """One JSON file per turn: what was sent and why."""
        return self.root / "traces"

    @property
    def runs(self) -> Path:
        """One record for each pass of the memory writer."""
        return self.root / "runs"

    @property
    def quarantine(self) -> Path:
        """Replies of models that could not be used, word for word."""
        return self.root / "quarantine"

    @property
    def failures(self) -> Path:
        """One file for each background pass that failed and has not succeeded since."""
        return self.runs / "failed"

    def channel_lock(self, channel_id: str) -> Path:
        """Return the lock that whoever replies in a channel holds."""
        digest = sha256(channel_id.encode("utf-8", errors="surrogatepass")).hexdigest()
        return self.runs / "locks" / f"channel-{digest[:32]}.lock"

    @property
    def lock(self) -> Path:
        """The lock that every writer of this familiar takes."""
        return self.root / ".lock"


def find_home(given: str | None = None) -> Path:
    """Return where the familiars live; the directory need not exist yet.

    In this order: `given`, `FAMILIAR_HOME`, the nearest `data/familiars` from the working directory
    upwards, the platform's user data directory.
    """
    return home_and_reason(given)[0]


def home_and_reason(given: str | None = None) -> tuple[Path, str]:
    """Return where the familiars live, and what decided that; see `find_home`."""
    for named, reason in ((given, "--home"), (os.environ.get("FAMILIAR_HOME"), "FAMILIAR_HOME")):
        if named:
            return Path(named).expanduser().absolute(), reason
    here = Path.cwd()
    for directory in (here, *here.parents):
        if (directory / NEAREST).is_dir():
            return directory / NEAREST, f"the nearest {NEAREST.as_posix()}"
    import platformdirs  # noqa: PLC0415  # only the last resort needs it

    data = Path(platformdirs.user_data_dir("familiar", appauthor=False))
    return data / "familiars", "the user's data directory"


def cache_dir() -> Path:
    """Return where model files and tokenizers are kept, shared by all familiars.

    `FAMILIAR_CACHE` overrides the platform's own cache directory.
    """
    named = os.environ.get("FAMILIAR_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs  # noqa: PLC0415

    return Path(platformdirs.user_cache_dir("familiar", appauthor=False))


def list_familiars(home: Path) -> list[str]:
    """Return the ids of all familiars in `home`, sorted.

    Raises:
        ConfigError: It is no directory, or cannot be read.
    """
    try:
        if not home.exists():
            return []
        found = sorted(
            entry.name
            for entry in home.iterdir()
            if not entry.name.startswith(".") and _is_familiar(entry)
        )
    except OSError as error:
        raise _unusable(home, "read", error) from error
    _close_to_others(home, found)
    return found


def _close_to_others(home: Path, familiar_ids: list[str]) -> None:
    """Remove others' permissions from a home that was left readable to them."""
    for name in familiar_ids:
        close_to_others(home / name)
    if familiar_ids:
        close_to_others(home, (CHOSEN_FILE, ME_FILE))


def find_familiar(home: Path, given: str | None = None) -> FamiliarPaths:
    """Return the familiar that is meant.

    In this order: `given`, `FAMILIAR_ID`, the one chosen with `familiar use`, the only familiar.

    Raises:
        NotFoundError: No familiar has that name, or `home` has none.
        UsageError: There are several and none was chosen, or the id could not be one.
    """
    return familiar_and_reason(home, given)[0]


def familiar_and_reason(home: Path, given: str | None = None) -> tuple[FamiliarPaths, str]:
    """Return the familiar that is meant, and what decided that; see `find_familiar`."""
    known = list_familiars(home)
    for name, reason in ((given, "--familiar"), (os.environ.get("FAMILIAR_ID"), "FAMILIAR_ID")):
        if name:
            return _named(home, name, known), reason
    chosen = chosen_familiar(home)
    if chosen in known:
        return FamiliarPaths(home / chosen), "familiar use"
    if len(known) == 1:
        return FamiliarPaths(home / known[0]), "the only familiar"
    if not known:
        raise NotFoundError(
            f"There are no familiars in {str(home)!r}",
            hint="Create one: `familiar init --from-card CARD.png`, or try `familiar demo`.",
        )
    raise UsageError(
        f"There are several familiars and none is chosen: {', '.join(known)}",
        hint=f"Choose one: `familiar use {known[0]}`, or add `--familiar {known[0]}`.",
    )


def chosen_familiar(home: Path) -> str:
    """Return the id that `familiar use` wrote, or an empty string."""
    try:
        return read_plain(home / CHOSEN_FILE).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def choose_familiar(home: Path, name: str) -> FamiliarPaths:
    """Remember `name` as the familiar that commands mean, and return it.

    Raises:
        NotFoundError: There is no such familiar; the choice stays as it was.
        ConfigError: The choice cannot be written down; it stays as it was.
    """
    paths = _named(home, name, list_familiars(home))
    try:
        write_whole(home / CHOSEN_FILE, name + "\n")
    except OSError as error:
        raise _unusable(home, "written to", error) from error
    return paths


def _unusable(home: Path, what: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"{str(home)!r} cannot be {what}: {error.strerror or error}",
        hint="Check its permissions, or choose another directory with --home.",
    )


def _named(home: Path, name: str, known: list[str]) -> FamiliarPaths:
    if name in known:
        return FamiliarPaths(home / check_familiar_id(name))
    raise NotFoundError(
        f"No familiar {name!r} in {str(home)!r}; there are: {', '.join(known) or 'none'}",
        hint="Run `familiar list`, or create one with `familiar init`.",
    )


def _is_familiar(directory: Path) -> bool:
    """Return whether a familiar lives there. One that cannot be looked into is told of, later."""
    if directory.is_dir() and not os.access(directory, os.X_OK):
        return True
    return (directory / "character.toml").is_file() or (directory / "memory").is_dir()


def who_speaks(given: str | None = None, name: str | None = None, me: Author = NEUTRAL) -> Author:
    """Return the author that `PLATFORM:ID` names, or the one whose home it is.

    Args:
        given: `PLATFORM:ID`, or None.
        name: What they are called, or None.
        me: Who speaks where nobody is named.

    Raises:
        UsageError: `given` names nobody.
    """
    shown = clean_name(name)
    if given is not None:
        return parse_author(given, display_name=shown)
    return replace(me, display_name=shown or me.display_name)


def login_account() -> Author:
    """Return the account under which earlier versions kept what was said here."""
    try:
        return Author(NEUTRAL.platform, getpass.getuser().strip() or NEUTRAL.user_id)
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return NEUTRAL


def is_alive(pid: int) -> bool:
    """Tell whether a process of that number runs here; where that cannot be told, it does."""
    if os.name == "nt":  # there, asking with a signal would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def zone_of(name: str) -> tzinfo | None:
    """Return the timezone of that name; None, which stands for the system's, when it is empty."""
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # only who has one pays for it

    return ZoneInfo(name)
