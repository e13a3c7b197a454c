"""`serve.toml` of a home: where its server listens, and who may ask it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from pathlib import Path
from typing import Final

from msgspec import Struct

from familiar_cli.base.config.settings import load_settings
from familiar_cli.base.config.values import SettingsTable, setting
from familiar_cli.base.errors import BadInputError, ConfigError
from familiar_cli.base.files import read_plain
from familiar_cli.base.text import bare_lines

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
            hint="Write one token a line, e.g. with `openssl rand -hex 24`.",
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
                "holds others than ASCII",
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
