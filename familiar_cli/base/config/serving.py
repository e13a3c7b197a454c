"""Who may reach the server of a home: `serve.toml`, its tokens, and what each of them opens."""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections import defaultdict, deque
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from familiar_cli.base.config.home import (
    FamiliarPaths,
    chosen_familiar,
    find_familiar,
    has_familiar,
    list_familiars,
)
from familiar_cli.base.config.settings import load_settings
from familiar_cli.base.config.values import SettingsTable, setting
from familiar_cli.base.errors import (
    BadInputError,
    ConfigError,
    NotFoundError,
    RefusedError,
    UsageError,
)
from familiar_cli.base.files import locked, read_plain, write_own
from familiar_cli.base.text import Discreet, bare_lines
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.base.who.identity import Author, Me

FILE: Final = "serve.toml"
_OF_OWNER: Final = "owner"
_LEAST_TOKEN_CHARS: Final = 16
_MOST_TOKENS_BYTES: Final = 64 * 1024


class ServeSettings(SettingsTable):
    """The settings of `familiar serve`; its options stand above them."""

    host: str = setting("127.0.0.1", "Address to listen on")
    port: int = setting(8765, "Port to listen on; 0: any that is free", minimum=0, maximum=65535)
    token_file: str = setting("", "File with the tokens that clients must send, one a line")
    hosts: tuple[str, ...] = setting((), "More host names that clients may use for the server")
    origins: tuple[str, ...] = setting((), "Web pages that may use the server from a browser")
    drain: int = setting(2, "Seconds that replies may take after the signal to stop", minimum=0)
    log: str = setting("text", "Format of what is written to stderr", choices=("text", "json"))


def load_serving(home: Path) -> ServeSettings:
    """Return the settings of a home's server; all defaults when there is no file.

    Raises:
        ConfigError: The file is unreadable or not TOML, or a setting in it is invalid.
    """
    return load_settings(home / FILE, ServeSettings)


class TokenFile(Struct, frozen=True):
    """The tokens of a file.

    Args:
        tokens: All of them.
        of_owner: Those whose lines say that the owner holds them.
    """

    tokens: tuple[str, ...] = ()
    of_owner: frozenset[str] = frozenset()


def read_tokens(path: Path) -> TokenFile:
    """Read a file of tokens, one per line; lines that begin with `#` are comments.

    A line `owner TOKEN` marks the owner's token, which also opens what is private.

    Raises:
        ConfigError: There is no such file, it holds no token, or one that can be guessed.
    """
    try:
        text = read_plain(path, most_bytes=_MOST_TOKENS_BYTES).decode("utf-8-sig")
    except (OSError, ValueError, BadInputError) as error:
        raise ConfigError(
            f"The tokens in {str(path)!r} cannot be read: {error}",
            hint="Write one token per line, e.g. with `openssl rand -hex 24`.",
        ) from error
    lines = (line.strip() for line in bare_lines(text))
    marks = [line.rpartition(" ") for line in lines if line and not line.startswith("#")]
    tokens = tuple(
        token if before.strip() in {"", _OF_OWNER} else f"{before} {token}"
        for before, _, token in marks
    )
    of_owner = frozenset(token for before, _, token in marks if before.strip() == _OF_OWNER)
    if not tokens:
        raise ConfigError(
            f"{str(path)!r} holds no token", hint="Write one, e.g. with `openssl rand -hex 24`."
        )
    for token in tokens:
        if len(token) < _LEAST_TOKEN_CHARS or not token.isascii() or not token.isprintable():
            raise ConfigError(
                f"A token in {str(path)!r} is shorter than {_LEAST_TOKEN_CHARS} characters, or "
                "has characters other than ASCII",
                hint="Make one with `openssl rand -hex 24`.",
            )
    return TokenFile(tokens, of_owner)


def check_reach(host: str, tokens: Collection[str]) -> None:
    """Refuse to serve other machines without a token.

    Raises:
        ConfigError: The address can be reached from elsewhere, and no token is set.
    """
    if tokens or is_loopback_host(host):
        return
    raise ConfigError(
        f"Without a token, the server listens on this machine only, and {host!r} can be reached "
        "from others; it was not started",
        hint="Make one with `openssl rand -hex 24 > tokens.txt`; add `--token-file tokens.txt`.",
    )


