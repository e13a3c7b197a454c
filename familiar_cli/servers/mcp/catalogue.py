"""What the server offers: all tools, memory files as resources, and prompts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.text import fold_word, framed, harmless
from familiar_cli.base.who.identity import NO_LABELS
from familiar_cli.servers.mcp import desk_tools, reading_tools, writing_tools
from familiar_cli.servers.mcp.tool import Arguments, Caller, Tool, page, see
from familiar_cli.store.memory.aliases import names_of, slug_in
from familiar_cli.store.memory.layout import PEOPLE_DIR

TOOLS: Final[tuple[Tool, ...]] = (*reading_tools.TOOLS, *writing_tools.TOOLS, *desk_tools.TOOLS)
"""All tools, in the order in which clients list them."""

SCHEME: Final = "familiar"
MIME: Final = "text/markdown"
MOST_TOKENS: Final = 20_000
"""Most tokens of one resource; clients refuse results above 25,000."""

_DIRECTORY: Final = "/memory/"
_PAGE: Final = 200
_CUT: Final = "\n\n[Cut here. `memory_read` pages through the whole file.]\n"


def template(familiar_id: str) -> str:
    """Return the URI template of a familiar's files."""
    return uri_of(familiar_id, "") + "{path}"


def uri_of(familiar_id: str, rel_path: str) -> str:
    """Build the URI of a file."""
    return f"{SCHEME}://{quote(familiar_id)}{_DIRECTORY}{quote(rel_path)}"


def path_in(uri: str, familiar_id: str) -> str:
    """Extract the path from a URI.

    Raises:
        NotFoundError: The URI is not one of this familiar's.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    is_ours = parts.scheme == SCHEME and unquote(parts.netloc) == familiar_id
    if not is_ours or not parts.path.startswith(_DIRECTORY):
        raise NotFoundError(
            f"There is no resource {framed(uri, 200)!r}",
            hint=f"Resources look like {template(familiar_id)}.",
        )
    return unquote(parts.path.removeprefix(_DIRECTORY))


def read(caller: Caller, uri: str) -> str:
    """Return the visible part of the file at a URI, truncated to what clients accept.

    Raises:
        NotFoundError: No such file.
        UnsafePathError: Its path leads outside the memory.
    """
    seen = see(caller, path_in(uri, caller.familiar.paths.id))
    text, counter = harmless(seen.text), caller.familiar.counter
    if counter.count(text) <= MOST_TOKENS:
        return text
    kept: list[str] = []
    room = MOST_TOKENS
    for line in text.split("\n"):
        room -= counter.count(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept) + _CUT


def paths(caller: Caller) -> list[str]:
    """List the paths of all files, sorted."""
    try:
        return [entry.rel_path for entry in caller.files()]
    except NotFoundError:
        return []


def page_of(paths: list[str], cursor: str | None) -> tuple[list[str], str | None]:
    """Return a page of a sorted list, and the cursor of the next page.

    Raises:
        UsageError: The cursor is invalid.
    """
    start = 0
    if cursor:
        try:
            after = base64.urlsafe_b64decode(cursor.encode("ascii")).decode()
        except ValueError:
            raise UsageError("The cursor is not valid") from None
        start = next((n for n, path in enumerate(paths) if path > after), len(paths))
    items = paths[start : start + _PAGE]
    if start + _PAGE >= len(paths):
        return items, None
    return items, base64.urlsafe_b64encode(items[-1].encode()).decode()


MOST_VALUES: Final = 100
"""Most values that a completion may have, by the protocol."""

_TOOLS: Final = {tool.name: tool for tool in TOOLS}


class Prompt(Struct, frozen=True):
    """A prompt.

    Args:
        description: Its purpose, for a person.
        takes: Arguments with their descriptions.
        needs: Required arguments.
        make: Builds the text.
    """

    name: str
    description: str
    takes: Mapping[str, str]
    needs: frozenset[str]
    make: Callable[[Caller, Mapping[str, str]], str]


def make_prompt(caller: Caller, name: str, arguments: Mapping[str, str]) -> str:
    """Build the text of a prompt.

    Raises:
        UsageError: No such prompt, or a required argument is missing.
    """
    prompt = PROMPTS.get(name)
    if prompt is None:
        raise UsageError(
            f"There is no prompt {framed(name)!r}", hint=f"Known: {', '.join(PROMPTS)}."
        )
    missing = sorted(need for need in prompt.needs if not arguments.get(need, "").strip())
    if missing:
        raise UsageError(f"The prompt {name!r} needs {', '.join(missing)}")
    return prompt.make(caller, arguments)


def complete_argument(caller: Caller, argument: str, begun: str) -> list[str]:
    """Complete an argument; empty if nothing is known about it."""
    known = _VALUES.get(argument)
    target = fold_word(begun)
    return (
        [value for value in known(caller) if fold_word(value).startswith(target)] if known else []
    )


def _recall_prompt(caller: Caller, arguments: Mapping[str, str]) -> str:
    query, name = arguments["query"], arguments.get("person", "").strip()
    parts = [f"Answer this from memory, and say which files it is from: {query}"]
    if name:
        parts.append(_tool_words(caller, "person", {"name": name}))
    parts.append(_tool_words(caller, "memory_search", {"query": query}))
    return "\n\n".join(parts)


def _continue_prompt(caller: Caller, arguments: Mapping[str, str]) -> str:
    channel = arguments.get("channel", "").strip()
    before = _tool_words(caller, "recent", {"channel": channel} if channel else {})
    return f"Continue the conversation. These are its last turns.\n\n{before}"


def _tool_words(caller: Caller, tool: str, arguments: Arguments) -> str:
    return page(tool, arguments, _TOOLS[tool].run(caller, arguments), caller.familiar.counter).text


def _people_names(caller: Caller) -> Iterable[str]:
    """List people with a file; others may have spoken in private only."""
    labels = caller.familiar.labels() if caller.viewer.is_owner else NO_LABELS
    for entry in caller.files(PEOPLE_DIR):
        if slug := slug_in(entry.rel_path):
            with suppress(FamiliarError):  # too large, say
                names = names_of(caller.seen_text(entry.rel_path))
                yield labels.distinct(names[0], slug) if names else slug


def _channel_names(caller: Caller) -> Iterable[str]:
    channel_ids = (channel.channel_id for channel in caller.familiar.history.channels())
    return filter(caller.viewer.sees_channel, channel_ids)


_VALUES: Final[Mapping[str, Callable[[Caller], Iterable[str]]]] = {
    "person": _people_names,
    "channel": _channel_names,
}

PROMPTS: Final = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            "recall",
            "Answer from memory.",
            {"query": "What to look up", "person": "Who it is about"},
            frozenset({"query"}),
            _recall_prompt,
        ),
        Prompt(
            "continue",
            "Pick up where the last conversation ended.",
            {"channel": "Which conversation; default: all open ones"},
            frozenset(),
            _continue_prompt,
        ),
    )
}
"""All prompts, by name."""
