"""What of a long file about a person a prompt shows: who they are, their names, and the newest.

What fits the conversation is quoted from the same file by search, at the end of the prompt. So this
part stays the same until the file changes, and servers can reuse the beginning of the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.languages.headings import heading_in
from familiar_cli.markdown import sections
from familiar_cli.memory.pages.evidence import PLAIN, last_turn, without_references
from familiar_cli.memory.pages.machine_text import readable, with_references
from familiar_cli.truncate import cut_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.markdown import Line, Section
    from familiar_cli.memory.pages.evidence import Numbering

GAP: Final = "…"
_HEAD_SHARE: Final = 0.5
_MOST_CHARS_A_TOKEN: Final = 16  # no text has so few tokens; a longer one need not be counted


@dataclass(frozen=True, slots=True)
class PersonParts:
    """A file in two parts.

    Args:
        first: What a prompt shows before anything is searched for.
        rest: The lines that are not in it, the newest first where not all fit.
    """

    first: str
    rest: str = ""


def parts(
    text: str,
    first_tokens: int,
    all_tokens: int,
    count: Callable[[str], int],
    numbering: Numbering = PLAIN,
) -> PersonParts:
    """Divide the file of a person.

    Args:
        text: What of the file may be shown.
        first_tokens: Most tokens of the first part.
        all_tokens: Most tokens of both.
        count: Counts tokens.
        numbering: Which turns lines name.
    """
    if len(text) <= _MOST_CHARS_A_TOKEN * first_tokens and count(readable(text)) <= first_tokens:
        return PersonParts(readable(text))
    text = with_references(text)
    divided = list(sections(text, 2))
    head = [line for section in divided if _is_head(section) for line in section.lines]
    body = [line for section in divided if not _is_head(section) for line in section.lines]
    shown = without_references("".join(line.text for line in head)).rstrip()
    most = int(first_tokens * (_HEAD_SHARE if body else 1))
    if len(shown) > _MOST_CHARS_A_TOKEN * most or count(shown) > most:
        shown = cut_to(shown, most, count)
    newest = _newest_first(body, numbering)
    first = _taken(newest, first_tokens - count(shown), count)
    left = [line for line in newest if line.start not in first]
    rest = _taken(left, all_tokens - first_tokens, count)
    below = _in_order(body, first)
    return PersonParts(f"{shown}\n\n{below}".strip(), _in_order(body, rest))


def _is_head(section: Section) -> bool:
    """Return whether a section is the title with the summary, or the names."""
    return section.level < 2 or heading_in(section.title) == "aliases"  # noqa: PLR2004


def _newest_first(lines: Iterable[Line], numbering: Numbering) -> list[Line]:
    """Return the lines that say something; those that rest on no turn by their place."""
    saying = [line for line in lines if line.text.strip() and not line.level]

    def newest(line: Line) -> tuple[int, int]:
        return last_turn(line.text, numbering) or 0, line.start

    return sorted(saying, key=newest, reverse=True)


def _taken(lines: Iterable[Line], room: int, count: Callable[[str], int]) -> set[int]:
    """Return where those of the first lines begin for which there is room."""
    taken: set[int] = set()
    for line in lines:
        room -= count(_words(line)) + 1
        if room < 0:
            break
        taken.add(line.start)
    return taken


def _in_order(lines: Iterable[Line], taken: set[int]) -> str:
    """Return the lines in their order below their headings, with marks where some are left out."""
    shown: list[str] = []
    heading = ""
    for line in lines:
        if line.level:
            heading = _words(line)
        elif line.start in taken:
            shown += [heading] if heading else []
            shown.append(_words(line))
            heading = ""
        elif line.text.strip() and shown and shown[-1] != GAP:
            shown.append(GAP)
    return "\n".join(shown).removesuffix(f"\n{GAP}")


def _words(line: Line) -> str:
    return without_references(line.text).rstrip()
