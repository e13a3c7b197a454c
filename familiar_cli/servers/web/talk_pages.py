"""The chat page: a conversation, evidence for its replies, and streamed turns."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from familiar_cli.actions.memory.due_work import begin_due_work, make_way
from familiar_cli.actions.memory.past import learned_from, undo
from familiar_cli.actions.memory.write_memory import remember_turn
from familiar_cli.actions.talk import change_turns, talk
from familiar_cli.actions.talk.pictures import (
    MOST_PICTURES,
    PictureModel,
    picture_address,
    picture_part,
    stored_parts,
)
from familiar_cli.actions.talk.sent import oldest_in_prompt
from familiar_cli.actions.talk.why import ReplyExplanation, explain_reply, omit_gone_files
from familiar_cli.base.config.home import who_speaks
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.context.trace import Trace, read_trace
from familiar_cli.context.turn import TurnResult, Watcher
from familiar_cli.context.types import Said, Spoken
from familiar_cli.familiar import Familiar
from familiar_cli.imports.export_card import card_picture
from familiar_cli.llm.slots import check_on_disk, check_usable
from familiar_cli.llm.types import ChatModel
from familiar_cli.pages.stream import Styler, shown_runs, spoken_runs
from familiar_cli.servers import connection
from familiar_cli.servers.web import asking
from familiar_cli.servers.web.conversations import MAIN, list_conversations, title_of_channel
from familiar_cli.servers.web.setup_pages import missing_model, spare_model
from familiar_cli.store.history import attachments
from familiar_cli.store.history.rows import Turn, in_pairs, place_of

T = TypeVar("T")

SOURCE: Final = "web"
"""The source of turns made on the page."""

_MOST_TURNS: Final = 24
_MOST_EXPLAINED: Final = 1_000
_MOST_SPOKEN_CHARS: Final = 400_000
_ROLES: Final = ("user", "assistant")
_STOP_S: Final = 5.0
_STOPPED: Final = "Stopped. What had been written is saved."
_STREAM: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class PageTurn(talk.LiveTurn):
    """A turn requested by a form.

    Args:
        form: Form fields; `do` is the action: `say`, `again`, `continue` or `edit`.
        files: Name and content of each picture that goes with the message.
        begins_work: Start the background work that falls due, since no one else does.

    Attributes:
        said: The message, once known.
        is_kept: Whether the message is in the history.
        notices: User-facing messages, a line each.
        interrupted: The partial reply, if it was stopped.
    """

    def __init__(
        self,
        familiar: Familiar,
        form: Mapping[str, list[str]],
        files: Sequence[tuple[str, bytes]] = (),
        *,
        begins_work: bool,
    ) -> None:
        self.root, self.channel_id = familiar.paths.root, _channel_in(form)
        self._familiar = familiar
        self._form = form
        self._files = files
        self._pictures: list[str] = []
        self._begins_work = begins_work
        self.said: Said | None = None
        self.is_kept = False
        self.notices: tuple[str, ...] = ()
        self.interrupted: TurnResult | None = None
        super().__init__()
        LIVE.add(self)
        self.task.add_done_callback(lambda _: LIVE.discard(self))

    async def _take(self) -> TurnResult:
        familiar = self._familiar
        self._pictures = [picture_address(*file) for file in self._files]
        read = partial(_read_said, familiar, self._form, self._pictures)
        self.said = said = await asyncio.to_thread(read)
        if self._begins_work:
            await asyncio.to_thread(_alone, partial(make_way, familiar))
        result = await talk.take_turn(
            familiar,
            said,
            self._put,
            on_wait=lambda text: self._put(talk.TurnNotice(text)),
            on_interrupted=self._note_interrupted,
            asking=talk.Asking(
                model=self._with_pictures, watcher=Watcher(self._amend, self._note_begun)
            ),
        )
        self.notices = result.notices
        if self._begins_work and not said.off_record:
            begin = partial(begin_due_work, familiar, result)
            self.notices += (await asyncio.to_thread(_alone, begin)).problems
        return result

    def _with_pictures(self, model: ChatModel) -> ChatModel:
        root = self.root if self._familiar.config.llm.vision == "on" else None
        new = [picture_part(address) for address in self._pictures]
        return PictureModel(model, new or stored_parts(self.root, self.text), root)

    def _amend(self, trace: Trace) -> Trace:
        """Store a message's pictures just before the message itself."""
        if self.said and not self.said.off_record:
            attachments.keep_pictures(self.root, self._pictures)
        return trace

    @property
    def text(self) -> str:
        """The text of the message, once it has been read."""
        return self.said.text if self.said else ""

    def _note_begun(self, trace: Trace) -> None:
        self.is_kept = trace.turn is not None
        self._put(trace)

    def _note_interrupted(self, result: TurnResult) -> None:
        self.interrupted = result


