"""Files from outside and output files: fetched, read and parsed within limits."""

from __future__ import annotations

import codecs
import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final
from urllib.parse import SplitResult, unquote, urlsplit

from familiar_cli.base import errors
from familiar_cli.base.files import Disk, open_patiently
from familiar_cli.store.memory.store.files import MAX_READ_BYTES


class DamagedError(errors.BadInputError):
    """A file from outside is damaged: it is of a known kind, but cannot be read."""


MIB: Final = 1024 * 1024
MAX_FILE_BYTES: Final = MAX_READ_BYTES  # a card with many pictures and voices
MAX_CARD_BYTES: Final = 32 * MIB  # the card's JSON, after inflating
MAX_YAML_BYTES: Final = MIB // 2  # YAML is read slowly
MAX_MEMBERS: Final = 10_000  # files in one archive
MAX_TOTAL_BYTES: Final = 512 * MIB  # all files of one archive, after inflating


def read_foreign(path: Path) -> bytes:
    """Read a file from outside.

    Raises:
        NotFoundError: The file does not exist.
        BadInputError: It is larger than `MAX_FILE_BYTES`.
        FamiliarError: The file cannot be read.
    """
    with translate_errors(str(path)), open_patiently(path) as stream:
        return read_stream(stream, origin=path.name)


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Raise our own errors when the file `name` cannot be opened or read."""
    try:
        yield
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"No such file: {name!r}", hint="Check the path.") from error
    except IsADirectoryError as error:
        raise errors.BadInputError(
            f"{name!r} is a directory, not a file", hint="Give a file inside it."
        ) from error
    except OSError as error:
        raise errors.FamiliarError(f"{name!r} cannot be read: {error.strerror or error}") from error


def read_stream(stream: BinaryIO, *, origin: str) -> bytes:
    """Read all of `stream`.

    Raises:
        BadInputError: It is longer than `MAX_FILE_BYTES`.
    """
    raw = stream.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise errors.BadInputError(
            f"{origin!r} is larger than {MAX_FILE_BYTES // MIB} MiB; nothing was written"
        )
    return raw


def write_result(path: Path, content: bytes | Iterable[bytes], *, force: bool = False) -> None:
    """Write `content` atomically to a file outside the memory, readable by its owner only.

    Args:
        path: Output path.
        content: The bytes, whole or in parts.
        force: Allow overwriting an existing file.

    Raises:
        ConflictError: The file exists; it is left unchanged.
        RefusedError: The path is a link.
        FamiliarError: The file cannot be written.
    """
    if path.is_symlink():
        raise errors.RefusedError(
            f"{str(path)!r} is a link, and links are not followed; nothing was changed",
            hint="Give the file itself, or delete the link.",
        )
    if path.is_dir() or (path.exists() and not force):
        raise errors.ConflictError(
            f"{str(path)!r} already exists; it was not changed",
            hint="Add `--force` to overwrite it, or choose another name."
            if path.is_file()
            else "Give a file inside it.",
        )
    try:
        Disk().put(str(path.absolute()), content)
    except OSError as error:
        raise errors.FamiliarError(
            f"{str(path)!r} cannot be written: {error.strerror or error}",
            hint="Check that its directory exists and is writable.",
        ) from error


def write_lines(path: Path, lines: Iterable[str], *, force: bool = False) -> int:
    """Write `lines` to a UTF-8 file like `write_result`, streaming them.

    Returns:
        The number of lines.
    """
    count = 0

    def encoded() -> Iterator[bytes]:
        nonlocal count
        for line in lines:
            count += 1
            yield line.encode("utf-8", errors="surrogatepass") + b"\n"

    write_result(path, encoded(), force=force)
    return count


MAX_DEPTH: Final = 128  # no known card nests deeper than twenty levels
MAX_CONTAINERS: Final = 1_000_000  # lists and objects; each takes far more memory than its text
OWN_DEPTH: Final = MAX_DEPTH + 8  # for our own files, which wrap foreign values
MAX_DIGITS: Final = 4000  # just below Python's own limit
MARKS: Final = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def read_json(
    raw: bytes | str, *, origin: str, max_depth: int = MAX_DEPTH
) -> tuple[Any, tuple[str, ...]]:
    """Parse `raw` as JSON; also return oddities of its syntax.

    A leading byte order mark is accepted. Lone surrogates are preserved; `dump_json` writes them
    back.

    Raises:
        BadInputError: It is not valid JSON, nests too deeply, or holds a number beyond JSON.
    """
    repeated: list[str] = []

    def pairs(matches: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(matches)
        if len(made) < len(matches):
            repeated.extend(
                key for key, times in Counter(k for k, _ in matches).items() if times > 1
            )
        return made

    try:
        text = decode_text(raw)
        _check_count(text)
        value = json.loads(
            text,
            object_pairs_hook=pairs,
            parse_float=parse_finite,
            parse_int=_parse_int,
            parse_constant=no_constant,
        )
    except RecursionError as error:
        raise errors.BadInputError(f"{origin!r} nests too deeply to be read") from error
    except ValueError as error:
        raise DamagedError(
            f"{origin!r} is not valid JSON: {error}", hint="Is it the right file?"
        ) from error
    check_depth(value, origin=origin, max_depth=max_depth)
    notes = (f"{key!r:.60} occurs twice in one object; the last one is used" for key in repeated)
    return value, tuple(dict.fromkeys(notes))


def decode_text(raw: bytes | str) -> str:
    """Decode foreign text, dropping its byte order mark.

    Raises:
        ValueError: It is not in a Unicode encoding.
    """
    if isinstance(raw, bytes):
        encoding = next((name for mark, name in MARKS if raw.startswith(mark)), "utf-8")
        raw = raw.decode(encoding, errors="surrogatepass")
    return raw.removeprefix("\ufeff")


def check_depth(value: object, *, origin: str, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a value that nests deeper than `max_depth`.

    Raises:
        BadInputError: It nests deeper.
    """
    level = [value]
    for _ in range(max_depth):
        level = [child for item in level for child in _json_children(item)]
        if not level:
            return
    raise errors.BadInputError(f"{origin!r} nests deeper than {max_depth} levels")


