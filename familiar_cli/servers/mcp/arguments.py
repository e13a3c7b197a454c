"""Parse tool arguments as models send them: aliases, numbers as strings, and size limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import framed, nearest, shorten_list

if TYPE_CHECKING:
    from familiar_cli.servers.mcp.tool import Arguments, Schema, Tool

MOST_CHARS: Final = 500_000
"""Most characters of one text that is to be written; no memory file is longer."""

_MOST_SHORT_CHARS: Final = 20_000  # of a query, a name, a path or a date
_MOST_CHANGES_CHARS: Final = 16_000_000  # of a push by an embodiment
_LONG: Final = frozenset({"content", "append", "old_text", "new_text", "text", "message"})
_CHANGES: Final = frozenset({"identityChanges", "memoryChanges"})
_NAMED: Final = 5  # of the unknown arguments

# What models call the arguments, in small letters without `_` and `-`.
_SYNONYMS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(others.split())
    for name, others in {
        "query": "q question queries search searchquery searchterm searchtext term terms keyword "
        "keywords text message prompt input topic",
        "maxResults": "limit k n top topk count num numresults max maxcount size pagesize first",
        "limit": "maxresults k n top topk count num numresults max maxcount size pagesize last",
        "content": "text body markdown fact note memory value message data newcontent description",
        "path": "file filename filepath filetext relpath relativepath uri url identifier id "
        "permalink document page name",
        "append": "appendtext addition add",
        "old_text": "old oldstr oldstring oldcontent findtext find target match before",
        "new_text": "new newstr newstring newcontent replace replacement replacewith after",
        "find": "around match search query q text contains heading section lines",
        "section": "heading header sectionname sectiontitle title",
        "checksum": "expectedchecksum hash sha sha256 etag version",
        "after": "afterdate since from start startdate datefrom fromdate newerthan begin",
        "before": "beforedate until to end enddate dateto todate olderthan",
        "name": "person who subject entity query q text user username title topic of",
        "subject": "path file source id query name what",
        "turn": "turnid id number",
        "channel": "channelid chat chatid conversation conversationid thread room",
        "message": "text query q prompt content input question",
        "folder": "dir directory prefix granularity tier under root path",
        "glob": "pattern match filter files query q",
        "granularity": "tier level period kind type",
        "date": "day when",
        "slug": "title name",
        "instanceId": "instance deviceid device embodiment embodimentid",
        "sourceInstance": "source",
        "chatIds": "chats chatid chat conversationids conversationid",
        "text": "content task title note message body item what description reminder todo q query "
        "fact memory value",
        "title": "name heading",
        "when": "due dueat duedate duetime date at time deadline remindat remindon",
        "id": "number index item itemid n",
        "action": "operation op command mode do",
        "operation": "op command action mode",
        "kind": "list type category",
        "all": "everything",
        "targetDate": "period date week target day month year",
        "cursor": "next nextcursor page pagetoken nextpage",
        "offset": "skip start",
    }.items()
}

# Other words for a choice.
_CHOICES: Final = {"day": "daily", "week": "weekly", "month": "monthly", "year": "yearly"} | {
    "create": "add",
    "new": "add",
    "complete": "done",
    "finish": "done",
    "check": "done",
    "delete": "drop",
    "remove": "drop",
    "cancel": "drop",
    "show": "list",
    "get": "list",
    "todo": "task",
    "insert": "append",
    "str_replace": "replace",
    "find_replace": "replace",
    "replace_section": "section",
}

_YES: Final = frozenset({"true", "yes", "1", "on"})
_NO: Final = frozenset({"false", "no", "0", "off"})


def read_arguments(tool: Tool, sent: Mapping[str, Any]) -> tuple[Arguments, list[str]]:
    """Return a call's arguments by parameter name, and notes about those ignored.

    Raises:
        UsageError: One is missing, too long, or of the wrong type; or the tool does not know it
            and may write or call a model.
    """
    named, unknown = _resolve_names(tool, sent)
    check_sizes(tool.name, named | {name: sent[name] for name in unknown})
    if unknown and tool.kind != "read":
        raise _refusal(tool, unknown)
    arguments: Arguments = {}
    for name, value in named.items():
        try:
            arguments[name] = _coerce(tool.parameters[name], value)
        except ValueError as error:
            raise UsageError(
                f"The argument {name!r} of {tool.name} is wrong: {error}",
                hint=f"It takes: {', '.join(tool.takes)}.",
            ) from None
    missing = [name for name in tool.needs if name not in arguments]
    if missing:
        raise UsageError(
            f"{tool.name} needs {', '.join(map(repr, missing))}; nothing was changed",
            hint=f"It takes: {', '.join(tool.takes)}.",
        )
    return arguments, [_describe_unknown(tool, unknown)] if unknown else []


def check_sizes(what: str, sent: Mapping[str, Any]) -> None:
    """Check the sizes of the arguments of a call, a prompt or a resource.

    Raises:
        UsageError: One is too long; it was not processed.
    """
    for name, value in sent.items():
        lengths = [len(name), *_text_lengths(value)]
        most = MOST_CHARS if name in _LONG else _MOST_SHORT_CHARS
        limits = (MOST_CHARS, _MOST_CHANGES_CHARS) if name in _CHANGES else (most, most)
        longest, total = max(lengths), sum(lengths)
        if longest > limits[0] or total > limits[1]:
            chars = longest if longest > limits[0] else total
            raise UsageError(
                f"The argument {framed(name)!r} of {framed(what)} has {chars:,} characters, "
                f"more than {limits[0]:,}; nothing was changed",
                hint="Send less at once.",
            )


def _text_lengths(value: object) -> Iterator[int]:
    """Yield the length of each string in a value, and 1 for anything else, at any depth."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield len(one)
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one
        else:
            yield 1


