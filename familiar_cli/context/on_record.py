"""Turns that are stored with their reply and trace, even if the process is killed."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from msgspec.structs import replace

from familiar_cli.base.config.home import is_alive
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import append, check_own, read_plain, remove
from familiar_cli.base.times.clock import now, to_ms
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context.trace import Trace, TraceEncoder, write_trace
from familiar_cli.context.turn import UNWATCHED, TurnResult, TurnRunner, Watcher
from familiar_cli.llm.thinking import split_thinking
from familiar_cli.store.history.rows import Turn, new_turn
from familiar_cli.store.history.store import HistoryStore, keep_once

if TYPE_CHECKING:
    from familiar_cli.context.pipeline import ContextPipeline
    from familiar_cli.context.replies import PartialReply
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.context.types import Said

DIRECTORY: Final = "replying"
_PROCESS: Final = os.urandom(8).hex()  # in a container, the next process may have the same id
_LATER_TURNS: Final = 20


class ReplySpool:
    """Spool file of one reply. Write failures are ignored: they only cost the recovery.

    Args:
        directory: Where such files are, or will be.
        reply: The reply as far as it is known; its content is what it begins with.
        instead_of: The number of the turn whose place it takes; None: it takes none.
    """

    def __init__(self, directory: Path, reply: Turn, instead_of: int | None) -> None:
        self._path = directory / f"{reply.reply_to}-{os.urandom(4).hex()}.txt"
        self._head = {
            "pid": os.getpid(),
            "process": _PROCESS,
            "channel": reply.channel_id,
            "question": reply.reply_to,
            "modality": reply.modality,
            "source": reply.source,
            "instead_of": instead_of,
        }
        self._begins = reply.content
        self._file: BinaryIO | None = None
        self._has_failed = False

    def add(self, piece: str) -> None:
        """Append one piece; it survives a kill of this process."""
        if self._has_failed:
            return
        try:
            if self._file is None:
                append(self._path, f"{json.dumps(self._head)}\n{self._begins}".encode())
                self._file = self._path.open("ab", buffering=0)
            self._file.write(piece.encode("utf-8", "surrogatepass"))
        except (OSError, FamiliarError):
            self._has_failed = True

    def close(self, *, is_kept: bool) -> None:
        """Delete the file, once the reply is kept as a turn."""
        if self._file:
            self._file.close()
        if is_kept:
            with suppress(OSError):
                remove(self._path)
                self._path.parent.rmdir()


def recover_replies(history: HistoryStore, directory: Path) -> list[Turn]:
    """Recover replies cut short by a killed process, as partial turns."""
    turns = []
    try:
        check_own(directory)
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".txt")
    except (OSError, FamiliarError):
        return []
    for path in paths:
        with suppress(OSError, FamiliarError, ValueError, KeyError, TypeError):
            head, _, text = read_plain(path).partition(b"\n")
            said = json.loads(head)
            if _is_under_way(said):
                continue
            reply = _keep_partial(history, said, text.decode("utf-8", "surrogatepass"))
            turns += [reply] if reply else []
            remove(path)
    with suppress(OSError):
        directory.rmdir()
    return turns


def _is_under_way(head: dict[str, Any]) -> bool:
    if head["pid"] == os.getpid():
        return bool(head["process"] == _PROCESS)
    return is_alive(head["pid"])


def _keep_partial(history: HistoryStore, head: dict[str, Any], text: str) -> Turn | None:
    text, _ = split_thinking(text, is_whole=False)
    question = history.turn(head["question"])
    later = history.recent(head["channel"], _LATER_TURNS, viewer=OWNER)
    is_kept = any(t.reply_to == head["question"] and t.content.startswith(text) for t in later)
    if question is None or is_kept or not text.strip():
        return None
    reply = new_turn(
        head["channel"],
        "assistant",
        text,
        to_ms(now()),
        modality=head["modality"],
        source=head["source"],
        partial=True,
        reply_to=question.id,
    )
    old = history.turn(head["instead_of"]) if head["instead_of"] else None
    return _keep_reply(history, reply, old)


def _keep_reply(history: HistoryStore, reply: Turn, old: Turn | None) -> Turn:
    """Keep a reply, in the place of `old` if that is given."""
    if old:
        from familiar_cli.store.history.marks import supersede_turn  # noqa: PLC0415  # rarely needed

        return supersede_turn(history, old, reply)
    return keep_once(history, reply).turn


_NO_MORE: Final = "The model added nothing to the reply, which is unchanged"


class OnRecord(TurnRunner):
    """Runs one turn and stores it: the message, the reply, and the trace.

    Args:
        traces_dir: The directory of traces.
        said: The message, with its source and the turn that its reply replaces.
        keep_traces: Number of traces to keep; 0 for all.
        notice: A notice to add to the result.
        watcher: Observes outgoing requests.
    """

    _question: Turn
    _reply: Turn  # as far as it is known when what was said is kept
    _spool: ReplySpool
    _begun: PartialReply | None

    def __init__(
        self,
        history: HistoryStore,
        pipeline: ContextPipeline,
        traces_dir: Path,
        said: Said,
        *,
        keep_traces: int = 0,
        notice: str = "",
        watcher: Watcher = UNWATCHED,
    ) -> None:
        super().__init__(pipeline, notice=notice, watcher=watcher)
        self._history = history
        self._traces_dir = traces_dir
        self._keep_traces = keep_traces
        self._said = said
        self._encoder = TraceEncoder()

    def _keep_question(self, request: ContextRequest, trace: Trace) -> Trace:
        if request.opening:
            self._history.begin(
                request.channel_id, request.opening, at=request.at, modality=request.modality
            )
        self._question = self._answered_turn(request) or self._kept(request)
        self._begun = request.begun
        self._reply = new_turn(
            request.channel_id,  # a branch may share the question with its parent
            "assistant",
            self._begun.text if self._begun else "",
            request.at,
            modality=self._question.modality,
            source=self._said.source,
            partial=True,
            reply_to=self._question.id,
        )
        old = self._said.instead_of
        directory = self._history.path.parent / DIRECTORY
        self._spool = ReplySpool(directory, self._reply, old.id if old else None)
        return self._record(replace(trace, turn=self._question.id))

    def _answered_turn(self, request: ContextRequest) -> Turn | None:
        return None if request.reply_to is None else self._history.turn(request.reply_to)

    def _kept(self, request: ContextRequest) -> Turn:
        question = new_turn(
            request.channel_id,
            "user",
            request.utterance,
            request.at,
            author=request.author,
            modality=request.modality,
            source=self._said.source,
        )
        return keep_once(self._history, question, self._said.message_id).turn

    def _keep_piece(self, piece: str) -> None:
        self._spool.add(piece)

    def _keep_reply(self, text: str, trace: Trace, *, partial: bool) -> TurnResult:
        """Store the reply, if any, and write the trace."""
        reply, added = None, None
        if self._begun:
            added = self._begun.added(text)
            text = self._begun.text + added if added.strip() else ""
            self.notices += [] if text else [_NO_MORE]
        if text.strip():
            reply = self._kept_reply(text, partial=partial)
        self._spool.close(is_kept=True)
        trace = replace(trace, reply_turn=reply.id if reply else None)
        trace = self._record(trace, keep=self._keep_traces)
        old = self._said.instead_of.id if self._said.instead_of and reply else None
        return TurnResult(
            self._question, reply, text, trace, tuple(self.notices), supersedes=old, added=added
        )

    def _what_is_kept(self, result: TurnResult) -> str:
        text = f"your message is saved as turn {self._question.id}"
        return f"{text}, the partial reply as turn {result.reply.id}" if result.reply else text

    def _kept_reply(self, text: str, *, partial: bool) -> Turn:
        reply = replace(self._reply, content=text, at=to_ms(now()), partial=partial)
        try:
            return _keep_reply(self._history, reply, self._said.instead_of)
        except FamiliarError as error:
            self._spool.close(is_kept=False)
            error.args = (f"The reply could not be kept. {error}",)
            error.data = {"turn": self._question.id, "reply": text, "reply_turn": None}
            raise

    def _record(self, trace: Trace, *, keep: int = 0) -> Trace:
        """Write the trace and return it; an error does not lose the turn."""
        trace = replace(trace, notices=tuple(self.notices))
        try:
            write_trace(self._traces_dir, trace, keep=keep, encoder=self._encoder)
        except FamiliarError as error:
            if str(error) not in self.notices:
                self.notices.append(str(error))
        return trace


class FirstMessage(TurnRunner):
    """Runs a turn that the familiar begins, and stores its message only.

    The topic is an instruction, which is not stored.

    Args:
        traces_dir: The directory of traces.
        said: The instruction, with the id under which the message is stored once.
        keep_traces: Number of traces to keep; 0 for all.
    """

    def __init__(
        self,
        history: HistoryStore,
        pipeline: ContextPipeline,
        traces_dir: Path,
        said: Said,
        *,
        keep_traces: int,
    ) -> None:
        super().__init__(pipeline)
        self._history = history
        self._traces_dir = traces_dir
        self._said = said
        self._keep_traces = keep_traces

    def _keep_reply(self, text: str, trace: Trace, *, partial: bool) -> TurnResult:
        if trace.error or not text.strip():
            return super()._keep_reply(text, trace, partial=partial)
        message = new_turn(
            self._said.channel_id,
            "assistant",
            text,
            to_ms(now()),
            modality=self._said.modality,
            source=self._said.source,
            partial=partial,
        )
        kept = keep_once(self._history, message, self._said.message_id).turn
        trace = replace(trace, turn=kept.id, reply_turn=kept.id, notices=tuple(self.notices))
        with suppress(FamiliarError):  # the message stands
            write_trace(self._traces_dir, trace, keep=self._keep_traces)
        return TurnResult(None, kept, text, trace, trace.notices)
