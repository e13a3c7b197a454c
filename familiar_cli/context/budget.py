"""`Budgeter`: decides what goes into a prompt when not everything fits.

Pieces are served by priority, equals in the order given. A piece that does not fit is truncated or
left out, and nothing less important then takes the room that it lacked. A layer's share is
guaranteed: what the whole prompt leaves free goes to layers that need more. If the shares of all
that is offered exceed the prompt, they shrink. Memory found by search is packed again into the room
that all others leave, before digests and older turns get any of it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.config.channel_kinds import MODES, ChannelMode
from familiar_cli.base.errors import ConfigError, LimitError
from familiar_cli.base.text import cut_to
from familiar_cli.context.types import Contribution, Fit, Fragment, Layer, LayerUse, PromptSpan

if TYPE_CHECKING:
    from familiar_cli.base.config.schema import BudgetSettings
    from familiar_cli.context.request import Refill
    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.llm.tokens import TokenCounter

LOCAL_TOKENS: Final = 1500
"""Most tokens for the model inside the program: two cores read about 200 of them in a second."""

PERCENT: Final = {
    Layer.core: 10,
    Layer.character: 40,
    Layer.content: 15,
    Layer.history_summary: 10,
    Layer.recent_history: 45,
    Layer.author_note: 5,
    Layer.depth_inject: 5,
    Layer.digest: 20,
    Layer.desk: 5,
    Layer.pinned: 10,
}
"""What each layer is guaranteed of a prompt. Together they are more than the whole, for hardly a
prompt uses all of them; the budgeter makes them smaller where one does. A tenth is always left for
the newest turns."""

LARGE_TOKENS: Final = 8000
LARGE_PERCENT: Final = 25
"""What memory is guaranteed of a prompt of `LARGE_TOKENS` or more; of smaller ones less."""

MOST_RECALLED: Final = 6000
"""Most tokens of memory in a prompt, unless somebody set a number: more finds hardly anything."""


class Allowance(Struct, frozen=True):
    """A token budget.

    Args:
        total: Tokens of the whole prompt.
        layers: Tokens of each layer.
        notice: Why `total` differs from the settings; empty if it does not.
        reason: What `total` follows from.
        source: The same in a word or two, for a table of settings.
        widened_tokens: Tokens added to `total` because the character exceeds its share.
        most_content: Maximum tokens of memory and recall, including free room; 0 for no limit.
    """

    total: int
    layers: dict[Layer, int]
    notice: str = ""
    reason: str = ""
    source: str = ""
    widened_tokens: int = 0
    most_content: int = 0


class Window(Struct, frozen=True):
    """The context window of a model.

    Args:
        context_tokens: Maximum tokens of prompt and reply together.
        max_tokens: Maximum tokens of one reply, which stay free.
        source: Source of `context_tokens`, as in `ResolvedSlot.context_source`.
        is_local: The model runs inside the program.
    """

    context_tokens: int
    max_tokens: int
    source: str = "preset"
    is_local: bool = False

    @classmethod
    def of(cls, slot: ResolvedSlot) -> Self:
        """Return the window of a slot's model."""
        is_local = slot.preset == "local"
        return cls(slot.context_tokens, slot.max_tokens, slot.context_source, is_local)

    @property
    def room(self) -> int:
        """Maximum tokens of a prompt."""
        return self.context_tokens - self.max_tokens

    @property
    def is_known(self) -> bool:
        """Whether it is more than a guess."""
        return self.source != "preset"


SOURCES: Final = {
    "setting": "set by llm.context_tokens",
    "server": "as its server says",
    "model": "as the catalogue has it",
    "preset": "assumed by the preset",
}
"""Where the size of a window is known from, in words."""


def prompt_allowance(
    settings: BudgetSettings, *, mode: ChannelMode, window: Window, character_tokens: int = 0
) -> Allowance:
    """Return the token budget of a prompt: as configured, else by mode and model.

    Without a configured total, a character that exceeds its share enlarges the prompt, as far as
    the model allows; all other layers keep their shares.

    Args:
        mode: The channel's mode.
        window: The model's window.
        character_tokens: Approximate tokens of the character's files.

    Raises:
        ConfigError: The reply alone would fill the window.
    """
    if window.room <= 0:
        raise ConfigError(
            f"A reply of {window.max_tokens} tokens leaves no room for a prompt in a model of "
            f"{window.context_tokens}",
            hint="Lower it: `familiar config set llm.max_tokens 512`.",
        )
    total, source, reason = _total_tokens(settings, mode, window)
    layers = _layer_limits(settings, total)
    lacking = character_tokens - layers[Layer.character]
    widened = 0
    if lacking > 0 and not (settings.total or settings.character):
        widened = max(min(lacking, window.room - total), 0)
        layers[Layer.character] += widened
    if widened:
        reason += f"; {widened:,} more for a character larger than its share"
    notice = _widening_notice(settings, window.room)
    most = layers[Layer.content] if settings.content else min(MOST_RECALLED, total + widened)
    return Allowance(total + widened, layers, notice, reason, source, widened, most)


