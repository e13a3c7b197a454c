"""Memory for a chat program that asks a model of its own: what fits, and what was said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.served_turns import SOURCE
from familiar_cli.actions.talk import find_memory
from familiar_cli.context.types import Said
from familiar_cli.serve.turns import key_of
from familiar_cli.serve.upstream import fenced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.actions.client_chat import ClientChat
    from familiar_cli.context.trace import TracedContribution
    from familiar_cli.serve.aligning import Line
    from familiar_cli.serve.conversations import Served
    from familiar_cli.serve.guard import RequestBudget
    from familiar_cli.serve.turns import Alone, Wanted

_MEMORY: Final = frozenset({"content", "pinned"})


def has_exchange(lines: Sequence[Line]) -> bool:
    """Return whether somebody answered a person in a conversation."""
    spoken = [line for line in lines if line.role != "system"]
    return len({line.author for line in spoken}) > 1


async def recall(served: Served, wanted: Wanted, budget: RequestBudget) -> dict[str, Any]:
    """Recall memory for the newest message, with the source of each piece."""
    lines, familiar = wanted.asked.lines, served.familiar

    def channel_of() -> str:
        find = served.conversations.find
        return find(lines, wanted.author, wanted.channel_id, wanted.message_id).channel_id

    channel_id = await budget.work(channel_of)
    said = Said(
        wanted.asked.said,
        wanted.author,
        channel_id,
        greeting=0,
        source=SOURCE,
        kind=wanted.kind,
        beside=wanted.asked.texts,
    )
    trace = await budget.work_apart(lambda: find_memory(familiar, said))
    pieces = [piece for piece in trace.contributions if piece.kept and piece.layer in _MEMORY]
    found = "\n\n".join(m.content for m in trace.messages if m.role == "system")
    return {
        "memory": fenced(found, familiar.name) if found.strip() else "",
        "recalled": [_piece(piece) for piece in pieces],
        "tokens": sum(piece.tokens for piece in pieces),
    }


async def keep(served: Served, wanted: Wanted, alone: Alone) -> dict[str, Any]:
    """Keep the newest exchange; what is kept already is not added again."""
    *lines, reply = wanted.asked.lines
    message_id = wanted.message_id
    is_reply = reply.role == "assistant" and lines[-1].role == "user"
    said = lines[-1] if is_reply else reply
    saying = Said(
        said.text,
        said.author,
        greeting=0,
        source=SOURCE,
        kind=wanted.kind,
        message_id=message_id,
    )

    def write() -> dict[str, Any]:
        conversations = served.conversations
        sent = lines if is_reply else wanted.asked.lines
        found = conversations.find(sent, wanted.author, wanted.channel_id, message_id)
        if is_reply:
            question, answer = conversations.keep(found, saying, reply.text)
            return {"kept": True, "turn": question.id, "reply_turn": answer.id}
        kept = conversations.keep_line(found, saying, reply.role)
        return {"kept": True, "turn": kept.id, "reply_turn": None}

    async with alone.hold(key_of(wanted)):
        return await asyncio.to_thread(write)


async def keep_chat(served: Served, chat: ClientChat, alone: Alone) -> dict[str, Any]:
    """Keep a whole chat as its program shows it now."""
    from familiar_cli.actions.client_chat import keep_client_chat  # noqa: PLC0415  # the importer

    async with alone.hold(f"{chat.directory}/{chat.name}"):
        done = await asyncio.to_thread(keep_client_chat, served.familiar, chat)
    return {
        "channel": done.channel,
        "added": done.imported,
        "corrected": done.corrected,
        "withdrawn": done.withdrawn,
        "already_there": done.already_there,
    }


def _piece(piece: TracedContribution) -> dict[str, Any]:
    return {
        "path": piece.rel_path,
        "lines": piece.lines,
        "turns": piece.turns,
        "from": piece.origin,
        "source": piece.source,
        "score": piece.score,
        "cause": piece.cause,
        "tokens": piece.tokens,
        "text": piece.text,
    }
