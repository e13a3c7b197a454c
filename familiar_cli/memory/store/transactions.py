"""Stage any number of changes, and make all of them or none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from familiar_cli.errors import BadInputError, ConflictError, FamiliarError
from familiar_cli.memory.store import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from familiar_cli.memory.store.types import Applied, Joined


_T = TypeVar("_T")


def retry_on_conflict(work: Callable[[], _T], tries: int) -> _T:
    """Call `work`, which reads and commits, and retry if another writer got in between.

    Raises:
        ConflictError: Others were quicker each time.
    """
    for _ in range(tries - 1):
        with suppress(ConflictError):
            return work()
    return work()


@dataclass(frozen=True, slots=True)
class StagedStep:
    """One staged change, not yet looked at.

    Args:
        kind: What to do.
        rel_path: To which file.
        content: The bytes to write or append.
        to: Where a move leads.
        expect: SHA-256 the file must have, `MISSING`, or None for no matter.
        any_size: The size limit does not hold.
        on_new_line: What is appended begins a line of its own.
    """

    kind: Literal["write", "append", "delete", "move"]
    rel_path: str
    content: bytes = b""
    to: str = ""
    expect: str | None = None
    any_size: bool = False
    on_new_line: bool = False


class Transaction:
    """Changes waiting to be made together, in the order they were staged."""

    def __init__(
        self,
        source: str,
        message: str,
        trailers: Mapping[str, str] | None = None,
        joined: Joined | None = None,
    ) -> None:
        self.joined: Final = joined
        self.source: Final = source
        self.message: Final = message
        self.trailers: Final = dict(trailers or {})
        self.steps: Final[list[StagedStep]] = []
        self._result: Applied | None = None

    def write(
        self,
        rel_path: str,
        content: str | bytes,
        *,
        expect: str | None = None,
        any_size: bool = False,
    ) -> None:
        """Make `content` the whole of a file.

        Args:
            rel_path: Where; directories on the way are made.
            content: Text goes out as UTF-8, without any translation of line ends.
            expect: SHA-256 in hex of what was read, or `MISSING`; else it is a conflict.
            any_size: Set for originals kept for a program (`self/.original.png`), which may be
                larger than `limits.max_file_bytes`.
        """
        clean = paths.parse_new(rel_path)
        self.steps.append(
            StagedStep("write", clean, _bytes_of(clean, content), expect=expect, any_size=any_size)
        )

    def append(self, rel_path: str, content: str | bytes, *, on_new_line: bool = False) -> None:
        """Put `content` at the end of a file, which is made if it is not there.

        Args:
            rel_path: Where.
            content: As for `write`.
            on_new_line: Put a newline between when the old text does not end in one.
        """
        clean = paths.parse_new(rel_path)
        self.steps.append(
            StagedStep("append", clean, _bytes_of(clean, content), on_new_line=on_new_line)
        )

    def delete(self, rel_path: str, *, expect: str | None = None) -> None:
        """Delete a file; directories that this leaves empty go too."""
        self.steps.append(StagedStep("delete", paths.parse_old(rel_path), expect=expect))

    def move(self, old: str, new: str, *, expect: str | None = None) -> None:
        """Give a file another path, where nothing is yet."""
        old, new = paths.parse_old(old), paths.parse_new(new)
        self.steps.append(StagedStep("move", old, to=new, expect=expect))

    @property
    def result(self) -> Applied:
        """What was done.

        Raises:
            FamiliarError: The transaction has not ended well.
        """
        if self._result is None:
            raise FamiliarError("The transaction was not applied, so it has no result")
        return self._result

    def finish(self, result: Applied) -> None:
        """Keep what was done. Only the store calls this."""
        self._result = result


def _bytes_of(rel_path: str, content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadInputError(
            f"The text for {rel_path!r} holds half a character at {error.start};"
            " nothing was changed",
            hint="The text was cut or decoded wrongly; a lone surrogate cannot be stored.",
        ) from error
