"""The providers and processors of a turn's prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from familiar_cli.actions.talk.turn_setup import TurnSetup, pinned_memory
from familiar_cli.context import types
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.providers import history
from familiar_cli.context.providers.content_search import ContentSearchProvider
from familiar_cli.context.providers.memory_files import DeskProvider, DigestsProvider
from familiar_cli.context.providers.past_turns import Recaller
from familiar_cli.context.providers.people import RelationsProvider, taking_part
from familiar_cli.context.providers.pins import NotesProvider, PinnedMemory, PinsProvider
from familiar_cli.context.providers.retrieval import Memory, Retrieval
from familiar_cli.context.replies import SAMPLING, ShortReply
from familiar_cli.context.request import REFRESH_SHARE, ContextProvider, ContextRequest
from familiar_cli.context.tiers import STANDARD
from familiar_cli.store.search.build import Pins, find_pins

if TYPE_CHECKING:
    from familiar_cli.base.config.values import Value
    from familiar_cli.context.budget import Allowance
    from familiar_cli.context.processors import (
        RecastPostProcessor,
        ShortFramePreProcessor,
        SteppedThinkingPreProcessor,
    )
    from familiar_cli.context.providers.content_filter import Filter
    from familiar_cli.context.types import Spoken
    from familiar_cli.familiar import Familiar
    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.llm.tokens import TokenCounter
    from familiar_cli.store.memory.pages.lines import Numbering

    Resolved = Iterator[tuple[str, Value, str]]


FILTER_SLOT: Final = "content_filter"
_FIND_SHARE: Final = 0.5  # share of the deadline for pins, with files whose beginning alone is read
_PAST_SHARE: Final = 0.25  # for indexing turns, which are found in no other way
_FRAME_TOKENS: Final = 100  # the speaker's name and the separator of messages
_LLAMA_CPP: Final = frozenset({"local", "llamacpp"})  # servers that accept its sampling parameters


def pipeline(
    familiar: Familiar, setup: TurnSetup, *, remembered: Sequence[Spoken] = (), dry: bool = False
) -> ContextPipeline:
    """Build the pipeline for a turn's prompt.

    Args:
        setup: The settings of the turn.
        remembered: The off-the-record turns before it.
        dry: Leave out everything that asks a model.
    """
    used = () if dry else setup.processors
    is_wanted = not dry or familiar.config.context.frame == "short"
    is_short = is_wanted and has_short_frame(familiar, setup.slot)
    return ContextPipeline(
        _make_providers(familiar, setup, remembered, dry=dry),
        familiar.counter,
        pre_processors=[
            *([_make_thinking(familiar, setup.char)] if "stepped_thinking" in used else ()),
            *([_short_frame(familiar, setup)] if is_short else ()),
        ],
        post_processors=[_make_recast(familiar, setup.char)] if "recast" in used else (),
        short_reply=partial(_short_reply, familiar, setup) if is_short else None,
    )


def memory_pipeline(familiar: Familiar, setup: TurnSetup) -> ContextPipeline:
    """Build the pipeline of memory for another program's prompt: pins and search."""
    pinned = pinned_memory(familiar, setup, lambda: _find_pins(familiar))
    return ContextPipeline(
        [
            PinsProvider(pinned, deadline_s=familiar.config.context.provider_deadline_s),
            history.FromTier(_content_search(familiar, setup, pinned, dry=False), STANDARD),
        ],
        familiar.counter,
    )


def for_memory(
    request: ContextRequest, allowance: Allowance, counter: TokenCounter
) -> ContextRequest:
    """Convert a request for another program's prompt, in which memory has a share of its own."""
    layers = (types.Layer.content, types.Layer.pinned)
    shares = {layer: allowance.layers[layer] for layer in layers if layer in allowance.layers}
    said = counter.count(request.utterance) + _FRAME_TOKENS
    return replace(
        request,
        budget_tokens=sum(shares.values()) + said,
        budget_reason="memory's share; the rest of the prompt is the chat program's",
        layer_tokens={**shares, types.Layer.recent_history: said},
        is_complement=True,
    )


def has_short_frame(familiar: Familiar, slot: ResolvedSlot | None = None) -> bool:
    """Tell whether prompts and replies are short.

    They are if so configured; by default, if a small local model replies.
    """
    from familiar_cli.base.config.home import cache_dir
    from familiar_cli.llm.models.catalog import CATALOG
    from familiar_cli.llm.models.store import path_of

    frame = familiar.config.context.frame
    if frame != "auto":
        return frame == "short"
    slot = slot or familiar.models.slot()
    if slot.preset != "local" or slot.model not in CATALOG or not CATALOG[slot.model].is_small:
        return False
    return path_of(slot.model, cache_dir()) is not None


def _short_frame(familiar: Familiar, setup: TurnSetup) -> ShortFramePreProcessor:
    from familiar_cli.context.processors import ShortFramePreProcessor

    usual = type(familiar.config)().system_prompt
    return ShortFramePreProcessor(
        setup.char,
        setup.character.macros_of,
        familiar.counter,
        own_instruction=familiar.config.system_prompt != usual,
    )


