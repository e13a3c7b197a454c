"""Whether the arguments of a call are what its tool takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.protocols import Validator

    from familiar_cli.mcp_server.tool import Arguments, Tool

_MOST_CHARS: Final = 500_000  # of one text; no memory file is longer
_VALIDATORS: Final[dict[str, Validator]] = {}


def checked(tool: Tool, sent: dict[str, Any]) -> Arguments:
    """Return the arguments of a call that count.

    Raises:
        UsageError: One is missing, or is of another kind than the tool takes.
    """
    if (chars := max(_lengths(sent), default=0)) > _MOST_CHARS:
        raise UsageError(
            f"An argument of {tool.name} has {chars:,} characters, more than {_MOST_CHARS:,}; "
            "nothing was changed",
            hint="Send it in parts.",
        )
    schema = tool.input_schema
    known = schema["properties"]
    arguments = {name: v for name, v in sent.items() if name in known and v is not None}
    for error in _validator(tool).iter_errors(arguments):
        where = ".".join(map(str, error.absolute_path))
        what = f"The argument {where!r} of {tool.name} is wrong" if where else tool.name
        raise UsageError(f"{what}: {error.message[:200]}", hint=f"It takes: {', '.join(known)}.")
    return {name: _whole(value) for name, value in arguments.items()}


def _whole(value: Any) -> Any:  # noqa: ANN401
    """Return `value` as an int if it is 3.0, which a JSON schema takes for an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _lengths(value: object) -> Iterator[int]:
    """Yield the length of each string in a value, at any depth."""
    if isinstance(value, str):
        yield len(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield len(name)
            yield from _lengths(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _lengths(inner)


def _validator(tool: Tool) -> Validator:
    found = _VALIDATORS.get(tool.name)
    if found is None:
        from jsonschema import Draft202012Validator  # 0.1 s, at the first call

        found = _VALIDATORS[tool.name] = Draft202012Validator(tool.input_schema)
    return found
