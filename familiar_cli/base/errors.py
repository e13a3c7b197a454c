"""All user-facing failures and their exit codes.

FamiliarError (1, failed)
    UsageError (2, usage)               the command line is wrong
    ConfigError (3, configuration)      a setting is wrong, missing or unreadable
        CharacterUnreadableError (character_unreadable)   a file of the character cannot be used
    NotFoundError (4, not_found)        nothing has that name
    RefusedError (5, refused)           a rule forbids it; nothing was changed
        UnsafePathError (unsafe_path)       a path leaves the memory, or no system could hold it
        LimitError (limit)                  a size or count limit
            FileTooLargeError (file_too_large)
            TooManyResultsError (too_many_results)
            DirectoryFullError (directory_full)
            OutOfTimeError (out_of_time)        work took too long, or its client has left
        ConflictError (conflict)            the file is not what the writer had read
        LockedError (locked)                another process has locked the familiar
        BadInputError (bad_input)           an imported file is not valid
        ChannelBusyError (channel_busy)     another message of the channel is still being answered
        AnsweredError (answered)            the turn has a reply already
        AnotherFamiliarError (another_familiar)   a remote holds the memory of another familiar
        ForgottenPersonError (forgotten)    a forgotten person would be written down again
    FetchError (1, fetch)               a model file could not be fetched from any source
    RemoteError (1, remote)             a remote could not be synced with
        RemoteUnreachableError (remote_unreachable)   it does not respond, or the login fails
        RemoteRefusedError (remote_refused)           it rejected what was sent
        RemoteDamagedError (remote_damaged)           its data is damaged
            RefLimitError (ref_limit)                     one of its branches is too large
            OlderEpochError (older_epoch)                 a branch contains a forgotten person
            OrderWaitsError (order_waits)                 a new machine orders to forget a person
        RemoteKeyError (remote_key)                   its key is missing or wrong
    ModelError (6, model)               the language model or its server could not answer
        ModelUnreachableError (model_unreachable)   no server responds at that address
        ModelTimeoutError (model_timeout)           the server went silent
        ModelKeyError (model_key)                   the key is missing, wrong or without credit
        ModelUnknownError (model_unknown)           the server does not have that model
        PromptTooLongError (prompt_too_long)        more tokens than the model can read
        RequestRefusedError (request_refused)       the server does not accept such a request
        RateLimitError (rate_limit)                 too many requests
        CutOffError (cut_off)                       the reply broke off
        BadReplyError (bad_reply)                   the response is not valid
        UnusableReplyError (unusable_reply)         the model's reply is not a plan
    PartialError (7, partial)           some of it was done; the details say which
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

Question = tuple[str, tuple[tuple[str, str], ...]]
"""An option that resolves an ambiguity, with its possible values and their meanings."""

MOST_MESSAGE_CHARS: Final = 2_000
"""Limit for error messages, which may quote arbitrarily long input."""


class FamiliarError(Exception):
    """A failure reported to the user in a line or two.

    Args:
        message: What happened, to what, and what stayed unchanged.
        hint: What to type next; a function is called if it is read.

    Attributes:
        data: Partial results for `--json`, or None.
        question: The question that resolves an ambiguity; None if there is none.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "failed"
    data: object = None
    question: Question | None = None

    def __init__(self, message: str, *, hint: str | Callable[[], str] | None = None) -> None:
        super().__init__(bounded(message))
        self._hint = hint

    @property
    def hint(self) -> str | None:
        """What to type next."""
        self._hint = self._hint() if callable(self._hint) else self._hint
        return bounded(self._hint) if self._hint else self._hint

    @hint.setter
    def hint(self, hint: str) -> None:
        self._hint = hint


def bounded(message: str) -> str:
    """Shorten a long message by cutting out its middle."""
    if len(message) <= MOST_MESSAGE_CHARS:
        return message
    half = MOST_MESSAGE_CHARS // 2
    left = len(message) - 2 * half
    return f"{message[:half]} [… {left:,} characters omitted …] {message[-half:]}"


class UsageError(FamiliarError):
    """The command line is invalid."""

    exit_code = 2
    code = "usage"


class ConfigError(FamiliarError):
    """A setting is wrong, missing or unreadable."""

    exit_code = 3
    code = "configuration"


class CharacterUnreadableError(ConfigError):
    """A file of the character exists but cannot be used; nothing was sent or kept."""

    code = "character_unreadable"


class NotFoundError(FamiliarError):
    """No such thing."""

    exit_code = 4
    code = "not_found"


