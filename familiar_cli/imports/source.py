"""A file from outside, opened once: its bytes, its lines, and the JSON in it."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeVar

from msgspec import Struct

from familiar_cli.base.errors import BadInputError, FamiliarError
from familiar_cli.base.files import open_patiently
from familiar_cli.base.text import str_or_empty
from familiar_cli.base.times.clock import now, since_1970, to_ms
from familiar_cli.imports.containers import CardFile, open_container
from familiar_cli.imports.foreign_files import (
    LENIENT,
    MARKS,
    MAX_CARD_BYTES,
    MIB,
    DamagedError,
    check_depth,
    no_constant,
    parse_finite,
    read_foreign,
    translate_errors,
)

T = TypeVar("T")
Row = tuple[int, str, dict[str, Any]]  # number, text and value of a JSON object


class Skip(Struct, frozen=True):
    """A skipped line.

    Args:
        line: Its position, as in `ForeignMessage`.
        reason: Why.
        damaged: Whether it was unreadable; otherwise it was skipped on purpose.
    """

    line: int
    reason: str
    damaged: bool = True


MAX_LINE_BYTES: Final = 16 * MIB
"""Longest line, that is, one message with all its swipes."""

# How much longer our own export's line is at most: it has the words, and quotes the source's.
_OWN_TIMES: Final = 8


_BLOCK_BYTES: Final = MIB
_START_BYTES: Final = 4096
_FIRST_ROWS: Final = 20  # lines or elements examined to detect the format
_PICTURES: Final = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM\x00")
_CONTROLS: Final = re.compile(rb"[\x00\x01\x04-\x08\x0e\x10-\x15\x17-\x1a]")  # others format IRC
_JSON: Final = re.compile(rb"\{|\[\s*(?:[\[{\"\]]|\d+\s*[,\]]|\Z)")
YAML_SUFFIXES: Final = (".yaml", ".yml")


Shape = Literal["empty", "object", "array", "text", "picture", "archive", "binary", "directory"]
"""What a file is by its first bytes; `object` is also what JSON lines begin with."""


class ForeignFile:
    """A file from outside, opened once for every format that looks at it.

    Args:
        path: Its path; None: `raw` is all there is.
        name: Its name in messages.
        raw: Its bytes, if they are in memory.
        value: Its value, if it is part of another file.
    """

    def __init__(
        self, path: Path | None, name: str, raw: bytes | None = None, value: object = None
    ) -> None:
        self.path = path
        self.name = name
        self._raw = raw
        self._value = value

    @property
    def stem(self) -> str:
        """Its name without suffix."""
        return Path(self.name).stem

    @property
    def suffix(self) -> str:
        """The end of its name, in lower case, with its dot."""
        return Path(self.name).suffix.lower()

    @property
    def changed(self) -> datetime:
        """Time of its last change."""
        return to_ms(since_1970(self._stat().st_mtime)) if self.path else now()

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return self._stat().st_size if self.path else len(self.raw)

    @cached_property
    def raw(self) -> bytes:
        """All of its bytes.

        Raises:
            FamiliarError: It cannot be read, or is too large.
        """
        if self._value is not None:
            return json.dumps(self._value).encode()
        return read_foreign(self.path) if self._raw is None and self.path else self._raw or b""

    @cached_property
    def start(self) -> bytes:
        """Its first bytes, without white space before them."""
        if self.path and self.path.is_dir():
            return b""
        with self.open() as stream:
            return stream.read(_START_BYTES).lstrip()

    @cached_property
    def shape(self) -> Shape:
        """What it is by its first bytes."""
        if self.path and self.path.is_dir():
            return "directory"
        if self._value is not None:
            return "array" if isinstance(self._value, list) else "object"
        shapes: Iterator[Shape] = (shape for shape, is_it in _SHAPES if is_it(self.start))
        return next(shapes, "text")

    @cached_property
    def card_file(self) -> CardFile | FamiliarError:
        """What its container has: a picture, an archive, or a whole file of JSON or YAML."""
        if self._value is not None:
            return CardFile("json", self._value)
        try:
            return open_container(self.raw, origin=self.name)
        except FamiliarError as error:
            return error

    @cached_property
    def value(self) -> Any:  # noqa: ANN401  # JSON holds anything
        """The JSON in it as a whole, whatever its container; None if it has none."""
        is_json = self.shape in ("object", "array") and self.size_bytes <= MAX_CARD_BYTES
        is_small = is_json or self.shape in ("picture", "archive", "binary")
        is_yaml = self.shape == "text" and self.suffix in YAML_SUFFIXES
        if not (is_small or is_yaml or self._value is not None):
            return None
        card_file = self.card_file
        return card_file.value if isinstance(card_file, CardFile) else None

    @cached_property
    def first(self) -> dict[str, Any]:
        """The first object in it: a line, an element, or the whole; empty if there is none."""
        try:
            return first_object(self)
        except FamiliarError:
            return {}

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open it, skipping the byte order mark.

        Raises:
            NotFoundError: The file does not exist.
            BadInputError: It is a directory, or a pipe, which could be read only once.
            FamiliarError: The file cannot be read.
        """
        if not self.path:
            yield io.BytesIO(self.raw.removeprefix(codecs.BOM_UTF8))
            return
        if not (stat.S_ISREG(mode := self._stat().st_mode) or stat.S_ISDIR(mode)):
            raise BadInputError(
                f"{self.name!r} is a pipe or a device, not a file; nothing was imported",
                hint="A program's output is read from standard input: `… | familiar import -`.",
            )
        with translate_errors(self.name), open_patiently(self.path) as stream:
            if stream.read(3) != codecs.BOM_UTF8:
                stream.seek(0)
            yield stream

    def _stat(self) -> os.stat_result:
        assert self.path
        with translate_errors(self.name):
            return self.path.stat()


