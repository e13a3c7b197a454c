"""What the writer is told about its work and about the familiar."""

from __future__ import annotations

from dataclasses import dataclass

from familiar_cli.memory.pages.evidence import PLAIN, Numbering


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How the writer works.

    Args:
        batch_turns: Most turns of one question.
        batch_tokens: Most tokens of turns in one question; a small model gets fewer.
        quiet_gap_s: A silence this long ends a conversation.
        reply_tokens: Most tokens of a reply.
        temperature: How freely words are chosen; None: as the model's settings say.
        structured: `auto`, `on` or `off`: whether the server is asked to constrain replies.
        numbering: How turns are cited.
    """

    batch_turns: int = 60
    batch_tokens: int = 4000
    quiet_gap_s: float = 1800.0
    reply_tokens: int = 1024
    temperature: float | None = None
    structured: str = "auto"
    numbering: Numbering = PLAIN
