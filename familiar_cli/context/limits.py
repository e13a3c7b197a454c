"""How many tokens a prompt and its layers may have, and how texts are counted once."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from familiar_cli.config.channel_kinds import MODES
from familiar_cli.context.types import Layer
from familiar_cli.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.config.channel_kinds import ChannelMode
    from familiar_cli.config.schema import BudgetSettings
    from familiar_cli.tokens import TokenCounter


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
    Layer.digest: 30,
    Layer.desk: 5,
    Layer.pinned: 10,
}
"""What each layer is guaranteed of a prompt. Together they are more than the whole, for hardly a
prompt uses all of them; the budgeter makes them smaller where one does. A tenth is always left for
the newest turns."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many tokens there are.

    Args:
        total: For the whole prompt.
        layers: For each layer.
        notice: Why `total` is not what the settings say; empty when it is.
        reason: What `total` follows from.
        source: The same in a word or two, for a table of settings.
        widened_tokens: How much of `total` is there because the character is larger than its share.
    """

    total: int
    layers: dict[Layer, int]
    notice: str = ""
    reason: str = ""
    source: str = ""
    widened_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """What a model reads and writes.

    Args:
        context_tokens: Most tokens of both together.
        max_tokens: Most tokens of one reply, which stay free.
        source: Where `context_tokens` is known from, as `ResolvedSlot.context_source` has it.
        is_local: The model runs inside the program.
    """

    context_tokens: int
    max_tokens: int
    source: str = "preset"
    is_local: bool = False

    @property
    def room(self) -> int:
        """How many tokens a prompt may have at most."""
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


def allowance(
    settings: BudgetSettings,
    *,
    mode: ChannelMode,
    window: Window,
    character_tokens: int = 0,
) -> Allowance:
    """Return how many tokens a prompt may have: what was set, else what mode and model suggest.

    Where nobody set a total, a character that is larger than its share makes the prompt larger by
    what it lacks, as far as the model can read it; all other layers keep theirs.

    Args:
        settings: What was set.
        mode: How one talks.
        window: What the model reads and writes.
        character_tokens: About what the character's own files need.

    Raises:
        ConfigError: The reply alone would fill the model.
    """
    if window.room <= 0:
        raise ConfigError(
            f"A reply of {window.max_tokens} tokens leaves no room for a prompt in a model of "
            f"{window.context_tokens}",
            hint="Lower it: `familiar config set llm.max_tokens 512`.",
        )
    total, source, reason = _total(settings, mode, window)
    layers = _layers(settings, total)
    lacking = character_tokens - layers[Layer.character]
    widened = 0
    if lacking > 0 and not (settings.total or settings.character):
        widened = max(min(lacking, window.room - total), 0)
        layers[Layer.character] += widened
    if widened:
        reason += f"; {widened:,} more for a character larger than its share"
    notice = _notice(settings, window.room)
    return Allowance(total + widened, layers, notice, reason, source, widened)


def _total(settings: BudgetSettings, mode: ChannelMode, window: Window) -> tuple[int, str, str]:
    """Return the tokens of a prompt before any widening, and where they come from."""
    room, reads = window.room, f"{window.context_tokens:,} tokens, {SOURCES[window.source]}"
    if settings.total and settings.total <= room:
        return settings.total, "budget.total", "set by budget.total"
    usual = MODES[mode].total_tokens
    usual = min(usual, LOCAL_TOKENS) if window.is_local else usual
    half = min(window.context_tokens // 2, MODES[mode].most_tokens) if window.is_known else 0
    wanted = settings.total or max(usual, half)
    if wanted >= room:
        return room, "model's window", f"what the model reads beside a reply ({reads})"
    if half <= usual:
        return usual, f"mode {mode}", f"the default of mode {mode}"
    share = (
        "half of what" if half == window.context_tokens // 2 else "the most of its mode for what"
    )
    return half, "model's window", f"{share} the model reads ({reads})"


def _layers(settings: BudgetSettings, total: int) -> dict[Layer, int]:
    """Return each layer's limit; none is above the total, whatever the settings say."""
    usual = {layer: total * percent // 100 for layer, percent in PERCENT.items()}
    return {layer: min(getattr(settings, layer) or usual[layer], total) for layer in Layer}


def _notice(settings: BudgetSettings, room: int) -> str:
    if settings.total <= room:
        return ""
    return (
        f"budget.total is {settings.total}, but the model has room for only {room} tokens; "
        f"the prompt is limited to {room}"
    )


MOST_TEXTS: Final = 1024
MOST_CHARS: Final = 16_384  # a longer text is counted anew, so that little memory is held
_SAMPLED_CHARS: Final = 200_000  # a text that is longer is in nobody's prompt
_SAMPLES: Final = 100
_SAMPLE_CHARS: Final = 1_000


class RememberingCounter:
    """A token counter that remembers what it has counted.

    Args:
        counter: What counts.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._known: OrderedDict[str, int] = OrderedDict()

    @property
    def name(self) -> str:
        """The name of what counts."""
        return self._counter.name

    def count(self, text: str) -> int:
        """Count the tokens of `text`, estimating long texts from a sample."""
        if len(text) > _SAMPLED_CHARS:
            return self._estimated(text)
        if len(text) > MOST_CHARS:
            return self._counter.count(text)
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._counter.count(text)
            if len(self._known) > MOST_TEXTS:
                self._known.popitem(last=False)
        return known

    def _estimated(self, text: str) -> int:
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
        turn_ids: The turns that there is room for, oldest first; None: not in the history.
        weights: What each costs, >= 0.
    """
    spare = sum(weights) // LOST_AT_MOST if len(turn_ids) > FEW_TURNS else 0
    lost = [0, *accumulate(weights)]
    possible = [index for index in range(len(turn_ids)) if lost[index] <= spare]
    return max(possible, key=lambda index: (_halvings(turn_ids[index]), -index), default=0)


def _halvings(turn_id: int | None) -> int:
    """Return how often an id can be halved; less than any for a turn without one."""
    return (turn_id & -turn_id).bit_length() if turn_id else -1