class RefusedError(FamiliarError):
    """A rule forbids this; nothing was changed."""

    exit_code = 5
    code = "refused"


class UnsafePathError(RefusedError):
    """A path leaves the memory, or is invalid on some systems."""

    code = "unsafe_path"


class LimitError(RefusedError):
    """A size or count limit was exceeded."""

    code = "limit"


class FileTooLargeError(LimitError):
    """A file is, or would become, larger than allowed."""

    code = "file_too_large"


class TooManyResultsError(LimitError):
    """An operation would return more results than allowed."""

    code = "too_many_results"


class DirectoryFullError(LimitError):
    """A directory is full."""

    code = "directory_full"


class OutOfTimeError(LimitError):
    """A request ran out of time, or its client disconnected."""

    code = "out_of_time"


class ConflictError(RefusedError):
    """A file was changed after the writer read it."""

    code = "conflict"


class LockedError(RefusedError):
    """Another process holds a lock."""

    code = "locked"


class BadInputError(RefusedError):
    """An input file is not what it claims to be."""

    code = "bad_input"


class ChannelBusyError(RefusedError):
    """Another message of the channel took longer to answer than the wait limit."""

    code = "channel_busy"


class AnsweredError(RefusedError):
    """A turn already has a reply, which is in `data`."""

    code = "answered"


class AnotherFamiliarError(RefusedError):
    """A remote holds the memory of another familiar; neither side was changed."""

    code = "another_familiar"


class ForgottenPersonError(RefusedError):
    """A forgotten person would be stored again."""

    code = "forgotten"


class RemoteError(FamiliarError):
    """Sync with a remote failed; local data is unchanged."""

    code = "remote"


class RemoteUnreachableError(RemoteError):
    """A remote cannot be reached, or requires a login."""

    code = "remote_unreachable"


class RemoteRefusedError(RemoteError):
    """A remote rejected a push; its data is unchanged."""

    code = "remote_refused"


class RemoteDamagedError(RemoteError):
    """The contents or answers of a remote are invalid."""

    code = "remote_damaged"


class RefLimitError(RemoteDamagedError):
    """A remote ref leads to a tree that is too deep, too wide or too large for a memory."""

    code = "ref_limit"


class OlderEpochError(RemoteDamagedError):
    """A remote ref still contains a person who was ordered to be forgotten."""

    code = "older_epoch"


class OrderWaitsError(RemoteDamagedError):
    """A machine not allowed yet orders to forget a person."""

    code = "order_waits"


class RemoteKeyError(RemoteError):
    """A remote is or should be encrypted, and its key is missing or wrong."""

    code = "remote_key"


class FetchError(FamiliarError):
    """A model file could not be fetched from any source; existing files are unchanged."""

    code = "fetch"


class ModelError(FamiliarError):
    """The language model or its server could not answer.

    Args:
        message: What happened, and at which server.
        hint: What to type next.
        partial: Text received before the failure.

    Attributes:
        thinking: The model's reasoning before the failure.
    """

    exit_code = 6
    code = "model"

    def __init__(self, message: str, *, hint: str | None = None, partial: str = "") -> None:
        super().__init__(message, hint=hint)
        self.partial = partial
        self.thinking = ""


class ModelUnreachableError(ModelError):
    """Nothing responds at the server's address."""

    code = "model_unreachable"


class ModelTimeoutError(ModelError):
    """The server stopped responding."""

    code = "model_timeout"


class ModelKeyError(ModelError):
    """The server requires a key, a different key, or a paid account."""

    code = "model_key"


class ModelUnknownError(ModelError):
    """The server does not have the model, or has it at another address."""

    code = "model_unknown"


class PromptTooLongError(ModelError):
    """The prompt exceeds the model's context window."""

    code = "prompt_too_long"


class RequestRefusedError(ModelError):
    """The server rejected the request, possibly because of one of its settings."""

    code = "request_refused"


class RateLimitError(ModelError):
    """The server's rate limit was exceeded."""

    code = "rate_limit"


class CutOffError(ModelError):
    """The connection closed before the reply was complete."""

    code = "cut_off"


class BadReplyError(ModelError):
    """The server's answer is not a valid reply."""

    code = "bad_reply"


class UnusableReplyError(ModelError):
    """A model's reply is not a valid plan; nothing was written, and the next pass retries."""

    code = "unusable_reply"


class PartialError(FamiliarError):
    """Only part of the work was done; see the details."""

    exit_code = 7
    code = "partial"
