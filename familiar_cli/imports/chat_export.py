"""Export the chats of a history in a format that has a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from familiar_cli.base.errors import NotFoundError, UsageError
from familiar_cli.base.who.identity import Me
from familiar_cli.base.who.visibility import OWNER, Viewer
from familiar_cli.imports.registry import load_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.contract import Format
    from familiar_cli.store.history.store import HistoryStore

ExportFormat = Literal["sillytavern", "jsonl"]


def export_chat(
    history: HistoryStore,
    channel_id: str | None,
    chat_format: ExportFormat,
    *,
    familiar_name: str,
    me: Me = Me(),  # noqa: B008  # frozen
    viewer: Viewer = OWNER,
) -> Iterator[str]:
    """Yield the lines of a channel, or of all channels, without line ends.

    Args:
        channel_id: The channel; None: the only one, or all of them as plain lines.
        chat_format: The output format.
        familiar_name: The familiar's name where the source does not state one.
        me: The owner's identity.
        viewer: Turns hidden from this viewer are left out.

    Raises:
        NotFoundError: The channel has no turns.
        UsageError: There are several channels, but a SillyTavern chat holds one.
    """
    there = [found.channel_id for found in history.channels()]
    channels = [channel for channel in there if viewer.sees_channel(channel)]
    if not channels:
        raise NotFoundError("There are no turns yet", hint='Start with `familiar ask "Hello"`.')
    known = {*channels, *(branch.channel_id for branch in history.branches())}
    if channel_id is not None and channel_id not in known:
        raise NotFoundError(
            f"There are no turns in channel {channel_id!r}", hint="Run `familiar history list`."
        )
    if chat_format == "jsonl":
        chosen = [channel_id] if channel_id is not None else sorted(channels)
        return _write(load_format("plain"), history, chosen, me, viewer)
    if channel_id is None and len(channels) > 1:
        raise UsageError(
            f"There are {len(channels)} channels, but a SillyTavern chat holds only one",
            hint=f"Add `--channel {channels[0]}`, or `--format jsonl` for all.",
        )
    channel = channel_id or channels[0]
    return _write(load_format("sillytavern"), history, channel, familiar_name, me, viewer)


def _write(found: Format, *values: object) -> Iterator[str]:
    assert found.write
    lines: Iterator[str] = found.write(*values)
    return lines
