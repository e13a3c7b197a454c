"""The context tiers there are; what each one loads is for `context.tiers` to say."""

from __future__ import annotations

from typing import Final

TIERS: Final = (1, 2, 3, 4)
DEFAULT_TIER: Final = 2
"""The usual one: a whole character, who takes part, and digests of what was."""
