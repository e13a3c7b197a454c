"""Claude's export: conversations with the branch that was shown last, and its memories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports import conversation
from familiar_cli.imports.contract import Format, Sighting, certain_if
from familiar_cli.imports.foreign_files import object_at, objects_at, text_at
from familiar_cli.imports.memory_lists import build_memories, read_lines

if TYPE_CHECKING:
    from familiar_cli.imports.contract import ForeignItem, ForeignMemory, Reading
    from familiar_cli.imports.source import ForeignFile, Skip
    from familiar_cli.store.history.rows import Role

_PROGRAM: Final = conversation.Program("claude")
_OWN: Final = "conversations_memory"
_PROJECTS: Final = "project_memories"
# Claude's export has it in place of tools and artifacts.
_UNSUPPORTED: Final = (
    r"(?:This block is not supported on your current device yet"
    r"|Viewing artifacts created via the Analysis Tool [^`\n]{1,100}?)\.?"
)
_NOT_SHOWN: Final = re.compile(
    # The lookbehind keeps long gaps from being tried from each of their places.
    rf"(?:(?<!\s)\s+)?(?:```\s*{_UNSUPPORTED}\s*```\s*)+|\A\s*{_UNSUPPORTED}\s*\Z"
)
_ROLES: Final[dict[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant"}


def _sniff(source: ForeignFile) -> Sighting:
    if "chat_messages" in source.first:
        return certain_if(source.first, "", "chat")
    return certain_if(_accounts(source), "the memories of Claude", "memories")


def _read(source: ForeignFile, reading: Reading) -> Iterable[ForeignItem | Skip]:
    if "chat_messages" in source.first:
        return conversation.read_conversations(source, reading, _PROGRAM, _parse)
    return [build_memories("Claude", source.stem, _memories(source))]


def _accounts(source: ForeignFile) -> list[dict[str, Any]]:
    value = source.value
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, dict) and {_OWN, _PROJECTS} & one.keys()]


def _memories(source: ForeignFile) -> Iterator[ForeignMemory]:
    for account in _accounts(source):
        yield from read_lines(text_at(account, _OWN))
        for name, text in object_at(account, _PROJECTS).items():
            yield from read_lines(str_or_empty(text), about=f"Claude project {name}")


def _parse(value: dict[str, Any]) -> Iterator[conversation.SourceChat]:
    messages = objects_at(value, "chat_messages")
    shown = conversation.shown_messages(
        messages, ("uuid", "parent_message_uuid"), text_at(value, "current_leaf_message_uuid")
    )
    kept = {id(message) for message in shown}
    others = [message for message in messages if id(message) not in kept]
    account = text_at(object_at(value, "account"), "uuid")
    yield conversation.SourceChat(
        lambda: map(partial(_line, account), shown),
        name=text_at(value, "name"),
        id=text_at(value, "uuid"),
        began=value.get("created_at"),
        about=value | {"chat_messages": others},
        aside=len(others),
        notes=conversation.files_note(sum(len(set(_files(message))) for message in shown)),
    )


def _line(account: str, message: dict[str, Any]) -> conversation.SourceMessage:
    sender = text_at(message, "sender")
    role = _ROLES.get(sender, "system")
    return conversation.SourceMessage(
        _words(message),
        role,
        speaker="" if role != "system" else sender,
        account=account,
        time=message.get("created_at"),
        raw=message,
    )


def _words(message: dict[str, Any]) -> str:
    """Return the text of a message, pasted text, and a line for each thing that it shows besides.

    Thoughts and what tools were given and returned stay in the source record.
    """
    parts = objects_at(message, "content")
    texts = [text_at(part, "text") for part in parts if part.get("type") == "text"]
    text = "\n\n".join(filter(None, texts)) or text_at(message, "text")
    if _NOT_SHOWN.search(text):
        text = _NOT_SHOWN.sub("\n\n", text).strip()
    tools = [part for part in parts if part.get("type") == "tool_use"]
    lines = [text, *_pasted(message), *conversation.named_files(_files(message))]
    titles = (text_at(object_at(tool, "input"), "title") for tool in tools)
    lines += [f"[artifact: {title}]" for title in dict.fromkeys(filter(None, titles))]
    names = dict.fromkeys(text_at(tool, "name") or "tool" for tool in tools)
    return "\n".join(filter(None, lines)) or "\n".join(f"[tool: {name}]" for name in names)


# What Claude calls a text that was pasted; nothing in older exports.
_PASTED: Final = re.compile(r"|paste(d[- _]?(text|content)?)?([- _(]*\d+\)?)?(\.txt|\.md)?")


def _is_pasted(attachment: dict[str, Any]) -> bool:
    """Tell whether an attachment is a long text that was pasted into the message."""
    name = text_at(attachment, "file_name").lower()
    return bool(text_at(attachment, "extracted_content")) and bool(_PASTED.fullmatch(name))


def _pasted(message: dict[str, Any]) -> list[str]:
    pasted = filter(_is_pasted, objects_at(message, "attachments"))
    return [text_at(attachment, "extracted_content") for attachment in pasted]


def _files(message: dict[str, Any]) -> list[str]:
    """Return the names of the files of a message, which may be empty, without pasted texts."""
    listed = objects_at(message, "attachments")
    pasted = {text_at(one, "file_name") for one in listed if _is_pasted(one)}
    others = [one for one in (*listed, *objects_at(message, "files")) if not _is_pasted(one)]
    names = [text_at(one, "file_name") for one in others]
    return [name for name in names if not name or name not in pasted]


FORMAT: Final = Format("claude", "Claude export", ("chat", "memories"), _sniff, _read)
