"""YAML from outside. Every scalar stays the text it was written as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from familiar_cli.bootstrap.bounds import MAX_YAML_BYTES
from familiar_cli.bootstrap.json_text import MAX_DEPTH, decoded
from familiar_cli.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_yaml(raw: bytes, *, origin: str) -> Any:  # noqa: ANN401  # YAML holds anything
    """Return the value that `raw` holds, made of dicts, lists and strings alone.

    Raises:
        BadInputError: It is no YAML, is too large, nests too deeply, or uses aliases.
    """
    import yaml  # noqa: PLC0415  # slow to import, and few cards need it

    if len(raw) > MAX_YAML_BYTES:
        raise BadInputError(
            f"{origin!r} is text over {MAX_YAML_BYTES // 1024} KiB, too long for a YAML card"
        )
    try:
        text = decoded(raw)
        _check_events(yaml.parse(text), origin)
        # BaseLoader builds no objects and guesses no types: a name such as 007 stays as it is.
        value = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    except RecursionError as error:
        raise BadInputError(f"{origin!r} nests too deeply to be read") from error
    except (yaml.YAMLError, ValueError) as error:
        why = " ".join(str(error).split())
        raise BadInputError(f"{origin!r} is not valid YAML: {why}") from error
    return value


def _check_events(events: Iterable[object], origin: str) -> None:
    """Refuse what is harmless to scan but not to build.

    Raises:
        BadInputError: There are aliases, or nodes nest deeper than `MAX_DEPTH`.
    """
    depth = 0
    for event in events:
        kind = type(event).__name__
        if kind == "AliasEvent":
            raise BadInputError(f"{origin!r} uses YAML aliases, which can expand without limit")
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise BadInputError(f"{origin!r} nests deeper than {MAX_DEPTH} levels")