def dump_json(value: object, *, indent: int | None = 2) -> str:
    """Serialise `value` as readable JSON, escaping lone surrogates so that UTF-8 can encode it."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)


def to_storable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def json_line(value: object) -> str:
    """Serialise `value` like `dump_json`, on one line."""
    return dump_json(value, indent=None)


def as_object(value: object) -> dict[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def object_list(value: object) -> list[dict[str, Any]]:
    """Return the objects in `value` if it is a list, else an empty list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_at(value: Mapping[str, Any], *names: str) -> str:
    """Return the first text that a value has under one of several names, else an empty one."""
    items = (value.get(name) for name in names)
    return next((text for text in items if isinstance(text, str) and text), "")


def object_at(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object that a value has under a name, else an empty one."""
    return as_object(value.get(name))


def objects_at(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in the list that a value has under a name."""
    return object_list(value.get(name))


def text_list(value: object) -> list[str]:
    """Return the strings in `value` if it is a list, else an empty list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _check_count(text: str) -> None:
    """Raise `ValueError` if parsing `text` would take far more memory than the text itself."""
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise ValueError(f"it contains more than {MAX_CONTAINERS:,} lists and objects")


def _json_children(item: object) -> list[Any]:
    if isinstance(item, dict):
        return list(item.values())
    return item if isinstance(item, list) else []


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def parse_finite(digits: str) -> float:
    """Parse a number for `json.loads`; raises `ValueError` if it is out of range."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def no_constant(name: str) -> Any:  # noqa: ANN401  # it never returns
    """Reject the non-standard constants that `json.loads` accepts."""
    raise ValueError(f"{name} is not a JSON number")


def read_yaml(raw: bytes, *, origin: str) -> Any:  # noqa: ANN401  # YAML holds anything
    """Parse `raw` as YAML into dicts, lists and strings only.

    Raises:
        BadInputError: It is not valid YAML, is too large, nests too deeply, or uses aliases.
    """
    import yaml  # noqa: PLC0415  # slow to import, and few cards need it

    if len(raw) > MAX_YAML_BYTES:
        raise errors.BadInputError(
            f"{origin!r} is text over {MAX_YAML_BYTES // 1024} KiB, too long for a YAML card"
        )
    try:
        text = decode_text(raw)
        _check_events(yaml.parse(text), origin)
        # BaseLoader builds no objects and guesses no types: a name such as 007 stays as it is.
        value = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    except RecursionError as error:
        raise errors.BadInputError(f"{origin!r} nests too deeply to be read") from error
    except (yaml.YAMLError, ValueError) as error:
        why = " ".join(str(error).split())
        raise DamagedError(f"{origin!r} is not valid YAML: {why}") from error
    return value


def _check_events(events: Iterable[object], origin: str) -> None:
    """Reject YAML that is harmless to scan but not to build.

    Raises:
        BadInputError: There are aliases, or nodes nest deeper than `MAX_DEPTH`.
    """
    depth = 0
    for event in events:
        kind = type(event).__name__
        if kind == "AliasEvent":
            raise errors.BadInputError(
                f"{origin!r} uses YAML aliases, which can expand without limit"
            )
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise errors.BadInputError(f"{origin!r} nests deeper than {MAX_DEPTH} levels")


LENIENT: Final = "familiar-windows-1252"
"""Decode bytes that are not valid UTF-8 as Windows-1252, for `errors` of a codec."""


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not valid UTF-8 as Windows-1252, as old programs wrote it."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    raw = error.object[error.start : error.end]
    return "".join(_byte_letter(byte) for byte in raw), error.end


def _byte_letter(byte: int) -> str:
    try:
        return bytes((byte,)).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


codecs.register_error(LENIENT, _as_windows)


_SILENCE_S: Final = 20.0
_WHOLE_S: Final = 120.0
_REDIRECTS: Final = 5
_NAME_CHARS: Final = 60  # a letter takes up to four bytes, and a name has at most 255
_PAGES: Final = "/characters/"  # of a site whose addresses show pages; its API has the card
_SITE: Final = "chub"


def fetch_file(address: str, directory: Path) -> Path:
    """Fetch a file into a directory, which is made; return its path.

    Raises:
        BadInputError: It is not there, is too large, or takes too long.
        FamiliarError: The address cannot be reached.
    """
    name = re.sub(r"[^\w.-]", "_", unquote(PurePosixPath(parse_address(address).path).name))
    path = directory / (name[-_NAME_CHARS:].lstrip(".") or "file")
    import httpx  # noqa: PLC0415  # slow to import, and most files are here

    try:
        content = _fetch(address)
    except httpx.HTTPStatusError as error:
        raise errors.BadInputError(
            f"{address!r} answered {error.response.status_code}; nothing was imported",
            hint="Check the address, or download the file and import that.",
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise errors.FamiliarError(
            f"{address!r} cannot be reached: {error or type(error).__name__}; nothing was imported",
            hint="Check the network, or download the file elsewhere and import that.",
        ) from error
    directory.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def parse_address(address: str) -> SplitResult:
    """Split an address into its parts.

    Raises:
        BadInputError: It is not valid.
    """
    try:
        return urlsplit(address)
    except ValueError as error:
        raise errors.BadInputError(
            f"{address!r} is not an address: {error}; nothing was imported"
        ) from error


def _fetch(address: str) -> bytes:
    import httpx  # noqa: PLC0415  # as above

    raw, until = bytearray(), time.monotonic() + _WHOLE_S
    with (
        httpx.Client(follow_redirects=True, max_redirects=_REDIRECTS, timeout=_SILENCE_S) as client,
        client.stream("GET", _file_address(address)) as reply,
    ):
        reply.raise_for_status()
        for part in reply.iter_bytes():
            raw += part
            if len(raw) > MAX_FILE_BYTES:
                raise errors.BadInputError(
                    f"{address!r} is larger than {MAX_FILE_BYTES // MIB} MiB; nothing was imported"
                )
            if time.monotonic() > until:
                raise errors.BadInputError(f"{address!r} takes too long; nothing was imported")
    return bytes(raw)


def _file_address(address: str) -> str:
    """Return where the file is that a page shows."""
    parts = urlsplit(address)
    host = (parts.hostname or "").removeprefix("www.")
    is_page = _SITE in host.split(".") and parts.path.startswith(_PAGES)
    return f"https://api.{host}/api{parts.path}?full=true" if is_page else address
