"""Pinned files: set them, and list what each costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.errors import RefusedError
from familiar_cli.base.markdown import title_of
from familiar_cli.context import types
from familiar_cli.context.budget import MESSAGE_TOKENS, Window, prompt_allowance
from familiar_cli.llm.slots import resolve_slot
from familiar_cli.llm.tokens import heuristic
from familiar_cli.store.memory.layout import SUFFIXES
from familiar_cli.store.memory.pages.front_matter import SELF_FILES, with_pin, without_pin
from familiar_cli.store.memory.store.files import WriteResult, parse_path
from familiar_cli.store.search.build import find_pins, pins_in_files

if TYPE_CHECKING:
    from familiar_cli.base.config.values import Value
    from familiar_cli.context.providers.pins import Pinned
    from familiar_cli.familiar import Familiar

    Resolved = Iterator[tuple[str, Value, str]]


_CHANNEL: Final = "cli"
_SELF: Final = frozenset(entry.rel_path for entry in SELF_FILES)
_FRAME_TOKENS: Final = MESSAGE_TOKENS + 20  # with the words and the day above a file
_NO_ROOM: Final = "no room beside the other pins; prompts show what fits in the room left free"


class PinnedFile(Struct, frozen=True):
    """A pinned file.

    Args:
        tokens: Its tokens in a prompt; 0 if nothing of it is shown.
        fits: It is in every prompt, untruncated.
        note: Why it is not, or not completely; empty otherwise.
    """

    rel_path: str
    tokens: int
    fits: bool
    note: str = ""


class PinnedFiles(Struct, frozen=True):
    """All pinned files.

    Args:
        pins: The files, sorted by path.
        tokens: Their total tokens.
        budget_tokens: The budget that prompts guarantee for them.
        problems: Unreadable files.
    """

    pins: tuple[PinnedFile, ...]
    tokens: int
    budget_tokens: int
    problems: tuple[str, ...] = ()

    @property
    def shortage(self) -> str:
        """Why not all of them are in every prompt; empty if they fit."""
        if self.tokens <= self.budget_tokens:
            return ""
        return (
            f"Pinned files have {self.tokens:,} tokens, but are guaranteed only"
            f" {self.budget_tokens:,}; a full prompt leaves some out"
        )


def set_pins(
    familiar: Familiar, rel_paths: Iterable[str], *, pinned: bool, dry_run: bool = False
) -> WriteResult:
    """Pin or unpin files: all of them, or none if one cannot be changed.

    Raises:
        NotFoundError: No such file.
        RefusedError: The file cannot be pinned.
        BadInputError: It is not text, or its front matter cannot take the key.
    """
    memory = familiar.memory
    clean = list(dict.fromkeys(map(parse_path, rel_paths)))
    message = f"{'pin' if pinned else 'unpin'} {' '.join(clean)}"
    with memory.transaction("human", message, dry_run=dry_run) as tx:
        for rel_path in clean:
            file = memory.read(rel_path)
            if pinned:
                _check_path(rel_path)
            text = with_pin(file.text, rel_path) if pinned else without_pin(file.text)
            tx.write(rel_path, text, expect=file.sha256)
    return tx.result


def list_pins(familiar: Familiar, *, by_index: bool = True) -> PinnedFiles:
    """List the pinned files as in the prompts of a direct conversation.

    Args:
        by_index: Find them by the index, updating it; otherwise read all files.
    """
    from familiar_cli.actions.talk.turn_setup import pinned_memory, request_now, turn_setup

    setup = turn_setup(familiar, _CHANNEL)
    budget = setup.allowance.layers[types.Layer.pinned]
    by_files = partial(pins_in_files, familiar.memory)
    find = partial(find_pins, familiar.index) if by_index else by_files
    viewer = familiar.privacy.viewer_in(_CHANNEL, familiar.me().author)
    request = request_now(familiar, setup, _CHANNEL, "", viewer=viewer)
    pinned = pinned_memory(familiar, setup, find).of(request)
    pins = sorted(
        (_pinned_file(familiar, piece, pinned) for piece in pinned.pieces if piece.rel_path),
        key=lambda pin: pin.rel_path,
    )
    problems = tuple(piece.problem for piece in pinned.pieces if not piece.rel_path)
    return PinnedFiles(tuple(pins), sum(pin.tokens for pin in pins), budget, problems)


def describe_shortage(familiar: Familiar) -> str:
    """Return why not all pinned files are in every prompt; empty if they fit.

    A prompt is only built if the whole files, with their headings, might not fit.
    """
    read, most_bytes = familiar.memory.read_head, familiar.memory.limits.max_file_bytes
    texts = [read(path, most_bytes).text for path in find_pins(familiar.index).rel_paths]
    if not texts:
        return ""
    channel, window = familiar.channel(_CHANNEL), Window.of(resolve_slot(familiar.config.llm))
    layers = prompt_allowance(channel.budget, mode=channel.mode, window=window).layers
    counts = (heuristic().count(f"{title_of(one)}\n{one}") for one in texts)
    most = sum(_FRAME_TOKENS + count * 4 // 3 for count in counts)  # a quarter may be missed
    fits = most <= layers[types.Layer.pinned] and not any("{{" in one for one in texts)
    return "" if fits else list_pins(familiar).shortage


def _pinned_file(familiar: Familiar, piece: types.Contribution, pinned: Pinned) -> PinnedFile:
    assert piece.rel_path
    if not piece.text:
        return PinnedFile(piece.rel_path, 0, fits=False, note=piece.problem or piece.remark)
    tokens = MESSAGE_TOKENS + familiar.counter.count(piece.text)
    if piece.rel_path not in pinned.shown:
        return PinnedFile(piece.rel_path, tokens, fits=False, note=_NO_ROOM)
    return PinnedFile(piece.rel_path, tokens, not piece.shortened, piece.shortened)


def _check_path(rel_path: str) -> None:
    if rel_path in _SELF:
        raise RefusedError(
            f"{rel_path!r} is part of the character, which is in every prompt; nothing was changed",
            hint="Pin a file of its own, e.g. `familiar memory write lore/rules.md TEXT`.",
        )
    if not rel_path.lower().endswith(SUFFIXES):
        raise RefusedError(
            f"{rel_path!r} cannot be pinned: only {', '.join(SUFFIXES)} files can;"
            " nothing was changed",
            hint="Copy its text to a Markdown file, and pin that.",
        )
    if any(part.startswith(".") for part in rel_path.split("/")):
        raise RefusedError(
            f"{rel_path!r} cannot be pinned: no prompt includes hidden files; nothing was changed",
            hint="Move it to a name without a leading dot first.",
        )