def is_binary(start: bytes) -> bool:
    """Tell whether bytes are not text; a stray control character does not count."""
    return len(_CONTROLS.findall(start)) * 50 > len(start)


DOCUMENTS: Final = (b"%PDF-", b"{\\rtf")
"""How files of PDF and RTF begin."""

# In the order in which they are tried; anything else is text.
_SHAPES: Final[tuple[tuple[Shape, Callable[[bytes], object]], ...]] = (
    ("empty", lambda start: not start),
    ("picture", lambda start: start.startswith(_PICTURES) or start[8:12] == b"WEBP"),
    ("archive", lambda start: start.startswith(b"PK\x03\x04")),
    ("binary", lambda start: start.startswith(DOCUMENTS)),
    ("array", lambda start: _JSON.match(start) and start.startswith(b"[")),
    ("object", lambda start: start.startswith(b"{")),
    ("binary", is_binary),
)


def first_object(source: ForeignFile) -> dict[str, Any]:
    """Return the first informative object: a line, an element, or the whole file.

    Raises:
        BadInputError: There is none.
    """
    if isinstance(source.value, dict) and source.shape != "array":
        return source.value
    rows: Iterable[Row | Skip] = (
        array_objects(source) if source.shape == "array" else lines_or_whole(source)
    )
    value = next((row[2] for row in readable_rows(islice(rows, _FIRST_ROWS))), None)
    if value is None:
        raise DamagedError(f"{source.name!r} cannot be read as JSON: it is damaged, or not a chat")
    return value


@contextmanager
def as_source(file: Path | None) -> Iterator[ForeignFile]:
    """Yield a file or directory, or all of standard input if it is None, as a source.

    Raises:
        FamiliarError: It cannot be read.
    """
    if file and file.is_dir():
        yield ForeignFile(file, str(file))
        return
    with ExitStack() as stack:
        if file:
            plain = ForeignFile(file, str(file))
        else:
            scratch = _scratch_directory(stack) / "stdin"
            plain = ForeignFile(scratch, "stdin")
            with translate_errors("stdin"), scratch.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        with plain.open() as stream:
            start = stream.read(_START_BYTES)
        wide = next((name for mark, name in MARKS if start.startswith(mark)), None)
        wide = wide or _guess_utf16(start)
        if wide:
            narrow = _scratch_directory(stack) / "utf-8"
            _transcode_file(plain, narrow, wide)
            plain = ForeignFile(narrow, plain.name)
        yield plain


def _guess_utf16(start: bytes) -> str | None:
    """Guess the UTF-16 byte order of a text without a mark, by where its zeros are."""
    zeros = [start[place::2].count(0) for place in (0, 1)]
    most = len(start) // 4
    if zeros[0] > most and not zeros[1]:
        return "utf-16-be"
    return "utf-16-le" if zeros[1] > most and not zeros[0] else None