_EXPLAINED: Final[dict[tuple[Path, int], ReplyExplanation]] = {}

LIVE: Final[set[PageTurn]] = set()
"""Turns in progress in this process."""


_WORK_LOCK: Final = threading.Lock()  # jobs are for one thread at a time


def _alone(act: Callable[[], T]) -> T:
    with _WORK_LOCK:
        return act()


async def cancel_turns() -> None:
    """Cancel the turns of this event loop, keeping partial replies."""
    loop = asyncio.get_running_loop()
    mine = [turn.cancel() for turn in tuple(LIVE) if turn.task.get_loop() is loop]
    await asyncio.gather(*mine)


def _channel_in(form: Mapping[str, list[str]]) -> str:
    return asking.field_of(form, "channel").strip() or MAIN


def _read_said(
    familiar: Familiar, form: Mapping[str, list[str]], pictures: Sequence[str] = ()
) -> Said:
    """Parse a form; an edit is stored.

    Raises:
        ConfigError: No model is set.
        NotFoundError: There is nothing to reply to, to continue or to edit.
        RefusedError: The last turn is not the one the form refers to.
        UsageError: A form field is invalid.
    """
    _check_model(familiar)
    channel_id, greeting = _channel_in(form), asking.field_of(form, "greeting")
    author = who_speaks(None, None, familiar.me(channel_id))
    is_off = bool(asking.field_of(form, "off"))
    if len(pictures) > MOST_PICTURES:
        raise UsageError(f"A message can hold at most {MOST_PICTURES} pictures; nothing was sent")
    words = asking.field_of(form, "text").replace("\r\n", "\n")
    said = Said(
        "\n".join(filter(None, (words, *map(attachments.picture_mark, pictures)))),
        author,
        channel_id,
        source=SOURCE,
        greeting=asking.to_number(greeting, "greeting") if greeting else None,
        off_record=is_off,
        remembered=_read_spoken(asking.field_of(form, "spoken"), author) if is_off else (),
    )
    match asking.field_of(form, "do") or "say":
        case "say":
            return said
        case "again" if is_off:
            return change_turns.forget_last(said)
        case "again":
            first = change_turns.answer_last_turn(familiar, said)  # as after a failure
            return first or change_turns.again(familiar, said)
        case "continue" if not is_off:
            return change_turns.go_on(familiar, said)
        case "edit" if not is_off:
            number = asking.to_number(asking.field_of(form, "turn"), "turn")
            return change_turns.say_again(familiar, said, _last_said(familiar, said, number))
    raise UsageError(f"Unknown action: {asking.field_of(form, 'do')[:40]!r}; nothing was sent")


def _check_model(familiar: Familiar) -> None:
    """Check that a model is set.

    Raises:
        ConfigError: None is set.
    """
    check_usable(familiar.models.slot())
    check_on_disk(familiar.models.slot())


def _last_said(familiar: Familiar, said: Said, number: int) -> Turn:
    turn = familiar.history.turn(number)
    if turn is None or not familiar.privacy.viewer_in(said.channel_id, said.author).sees_turn(turn):
        raise NotFoundError(f"There is no turn {number}; nothing was changed")
    return turn


def _read_spoken(text: str, author: Any) -> tuple[Spoken, ...]:  # noqa: ANN401
    """Parse off-the-record turns, which only the page stores."""
    wrong = UsageError("What was said off the record cannot be read; nothing was sent")
    if len(text) > _MOST_SPOKEN_CHARS:
        raise UsageError("What was said off the record is too long; nothing was sent")
    try:
        value = json.loads(text or "[]")
        pairs = [(role, words) for role, words in value]
    except (ValueError, TypeError) as error:
        raise wrong from error
    if not all(role in _ROLES and isinstance(words, str) for role, words in pairs):
        raise wrong
    return tuple(Spoken(role, words, author if role == "user" else None) for role, words in pairs)


