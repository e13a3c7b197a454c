"""What a channel is called, and of which kind it is: one label for every place that names one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from familiar_cli.text import one_line

KINDS: Final = (
    "text",
    "thread",
    "forum",
    "forum_root",
    "voice",
    "stage",
    "category",
    "dm",
    "group_dm",
)
PRIVATE_KINDS: Final = frozenset({"dm", "group_dm"})
"""What is said in such a channel is shown nowhere else."""

_LABELS: Final = {
    "text": "#{name}",
    "thread": "#{parent} -> {name}",
    "forum": "forum:{parent} -> {name}",
    "forum_root": "forum-root:#{name}",
    "voice": "voice:#{name}",
    "stage": "stage:#{name}",
    "category": "category:#{name}",
    "dm": "DM:{name}",
    "group_dm": "GroupDM:{name}",
}
_ORPHANS: Final = {"thread": "#{name}", "forum": "forum:{name}"}  # nobody said what they belong to
_NAME_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class ChannelContext:
    """What a channel is called.

    Args:
        name: Its name, without a mark before it.
        kind: One of `KINDS`.
        parent_name: The channel that a thread, or the forum that a post belongs to; or empty.
    """

    name: str
    kind: str = "text"
    parent_name: str = ""

    @property
    def label(self) -> str:
        """The channel in one line, e.g. `#general -> plans` or `DM:alice`."""
        pattern = _LABELS[self.kind]
        if not self.parent_name:
            pattern = _ORPHANS.get(self.kind, pattern)
        return pattern.format(
            name=one_line(self.name, _NAME_CHARS).lstrip("#"),
            parent=one_line(self.parent_name, _NAME_CHARS).lstrip("#"),
        )