def _scratch_directory(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="familiar-")))


def _transcode_file(source: ForeignFile, target: Path, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)(errors="surrogatepass")
    with source.open() as stream, target.open("wb") as out:
        try:
            while block := stream.read(_BLOCK_BYTES):
                out.write(decoder.decode(block).encode("utf-8", errors="surrogatepass"))
            out.write(decoder.decode(b"", final=True).encode("utf-8", errors="surrogatepass"))
        except UnicodeError as error:
            raise DamagedError(
                f"{source.name!r} looks like {encoding.upper()}, but is not valid: {error}"
            ) from error


def readable_rows(rows: Iterable[Row | Skip]) -> Iterator[Row]:
    """Yield the readable rows."""
    return (row for row in rows if not isinstance(row, Skip))


def read_rows(
    rows: Iterable[Row | Skip], read: Callable[[int, str, dict[str, Any]], T | Skip]
) -> Iterator[T | Skip]:
    """Apply `read` to each row; a `Skip` is passed on."""
    return (row if isinstance(row, Skip) else read(*row) for row in rows)


MAX_ELEMENT_BYTES: Final = 64 * MIB
"""Largest element, that is, one conversation with all its branches."""

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)
_DEPTH: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


class ByteSpan(Struct, frozen=True):
    """Byte range of an element in its file."""

    start: int
    end: int

    def read(self, stream: BinaryIO) -> bytes:
        """Read the element."""
        stream.seek(self.start)
        return stream.read(self.end - self.start)


def object_spans(
    source: ForeignFile, *, inside: int | None = None, depth: int = 1
) -> Iterator[ByteSpan]:
    """Yield the byte range of each object of the array in `source`.

    Args:
        source: The file.
        inside: Byte offset of the array if it is a member of the file's single object; None: the
            file is the array.
        depth: How many objects such an array stands in.

    Raises:
        BadInputError: The array is unterminated, or an element is too large.
    """
    with source.open() as stream:
        if inside is not None:
            stream.seek(inside)
        yield from _Scan(stream, source.name, outside=depth if inside else 0).elements()


def array_objects(
    source: ForeignFile, *, inside: int | None = None, depth: int = 1
) -> Iterator[Row | Skip]:
    """Yield number, text and value of each object of an array; see `object_spans`."""
    with source.open() as stream:
        for number, span in enumerate(object_spans(source, inside=inside, depth=depth), start=1):
            yield read_object(number, span.read(stream))


_HEAD_BYTES: Final = 256 * 1024  # within which the array of an object begins


def array_in(source: ForeignFile, name: str, *, of: str = "") -> int | None:
    """Return the byte offset of the array that an object's start has under a name.

    Args:
        source: The file.
        name: The array's name.
        of: The name of the object that it is a member of, which may stand far behind the start.
    """
    with source.open() as stream:
        start = stream.tell()
        head = stream.read(MAX_CARD_BYTES if of else _HEAD_BYTES)
    outer = re.search(rb'"%s"\s*:\s*\{' % of.encode(), head) if of else None
    if of and not outer:
        return None
    pattern = re.compile(rb'"%s"\s*:\s*\[' % name.encode())
    match = pattern.search(head, outer.end() if outer else 0)
    return start + match.end() - 1 if match else None


def object_head(source: ForeignFile, name: str) -> dict[str, Any]:
    """Return what an object says before its array of a name; empty if it has none at its start."""
    with source.open() as stream:
        head = stream.read(_HEAD_BYTES)
    match = re.search(rb'"%s"\s*:\s*\[' % name.encode(), head)
    try:
        about = _DECODER.decode((head[: match.end()] + b"]}").decode()) if match else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(about, dict) or not isinstance(about.pop(name, None), list):
        return {}
    return about


