"""Settings: what holds for each, and where that comes from. Nothing is changed here."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from familiar_cli.web.asking import Shown, WebPage

if TYPE_CHECKING:
    from familiar_cli.config.origin import Effective
    from familiar_cli.web.asking import PageRequest

_GENERAL: Final = "general"


def show(asked: PageRequest) -> Shown:
    """Return all settings, by section."""
    from familiar_cli.actions.prompt import with_effective
    from familiar_cli.config.origin import effective

    path = asked.familiar.paths.config
    rows = sorted(with_effective(asked.familiar, effective(path)), key=_section)
    sections = [(name, list(found)) for name, found in groupby(rows, key=_section)]
    return Shown("settings", {"sections": sections, "path": path})


def _section(row: Effective) -> str:
    section, dot, _ = row.setting.key.rpartition(".")
    return section if dot else _GENERAL


PAGES: Final = (WebPage("/settings", show),)
