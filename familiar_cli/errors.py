"""Every failure a user can meet, and the exit code it ends in.

FamiliarError (1, failed)
    UsageError (2, usage)               the command line makes no sense
    ConfigError (3, configuration)      a setting is wrong, missing or unreadable
    NotFoundError (4, not_found)        nothing answers to that name
    RefusedError (5, refused)           a rule said no; nothing was changed
        UnsafePathError (unsafe_path)       a path leaves the memory, or no system could hold it
        LimitError (limit)                  a size or count limit
            FileTooLargeError (file_too_large)
            TooManyResultsError (too_many_results)
            DirectoryFullError (directory_full)
        ConflictError (conflict)            the file is not what the writer had read
        LockedError (locked)                another process holds the familiar
        BadInputError (bad_input)           a foreign file is not what it should be
    ModelError (6, model)               the language model or its server could not answer
    PartialError (7, partial)           some of it was done; the details say which
"""

from __future__ import annotations

from typing import ClassVar


class FamiliarError(Exception):
    """Base of all errors shown to the user without a traceback.

    Args:
        message: What happened, to which thing, and what stayed unchanged.
        hint: What to type next.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "failed"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(FamiliarError):
    """The command line makes no sense."""

    exit_code = 2
    code = "usage"


class ConfigError(FamiliarError):
    """A setting is wrong, missing or unreadable."""

    exit_code = 3
    code = "configuration"


class NotFoundError(FamiliarError):
    """Nothing answers to that name."""

    exit_code = 4
    code = "not_found"


class RefusedError(FamiliarError):
    """A rule forbids this; nothing was changed."""

    exit_code = 5
    code = "refused"


class UnsafePathError(RefusedError):
    """A path leads outside the memory, or is a name that some systems cannot hold."""

    code = "unsafe_path"


class LimitError(RefusedError):
    """A size or count limit was met."""

    code = "limit"


class FileTooLargeError(LimitError):
    """A file is, or would become, larger than allowed."""

    code = "file_too_large"


class TooManyResultsError(LimitError):
    """An operation would give more results than allowed."""

    code = "too_many_results"


class DirectoryFullError(LimitError):
    """A directory holds as many files as allowed."""

    code = "directory_full"


class ConflictError(RefusedError):
    """A file is not what the writer had read."""

    code = "conflict"


class LockedError(RefusedError):
    """Another process holds the familiar's lock."""

    code = "locked"


class BadInputError(RefusedError):
    """A foreign file is not what it claims to be."""

    code = "bad_input"


class ModelError(FamiliarError):
    """The language model or its server could not answer."""

    exit_code = 6
    code = "model"


class PartialError(FamiliarError):
    """Some of the work was done; the details say which."""

    exit_code = 7
    code = "partial"
