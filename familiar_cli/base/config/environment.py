"""What the environment says: which server, which model, the keys, and which editor.

Keys never stand in `character.toml`. They come from an environment variable, or from `keys.toml` in
the user's configuration directory, a file that only its owner may read:

    OPENROUTER_API_KEY = "sk-or-…"
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from familiar_cli.base.errors import ConfigError
from familiar_cli.base.files import ON_WINDOWS, open_patiently, path_of
from familiar_cli.base.text import bare_lines, typed

BASE_URL = "FAMILIAR_LLM_BASE_URL"
MODEL = "FAMILIAR_LLM_MODEL"
EMBEDDING_BASE_URL = "FAMILIAR_EMBEDDING_BASE_URL"
EMBEDDING_MODEL = "FAMILIAR_EMBEDDING_MODEL"
KEYS = "FAMILIAR_KEYS"
OFFLINE = "FAMILIAR_OFFLINE"
THREADS = "FAMILIAR_LLM_THREADS"
SYNC_KEY_FILE = "FAMILIAR_SYNC_KEY_FILE"
SYNC_TOKEN = "FAMILIAR_SYNC_TOKEN"  # noqa: S105  # the name of a variable
OF_SLOTS = (BASE_URL, MODEL, KEYS, "FAMILIAR_CACHE")
"""What the server and the model of a slot depend on, beside its key."""
EDITORS = ("VISUAL", "EDITOR")
_MOST_THREADS = 512
_PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}


def variable(name: str) -> str:
    """Return the value of an environment variable; empty if it is unset or blank."""
    return os.environ.get(name, "").strip()


def pager_has_colour() -> bool:
    """Tell whether the pager shows colours, setting `LESS` if it is unset."""
    return "r" in os.environ.setdefault("LESS", "FRX").lower()


def llm_threads() -> int | None:
    """Return the maximum threads of the built-in model; None for all processors.

    Raises:
        ConfigError: `FAMILIAR_LLM_THREADS` is not a number above 0.
    """
    value = variable(THREADS)
    if not value:
        return None
    if not value.isdecimal() or not 0 < int(value) <= _MOST_THREADS:
        raise ConfigError(
            f"{THREADS} is {value!r}, but must be a number from 1 to {_MOST_THREADS}",
            hint=f"Unset {THREADS} to use all processors.",
        )
    return int(value)


def certificates() -> tuple[tuple[str, int], ...]:
    """Return the file and directory of certificates to trust, with their modification times.

    Empty and 0 where one is not set.
    """
    items = []
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        path, changed_ns = os.environ.get(name, ""), 0
        if path:
            with suppress(OSError):  # what cannot be used is told where a connection is opened
                changed_ns = Path(path).stat().st_mtime_ns
        items.append((path, changed_ns))
    return tuple(items)


def offline() -> bool:
    """Tell whether `FAMILIAR_OFFLINE` forbids every connection that leaves this machine."""
    return os.environ.get(OFFLINE, "") not in {"", "0"}


def proxy_variables() -> list[str]:
    """Return the names of the proxy variables; their values may contain passwords."""
    return sorted(name for name in os.environ if name.upper() in _PROXIES and os.environ[name])


def editor() -> list[str]:
    """Return the user's editor and its arguments.

    Raises:
        ConfigError: The environment names none.
    """
    named = next(filter(None, map(variable, EDITORS)), "")
    try:
        words = [named] if shutil.which(named) else command_words(named)
    except ValueError:  # an open quotation mark
        words = []
    if not words:
        example = "setx EDITOR notepad" if ON_WINDOWS else "export EDITOR=nano"
        where = " in a new terminal" if ON_WINDOWS else ""
        raise ConfigError(
            "No editor is set in VISUAL or EDITOR; nothing was changed",
            hint=f"Set one, e.g. `{example}`, and run the command again{where}.",
        )
    return found_program(words)


def command_words(text: str) -> list[str]:
    r"""Split a command line into words; on Windows, backslashes are kept.

    Raises:
        ValueError: A quotation mark is not closed.
    """
    if not ON_WINDOWS:
        return shlex.split(text)
    return [word.strip('"') for word in shlex.split(text, posix=False)]


def found_program(command: Sequence[str]) -> list[str]:
    """Return `command` with the program's full path: on Windows, `code` is `code.cmd`."""
    program, *arguments = command
    return [shutil.which(program) or program, *arguments]