class _Scan:
    """Finds brackets outside of strings, block by block."""

    def __init__(self, stream: BinaryIO, name: str, *, outside: int) -> None:
        self._stream = stream
        self._name = name
        self._depth = outside
        self._wanted = outside + 2
        self._start = stream.tell()

    def elements(self) -> Iterator[ByteSpan]:
        offset = self._stream.tell()
        rest = b""
        while block := self._stream.read(_BLOCK_BYTES):
            rest += block
            if len(rest) > MAX_ELEMENT_BYTES or offset - self._start > MAX_ELEMENT_BYTES:
                self._refuse()
            done = 0
            for token in _TOKEN.finditer(rest):
                mark = token.group()
                if mark == b'"':  # a string that continues in the next block
                    done = token.start()
                    break
                done = token.end()
                if mark in _DEPTH:
                    yield from self._step(_DEPTH[mark], offset + token.start())
            else:
                done = len(rest)
            offset += done
            rest = rest[done:]
        if self._depth:
            raise DamagedError(f"{self._name!r} is incomplete: its JSON ends too early")

    def _step(self, change: int, place: int) -> Iterator[ByteSpan]:
        self._depth += change
        if change > 0 and self._depth == self._wanted:
            self._start = place
        elif change < 0 and self._depth == self._wanted - 1:
            yield ByteSpan(self._start, place + 1)
            self._start = place + 1

    def _refuse(self) -> None:
        raise BadInputError(
            f"A conversation in {self._name!r} is larger than {MAX_ELEMENT_BYTES // MIB} MiB"
        )


def json_lines(source: ForeignFile, *, is_own: bool = False) -> Iterator[Row | Skip]:
    """Yield number, text and value of each line that is an object, skipping blank lines.

    Any other line yields a `Skip`.

    Args:
        source: The file.
        is_own: Whether it is in our own format, whose lines quote those of other programs.
    """
    most = MAX_LINE_BYTES * (_OWN_TIMES if is_own else 1)
    with source.open() as stream:
        number = 0
        while raw := stream.readline(most + 1):
            number += 1
            if len(raw) > most:
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(most)
                yield Skip(number, f"it is longer than {most // MIB} MiB")
            elif raw.strip():
                yield read_object(number, raw)


def lines_or_whole(source: ForeignFile) -> Iterator[Row | Skip]:
    """Yield the only object of a file that nests deeper than a card, else its JSON lines."""
    if source.size_bytes <= MAX_CARD_BYTES:
        whole = read_object(1, source.raw.removeprefix(codecs.BOM_UTF8))
        if not isinstance(whole, Skip):
            yield whole
            return
    yield from json_lines(source)


def read_object(number: int, raw: bytes) -> Row | Skip:
    """Parse the JSON object in `raw`; a `Skip` with the reason if it is not one."""
    try:
        text = raw.decode("utf-8").strip()
        value = _DECODER.decode(text)
        _check_nesting(raw, value)
    except UnicodeDecodeError:
        return Skip(number, "it is not UTF-8")
    except RecursionError:
        return Skip(number, "it nests too deeply")
    except ValueError as error:
        return Skip(number, f"it is not JSON ({error})")
    if not isinstance(value, dict):
        return Skip(number, "it is JSON, but not an object")
    return number, text, value


def _check_nesting(raw: bytes, value: object) -> None:
    """Raise `RecursionError` if a value nests deeper than whoever reads or writes it can go."""
    if raw.count(b"[") + raw.count(b"{") > _MAX_NESTING:
        try:
            check_depth(value, origin="", max_depth=_MAX_NESTING)
        except BadInputError as error:
            raise RecursionError from error


_MAX_NESTING: Final = 600  # trees of messages nest two levels for each message
_DECODER: Final = json.JSONDecoder(parse_constant=no_constant, parse_float=parse_finite)


def column_names(source: ForeignFile) -> list[str]:
    """Return the names in the first line of a CSV file; empty if the file is not text."""
    if source.shape != "text":
        return []
    first = source.start.split(b"\n", 1)[0].decode("utf-8", "replace")
    return [name.strip().strip('"') for name in first.strip().split(",")]


def table_rows(source: ForeignFile) -> Iterator[tuple[int, dict[str, str]] | Skip]:
    """Yield line number and cells of each row of a CSV file with a header."""
    with source.open() as stream:
        text = io.TextIOWrapper(stream, "utf-8", errors=LENIENT, newline="")
        lines = iter(lambda: text.readline(16 * MIB), "")
        rows = csv.DictReader(line.replace("\0", "") for line in lines)
        csv.field_size_limit(16 * MIB)
        try:
            while True:
                try:
                    row = next(rows)
                except StopIteration:
                    return
                except csv.Error as error:
                    yield Skip(rows.line_num, f"it is not CSV ({error})")
                    continue
                yield rows.line_num, {str(k): str_or_empty(v) for k, v in row.items()}
        finally:
            text.detach()