def is_loopback_host(host: str) -> bool:
    """Tell whether an address leads to this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


GRANTS_FILE: Final = "serve-tokens.json"
ACCESS: Final = "familiar.access"
"""In the scope of a request: the `Access` that its token gives."""

BY_OWNER: Final = "familiar.by_owner"
"""In the scope of a request: whether it came with an owner's token."""

BY_OTHERS: Final = "familiar.by_others"
"""In the scope of a request: whether it came with a token that others than the owner may have."""

RATES: Final = "familiar.rates"
"""In the scope of a request: the `RequestRates` of the server."""

_TOKEN_BYTES: Final = 24
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_PEOPLE: Final = 100_000  # whose requests are counted at once
_MINUTE_S: Final = 60
_DAY_S: Final = 86_400


class Grant(Discreet, frozen=True):
    """What a token opens.

    Args:
        name: What people call it.
        digest: SHA-256 of the token, in hexadecimal digits.
        familiars: The ids of the familiars.
        users: Patterns of the people that may speak, e.g. `discord:*`; see `covers`.
        per_minute: Most requests in a minute; 0: no limit, as in the other fields.
        per_day: Most requests in a day.
        person_per_minute: Most requests of one person in a minute.
        person_per_day: Most requests of one person in a day.
    """

    shown: ClassVar = ("name", "familiars", "users")

    name: str
    digest: str
    familiars: tuple[str, ...]
    users: tuple[str, ...]
    per_minute: int = 0
    per_day: int = 0
    person_per_minute: int = 0
    person_per_day: int = 0

    def covers(self, author: Author, me: Me) -> bool:
        """Tell whether somebody may speak with the token.

        An account of an owner is covered by its exact name or by `*`, never by another pattern.
        """
        account = f"{author.platform}:{author.user_id}"
        if me.owner(author):
            return not {account, "*"}.isdisjoint(self.users)
        return any(fnmatchcase(account, pattern) for pattern in self.users)

    def to_json(self) -> dict[str, Any]:
        """Return its fields for display, without the digest."""
        return {k: v for k, v in to_builtins(self).items() if k != "digest"}


class Access(Collection[str]):
    """What one request may reach; the gate of everything that names a familiar or a person.

    It contains the ids of the familiars that the request may know of.

    Args:
        home: Where the familiars live.
        grant: What its token opens; None: everything.
    """

    def __init__(self, home: Path, grant: Grant | None = None) -> None:
        self._home = home
        self.grant = grant

    def __contains__(self, name: object) -> bool:
        """Tell whether the request may see a familiar."""
        is_open = self.grant is None or name in self.grant.familiars
        return is_open and isinstance(name, str) and has_familiar(self._home, name)

    def __iter__(self) -> Iterator[str]:
        """Yield all ids, sorted."""
        opened = None if self.grant is None else self.grant.familiars
        known = list_familiars(self._home)
        return (name for name in known if opened is None or name in opened)

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(1 for _ in self)

    def find_familiar(self, name: str | None) -> FamiliarPaths:
        """Return the requested familiar, as `config.home.find_familiar` does.

        Raises:
            NotFoundError: The request may see no familiar of that name.
            UsageError: There are several, and none was chosen.
        """
        if self.grant is None:
            return find_familiar(self._home, name)
        known = list(self)
        if not name and chosen_familiar(self._home) in known:
            name = chosen_familiar(self._home)
        if not name and len(known) == 1:
            name = known[0]
        listed = ", ".join(known) or "none"
        if not name:
            raise UsageError(f"There are several familiars, and the request names none: {listed}")
        if name not in known:
            raise NotFoundError(f"There is no familiar {name[:80]!r}. Familiars here: {listed}")
        return find_familiar(self._home, name)

    def covers(self, author: Author, me: Me) -> bool:
        """Tell whether somebody may speak in the request; `me` is the first owner."""
        return self.grant is None or self.grant.covers(author, me)


def access_of(scope: Any, home: Path) -> Access:  # noqa: ANN401  # an ASGI scope
    """Return the access of a request; unlimited outside the server."""
    value = scope.get(ACCESS)
    return value if isinstance(value, Access) else Access(home)


class _GrantRows(Struct, frozen=True):
    tokens: list[Grant]


