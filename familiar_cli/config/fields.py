"""What a setting is: a field of a frozen dataclass that knows its meaning and its bounds.

Its metadata holds `doc`, and `choices`, `minimum`, `maximum`, `rule` (see `config.check`) or `env`
(the variable that overrides it) where they apply.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any


def setting(
    default: Any,  # noqa: ANN401
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    rule: str = "",
    env: str = "",
) -> Any:  # noqa: ANN401
    """Return a field that is a setting, with its default and its meaning."""
    about = {"doc": doc, "choices": choices, "minimum": minimum, "rule": rule, "env": env}
    return field(default=default, metadata={**about, "maximum": maximum})