def _resolve_names(tool: Tool, sent: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Assign arguments to parameters; return the unknown ones, too."""
    parameters = tool.parameters
    plain = {_plain_name(name): name for name in parameters}
    result: dict[str, Any] = {}
    left: dict[str, Any] = {}
    for name, value in sent.items():
        own = name if name in parameters else plain.get(_plain_name(name))
        if value is None or (own and _is_absent(own, value)):
            continue
        if own and own not in result:
            result[own] = value
        else:
            left[name] = value
    unknown = []
    for name, value in left.items():
        word = _plain_name(name)
        fitting = (p for p in parameters if p not in result and word in _SYNONYMS.get(p, ()))
        own = next(fitting, None)
        if own is None:
            unknown.append(name)
        elif not _is_absent(own, value):
            result[own] = value
    return result, unknown


def _plain_name(name: str) -> str:
    return re.sub(r"[_\-\s]", "", name).lower()


def _is_absent(name: str, value: object) -> bool:
    """Tell whether an argument is a placeholder that models use for none."""
    return value == "" and name not in {"new_text", "content", "text"}


def _describe_unknown(tool: Tool, unknown: Sequence[str]) -> str:
    hint = _known_arguments(tool, unknown)
    return f"{_unknown_words(tool, unknown)}: {hint[:1].lower()}{hint[1:]}"


def _refusal(tool: Tool, unknown: Sequence[str]) -> UsageError:
    hints = [_known_arguments(tool, unknown), tool.instead]
    return UsageError(
        f"{_unknown_words(tool, unknown)}; nothing was done", hint=" ".join(filter(None, hints))
    )


def _unknown_words(tool: Tool, unknown: Sequence[str]) -> str:
    noun = "argument" if len(unknown) == 1 else "arguments"
    return f"{tool.name} has no {noun} {shorten_list(map(repr, map(framed, unknown)), _NAMED)}"


def _known_arguments(tool: Tool, unknown: Sequence[str]) -> str:
    """Say which arguments a tool takes, or which one was probably meant."""
    guess = nearest(framed(unknown[0]), tool.takes) if len(unknown) == 1 else None
    if guess:
        return f"Did you mean {guess!r}?"
    return f"It takes {', '.join(tool.takes) or 'no arguments'}."


def _coerce(schema: Schema, value: Any) -> Any:  # noqa: ANN401  # any plain value
    """Convert a value to the schema's type.

    Raises:
        ValueError: It cannot be converted.
    """
    if "anyOf" in schema:
        kinds = [one for one in schema["anyOf"] if _is_of_type(one, value)]
        return _coerce((kinds or schema["anyOf"])[0], value)
    match schema["type"]:
        case "string":
            return _coerce_text(schema, value)
        case "integer" | "number":
            return _coerce_number(schema, value)
        case "boolean":
            return _coerce_flag(value)
        case "array":
            return _coerce_list(schema, value)
    return _coerce_object(value)


def _is_of_type(schema: Schema, value: object) -> bool:
    return isinstance(value, list) if schema["type"] == "array" else isinstance(value, str)


def _coerce_text(schema: Schema, value: Any) -> str:  # noqa: ANN401
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{_quote_value(value)} is not text")  # noqa: TRY004
    text = str(value)
    choices = schema.get("enum")
    if choices is None:
        return text
    word = text.strip().lower().replace(" ", "_")
    singular = word.removesuffix("s")
    for choice in (word, singular, _CHOICES.get(word), _CHOICES.get(singular)):
        if choice in choices:
            return str(choice)
    raise ValueError(f"{_quote_value(value)} is not one of {', '.join(choices)}")


def _coerce_number(schema: Schema, value: Any) -> int | float:  # noqa: ANN401
    is_whole = schema["type"] == "integer"
    found: float | None = None
    if isinstance(value, str):
        with suppress(ValueError):
            found = float(value.strip().removeprefix("#"))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = value
    is_number = found is not None and abs(found) < 1e15  # noqa: PLR2004  # larger floats are not exact
    if found is None or not is_number or (is_whole and found != int(found)):
        kind = "a whole number" if is_whole else "a number"
        raise ValueError(f"{_quote_value(value)} is not {kind}")
    if found < schema.get("minimum", found):
        raise ValueError(f"{_quote_value(value)} is less than {schema['minimum']}")
    found = min(found, schema.get("maximum", found))
    return int(found) if is_whole else found


def _coerce_flag(value: Any) -> bool:  # noqa: ANN401
    word = str(value).strip().lower()
    if word not in _YES | _NO:
        raise ValueError(f"{_quote_value(value)} is neither true nor false")
    return word in _YES


def _coerce_list(schema: Schema, value: Any) -> list[Any]:  # noqa: ANN401
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError):
            value = json.loads(value)
    items = value if isinstance(value, list) else [value]
    return [_coerce(schema["items"], one) for one in items if one not in (None, "")]


def _coerce_object(value: Any) -> dict[str, Any]:  # noqa: ANN401
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    if not isinstance(value, dict):
        raise ValueError(f"{_quote_value(value)} is not an object")  # noqa: TRY004
    return value


def _quote_value(value: object) -> str:
    return repr(framed(str(value), 60))
