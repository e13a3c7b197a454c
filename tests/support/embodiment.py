"""A scripted embodiment: keeps a copy of a familiar, edits it, and syncs by the protocol.

It can lose answers, repeat and reorder what it sent, be wiped, and come back from an old copy.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol


class Calls(Protocol):
    """Whatever calls the familiar's tools."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any: ...


@dataclass
class Embodiment:
    """One embodiment.

    Args:
        client: How it calls.
        id: Who it says it is.
        files: Its copy: path -> entry, as `sync_pull` gave it.
        dirty: The files that it changed since, in order.
        token: What it last took in.
    """

    client: Calls
    id: str
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    dirty: list[str] = field(default_factory=list)
    token: dict[str, Any] = field(default_factory=dict)

    def write(self, path: str, text: str, **named: Any) -> None:
        """Write a file of the copy; `named` says what a new one is."""
        self.files[path] = {**self.files.get(path, {"path": path, "clock": {}}), **named}
        self.files[path]["text"] = text
        self.files[path].pop("deleted", None)
        self._touch(path)

    def delete(self, path: str) -> None:
        """Delete a file of the copy; what it was stays known until the next pull."""
        self.files[path]["deleted"] = True
        self._touch(path)

    def _touch(self, path: str) -> None:
        if path not in self.dirty:
            self.dirty.append(path)

    @property
    def texts(self) -> dict[str, str]:
        """What the copy holds."""
        return {p: e["text"] for p, e in self.files.items() if not e.get("deleted")}

    def outgoing(self) -> dict[str, Any]:
        """Return the push that it would send now."""
        changes = [deepcopy(self.files[path]) for path in self.dirty]
        return {
            "instance": {"id": self.id, "type": "other", "version": 1},
            "identityChanges": [one for one in changes if "category" in one],
            "memoryChanges": [one for one in changes if "category" not in one],
            **({"lastSyncToken": self.token} if self.token else {}),
        }

    async def push(self, sent: dict[str, Any] | None = None, *, answer: str = "comes") -> Any:
        """Push; with `answer="is lost"` it does not learn what became of it."""
        made = await self._call("sync_push", sent or self.outgoing())
        if answer == "comes":
            for one in made["results"]:
                if one["status"] in {"refused", "planned", "held"}:
                    continue
                path = one["path"]
                self.dirty = [name for name in self.dirty if name != path]
                if one.get("deleted"):
                    self.files.pop(path, None)
                elif path in self.files:
                    self.files[path].pop("deleted", None)
                    self.files[path]["clock"] = one["clock"]
                    self.files[path]["text"] = one.get("text", self.files[path]["text"])
        return made

    async def pull(self) -> None:
        """Pull all pages; what is dirty here stays as it is."""
        asked = {"instanceId": self.id, **({"lastSyncToken": self.token} if self.token else {})}
        got, cursor = [], {}
        while True:
            page = await self._call("sync_pull", {**asked, **cursor})
            got += page["results"]
            if "next" not in page:
                break
            cursor = {"cursor": page["next"]}
        if page["isWhole"]:
            self.files = {p: e for p, e in self.files.items() if p in self.dirty}
        for entry in got:
            if entry["path"] in self.dirty:
                continue
            if entry.get("deleted"):
                self.files.pop(entry["path"], None)
            else:
                self.files[entry["path"]] = entry
        self.token = page["newSyncToken"]

    async def sync(self) -> Any:
        """Push what it changed, then pull."""
        made = await self.push() if self.dirty else None
        await self.pull()
        return made

    def wipe(self) -> None:
        """Lose everything."""
        self.files, self.dirty, self.token = {}, [], {}

    async def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        found = await self.client.call_tool(name, arguments)
        if found.is_error:
            raise RuntimeError(found.content[0].text)
        return found.structured_content