class TalkResponse(Struct, eq=False):
    """An ASGI response for a turn: streamed events, or a page at the end.

    If the browser disconnects, the turn is cancelled and its partial reply kept.

    Args:
        draw: Renders the page with the outcome; called in a thread.
        leave: Called at the end in any case.
        streams: Whether the browser accepts events.
    """

    turn: PageTurn
    draw: Callable[[talk.ReplyEnd], Response]
    leave: Callable[[], Awaitable[None]]
    streams: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            playing = self._play(scope, receive, send)
            await connection.play_while_connected(receive, playing, self.turn.cancel)
        finally:
            await self.leave()

    async def _play(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.streams:
            await send({"type": "http.response.start", "status": 200, "headers": _STREAM})
        events, styler = self.turn.follow(), Styler()
        while not isinstance(event := await anext(events), talk.ReplyEnd):
            if self.streams:
                await _send_event(send, *self._event_of(event, styler))
        page = await asyncio.to_thread(self.draw, event)
        if not self.streams:
            await page(scope, receive, send)
            return
        await _send_event(send, "page", bytes(page.body).decode("utf-8"))
        await send({"type": "http.response.body", "body": b""})

    def _event_of(self, event: Trace | talk.TurnNotice | str, styler: Styler) -> tuple[str, object]:
        """Return an event's name and data; text comes in styled runs, as `speech_html` draws it."""
        if isinstance(event, talk.TurnNotice):
            return "wait", event.text
        said = self.turn.said
        if isinstance(event, str):
            return "text", list(shown_runs(styler, styler.feed(event)))
        if said and said.remake == "continue" and said.instead_of:
            return "begun", list(shown_runs(styler, styler.feed(said.instead_of.content)))
        words, pictures = attachments.split_pictures(self.turn.root, self.turn.text)
        shown = [(f"attachments/{name}", "picture") for name in pictures]
        return "begun", [*spoken_runs(words), *shown]


async def _send_event(send: Send, name: str, value: object) -> None:
    body = f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


def show_chat(request: asking.PageRequest) -> asking.PageView:
    """Return the page of a conversation, and load what the first reply needs meanwhile."""
    request.familiar.finder.load_embedder(optimised=True)
    return asking.PageView("chat", _chat_values(request))


def show_outcome(
    turn: PageTurn, end: talk.ReplyEnd, request: asking.PageRequest, *, streams: bool
) -> asking.PageView | asking.Redirect:
    """Return the conversation after a turn, redirecting if a reload could repeat it."""
    is_off = bool(request.sent("off"))
    if not (streams or is_off or end.error):
        return asking.Redirect(f"{request.to('chat', channel=turn.channel_id)}#end", turn.notices)
    values = _chat_values(request) | {"warnings": turn.notices, "is_off": is_off, "is_live": False}
    if turn.interrupted:
        values["outcome"] = _STOPPED
    result, said = end.result or turn.interrupted, turn.said
    if is_off:
        with suppress(UsageError):
            messages = _read_spoken(request.sent("spoken"), None)
            if said and result:
                messages = change_turns.with_exchange(said.remembered, said, result.text)
                values["off_why"] = explain_reply(request.familiar, result.trace)
            values["spoken"] = [(spoken.role, spoken.text) for spoken in messages]
    if not (result or turn.is_kept) and (request.sent("do") or "say") == "say":
        values["draft"] = request.sent("text")
    if end.error is None:
        return asking.PageView("chat", values)
    error = end.error
    if not isinstance(error, FamiliarError):
        error = FamiliarError(f"The reply failed: {type(error).__name__}")
    values |= {"error": str(error), "hint": error.hint or ""}
    return asking.PageView("chat", values, asking.http_status(error))


def _chat_values(request: asking.PageRequest) -> dict[str, Any]:
    familiar = request.familiar
    channel_id = request.query.get("channel", "").strip() or _channel_in(request.form)
    before, problem, slot = request.number("before"), "", None
    recent = familiar.history.recent(channel_id, _MOST_TURNS + 1, before, viewer=request.viewer)
    turns = in_pairs(recent[-_MOST_TURNS:])
    try:
        slot = familiar.models.slot()
        _check_model(familiar)
    except FamiliarError as error:
        problem = str(error)
    is_end = before is None
    oldest = _oldest_in_prompt(familiar, channel_id)
    return {
        "name": familiar.name,
        "channel": channel_id,
        "has_portrait": bool(card_picture(familiar.memory)[0]),
        "rows": [
            row | {"is_out": place_of(row["turn"]) < oldest} for row in _turn_rows(request, turns)
        ],
        "last": _last_controls(familiar, channel_id, turns) if is_end else {},
        "more": place_of(recent[-_MOST_TURNS]) if len(recent) > _MOST_TURNS else None,
        "is_end": is_end,
        "greetings": [] if turns else _greetings(familiar, channel_id),
        "conversations": list_conversations(familiar, request.viewer, channel_id),
        "parents": [
            (branch.parent, title_of_channel(familiar, branch.parent))
            for branch in familiar.history.branches()
            if branch.channel_id == channel_id
        ],
        "is_live": bool(_live_in(familiar, channel_id)),
        "missing": missing_model(familiar) if problem else None,
        "spare": spare_model(familiar),
        "may_see": slot is not None and slot.preset != "local",
        "problem": problem,
        "is_off": False,
        "spoken": [],
        "off_why": None,
        "outcome": "",
        "warnings": (),
        "error": "",
        "hint": "",
        "draft": "",
    }


def _turn_rows(request: asking.PageRequest, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return turns with their speakers, memories used, and learned facts."""
    replies = {turn.reply_to: turn.id for turn in turns if turn.reply_to is not None}
    learned: dict[int, list[tuple[str, str, str]]] = {}
    with suppress(FamiliarError):
        for turn_id, lines in learned_from(request.familiar, turns, request.viewer).items():
            learned.setdefault(replies.get(turn_id, turn_id), []).extend(lines)
    rows, me = [], request.familiar.me()
    for turn, name in asking.with_speakers(request.familiar, turns):
        who = "You" if me.is_me(turn.author) else name
        why = _explain_reply(request.familiar, turn)
        why = why and omit_gone_files(request.familiar, why)
        words, pictures = attachments.split_pictures(request.familiar.paths.root, turn.content)
        row = {"turn": turn, "who": who, "words": words, "pictures": pictures, "why": why}
        rows.append({**row, "learned": learned.get(turn.id, [])})
    return rows


def _oldest_in_prompt(familiar: Familiar, channel_id: str) -> int:
    """Return the oldest turn in a conversation's last prompt; 0 if there is none."""
    try:
        turn = change_turns.shared_exchange(familiar, channel_id).said
        return oldest_in_prompt(read_trace(familiar.paths.traces, turn.id))
    except FamiliarError:
        return 0


def _explain_reply(familiar: Familiar, turn: Turn) -> ReplyExplanation | None:
    """Explain a reply from its immutable trace, or return None without one."""
    if turn.role != "assistant" or turn.reply_to is None:
        return None
    key = (familiar.paths.root, turn.id)
    if key not in _EXPLAINED:
        try:
            trace = read_trace(familiar.paths.traces, turn.reply_to)
        except FamiliarError:
            return None
        if trace.reply_turn != turn.id:
            return None  # the trace belongs to another reply
        if len(_EXPLAINED) >= _MOST_EXPLAINED:
            _EXPLAINED.clear()
        _EXPLAINED[key] = explain_reply(familiar, trace)
    return _EXPLAINED[key]


def _last_controls(familiar: Familiar, channel_id: str, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the actions available for the last turns; empty if they are shared with a parent."""
    try:
        exchange = change_turns.last_exchange(familiar, channel_id)
    except FamiliarError:
        return {}
    number = total = 1
    if exchange.replies:
        found = change_turns.alternatives(familiar, channel_id)
        number, total = found.standing, len(found.replies)
    return {
        "said": exchange.said.id,
        "reply": exchange.replies[-1].id if exchange.replies else None,
        "is_open": bool(turns) and turns[-1].role == "user",
        "number": number,
        "total": total,
    }


def _greetings(familiar: Familiar, channel_id: str) -> list[tuple[int, str]]:
    """Return the greetings that can open a conversation, each with its number."""
    from msgspec.structs import replace

    said = Said("", who_speaks(None, None, familiar.me(channel_id)), channel_id)
    numbers = range(1, len(familiar.character().greetings) + 1)
    with suppress(FamiliarError):  # `take_turn` reports errors of the character
        return [(n, talk.opening_of(familiar, replace(said, greeting=n))) for n in numbers]
    return []


def _live_in(familiar: Familiar, channel_id: str) -> list[PageTurn]:
    """Return the turns in progress in a conversation."""
    where = (familiar.paths.root, channel_id)
    return [turn for turn in tuple(LIVE) if (turn.root, turn.channel_id) == where]


def send_picture(request: asking.PageRequest) -> asking.Data:
    """Return a picture of a message."""
    content, media_type = attachments.read_picture(
        request.familiar.paths.root, request.path["name"]
    )
    if not content:
        raise NotFoundError("This picture is not here")
    return asking.Data(content, media_type)


def stop_reply(request: asking.PageRequest) -> asking.Redirect:
    """Stop a reply in progress, keeping its partial text."""
    live = _live_in(request.familiar, _channel_in(request.form))
    for turn in live:
        ending = asyncio.run_coroutine_threadsafe(turn.cancel(), turn.task.get_loop())
        with suppress(TimeoutError):
            ending.result(_STOP_S)
    return _to_end(request, _STOPPED if live else "No reply was being written.")


def choose_reply(request: asking.PageRequest) -> asking.Redirect:
    """Select another alternative of the last reply."""
    number = asking.to_number(request.sent("number"), "number")
    change_turns.choose_reply(request.familiar, _channel_in(request.form), number)
    return _to_end(request)


def edit_turn(request: asking.PageRequest) -> asking.Redirect:
    """Replace the text of a turn without asking for a reply."""
    number = asking.to_number(request.sent("turn"), "turn")
    new = change_turns.edit_turn(
        request.familiar, number, request.sent("text").replace("\r\n", "\n")
    )
    return _to_end(request, f"Turn {new.id} has the new wording; the old one is kept.")


def withdraw_exchange(request: asking.PageRequest) -> asking.Redirect:
    """Withdraw the last exchange of a conversation."""
    exchange = change_turns.take_back(request.familiar, _channel_in(request.form))
    ids = " ".join(str(turn.id) for turn in exchange.turns)
    return _to_end(request, f"Withdrawn. `familiar history restore {ids}` brings it back.")


def remember_message(request: asking.PageRequest) -> asking.Redirect:
    """Write one message to memory as a quotation."""
    number = asking.to_number(request.sent("turn"), "turn")
    turn = request.familiar.history.turn(number)
    if turn is None or not request.viewer.sees_turn(turn):
        raise NotFoundError(f"There is no turn {number}; nothing was changed")
    return _to_end(request, f"Remembered in {remember_turn(request.familiar, number)}.")


def begin_branch(request: asking.PageRequest) -> asking.Redirect:
    """Branch a conversation at a turn."""
    name = request.sent("name").strip()
    if not name:
        raise UsageError("The new conversation needs a name; nothing was changed")
    turn_id = asking.to_number(request.sent("turn"), "turn")
    result = change_turns.branch_channel(request.familiar, name, turn_id, _channel_in(request.form))
    text = f"What follows here does not affect {result.branch.parent}."
    return asking.Redirect(request.to("chat", channel=result.branch.channel_id), (text,))


def undo_learning(request: asking.PageRequest) -> asking.Redirect:
    """Revert a memory change made from this conversation."""
    undone, notices = undo(request.familiar, request.sent("commit"))
    text = "The change was undone." if undone.changes else "It was no longer in effect."
    return _to_end(request, text, *notices)


def _to_end(request: asking.PageRequest, *told: str) -> asking.Redirect:
    return asking.Redirect(f"{request.to('chat', channel=_channel_in(request.form))}#end", told)


PAGES: Final = (
    asking.WebPage("/chat", show_chat),
    asking.WebPage("/attachments/{name}", send_picture),
    asking.WebPage("/chat/stop", stop_reply, "POST"),
    asking.WebPage("/chat/choose", choose_reply, "POST"),
    asking.WebPage("/chat/edit", edit_turn, "POST"),
    asking.WebPage("/chat/withdraw", withdraw_exchange, "POST"),
    asking.WebPage("/chat/remember", remember_message, "POST"),
    asking.WebPage("/chat/branch", begin_branch, "POST"),
    asking.WebPage("/chat/undo", undo_learning, "POST"),
)
