"""Who says each line of a request, and whose reply is wanted, by its names and its prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.chats.sillytavern import CHARACTERS, PLATFORM
from familiar_cli.identity import Author
from familiar_cli.text import fold, slugify

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from familiar_cli.serve.aligning import Line

_NAME: Final = r"([^\n\[\]]{1,100}?)"
_PROMPTS: Final = (  # as SillyTavern writes them; whose reply is wanted stands in the last one
    re.compile(rf"\bWrite {_NAME}['’]s next reply\b(?: in a fictional chat between {_NAME}[.\n])?"),
    re.compile(rf"\bWrite the next reply only as {_NAME}[.\]]"),
)
_MEMBERS: Final = re.compile(r"\bGroup members: ([^\n\]]{1,2000})\]")
_MOST_CHARS: Final = 100_000  # of an instruction
_PREFIX: Final = re.compile(r"([^\n:]{1,100}): ?(?=\S)")


@dataclass(frozen=True, slots=True)
class Participants:
    """Who takes part in a chat.

    Args:
        own: Names of the familiar, folded.
        character: Whose reply is wanted; empty: the program does not say.
        person: What the person who speaks is called; empty: the program does not say.
        names: Everybody whom the prompt or a line names.
    """

    own: frozenset[str]
    character: str = ""
    person: str = ""
    names: frozenset[str] = frozenset()

    def is_own(self, name: str) -> bool:
        """Return whether the familiar is called so."""
        return fold(name) in self.own or slugify(name) in self.own

    @property
    def foreign_character(self) -> str:
        """The character whose reply is wanted, where that is not the familiar; else empty."""
        return "" if self.is_own(self.character) else self.character

    @property
    def include_familiar(self) -> bool:
        """Whether the familiar is one of those who are named."""
        return any(map(self.is_own, self.names))

    def attribute(self, line: Line, person: Author) -> Line:
        """Return a line as it is kept: whose it is, and without a name in front of its words.

        Args:
            line: The line.
            person: Who speaks in the request.
        """
        name, text = line.name, line.text
        if not name and (found := _PREFIX.match(text)):
            expected = {self.person} if line.role == "user" else self.names
            if found[1] in expected - {""}:
                name, text = found[1], text[found.end() :]
        line = replace(line, text=text)
        if line.role == "user":
            is_other = name and fold(name) != fold(self.person or name)
            return replace(line, author=_named(PLATFORM, name) if is_other else person)
        if not name or line.role == "system" or self.is_own(name):
            return line
        return replace(line, role="user", author=_named(CHARACTERS, name))


def read_participants(
    body: Mapping[str, Any],
    lines: Sequence[Line],
    own: Collection[str],
    *,
    character: str = "",
    person: str = "",
) -> Participants:
    """Return who takes part in the chat that a request is from.

    Args:
        body: The request.
        lines: What was said in it.
        own: Names of the familiar.
        character: Whose reply is wanted, as a header says; empty: none does.
        person: What a header says that the person is called; empty: none does.
    """
    folded = frozenset(map(fold, own)) | frozenset(filter(None, map(slugify, own)))
    names = {line.name for line in lines if line.name and line.role == "assistant"}
    between: list[str] = []
    for text in _instructions(body):
        for found in (*_PROMPTS[1].finditer(text), *_PROMPTS[0].finditer(text)):
            character = character or found[1]
            if found.re is _PROMPTS[0] and found[2]:
                between = re.split(r",? and |, ", found[2])
        for found in _MEMBERS.finditer(text):
            names.update(part.strip() for part in found[1].split(","))
    if len(between) > 1:
        person = person or between[-1]
        names.update(between[:-1])
    names.update(filter(None, (character,)))
    names.discard(person)
    return Participants(folded, character, person, frozenset(names))


def _instructions(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of the program's own that no person said."""
    for message in body["messages"]:
        if message.get("role") == "system" and isinstance(message.get("content"), str):
            yield message["content"][:_MOST_CHARS]


def _named(platform: str, name: str) -> Author:
    return Author(platform, name, display_name=name)
