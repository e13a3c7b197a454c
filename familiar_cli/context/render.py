"""From fragments to messages: each piece at the place where SillyTavern would put it.

The system part first, then example dialogues, the summary of older turns, the chat with what is
inserted between its turns, and the post-history instructions last. See
docs/reference/placement-and-budgets.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from familiar_cli.context.budget import EXAMPLE_MARK, START_MARK
from familiar_cli.context.types import PromptSpan, Role
from familiar_cli.identity import NO_LABELS, Labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from familiar_cli.context.types import Contribution, Fragment
    from familiar_cli.llm.types import Message

_LEAD: Final = (
    PromptSpan.main,
    PromptSpan.world_before,
    PromptSpan.persona,
    PromptSpan.description,
    PromptSpan.personality,
    PromptSpan.scenario,
    PromptSpan.digest,
    PromptSpan.world_after,
    PromptSpan.desk,
)
_HIGHEST_FIRST: Final[tuple[Role, ...]] = ("assistant", "user", "system")


def render(fragments: Sequence[Fragment]) -> tuple[Message, ...]:
    """Return the messages that the kept fragments make."""
    kept = [fragment for fragment in fragments if fragment.kept]
    chat = _with_insertions(
        [_message(f.offered.role, f.text) for f in _at(kept, PromptSpan.chat)],
        _at(kept, PromptSpan.depth),
    )
    examples = _examples(_at(kept, PromptSpan.example))
    start = [_message("system", START_MARK)] if examples else []
    past = [_message("system", f.text.strip()) for f in _at(kept, PromptSpan.summary)]
    post = [_message("system", f.text.strip()) for f in _at(kept, PromptSpan.post_history)]
    post += [_message(f.offered.role, f.text) for f in _at(kept, PromptSpan.begun)]
    lead = [_message("system", f.text.strip()) for place in _LEAD for f in _at(kept, place)]
    return _with_one_lead([*lead, *examples, *start, *past, *chat, *post])


def name_speakers(
    contributions: Sequence[Contribution], labels: Labels = NO_LABELS
) -> list[Contribution]:
    """Return `contributions` with names before people's turns, if several people take part."""
    people = {
        (offered.author.platform, offered.author.user_id)
        for offered in contributions
        if offered.place is PromptSpan.chat and offered.author
    }
    if len(people) < 2:  # noqa: PLR2004  # one person needs no name
        return list(contributions)
    labels = labels.joined(offered.author for offered in contributions)
    return [_named(offered, labels) for offered in contributions]


def _named(offered: Contribution, labels: Labels) -> Contribution:
    if offered.place is not PromptSpan.chat or offered.author is None:
        return offered
    return replace(offered, text=f"{labels.of(offered.author)}: {offered.text}")


def _with_insertions(chat: list[Message], insertions: list[Fragment]) -> list[Message]:
    """Return the chat with each insertion `depth` real turns above its end."""
    depths = {min(max(f.offered.depth, 0), len(chat)) for f in insertions}
    merged = list(chat)
    for depth in sorted(depths, reverse=True):
        here = [f for f in insertions if min(max(f.offered.depth, 0), len(chat)) == depth]
        # Whatever was inserted so far stands above, so the end of the list still counts real turns.
        merged[len(merged) - depth : len(merged) - depth] = _joined_by_role(here)
    return merged


def _joined_by_role(insertions: list[Fragment]) -> list[Message]:
    messages = []
    for role in _HIGHEST_FIRST:
        texts = [f.text.strip() for f in insertions if f.offered.role == role]
        if texts:
            messages.append(_message(role, "\n".join(texts)))
    return messages


def _examples(fragments: list[Fragment]) -> list[Message]:
    messages = []
    for fragment in fragments:
        messages.append(_message("system", EXAMPLE_MARK))
        messages += [_message(line.role, line.text) for line in fragment.offered.dialogue]
    return messages


def _with_one_lead(messages: list[Message]) -> tuple[Message, ...]:
    """Return `messages` with the system messages at their beginning made one."""
    count = next((n for n, m in enumerate(messages) if m["role"] != "system"), len(messages))
    if not count:
        return tuple(messages)
    lead = _message("system", "\n\n".join(m["content"] for m in messages[:count]))
    return (lead, *messages[count:])


def _at(fragments: Iterable[Fragment], place: PromptSpan) -> list[Fragment]:
    return [fragment for fragment in fragments if fragment.offered.place is place]


def _message(role: Role, text: str) -> Message:
    # Half a surrogate pair is no Unicode, and no server could be sent it.
    sendable = text.encode("utf-8", errors="replace").decode("utf-8") if _broken(text) else text
    return {"role": role, "content": sendable}


def _broken(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
