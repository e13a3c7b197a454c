"""Context windows that servers reported, kept in the cache directory by address and model."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.config.home import cache_dir
from familiar_cli.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path


_LEAST: Final = 256
_MOST: Final = 100_000_000


def known_window(base_url: str, model: str) -> int:
    """Return what the server said of a model; 0: nothing."""
    said = _read(_path()).get(_key(base_url, model), 0)
    return said if is_window(said) else 0


def keep_window(base_url: str, model: str, tokens: int) -> None:
    """Keep what the server said of a model. A disk that refuses is ignored: it is asked again."""
    with suppress(OSError):
        path = _path()
        kept = _read(path) | {_key(base_url, model): tokens}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(kept, indent=1, sort_keys=True), durable=False)


def is_window(value: object) -> bool:
    """Tell whether a value is a plausible number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and _LEAST <= value <= _MOST


def _path() -> Path:
    return cache_dir() / "windows.json"


def _key(base_url: str, model: str) -> str:
    return f"{base_url} {model}"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