class GrantFile:
    """The tokens in a file of a home; only their hashes are kept."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._path = home / GRANTS_FILE
        self._stamp: tuple[int, int] | None = None
        self._grants: dict[str, Grant] = {}

    def grants(self) -> dict[str, Grant]:
        """Return all grants by the digest of their token, rereading a changed file.

        Raises:
            ConfigError: The file cannot be read.
        """
        try:
            result = self._path.stat()
        except FileNotFoundError:
            self._stamp, self._grants = None, {}
            return self._grants
        stamp = (result.st_mtime_ns, result.st_size)
        if stamp != self._stamp:
            self._grants = {grant.digest: grant for grant in self._read()}
            self._stamp = stamp
        return self._grants

    def add(self, grant: Grant) -> tuple[Grant, str]:
        """Make a token for a grant without a digest; return both. The token is not stored.

        Raises:
            RefusedError: A token of that name is there.
            ConfigError: The file cannot be read.
        """
        token = secrets.token_hex(_TOKEN_BYTES)
        with locked(self._path.with_suffix(".lock")):
            kept = list(self.grants().values())
            names = {one.name for one in kept}
            number = 1
            while not grant.name and f"{grant.familiars[0]}-{number}" in names:
                number += 1
            name = grant.name or f"{grant.familiars[0]}-{number}"
            made = replace(grant, name=name, digest=digest_of(token))
            if made.name in names:
                raise RefusedError(
                    f"There is a token {made.name!r} already; nothing was changed",
                    hint=f"Remove it with `familiar serve token rm {made.name}`.",
                )
            self._write([*kept, made])
        return made, token

    def remove(self, name: str) -> Grant:
        """Remove a token, so that it opens nothing from now on; return its grant.

        Raises:
            NotFoundError: There is no token of that name.
            ConfigError: The file cannot be read.
        """
        with locked(self._path.with_suffix(".lock")):
            kept = list(self.grants().values())
            grant = next((one for one in kept if one.name == name), None)
            if grant is None:
                raise NotFoundError(
                    f"There is no token {name!r}", hint="Run `familiar serve token list`."
                )
            self._write([one for one in kept if one is not grant])
        return grant

    def _read(self) -> list[Grant]:
        try:
            content = read_plain(self._path, _MOST_BYTES)
            return msgspec.convert(json.loads(content), _GrantRows).tokens
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The tokens in {str(self._path)!r} cannot be read: {error}",
                hint="Delete the file, and make the tokens again with `familiar serve token add`.",
            ) from error

    def _write(self, grants: list[Grant]) -> None:
        text = json.dumps(to_builtins(_GrantRows(grants)), indent=1)
        write_own(self._path, text.encode())
        self._stamp = None


def digest_of(token: str) -> str:
    """Return the hash under which a token is kept."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class RequestRates:
    """Counts requests in the last minute and day, since the server began."""

    def __init__(self) -> None:
        self._times: defaultdict[tuple[str, ...], deque[float]] = defaultdict(deque)

    def count(
        self, who: tuple[str, ...], per_minute: int, per_day: int, requests: int = 1
    ) -> float:
        """Count a request unless it exceeds the limit.

        Args:
            requests: How many it counts as.

        Returns:
            Seconds until it may be repeated; 0.0 if it was counted.
        """
        wait_s = self.wait_s(who, per_minute, per_day, requests)
        if not wait_s and (per_minute or per_day):
            self._times[who].extend([stopwatch_s()] * requests)
        return wait_s

    def wait_s(
        self, who: tuple[str, ...], per_minute: int, per_day: int, requests: int = 1
    ) -> float:
        """Return the seconds until a request may be made, without counting it; see `count`."""
        if not (per_minute or per_day):
            return 0.0
        now_s = stopwatch_s()
        if who not in self._times and len(self._times) >= _MOST_PEOPLE:
            self._times = defaultdict(
                deque, {k: v for k, v in self._times.items() if v and v[-1] > now_s - _DAY_S}
            )
        times = self._times[who]
        while times and times[0] <= now_s - _DAY_S:
            times.popleft()
        for most, span_s in ((per_minute, _MINUTE_S), (per_day, _DAY_S)):
            left = most - requests + 1  # requests that may have gone before, and one more
            if most and left <= 0:
                return float(span_s)
            if most and len(times) >= left and times[-left] > now_s - span_s:
                return times[-left] + span_s - now_s
        return 0.0