def _short_reply(familiar: Familiar, setup: TurnSetup, request: ContextRequest) -> ShortReply:
    """Return the options for a small model; explicit settings take precedence."""
    set_to = familiar.config.llm
    style = ShortReply(setup.char, (setup.character.macros_of(request).user,))
    if set_to.max_tokens:
        style = replace(style, max_tokens=None, sentences=0)
    if set_to.temperature != type(set_to)().temperature:
        style = replace(style, temperature=None)
    known = SAMPLING if setup.slot.preset in _LLAMA_CPP else {}
    return replace(style, sampling=known)


def has_filter(familiar: Familiar) -> bool:
    """Tell whether a model is configured to select among the memories found."""
    return FILTER_SLOT in familiar.config.llm.slots


def _make_providers(
    familiar: Familiar, setup: TurnSetup, remembered: Sequence[Spoken], *, dry: bool
) -> list[ContextProvider]:
    set_to, memory = familiar.config, familiar.memory
    channel, character = setup.channel, setup.character
    deadline_s = set_to.context.provider_deadline_s
    at_start = set_to.context.datetime_place == "start"
    block = history.SystemBlockProvider(
        familiar.zone, tells_time=channel.tells_time, at_start=at_start
    )
    elsewhere = set_to.history.elsewhere_channels
    beyond = history.Beyond(familiar.summaries, familiar.channels.label, elsewhere)
    pinned = pinned_memory(familiar, setup, lambda: _find_pins(familiar))
    searched = _content_search(familiar, setup, pinned, dry=dry)
    relations = RelationsProvider(
        lambda request: dict(taking_part(familiar.history, request)),
        searched.people.slugs_in,
        familiar.relations,
        familiar.counter,
        on_unread=familiar.finder.note_behind,
        zone=familiar.zone,
        deadline_s=deadline_s,
    )
    return [
        *([block] if at_start else ()),
        character,
        PinsProvider(pinned, deadline_s=deadline_s),
        DigestsProvider(memory, familiar.counter.count, deadline_s=deadline_s),
        NotesProvider(
            channel.author_note,
            channel.inject,
            character.macros_of,
            familiar.history,
            deadline_s=deadline_s,
        ),
        history.HistoryProvider(
            familiar.history,
            recent_turns=channel.recent_turns,
            deadline_s=deadline_s,
            beyond=beyond,
        ),
        history.FromTier(searched, STANDARD),
        history.FromTier(relations, STANDARD),
        *([] if at_start else [block]),
        DeskProvider(memory, familiar.zone, deadline_s=deadline_s),
        *([history.RememberedProvider(remembered)] if remembered else ()),
    ]


def _find_pins(familiar: Familiar) -> Pins:
    """Look up the pinned files within a provider's deadline."""
    deadline_s = familiar.config.context.provider_deadline_s
    refresh_s, within_s = REFRESH_SHARE * deadline_s, _FIND_SHARE * deadline_s
    return find_pins(familiar.index, refresh_s=refresh_s, within_s=within_s)


def _content_search(
    familiar: Familiar, setup: TurnSetup, pinned: PinnedMemory, *, dry: bool
) -> ContentSearchProvider:
    asks, numbering = has_filter(familiar) and not dry, familiar.numbering
    return ContentSearchProvider(
        familiar.memory,
        familiar.history,
        familiar.names,
        familiar.counter,
        retrieval=_make_retrieval(familiar, setup, pinned, numbering),
        content_filter=_make_filter(familiar, setup.char) if asks else None,
        deadline_s=familiar.config.context.provider_deadline_s,
        numbering=numbering,
    )


def _make_retrieval(
    familiar: Familiar, setup: TurnSetup, pinned: PinnedMemory, numbering: Numbering
) -> Retrieval:
    set_to = familiar.config
    deadline_s = set_to.context.provider_deadline_s
    labels, zone, past_s = familiar.channels.label, familiar.zone, _PAST_SHARE * deadline_s
    past = Recaller(familiar.history, labels, setup.char, zone, past_s, familiar.finder)
    memory = Memory(
        familiar.memory,
        familiar.finder,
        familiar.history,
        setup.character.macros_of,
        setup.channel.recent_turns,
        past if set_to.recall.enabled == "on" else None,
        pinned.of,
        numbering,
    )
    return Retrieval(
        memory,
        familiar.counter,
        k=set_to.search.k,
        refresh_s=REFRESH_SHARE * deadline_s,
        most_tokens=set_to.recall.tokens,
        line_tokens=set_to.search.snippet_tokens,
    )


def _make_filter(familiar: Familiar, char: str) -> Filter:
    from familiar_cli.context.providers.content_filter import Filter

    set_to = familiar.config.filter
    return Filter(
        lambda: familiar.models.open_usable(FILTER_SLOT),
        familiar.memory,
        familiar.counter,
        char=char,
        strong=set_to.strong,
        answer_tokens=set_to.answer_tokens,
        deadline_s=set_to.deadline_s,
    )


def _make_thinking(familiar: Familiar, char: str) -> SteppedThinkingPreProcessor:
    from familiar_cli.context.processors import SteppedThinkingPreProcessor

    return SteppedThinkingPreProcessor(
        lambda: familiar.models.open_usable("stepped_thinking"),
        familiar.counter,
        char=char,
        deadline_s=familiar.config.context.processor_deadline_s,
    )


def _make_recast(familiar: Familiar, char: str) -> RecastPostProcessor:
    from familiar_cli.context.processors import RecastPostProcessor

    return RecastPostProcessor(
        lambda: familiar.models.open_usable("recast"),
        familiar.counter,
        char=char,
        deadline_s=familiar.config.context.processor_deadline_s,
    )
