"""What happened, as bullets that say where it was said and which instance wrote it down.

One is `- Anna keeps bees. [chat:cli] [via:laptop] <!-- turns 12-14 -->`, with the lines that
continue it indented below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.consolidation.blocks import blocks, key_of
from familiar_cli.languages import ENGLISH
from familiar_cli.markdown import without_marker
from familiar_cli.memory.pages.bullets import tag_value
from familiar_cli.memory.pages.evidence import cited, reference, without_references
from familiar_cli.memory.pages.machine_text import TAG
from familiar_cli.memory.pages.privacy import visible_in
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from familiar_cli.memory.pages.evidence import Cited

_FALSE_TAG: Final = re.compile(r"\[(?=(?:chat|via):)")
_SESSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
_INDENT: Final = "  "


@dataclass(frozen=True, slots=True)
class Bullet:
    """One thing that happened.

    Args:
        text: Its words; what continues it stands on lines of its own.
        chats: Where it was said.
        via: Which instance wrote it down.
        turns: The turns that it rests on.
    """

    text: str
    chats: tuple[str, ...] = ()
    via: str = ""
    turns: tuple[Cited, ...] = ()

    @property
    def key(self) -> tuple[frozenset[str], str]:
        """Equal for two bullets that say the same about the same chats."""
        return frozenset(self.chats), key_of(self.text)

    @property
    def names_its_session(self) -> bool:
        """Whether no chat is known, so that the session stands for it."""
        return bool(self.chats) and all(map(_SESSION.match, self.chats))

    def markdown(self) -> str:
        """Return it as it stands in a file."""
        first, _, rest = self.text.partition("\n")
        tags = [f"[chat:{chat}]" for chat in self.chats]
        tags += [f"[via:{self.via}]"] if self.via else []
        head = " ".join(part for part in [first, *tags, reference(self.turns)] if part)
        more = "".join(f"{_INDENT}{line}\n" if line else "\n" for line in rest.split("\n") if rest)
        return f"- {head}\n{more}"


def bullets_of(body: str) -> tuple[Bullet, ...]:
    """Return the bullets of a daily file; a paragraph that a person wrote is one, too."""
    found, _ = blocks(visible_in(body, NOBODY))
    return tuple(
        bullet for b in found if b.kind != "heading" and (bullet := _tagged(b.text)).text.strip()
    )


def bullets_from_session(
    body: str,
    session: str,
    via: str,
    chats_of: Callable[[Sequence[Cited]], tuple[str, ...]],
    code_label: str = ENGLISH.code_block,
) -> tuple[Bullet, ...]:
    """Return what a session file says, as bullets.

    Args:
        body: Its text. Private sections stay where they are.
        session: Its name; stands for the chat where none is known.
        via: The instance that reads it.
        chats_of: Gives the channels that turns were said in, as far as they are known.
        code_label: Stands above a block of code.
    """
    found, _ = blocks(visible_in(body, NOBODY))
    made = []
    for block in found:
        text = _words(block.text)
        if block.kind == "heading" or not text.strip():
            continue
        turns = tuple(cited(block.text))
        chats = chats_of(turns) or (session,)
        if block.kind == "code":
            text = f"{code_label}\n{text}"
        safe = _FALSE_TAG.sub(r"\\[", text)
        made.append(Bullet(safe, tuple(map(tag_value, chats)), tag_value(via), turns))
    return merged([made])


def merged(days: Iterable[Iterable[Bullet]]) -> tuple[Bullet, ...]:
    """Return all bullets, each once; two are the same if chat and text are.

    A bullet whose chat is not known, so that it names its session, is left out if a chat is known
    to say the same.
    """
    found: dict[tuple[frozenset[str], str], Bullet] = {}
    for bullets in days:
        for bullet in bullets:
            found.setdefault(bullet.key, bullet)
    placed = {bullet.key[1] for bullet in found.values() if not bullet.names_its_session}
    return tuple(
        bullet
        for bullet in found.values()
        if not bullet.names_its_session or bullet.key[1] not in placed
    )


def _tagged(text: str) -> Bullet:
    turns = tuple(cited(text))
    tags = TAG.findall(text)
    chats = tuple(dict.fromkeys(value for name, value in tags if name == "chat"))
    via = next((value for name, value in tags if name == "via"), "")
    return Bullet(_words(TAG.sub("", text)), chats, via, turns)


def _words(text: str) -> str:
    """Return a block's words: no marker, no reference, and what continues it dedented."""
    first, *rest = without_references(text).rstrip().split("\n")
    lines = [without_marker(first).strip(), *(line.removeprefix(_INDENT).rstrip() for line in rest)]
    return "\n".join(lines)
