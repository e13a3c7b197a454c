"""Convert the lorebooks of other programs, each by a table of its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from familiar_cli.imports.foreign_files import object_list
from familiar_cli.imports.lorebook import Lorebook, LoreEntry
from familiar_cli.imports.lorebook_reading import comma_list, mend_converted, not_a_lorebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class BookMapping(Struct, frozen=True):
    """A lorebook format of another program.

    Args:
        source: The program, for people.
        tool: The key in `extensions` for settings that a `character_book` lacks.
        known: Its name for an entry's setting -> ours.
        order: The default `insertion_order` of an entry.
        off: Values with which a setting switches off its entry, or the parent it stands in.
        entries: Its name for the list of entries.
        named: Settings of the book with the same names as ours.
        comma_lists: Settings of an entry whose list may be one comma-separated string.
        parents: Its name for the list of parents, their ids, and an entry's setting for its parent.
        is_parent: Tells whether one of the entries is only a parent of others.
    """

    source: str
    tool: str
    known: Mapping[str, str]
    order: Callable[[Mapping[str, Any]], Any]
    off: Mapping[str, tuple[object, ...]]
    entries: str = "entries"
    named: tuple[str, ...] = ()
    comma_lists: tuple[str, ...] = ()
    parents: tuple[str, str, str] = ("", "", "")
    is_parent: Callable[[Mapping[str, Any]], bool] = field(default=lambda _: False)

    def read(self, data: Mapping[str, Any], origin: str) -> Lorebook:
        """Convert a book of this format to a `character_book`.

        Raises:
            BadInputError: None of its entries is one.
        """
        given = data.get(self.entries)
        items = given if isinstance(given, list) else []
        if given and not object_list(given):
            raise not_a_lorebook(data, origin)
        names = {name: data[name] for name in self.named if name in data}
        listed, key, _ = self.parents
        parents = [*object_list(data.get(listed)), *filter(self.is_parent, object_list(items))]
        off = {str(parent.get(key) or "") for parent in parents if self._is_off(parent)}
        lore = [item for item in object_list(items) if not self.is_parent(item)]
        book = Lorebook(
            name=str(data.get("name") or ""),
            shape="book",
            entries=tuple(self._entry(item, off) for item in lore),
            frame={**names, **self._rest(data, (self.entries, *names))},
            source=self.source,
            unreadable=tuple(item for item in items if not isinstance(item, dict)),
        )
        return mend_converted(book)

    def _entry(self, item: Mapping[str, Any], off: set[str]) -> LoreEntry:
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
        above = str(raw.get(self.parents[2]) or "") if self.parents[2] else ""
        if self._is_off(raw) or (above and above in off):
            mapped["enabled"] = False
        return LoreEntry("book", {**blank, **order, **mapped, **self._rest(raw, used)})

    def _is_off(self, item: Mapping[str, Any]) -> bool:
        return any(
            name in item and (item[name] in values or str(item[name]).lower() in values)
            for name, values in self.off.items()
        )

    def _rest(self, data: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
        """Keep the unused settings of `data` under the program's name in `extensions`."""
        rest = {name: value for name, value in data.items() if name not in used}
        return {"extensions": {self.tool: rest} if rest else {}}


OFF: dict[str, tuple[object, ...]] = {
    "enabled": (False, "false", "0"),
    "disable": (True, "true", "1"),
    "disabled": (True, "true", "1"),
}
"""The switches that several programs share."""
