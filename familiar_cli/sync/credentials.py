"""Who we are at a remote over HTTPS: what git's helpers know, or a token from the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from familiar_cli.config.environment import sync_token

_ANY_USER: Final = "git"  # for servers that look at the token only
_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}
_PATIENCE_S: Final = 120.0  # a helper may open a window and wait for a person


@dataclass(frozen=True, slots=True)
class Login:
    """A name and a secret, which is never shown."""

    user: str
    secret: str = field(repr=False)


def find_login(url: str, *, ask: bool) -> Login | None:
    """Find credentials for `url`, or None. A token is sent over HTTPS or to this machine only.

    Args:
        url: The remote.
        ask: A person sits there whom git may ask.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        return None
    token = sync_token()
    if token:
        return Login(parts.username or _ANY_USER, token)
    answer = _git("fill", _described(url), ask=ask)
    found = dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)
    if not found.get("password"):
        return None
    return Login(found.get("username", _ANY_USER), found["password"])


def tell_helpers(url: str, login: Login, *, worked: bool) -> None:
    """Let git's helpers keep, or forget, a login that came from them."""
    if login.secret != sync_token():
        words = f"{_described(url)}username={login.user}\npassword={login.secret}\n"
        _git("approve" if worked else "reject", words, ask=False)


def _described(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    user = f"username={parts.username}\n" if parts.username else ""
    return f"protocol={parts.scheme}\nhost={host}{port}\npath={parts.path.lstrip('/')}\n{user}"


def _git(action: str, words: str, *, ask: bool) -> str:
    """Ask `git credential`; empty without git, or if it has no credentials."""
    program = shutil.which("git")
    if program is None:
        return ""
    environment = dict(os.environ)
    if not ask:
        environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": ""}
        environment["GCM_INTERACTIVE"] = "never"
    try:
        done = subprocess.run(  # noqa: S603  # git itself; the words go to its input
            [program, "credential", action],
            input=f"{words}\n",
            capture_output=True,
            text=True,
            env=environment,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""