def _total_tokens(
    settings: BudgetSettings, mode: ChannelMode, window: Window
) -> tuple[int, str, str]:
    """Return the token budget of a prompt before it is widened, and what sets it."""
    room, reads = window.room, f"{window.context_tokens:,} tokens, {SOURCES[window.source]}"
    if settings.total and settings.total <= room:
        return settings.total, "budget.total", "set by budget.total"
    usual = MODES[mode].total_tokens
    usual = min(usual, LOCAL_TOKENS) if window.is_local else usual
    half = min(window.context_tokens // 2, MODES[mode].most_tokens) if window.is_known else 0
    target = settings.total or max(usual, half)
    if target >= room:
        return room, "model's window", f"the model's context window without the reply ({reads})"
    if half <= usual:
        return usual, f"mode {mode}", f"the default of mode {mode}"
    is_half = half == window.context_tokens // 2
    share = "half of the model's context window" if is_half else f"the maximum of mode {mode}"
    return half, "model's window", f"{share} ({reads})"


def _layer_limits(settings: BudgetSettings, total: int) -> dict[Layer, int]:
    """Return each layer's limit, none of which exceeds the total."""
    usual = {layer: total * percent_of(layer, total) // 100 for layer in Layer}
    return {layer: min(getattr(settings, layer) or usual[layer], total) for layer in Layer}


def percent_of(layer: Layer, total: int) -> int:
    """Return a layer's guaranteed share of a prompt of `total` tokens, in percent."""
    if layer is not Layer.content:
        return PERCENT[layer]
    return min(max(LARGE_PERCENT * total // LARGE_TOKENS, PERCENT[layer]), LARGE_PERCENT)


def _widening_notice(settings: BudgetSettings, room: int) -> str:
    if settings.total <= room:
        return ""
    return (
        f"budget.total is {settings.total}, but the model has room for only {room} tokens; "
        f"the prompt is limited to {room}"
    )


MOST_TEXTS: Final = 1024
MOST_CHARS: Final = 16_384  # longer texts are not cached, to save memory
_SAMPLED_CHARS: Final = 200_000  # no prompt contains a longer text
_SAMPLES: Final = 100
_SAMPLE_CHARS: Final = 1_000


class RememberingCounter:
    """A caching token counter."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._known: OrderedDict[str, int] = OrderedDict()

    @property
    def name(self) -> str:
        """The name of the counter."""
        return self._counter.name

    def count(self, text: str) -> int:
        """Count the tokens of `text`, estimating long texts from a sample."""
        if len(text) > _SAMPLED_CHARS:
            return self._estimate_tokens(text)
        if len(text) > MOST_CHARS:
            return self._counter.count(text)
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._counter.count(text)
            if len(self._known) > MOST_TEXTS:
                self._known.popitem(last=False)
        return known

    def _estimate_tokens(self, text: str) -> int:
        step = len(text) // _SAMPLES
        sample = [text[at : at + _SAMPLE_CHARS] for at in range(0, step * _SAMPLES, step)]
        counted = sum(map(self._counter.count, sample))
        return round(counted * len(text) / sum(map(len, sample)))


LOST_AT_MOST: Final = 3
"""A window that is full loses at most the third part of what it holds."""


FEW_TURNS: Final = 8
"""Of so few turns none is left out that need not be."""


def first_kept(turn_ids: Sequence[int | None], weights: Sequence[int]) -> int:
    """Return the index of the turn at which a full window begins.

    Args:
        turn_ids: Turns that would fit, oldest first; None for one that is not in the history.
        weights: Tokens of each, >= 0.
    """
    spare = sum(weights) // LOST_AT_MOST if len(turn_ids) > FEW_TURNS else 0
    lost = [0, *accumulate(weights)]
    possible = [index for index in range(len(turn_ids)) if lost[index] <= spare]
    return max(possible, key=lambda index: (_count_halvings(turn_ids[index]), -index), default=0)


def _count_halvings(turn_id: int | None) -> int:
    """Count the factors of two in an id; -1 for a turn without one."""
    return (turn_id & -turn_id).bit_length() if turn_id else -1


# What a message costs beside its text, and a prompt beside its messages, with OpenAI's models; see
# "How to count tokens with tiktoken" in the OpenAI cookbook.
MESSAGE_TOKENS: Final = 4
PROMPT_TOKENS: Final = 3
JOINT_TOKENS: Final = 1  # the line break between pieces of one message
EXAMPLE_MARK: Final = "[Example Chat]"
_QUEUES: Final = frozenset({Fit.queue, Fit.newest})
_VOLATILE: Final = (Layer.content, Layer.author_note, Layer.depth_inject)
_EARLY: Final = (Layer.core, Layer.character, Layer.pinned, Layer.digest)
_AFTER_MEMORY: Final = (Layer.content, Layer.recent_history, Layer.digest)
_STEPS: Final = 16  # into so many the prompt is divided when free room is short
LEAST_CHAT: Final = 10  # a tenth of the prompt is for the newest turns, whatever else there is
EARLY_STEPS: Final = 8  # where everything after it would change
START_MARK: Final = "[Start a new Chat]"
"""SillyTavern's words around example dialogues, so that a model takes none for what happened."""


class FilledPrompt(Struct, frozen=True):
    """A filled prompt: a fragment per contribution, in the order given, and each layer's use.

    Args:
        fragments: The result for each contribution.
        layers: The use of each layer.
        taken: Total tokens, including the overhead of messages and what is reserved for next turns.
    """

    fragments: tuple[Fragment, ...]
    layers: tuple[LayerUse, ...]
    taken: int = 0


class Budgeter:
    """Fills a prompt.

    Args:
        counter: The token counter.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self.counter = counter

    def fill(
        self,
        contributions: Sequence[Contribution],
        layer_tokens: Mapping[Layer, int],
        total_tokens: int,
        *,
        most_content: int = 0,
        refills: Sequence[Refill] = (),
    ) -> FilledPrompt:
        """Fit contributions into the budget.

        Args:
            layer_tokens: The guarantee of each layer; one that is missing has no limit of its own.
            total_tokens: Maximum tokens of the prompt, including the overhead of messages.
            most_content: Maximum tokens of the layer content, including free room; 0 for no limit.
            refills: What packs contributions again, into the room that others leave.

        Raises:
            LimitError: A required piece does not fit.
        """
        wholes = [self._make_whole(offered) for offered in contributions]
        shares = self._guarantee_shares(wholes, layer_tokens, total_tokens)
        limits = dict(shares)
        made = self._fill_prompt(wholes, limits, total_tokens)
        if Layer.digest in limits:  # it left room to the chat, and stays as it is
            limits[Layer.digest] = _used_tokens(made, Layer.digest)
        most = most_content or total_tokens
        widened: set[Layer] = set()

        def grow(waiting: Collection[Layer]) -> None:
            nonlocal made
            while grant := _grant_more(made, limits, total_tokens, {*widened, *waiting}, most):
                layer, limits[layer] = grant
                widened.add(layer)
                made = self._fill_prompt(wholes, limits, total_tokens, widened)

        for refill in refills:
            grow(_AFTER_MEMORY)
            used, digests = (_used_tokens(made, one) for one in (Layer.content, Layer.digest))
            lent = digests if refill.before_digests and Layer.digest in limits else 0
            room = min(used + total_tokens - made.taken + lent, most)
            if room > max(used, limits.get(Layer.content, total_tokens)):
                known = {id(one): whole for one, whole in zip(contributions, wholes, strict=True)}
                repacked = refill.repack(contributions, room)
                wholes = [known.get(id(one)) or self._make_whole(one) for one in repacked]
                contributions = repacked
                limits[Layer.content] = room
                made = self._fill_prompt(wholes, limits, total_tokens, {Layer.content})
                left = _used_tokens(made, Layer.digest)
                if left < digests:  # by whole steps, so that prompts begin alike more often
                    step = max(total_tokens // _STEPS, 1)
                    limits[Layer.digest] = left // step * step
                    made = self._fill_prompt(wholes, limits, total_tokens, {Layer.content})
        grow(())
        return FilledPrompt(made.fragments, _with_shares(made.layers, shares), made.taken)

    def _guarantee_shares(
        self, wholes: Sequence[Fragment], shares: Mapping[Layer, int], total: int
    ) -> dict[Layer, int]:
        """Return shares that can all be kept: their sum does not exceed the total.

        The chat gives way first, down to a tenth of the prompt, then all others equally. A digest
        gets what they leave, minus what the chat may still grow by.
        """
        wanted = dict.fromkeys(shares, 0)
        room = total - self._frame(wholes)
        for whole in wholes:
            if whole.fit is Fit.required:
                room -= whole.tokens
            elif whole.layer in wanted and not (whole.problem or whole.remark):
                wanted[whole.layer] += whole.tokens
        wanted.pop(Layer.digest, None)
        kept = {layer: min(tokens, shares[layer]) for layer, tokens in wanted.items()}
        chat = kept.pop(Layer.recent_history, 0)
        given = dict(shares)
        if sum(kept.values()) + chat > room:
            least = min(chat, total // LEAST_CHAT)
            if Layer.recent_history in given:
                given[Layer.recent_history] = max(room - sum(kept.values()), least)
            others = max(room - least, 0)
            if sum(kept.values()) > others:
                for layer, tokens in kept.items():
                    given[layer] = tokens * others // sum(kept.values())
        if Layer.digest in given:
            held = sum(min(kept[layer], given[layer]) for layer in kept)
            left = room - held - given.get(Layer.recent_history, 0)
            given[Layer.digest] = max(min(given[Layer.digest], left), 0)
        return given

    def _fill_prompt(
        self,
        wholes: Sequence[Fragment],
        limits: Mapping[Layer, int],
        total_tokens: int,
        widened: Collection[Layer] = (),
    ) -> FilledPrompt:
        """Fill the prompt once, with these limits."""
        frame = self._frame(wholes)
        room = _Room(total_tokens, frame, dict(limits), leaves_growth=not widened)
        fragments: dict[int, Fragment] = {}
        for index in sorted(range(len(wholes)), key=_rank_by(wholes)):
            fragments[index] = fragment = self._serve(wholes[index], room)
            full = room.take(fragment)
            if full:
                _drop_to_step(fragments, fragment, room)
        taken = frame + room.spent + room.held
        return FilledPrompt(
            tuple(fragments[index] for index in range(len(wholes))), room.uses(), taken
        )

    def cost(self, offered: Contribution, text: str | None = None) -> int:
        """Return the cost of a contribution as a message of its own."""
        if offered.dialogue:
            lines = [EXAMPLE_MARK, *(line.text for line in offered.dialogue)]
            return sum(MESSAGE_TOKENS + self.counter.count(line) for line in lines)
        return _overhead_tokens(offered) + self.counter.count(
            offered.text if text is None else text
        )

    def _frame(self, contributions: Sequence[Contribution]) -> int:
        """Return the cost of the prompt beside the pieces in it."""
        examples = any(offered.dialogue for offered in contributions)
        start = MESSAGE_TOKENS + self.counter.count(START_MARK) if examples else 0
        shared = {
            (o.depth, o.role) for o in contributions if o.place is PromptSpan.depth and o.text
        }
        return PROMPT_TOKENS + start + MESSAGE_TOKENS * len(shared)

    def _make_whole(self, offered: Contribution) -> Fragment:
        """Return an offered piece as a fragment, uncut."""
        cost = self.cost(offered)
        return Fragment.of(offered, cost, cost, offered.shortened)

    def _serve(self, offered: Fragment, room: _Room) -> Fragment:
        """Return as much of an offered piece as there is room for."""
        out = offered.problem or offered.remark or room.repeats(offered)
        if out or not (offered.text.strip() or offered.dialogue):
            return Fragment.of(offered, 0, 0, out or "it is empty")
        free, cost = room.free(offered), offered.tokens
        if cost <= free:
            return offered
        if offered.fit is Fit.required:
            raise _too_long(cost, room.total)
        why = room.why(offered)
        may_cut = offered.fit in {Fit.cut, Fit.queue, Fit.newest}
        if may_cut or (offered.fit is Fit.run and not room.has_run):
            text = cut_to(offered.text, free - _overhead_tokens(offered), self.counter.count)
            if text:
                tokens = self.cost(offered, text)
                reason = f"cut from {cost} to {tokens} tokens: {why}"
                return Fragment.of(replace(offered, text=text), tokens, cost, reason)
        return Fragment.of(offered, 0, cost, f"left out ({cost} tokens): {why}")


class _Room(Struct):
    """The tokens left, and the priorities below which nothing more is served."""

    total: int
    frame: int
    limits: dict[Layer, int]
    leaves_growth: bool = True
    used: dict[Layer, int] = field(default_factory=lambda: dict.fromkeys(Layer, 0))
    spent: int = 0  # the sum of `used`
    closed_below: dict[Layer | None, float] = field(default_factory=dict)
    has_run: bool = False
    run_ended: bool = False
    held: int = 0
    queues_ended: set[tuple[Layer, int]] = field(default_factory=set)
    pinned: dict[str, Fragment] = field(default_factory=dict)

    def free(self, offered: Contribution) -> int:
        """Return the maximum tokens for `offered`."""
        left = self._left()
        if offered.fit is Fit.required:
            return left
        if offered.fit is Fit.run and self.run_ended:
            return 0
        if offered.fit in _QUEUES and _queue_of(offered) in self.queues_ended:
            return 0
        for scope in (offered.layer, None):
            if offered.priority < self.closed_below.get(scope, -math.inf):
                return 0
        if offered.layer is Layer.digest:
            left -= self._growth()
        return max(min(left, self._layer_left(offered.layer)), 0)

    def take(self, fragment: Fragment) -> bool:
        """Count a fragment, and close the priorities that it found too small.

        Returns:
            Whether it is the first turn that does not fit.
        """
        layer, is_run, full = fragment.layer, fragment.fit is Fit.run, False
        self.used[layer] += fragment.tokens
        self.spent += fragment.tokens
        if fragment.kept and layer is Layer.pinned and fragment.rel_path:
            self.pinned[fragment.rel_path] = fragment
        follows = is_run and self.run_ended  # the newer turn has closed what it must
        if fragment.offered_tokens > fragment.tokens and not follows:
            # A digest leaves room to the chat, which others do not get.
            # Nor is a piece that its own layer could not hold.
            too_large = fragment.offered_tokens - fragment.tokens > self._layer_left(layer)
            tighter = too_large or self._layer_is_tighter(layer)
            closed = fragment.priority < self.closed_below.get(layer, -math.inf)
            own = layer is Layer.digest or tighter or closed
            self.closed_below.setdefault(layer if own else None, fragment.priority)
            if fragment.fit in _QUEUES:
                self.queues_ended.add(_queue_of(fragment))
            full = is_run and not self.run_ended
            self.run_ended = self.run_ended or full
        self.has_run = self.has_run or (is_run and fragment.kept)
        return full

    def repeats(self, offered: Contribution) -> str:
        """Return why a piece adds nothing: a pin of its file contains it; empty if it may."""
        pin = self.pinned.get(offered.rel_path or "")
        if pin is None or offered.layer is Layer.pinned:
            return ""
        # The truncated part of a pin may appear elsewhere.
        lines = set(_text_lines(offered.text))
        says_more = bool(pin.reason) and not lines.issubset(_text_lines(pin.text))
        return "" if says_more else "its file is pinned, and already included"

    def give_back(self, fragment: Fragment) -> None:
        """Remove a fragment again."""
        self.used[fragment.layer] -= fragment.tokens
        self.spent -= fragment.tokens

    def hold(self, layer: Layer) -> None:
        """Reserve what a layer may still use for its next turns.

        Otherwise, less important pieces would come and go as the conversation moves on.
        """
        self.held = max(min(self._layer_left(layer), self._left()), 0)

    def why(self, offered: Contribution) -> str:
        """Explain why there is no room."""
        if offered.fit is Fit.run and self.run_ended:
            return "a newer turn did not fit"
        if offered.fit in _QUEUES and _queue_of(offered) in self.queues_ended:
            side = "after" if offered.fit is Fit.newest else "before"
            return f"one {side} it did not fit"
        if self._layer_is_tighter(offered.layer):
            return f"layer {offered.layer} holds {self.limits[offered.layer]}"
        return f"the prompt holds {self.total}"

    def uses(self) -> tuple[LayerUse, ...]:
        """Return each layer's budget and use. Required pieces extend their layer."""
        return tuple(
            LayerUse(str(layer), max(self.limits.get(layer, self.total), used), used)
            for layer, used in self.used.items()
        )

    def _growth(self) -> int:
        """Return the tokens that the chat may still grow by before its layer is full.

        A digest comes before the chat. If it were truncated with every turn by which the chat
        grows, no prompt would begin like the previous one.
        """
        if Layer.recent_history not in self.limits or not self.leaves_growth:
            return 0
        return max(min(self._layer_left(Layer.recent_history), self._left()) - self.held, 0)

    def _layer_left(self, layer: Layer) -> int:
        return self.limits.get(layer, self.total) - self.used[layer]

    def _layer_is_tighter(self, layer: Layer) -> bool:
        return self._layer_left(layer) <= self._left()

    def _left(self) -> int:
        return self.total - self.frame - self.spent - self.held


def _used_tokens(filling: FilledPrompt, layer: Layer) -> int:
    return next(use.used_tokens for use in filling.layers if use.name == layer)


def _grant_more(
    filling: FilledPrompt,
    shares: Mapping[Layer, int],
    total: int,
    widened: Collection[Layer],
    content: int,
) -> tuple[Layer, int] | None:
    """Return the layer that gets more of the free room, and its new limit; or None.

    A layer that lacks more than is free gets whole steps of it, and leaves their shares to layers
    at the end of the prompt, which change from turn to turn. So the beginning stays stable while
    the conversation continues.
    """
    lacking: dict[Layer, int] = {}
    for fragment in sorted(filling.fragments, key=lambda f: -f.priority):
        missing = fragment.offered_tokens - fragment.tokens
        if missing > 0 and fragment.layer in shares:
            lacking[fragment.layer] = lacking.get(fragment.layer, 0) + missing
    used = {Layer(use.name): use.used_tokens for use in filling.layers}
    offered = {Layer.content, *(f.layer for f in filling.fragments if f.offered_tokens)}
    waiting = sum(
        max(shares.get(layer, 0) - used[layer], 0) for layer in offered.intersection(_VOLATILE)
    )
    for layer, missing in lacking.items():
        free = total - filling.taken
        step = max(total // (_STEPS if layer not in _EARLY else EARLY_STEPS), 1)
        spare = free if layer in _VOLATILE else max(free - waiting, 0)
        extra = missing if missing <= free else spare // step * step
        if layer is Layer.content:
            extra = min(extra, content - used[layer])
        if layer not in widened and used[layer] + extra > shares[layer]:
            return layer, used[layer] + extra
    return None


def _with_shares(uses: Iterable[LayerUse], shares: Mapping[Layer, int]) -> tuple[LayerUse, ...]:
    """Return the uses, each with its layer's guarantee."""
    return tuple(
        replace(
            use,
            share_tokens=shares.get(Layer(use.name), use.budget_tokens),
            budget_tokens=max(shares.get(Layer(use.name), 0), use.budget_tokens),
        )
        for use in uses
    )


def _drop_to_step(fragments: dict[int, Fragment], last: Fragment, room: _Room) -> None:
    """Drop the oldest turns up to one at which the next prompts will begin, too."""
    turns = [
        index
        for index, fragment in sorted(fragments.items())
        if fragment.kept
        and fragment.fit is Fit.run
        and (fragment.layer, fragment.priority) == (last.layer, last.priority)
    ]
    kept = [fragments[index] for index in turns]
    start = first_kept([f.turn_id for f in kept], [f.tokens for f in kept])
    for index in turns[:start]:
        lost = fragments[index]
        room.give_back(lost)
        reason = f"left out ({lost.offered_tokens} tokens): old turns are dropped several at a time"
        fragments[index] = replace(lost, tokens=0, kept=False, reason=reason)
    room.hold(last.layer)


def _text_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text other than headings."""
    lines = (line.strip() for line in text.split("\n") if any(map(str.isalnum, line)))
    return (line for line in lines if not line.startswith(("#", "[")))


def _overhead_tokens(offered: Contribution) -> int:
    """Return the overhead of a piece: a message, or its line in a shared one."""
    return JOINT_TOKENS if offered.place is PromptSpan.depth else MESSAGE_TOKENS


def _queue_of(offered: Contribution) -> tuple[Layer, int]:
    return offered.layer, offered.priority


def _rank_by(contributions: Sequence[Contribution]) -> Callable[[int], tuple[bool, int, int]]:
    def rank(index: int) -> tuple[bool, int, int]:
        offered = contributions[index]
        newest_first = -index if offered.fit in {Fit.run, Fit.newest} else index
        return (offered.fit is not Fit.required, -offered.priority, newest_first)

    return rank


def _too_long(cost: int, total: int) -> LimitError:
    return LimitError(
        f"Your message has about {cost} tokens, but the whole prompt may have only {total}; "
        "nothing was sent or kept",
        hint="Shorten it, or raise the limit: `familiar config set budget.total N`.",
    )
