"""Portable Memory 1 (`.mem`): a directory of JSON lines with a manifest, read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time
from typing import Any, Final, TypeAlias

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.text import counted, one_line, sha256_of, str_or_empty
from familiar_cli.base.times.clock import now, to_utc
from familiar_cli.imports.containers import read_member
from familiar_cli.imports.contract import ForeignItem, ForeignMemory, Format
from familiar_cli.imports.foreign_files import (
    DamagedError,
    as_object,
    object_at,
    object_list,
    objects_at,
    read_foreign,
    read_json,
    text_at,
)
from familiar_cli.imports.memory_lists import build_memories, read_day
from familiar_cli.imports.source import ForeignFile, Skip, json_lines, readable_rows

_Line: TypeAlias = "tuple[str, date | None, str]"  # its text, its day, and whom it is about
VERSION: Final = "1.1.0"
_SPECIFICATION: Final = (
    "https://github.com/MacPaw/portable-memory/blob/main/Spec/portable-memory-spec.md"
)
MANIFEST: Final = "manifest.json"
_CHECKSUMS: Final = "CHECKSUMS"
_TOMBSTONES: Final = "audit/tombstones.jsonl"
_ABOUT: Final = "familiar_about"
_UNDATED: Final = "familiar_undated"
_PASTED: Final = "transfer_line"  # an entry of pasted text; undated if it has no date of its own
_PASTED_DAY: Final = "transfer_date_raw"
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)  # of what has no date, which a mark says
_ID_CHARS: Final = 24
_SUMMARY_CHARS: Final = 120
_STRUCTURE: Final = frozenset(
    {"tombstone", "audit", "context", "category", "factLink", "episodeLink"}
)
_ENDS: Final = ("deletedAt", "prunedAt", "supersededBy", "tValidTo")
_OWN_BLOCKS: Final = frozenset({"persona", "system", "instructions"})


def _manifest(source: ForeignFile) -> dict[str, Any]:
    """Return the manifest of a bundle, which is a directory, or a zip of one; empty if it has none.

    An unreadable one counts as none.
    """
    if source.shape == "archive":
        return as_object(source.value)
    path = source.path / MANIFEST if source.path else None
    if source.shape != "directory" or not path or path.is_symlink() or not path.is_file():
        return {}
    try:
        return as_object(read_json(read_foreign(path), origin=MANIFEST)[0])
    except BadInputError:
        return {}


def _is_bundle(source: ForeignFile) -> bool:
    manifest = _manifest(source)
    return manifest.keys() >= {"format", "files", "counts", "generator"}


def _part(source: ForeignFile, rel_path: str) -> bytes | None:
    """Read a file of the bundle; None if it has none of that name."""
    if source.shape == "archive":
        raw = source.raw
        names = {text_at(one, "path") for one in object_list(_manifest(source)["files"])}
        return read_member(raw, rel_path, origin=source.name) if rel_path in names else None
    assert source.path
    path = source.path / rel_path
    is_link = path.is_symlink() or path.parent.is_symlink()
    return read_foreign(path) if path.is_file() and not is_link else None


class _Bundle:
    """The records of a bundle, by kind.

    Raises:
        BadInputError: It is of a later major version, or a file is not as its checksum says.
    """

    def __init__(self, source: ForeignFile) -> None:
        self.damaged: list[Skip] = []
        self.gone = 0
        self._source = source
        about = _manifest(source)
        if text_at(about, "format").split(".")[0] != VERSION.split(".", maxsplit=1)[0]:
            raise BadInputError(
                f"{source.name!r} is Portable Memory {one_line(str(about.get('format')), 20)}, "
                "which this version cannot read; nothing was imported"
            )
        self.counts = {k: n for k, n in object_at(about, "counts").items() if type(n) is int}
        self._checksums = {
            text_at(one, "path"): one.get("sha256") for one in objects_at(about, "files")
        }
        targets = (text_at(row, "targetID") for _, row in self.rows(_TOMBSTONES))
        self.deleted = frozenset(filter(None, targets))  # a record without an id is not meant

    def rows(self, rel_path: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the records of a file with their line numbers, except damaged ones."""
        raw = _part(self._source, rel_path)
        if raw is None and rel_path not in self._checksums:
            return
        if raw is None or sha256_of(raw) != self._checksums.get(rel_path):
            what = "is missing" if raw is None else "is not as its checksum says"
            raise DamagedError(
                f"{self._source.name!r} is damaged: {rel_path} {what}; nothing was imported",
                hint="Make or copy the bundle again.",
            )
        rows = list(json_lines(ForeignFile(None, rel_path, raw)))
        self.damaged += (row for row in rows if isinstance(row, Skip))
        yield from ((number, row) for number, _, row in readable_rows(rows))

    def standing(self, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the records of a kind that were not deleted, pruned or superseded."""
        for number, row in self.rows(f"items/{kind}.jsonl"):
            if text_at(row, "id") in self.deleted or any(map(row.get, _ENDS)):
                self.gone += 1
            else:
                yield number, row


def _read(source: ForeignFile, _: object) -> Iterator[ForeignItem | Skip]:
    bundle = _Bundle(source)
    entities = bundle.rows("items/entity.jsonl")
    names = {text_at(row, "id"): text_at(row, "canonicalName") for _, row in entities}
    readers: dict[str, Callable[[dict[str, Any]], Iterator[_Line]]] = {
        "episode": _episode,
        "fact": _fact,
        "core": _core,
        "preference": _preference,
        "entity": _entity,
        "edge": lambda row: _edge(row, names),
    }
    memories = [
        ForeignMemory(text, number, day, about, f"items/{kind}.jsonl")
        for kind, read in readers.items()
        for number, row in bundle.standing(kind)
        for text, day, about in read(row)
    ]
    yield from bundle.damaged
    notes = [
        f"{counted(number, f'{kind} record')} not imported"
        for kind, number in sorted(bundle.counts.items())
        if kind not in {*readers, *_STRUCTURE}
    ]
    if bundle.gone:
        notes.append(f"{counted(bundle.gone, 'deleted or superseded record')} left out")
    yield build_memories("Portable Memory", source.stem, memories, *notes)


def _episode(row: dict[str, Any]) -> Iterator[_Line]:
    about = object_at(row, "metadata")
    pasted = text_at(about, _PASTED_DAY) if _PASTED in about else "0"
    is_undated = _UNDATED in about or not any(map(str.isdigit, pasted))
    day = None if is_undated else read_day(row.get("eventTime"))
    text = text_at(row, "details", "summary")
    yield text, day, text_at(about, _ABOUT)


def _fact(row: dict[str, Any]) -> Iterator[_Line]:
    text = " ".join(text_at(row, name) for name in ("subject", "predicate", "object"))
    day = read_day(row.get("eventTime")) or read_day(row.get("tValidFrom"))
    yield text_at(row, "text") or text, day, ""


def _core(row: dict[str, Any]) -> Iterator[_Line]:
    if text_at(row, "id") not in _OWN_BLOCKS:
        yield text_at(row, "content"), None, ""


def _preference(row: dict[str, Any]) -> Iterator[_Line]:
    yield f"{str_or_empty(row.get('key'))}: {str_or_empty(row.get('value'))}", None, ""


def _entity(row: dict[str, Any]) -> Iterator[_Line]:
    if row.get("summary"):
        day, name = read_day(row.get("updatedAt")), text_at(row, "canonicalName")
        yield text_at(row, "summary"), day, name


def _edge(row: dict[str, Any], names: dict[str, str]) -> Iterator[_Line]:
    ids = [text_at(row, name) for name in ("srcEntityID", "dstEntityID")]
    ends = [names.get(one, "") for one in ids]
    kind = text_at(row, "edgeType").replace("_", " ").lower()
    if all(ends) and kind:
        yield f"{ends[0]} {kind} {ends[1]}", read_day(row.get("tValidFrom")), ends[0]


def write_bundle(memories: Iterable[ForeignMemory], generator: str) -> dict[str, bytes]:
    """Return the files of a bundle by their paths; equal memories give equal records.

    Args:
        memories: The memories.
        generator: The program that writes it, with its version.
    """
    rows = sorted((_as_episode(one) for one in memories), key=lambda row: row["id"])
    stream = "".join(f"{_canonical(row)}\n" for row in rows).encode()
    files = {"items/episode.jsonl": stream} if rows else {}
    listed = [
        {"path": path, "sha256": sha256_of(raw), "bytes": len(raw)} for path, raw in files.items()
    ]
    checksums = "".join(f"{one['sha256']}  {one['path']}\n" for one in listed) or "\n"
    times = [row["eventTime"] for row in rows]
    manifest = {
        "format": VERSION,
        "specURL": _SPECIFICATION,
        "generator": generator,
        "conformanceLevel": "L0",
        "createdAt": _timestamp(now()),
        "exportMode": "full",
        "schemaVersion": 1,
        "embeddingModel": "",
        "embeddingDim": 0,
        "embeddingsIncluded": False,
        "capabilities": [],
        "counts": {"episode": len(rows)} if rows else {},
        "files": listed,
        "bundleDigest": sha256_of(checksums),
    } | ({"coverage": {"from": min(times), "to": max(times)}} if times else {})
    return files | {_CHECKSUMS: checksums.encode(), MANIFEST: _canonical(manifest).encode()}


def _as_episode(one: ForeignMemory) -> dict[str, Any]:
    digest = sha256_of("\n".join((str(one.day or ""), one.about, one.text)))
    when = _timestamp(datetime.combine(one.day, time(), UTC) if one.day else _LONG_AGO)
    marks = {_ABOUT: one.about} if one.about else {}
    return {
        "id": f"fm_{digest[:_ID_CHARS]}",
        "eventTime": when,
        "mentionTime": when,
        "ingestionTime": when,
        "sourceType": "note",
        "actors": [one.about] if one.about else [],
        "summary": one_line(one.text, _SUMMARY_CHARS),
        "details": one.text,
        "sensitivity": "high" if one.is_private else "low",
        "metadata": marks if one.day else marks | {_UNDATED: "true"},
        "categories": [],
        "importance": 0.5,
        "confidence": 0.7,
        "lifecycleState": "HOT",
        "extractionState": "done",
        "accessCount": 0,
        "pinned": False,
        "vaultRefs": [],
    }


def _canonical(value: object) -> str:
    """Serialise a value as the format's canonical JSON."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _timestamp(moment: datetime) -> str:
    return f"{to_utc(moment, None):%Y-%m-%dT%H:%M:%SZ}"


FORMAT: Final = Format(
    "portable-memory", "Portable Memory (.mem)", ("memories",), _is_bundle, _read, write_bundle
)