def keys_file() -> Path:
    """Return the path of the file of keys, which may not exist; `FAMILIAR_KEYS` overrides it."""
    name = os.environ.get(KEYS)
    if name:
        return path_of(name)
    import platformdirs  # noqa: PLC0415  # only who has no key in the environment needs it

    return Path(platformdirs.user_config_dir("familiar", appauthor=False)) / "keys.toml"


def find_key(name: str) -> str:
    """Return the key named `name`, from the environment or the file; empty if unset.

    Raises:
        ConfigError: The file is broken, others may read it, or the key could not be sent.
    """
    key = variable(name)
    if not key and name:
        key = _keys_in(keys_file()).get(name, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"The key in {name!r} contains characters that are not valid in a key",
            hint="Copy it again, without line breaks or typographic quotes.",
        )
    return key


def _keys_in(path: Path) -> dict[str, str]:
    try:
        with open_patiently(path) as file:
            _check_private(path, os.fstat(file.fileno()).st_mode)
            result = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(
            f"The key file {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        # Neither the message nor the chained error may carry a line of the file: it holds keys.
        del error
        raise ConfigError(
            f"The key file {str(path)!r} is not valid TOML",
            hint='Each line must look like: OPENROUTER_API_KEY = "…"',
        ) from None
    return {name: value for name, value in result.items() if isinstance(value, str)}


def _check_private(path: Path, mode: int) -> None:
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"Other users can read the key file {str(path)!r}; it was not used",
            hint=f"Run `chmod 600 {typed(str(path))}`.",
        )


def sync_token() -> str:
    """Return the token for remotes over HTTPS; empty if unset.

    Raises:
        ConfigError: See `find_key`.
    """
    return find_key(SYNC_TOKEN)


def ssh_command() -> str:
    """Return the SSH command that git would use, as a shell command line."""
    program = variable("GIT_SSH")
    return variable("GIT_SSH_COMMAND") or (shlex.quote(program) if program else "")


DISTRIBUTION = "familiar-memory"


def install_command(extra: str = "", *, packages: Sequence[str] = ()) -> str:
    """Return the command that adds an extra, or packages, to this installation.

    It differs for `uv tool`, pipx, a checkout and any other environment. Without either argument
    it is the command that updates the program.
    """
    prefix, checkout = Path(sys.prefix), Path(__file__).parents[3]
    if (prefix / "uv-receipt.toml").is_file():
        return _uv_tool_command(prefix / "uv-receipt.toml", extra, packages)
    target = " ".join(packages) or (f"'{DISTRIBUTION}[{extra}]'" if extra else DISTRIBUTION)
    if (prefix / "pipx_metadata.json").is_file():
        verb = f"inject {DISTRIBUTION} {target}" if extra or packages else f"upgrade {target}"
        return f"pipx {verb}"
    made_by_uv = _is_made_by_uv(prefix)
    if (checkout / "pyproject.toml").is_file() and not packages:
        if made_by_uv:
            return f"uv sync --inexact --extra {extra}" if extra else "git pull && uv sync"
        return f"pip install -e '.[{extra}]'" if extra else "git pull && pip install -e ."
    upgrade = "" if extra or packages else "--upgrade "
    return f"{'uv ' if made_by_uv else ''}pip install {upgrade}{target}"


def _uv_tool_command(receipt: Path, extra: str, packages: Sequence[str]) -> str:
    """Build the command for `uv tool`, which reinstalls and so repeats present extras."""
    if not (extra or packages):
        return f"uv tool upgrade {DISTRIBUTION}"
    try:
        rows = tomllib.loads(receipt.read_text("utf-8"))["tool"]["requirements"]
        own = next(row for row in rows if row["name"] == DISTRIBUTION)
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        rows, own = [], {}
    extras = ",".join(dict.fromkeys([*own.get("extras", []), *([extra] if extra else [])]))
    place = own.get("directory") or own.get("path") or DISTRIBUTION
    others = [row["name"] for row in rows if row is not own and "name" in row]
    beside = "".join(f" --with {name}" for name in dict.fromkeys([*others, *packages]))
    return f"uv tool install{beside} '{place}{f'[{extras}]' if extras else ''}'"


def _is_made_by_uv(prefix: Path) -> bool:
    try:
        return any(
            line.startswith("uv =") for line in bare_lines((prefix / "pyvenv.cfg").read_text())
        )
    except (OSError, ValueError):
        return False
