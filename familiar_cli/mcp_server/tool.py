"""What a tool is: its name, what it takes, what it does, and what it gives back.

A tool is a plain function of a `Caller` and its arguments; `tools/` holds them, with a table in
each module. Nothing here knows the protocol: `server` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.actions.write_memories import ReadVersions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from familiar_cli.familiar import Familiar
    from familiar_cli.visibility import Viewer

Schema = dict[str, Any]
"""A JSON schema. Every client sends all of them to its model, so they say no more than needed."""

Arguments = dict[str, Any]
"""A tool's arguments, checked against its schema; one that was left out, or is null, is absent."""

Kind = Literal["read", "add", "change"]
"""`read` changes nothing, `add` loses nothing, `change` may replace or delete."""

TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 1}
OFFSET: Final[Schema] = {"type": "integer", "minimum": 0}
WHOLE: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}


def one_of(*words: str) -> Schema:
    """Return the schema of an argument that is one of a few words."""
    return {"enum": list(words)}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Args:
        familiar: Whose memory is asked.
        channel_id: The caller's own channel, which may be a private one; None: it has none.
        client: What the client calls itself, made harmless.
        session: What tells this connection from others; what it writes is noted under it.
        allow_write: Writing tools write; otherwise they make plans that wait for a person.
        reads: What each session last saw of each file.
    """

    familiar: Familiar
    channel_id: str | None = None
    client: str = "unknown"
    session: str = ""
    allow_write: bool = False
    reads: ReadVersions = field(default_factory=ReadVersions)

    @property
    def source(self) -> str:
        """As whom the journal notes what the caller changes."""
        return f"mcp:{self.client}"

    @property
    def viewer(self) -> Viewer:
        """Viewer of a program: nothing private but what its own channel may show."""
        return self.familiar.privacy.program(self.channel_id or "")


@dataclass(frozen=True, slots=True)
class ToolItem:
    """One thing that a tool gives back.

    Args:
        about: Where it is from: path, lines, turns, date and the like, for the structured result.
        text: Words out of memory, chats or prompts: data, which is fenced.
    """

    about: Mapping[str, Any]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool gives back; the page of it that fits is sent.

    Args:
        items: All of it, in order.
        notes: What the caller should know, a sentence each; the program's own words.
        more: Further values of the structured result.
        start: The place of the first of `items` in the whole list, where only part was made.
        is_all: Nothing follows `items`; otherwise the next page begins after them.
        stamp: What stays the same while the pages belong together, e.g. a file's SHA-256.
        cut: Where a page may end: `anywhere`, `between` items, or `nowhere`, so that it is the only
            one.
    """

    items: Sequence[ToolItem] = ()
    notes: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0
    is_all: bool = True
    stamp: str = ""
    cut: Literal["anywhere", "between", "nowhere"] = "anywhere"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, as it is declared in a table of `tools/`.

    Args:
        name: Its name.
        description: What it does, for a model that has to choose, in a line.
        takes: Its arguments: name and schema. Unknown ones are ignored.
        run: Does it; in a thread, so it may take its time.
        needs: The arguments that must be given.
        gives: Properties of the structured result beside `results`, `next` and `notes`.
        kind: What it may change.
        pages: Its result comes in pages: it takes `cursor` as well.
        searches: It finds by meaning what has a vector; some of what has none gets one after it.
    """

    name: str
    description: str
    takes: Mapping[str, Schema]
    run: Callable[[Caller, Arguments], Answer]
    needs: tuple[str, ...] = ()
    gives: Mapping[str, Schema] = field(default_factory=dict)
    kind: Kind = "read"
    pages: bool = False
    searches: bool = False

    @property
    def input_schema(self) -> Schema:
        """What a client may send."""
        takes = {**self.takes, "cursor": TEXT} if self.pages else {**self.takes}
        needs = {"required": list(self.needs)} if self.needs else {}
        return {"type": "object", "properties": takes, **needs}

    @property
    def output_schema(self) -> Schema:
        """What comes back beside the words; `next` and `notes` may stand there as well."""
        results = {"type": "array", "items": {"type": "object"}}
        return {"type": "object", "properties": {"results": results, **self.gives}}
