"""The prompts that clients offer to a person, and what arguments may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import UsageError
from familiar_cli.folding import fold_word
from familiar_cli.mcp_server.pages import page
from familiar_cli.mcp_server.tools import TOOLS
from familiar_cli.text import framed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from familiar_cli.mcp_server.tool import Arguments, Caller

MOST_VALUES: Final = 100
"""Most values that a completion may have, by the protocol."""

_TOOLS: Final = {tool.name: tool for tool in TOOLS}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt.

    Args:
        name: Its name.
        description: What it is for, for a person.
        takes: Its arguments, with what they are.
        needs: Those that must be given.
        make: Returns its words.
    """

    name: str
    description: str
    takes: Mapping[str, str]
    needs: frozenset[str]
    make: Callable[[Caller, Mapping[str, str]], str]


def made(caller: Caller, name: str, arguments: Mapping[str, str]) -> str:
    """Return the words of a prompt.

    Raises:
        UsageError: There is no such prompt, or an argument that it needs is missing.
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


def completed(caller: Caller, argument: str, begun: str) -> list[str]:
    """Return what an argument may be that begins so; nothing where nothing is known of it."""
    known = _VALUES.get(argument)
    wanted = fold_word(begun)
    return (
        [value for value in known(caller) if fold_word(value).startswith(wanted)] if known else []
    )


def _recall(caller: Caller, arguments: Mapping[str, str]) -> str:
    query, name = arguments["query"], arguments.get("person", "").strip()
    parts = [f"Answer this with what you remember, and say which files it is from: {query}"]
    if name:
        parts.append(_words(caller, "person", {"name": name}))
    parts.append(_words(caller, "memory_search", {"query": query}))
    return "\n\n".join(parts)


def _continue(caller: Caller, arguments: Mapping[str, str]) -> str:
    channel = arguments.get("channel", "").strip()
    before = _words(caller, "recent", {"channel": channel} if channel else {})
    return f"Continue the conversation of which these are the last turns.\n\n{before}"


def _words(caller: Caller, tool: str, arguments: Arguments) -> str:
    return page(tool, arguments, _TOOLS[tool].run(caller, arguments), caller.familiar.counter).text


def _people(caller: Caller) -> Iterable[str]:
    """Return who has a file; who only spoke may have done so in private."""
    from familiar_cli.actions.people.read import people_of

    people = people_of(caller.familiar).people
    return (person.name for person in people if person.size_bytes is not None)


def _channels(caller: Caller) -> Iterable[str]:
    found = (channel.channel_id for channel in caller.familiar.history.channels())
    return filter(caller.viewer.sees_channel, found)


_VALUES: Final[Mapping[str, Callable[[Caller], Iterable[str]]]] = {
    "person": _people,
    "channel": _channels,
}

PROMPTS: Final = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            "recall",
            "Answer from memory.",
            {"query": "What to look up", "person": "Who it is about"},
            frozenset({"query"}),
            _recall,
        ),
        Prompt(
            "continue",
            "Pick up where the last conversation ended.",
            {"channel": "Which conversation; default: all open ones"},
            frozenset(),
            _continue,
        ),
    )
}
"""All prompts, by name."""
