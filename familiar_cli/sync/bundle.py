"""Git bundles: some refs and the objects they lead to, in one file that `git clone` reads, too.

Dulwich's reader holds the whole file in memory to tell its refs, and checks none of their names.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from familiar_cli.errors import RemoteDamagedError
from familiar_cli.files import read_plain, write_own
from familiar_cli.memory.journal.objects import is_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dulwich.pack import UnpackedObject

_V2: Final = b"# v2 git bundle\n"
_V3: Final = b"# v3 git bundle\n"
_SHA1: Final = b"@object-format=sha1"
_MOST_LINES: Final = 10_000
_MOST_LINE_BYTES: Final = 4_096
_REF: Final = re.compile(r"HEAD|refs/heads/[a-z0-9][a-z0-9/-]*")


@dataclass(frozen=True, slots=True)
class Header:
    """What a bundle says of itself.

    Args:
        refs: The whole name of each ref, and the commit it names.
        needs: Commits that who reads it must have, with all they lead to.
    """

    refs: Mapping[str, str]
    needs: tuple[str, ...] = ()


def encode(header: Header, count: int, objects: Iterator[UnpackedObject]) -> Iterator[bytes]:
    """Yield the bytes of a bundle.

    Args:
        header: What it says of itself.
        count: The number of `objects`.
        objects: All that the refs lead to and `header.needs` do not.
    """
    from dulwich.object_format import DEFAULT_OBJECT_FORMAT
    from dulwich.pack import PackChunkGenerator

    lines = [f"-{id_} \n" for id_ in header.needs]
    lines += [f"{id_} {ref}\n" for ref, id_ in header.refs.items()]
    yield _V2 + "".join(lines).encode() + b"\n"
    yield from PackChunkGenerator(DEFAULT_OBJECT_FORMAT, num_records=count, records=objects)


def read_header(file: BinaryIO) -> Header:
    """Read a bundle's header, and leave `file` where its pack begins.

    Raises:
        RemoteDamagedError: It is no bundle, or one of a kind that is not read.
        OSError: It cannot be read.
    """
    lines = _lines(file)
    first = next(lines, b"")
    if first not in {_V2, _V3}:
        raise RemoteDamagedError("It is not a git bundle")
    needs: list[str] = []
    refs: dict[str, str] = {}
    for line in lines:
        if line == b"\n":
            return Header(refs, tuple(needs))
        text = line.rstrip(b"\n")
        if text.startswith(b"@"):
            if first != _V3 or text != _SHA1:
                raise RemoteDamagedError("This kind of git bundle is not supported")
            continue
        id_, _, rest = text.removeprefix(b"-").decode("ascii", errors="replace").partition(" ")
        if not is_id(id_):
            raise RemoteDamagedError("It names an invalid commit id")
        if text.startswith(b"-"):
            needs.append(id_)
        elif _REF.fullmatch(rest):
            refs[rest] = id_
        else:
            raise RemoteDamagedError("It names an unexpected ref")
    raise RemoteDamagedError("Its header is truncated")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    for _ in range(_MOST_LINES):
        yield file.readline(_MOST_LINE_BYTES)


@dataclass(frozen=True, slots=True)
class SeenBundle:
    """A bundle that was seen in a folder. Its name has a digest: of the same size, it is the same.

    Args:
        size_bytes: Its size.
        header: What it says of itself.
        is_sealed: Whether it is encrypted.
        proof: See `BundleFile`.
        refused: Why nothing is taken from it; empty: it is used.
    """

    size_bytes: int
    header: Header
    is_sealed: bool
    proof: str = ""
    refused: str = ""


def read_seen(path: str) -> dict[str, SeenBundle]:
    """Read which bundles were seen in a folder, by name; empty if the file is unusable."""
    try:
        rows = json.loads(read_plain(path))
        return {
            name: SeenBundle(
                row["bytes"],
                Header(dict(row["refs"]), tuple(row["needs"])),
                row.get("sealed", name.endswith(".age")) is True,
                str(row.get("proof", "")),
                str(row.get("refused", "")),
            )
            for name, row in rows.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def write_seen(path: str, found: Mapping[str, SeenBundle]) -> None:
    """Remember what was seen, as far as that is possible."""
    rows = {
        name: {
            "bytes": s.size_bytes,
            "refs": dict(s.header.refs),
            "needs": s.header.needs,
            "sealed": s.is_sealed,
            "proof": s.proof,
            "refused": s.refused,
        }
        for name, s in found.items()
    }
    with suppress(OSError):
        write_own(path, json.dumps(rows).encode(), durable=False)
