"""NovelAI's, Agnai's and RisuAI's lorebooks, read as a `character_book`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.lorebooks.repair import comma_list
from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_NOVELAI_ORDER: Final = 400  # NovelAI's own default


@dataclass(frozen=True, slots=True)
class Format:
    """Another program's lorebooks.

    Args:
        source: The program, for people.
        tool: Under which name in `extensions` is kept what a `character_book` has no word for.
        matches: Says whether a JSON object is such a book.
        known: Its name for a setting of an entry -> ours.
        order: The `insertion_order` of an entry that says none.
        entries: Its name for the list of entries.
        named: Settings of the book that it calls as we do.
        comma_lists: Settings of an entry whose list may be one text with commas.
    """

    source: str
    tool: str
    matches: Callable[[Mapping[str, Any]], bool]
    known: Mapping[str, str]
    order: Callable[[Mapping[str, Any]], Any]
    entries: str = "entries"
    named: tuple[str, ...] = ()
    comma_lists: tuple[str, ...] = ()

    def read(self, data: Mapping[str, Any]) -> Lorebook:
        """Return it with its entries as a `character_book` has them."""
        given = data.get(self.entries)
        items = given if isinstance(given, list) else []
        names = {name: data[name] for name in self.named if name in data}
        return Lorebook(
            name=str(data.get("name") or ""),
            shape="book",
            entries=tuple(self._entry(item) for item in items if isinstance(item, dict)),
            frame={**names, **self._rest(data, (self.entries, *names))},
            source=self.source,
            unreadable=tuple(item for item in items if not isinstance(item, dict)),
        )

    def _entry(self, item: Mapping[str, Any]) -> LoreEntry:
        raw = dict(item)
        for name in self.comma_lists:
            if isinstance(raw.get(name), str):
                raw[name] = comma_list(raw[name])
        blank = {"keys": [], "content": "", "enabled": True, "use_regex": False}
        mapped = {
            ours: raw[theirs] for theirs, ours in self.known.items() if raw.get(theirs) is not None
        }
        used = [name for name in raw if self.known.get(name) in mapped]
        order = {"insertion_order": self.order(raw)}
        return LoreEntry("book", {**blank, **order, **mapped, **self._rest(raw, used)})

    def _rest(self, data: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
        """Return what of `data` is not in `used`, under the program's name in `extensions`."""
        rest = {name: value for name, value in data.items() if name not in used}
        return {"extensions": {self.tool: rest} if rest else {}}


def _novelai_order(raw: Mapping[str, Any]) -> Any:  # noqa: ANN401  # mended later, as all settings
    config = raw.get("contextConfig")
    return (config if isinstance(config, dict) else {}).get("budgetPriority", _NOVELAI_ORDER)


FORMATS: Final = (
    Format(
        source="NovelAI",
        tool="novelai",
        matches=lambda data: "lorebookVersion" in data,
        known={
            "displayName": "name",
            "text": "content",
            "keys": "keys",
            "enabled": "enabled",
            "forceActivation": "constant",
            "id": "id",
        },
        order=_novelai_order,
    ),
    Format(
        source="Agnai",
        tool="agnai",
        matches=lambda data: data.get("kind") == "memory",
        known={
            "name": "name",
            "entry": "content",
            "keywords": "keys",
            "enabled": "enabled",
            "priority": "priority",
            "weight": "insertion_order",
            "id": "id",
        },
        order=lambda _: 0,
        named=("name", "description"),
    ),
    Format(
        source="RisuAI",
        tool="risuai",
        matches=lambda data: data.get("type") == "risu" and isinstance(data.get("data"), list),
        known={
            "comment": "comment",
            "content": "content",
            "key": "keys",
            "secondkey": "secondary_keys",
            "insertorder": "insertion_order",
            "alwaysActive": "constant",
            "selective": "selective",
            "useRegex": "use_regex",
            "id": "id",
        },
        order=lambda _: 100,
        entries="data",
        comma_lists=("key", "secondkey"),
    ),
)
"""In the order in which they are tried."""
