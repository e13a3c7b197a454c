"""Viewers for tests: of channels that are declared private, and of everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.base.who.identity import NEUTRAL
from familiar_cli.base.who.visibility import PrivacyRules, Viewer, channel_scope

if TYPE_CHECKING:
    from collections.abc import Iterable


_NAMED = ("anna", "bo", "cy", "di", "ben")
_PEOPLE = (*map(str, range(50)), *_NAMED)
_OWN = frozenset({NEUTRAL.slug, *(f"{p}-{i}" for p in ("discord", "x", "twitch") for i in _PEOPLE)})
"""Whoever speaks in a test of something else is an owner, who shares everything."""


def rules_of(*private: str, shares: bool = False) -> PrivacyRules:
    """Return the rules where channels of several people are private."""
    scopes = {one: channel_scope(one) for one in private}
    return PrivacyRules(_OWN, private=scopes, shares=shares, owner_shares=True)


def viewer_in(channel: str | None, private: Iterable[str] = (), *, shares: bool = False) -> Viewer:
    """Return who sees what is private in one channel, where others are private as well."""
    scopes = frozenset({channel_scope(channel)} if channel is not None else ())
    return Viewer(rules_of(*private, shares=shares), scopes, channel or "")
