"""Every failure a user can meet, and the exit code it ends in.

FamiliarError (1, failed)
    UsageError (2, usage)               the command line makes no sense
    ConfigError (3, configuration)      a setting is wrong, missing or unreadable
        CharacterUnreadableError (character_unreadable)   a file of the character cannot be used
    NotFoundError (4, not_found)        nothing answers to that name
    RefusedError (5, refused)           a rule said no; nothing was changed
        UnsafePathError (unsafe_path)       a path leaves the memory, or no system could hold it
        LimitError (limit)                  a size or count limit
            FileTooLargeError (file_too_large)
            TooManyResultsError (too_many_results)
            DirectoryFullError (directory_full)
            OutOfTimeError (out_of_time)        work took too long, or its client has left
        ConflictError (conflict)            the file is not what the writer had read
        LockedError (locked)                another process holds the familiar
        BadInputError (bad_input)           a foreign file is not what it should be
        ChannelBusyError (channel_busy)     another message of the channel is still being answered
        AnsweredError (answered)            the turn has a reply already
        AnotherFamiliarError (another_familiar)   a remote holds the memory of another familiar
        ForgottenPersonError (forgotten)    somebody who was forgotten would be written down again
    FetchError (1, fetch)               a model file could not be fetched from any source
    RemoteError (1, remote)             a remote could not be synced with
        RemoteUnreachableError (remote_unreachable)   nothing answers there, or the login fails
        RemoteRefusedError (remote_refused)           it rejected what was sent
        RemoteDamagedError (remote_damaged)           what it holds is damaged
            RefLimitError (ref_limit)                     one of its branches is too large
            OlderEpochError (older_epoch)                 a branch holds who was forgotten
            OrderWaitsError (order_waits)                 a new machine orders to forget a person
        RemoteKeyError (remote_key)                   its key is missing or wrong
    ModelError (6, model)               the language model or its server could not answer
        ModelUnreachableError (model_unreachable)   nothing answers at that address
        ModelTimeoutError (model_timeout)           the server went silent
        ModelKeyError (model_key)                   the server wants a key, a better one, or money
        ModelUnknownError (model_unknown)           that model is not there
        PromptTooLongError (prompt_too_long)        more tokens than the model can read
        RequestRefusedError (request_refused)       the server does not accept such a request
        RateLimitError (rate_limit)                 too many requests
        CutOffError (cut_off)                       the reply broke off
        BadReplyError (bad_reply)                   the server's words make no sense
        UnusableReplyError (unusable_reply)         the model's words are no plan
    PartialError (7, partial)           some of it was done; the details say which
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

MOST_MESSAGE_CHARS: Final = 2_000
"""Limit for error messages, which may quote arbitrarily long input."""


class FamiliarError(Exception):
    """What a person is told, in a line or two, when something cannot be done.

    Args:
        message: What happened, to which thing, and what stayed unchanged.
        hint: What to type next.

    Attributes:
        data: What was done all the same, for `--json`; None: nothing.
        question: The option that decides what could not be told, and its possible values, each
            with what it means in words; None: there is no such option.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "failed"
    data: dict[str, Any] | None = None
    question: tuple[str, tuple[tuple[str, str], ...]] | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(bounded(message))
        self.hint = bounded(hint) if hint else hint


def bounded(message: str) -> str:
    """Shorten a long message by cutting out its middle."""
    if len(message) <= MOST_MESSAGE_CHARS:
        return message
    half = MOST_MESSAGE_CHARS // 2
    left = len(message) - 2 * half
    return f"{message[:half]} [… {left:,} characters omitted …] {message[-half:]}"


class UsageError(FamiliarError):
    """The command line makes no sense."""

    exit_code = 2
    code = "usage"


class ConfigError(FamiliarError):
    """A setting is wrong, missing or unreadable."""

    exit_code = 3
    code = "configuration"


class CharacterUnreadableError(ConfigError):
    """A file of the character is there and cannot be used; nothing was sent or kept."""

    code = "character_unreadable"


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


class OutOfTimeError(LimitError):
    """A request ran out of time, or its client disconnected."""

    code = "out_of_time"


class ConflictError(RefusedError):
    """A file is not what the writer had read."""

    code = "conflict"


class LockedError(RefusedError):
    """Another process holds the familiar's lock."""

    code = "locked"


class BadInputError(RefusedError):
    """A foreign file is not what it claims to be."""

    code = "bad_input"


class ChannelBusyError(RefusedError):
    """Another message of the channel was being answered for longer than one waits."""

    code = "channel_busy"


class AnsweredError(RefusedError):
    """A turn has a reply already, which `data` holds."""

    code = "answered"


class AnotherFamiliarError(RefusedError):
    """A remote holds the memory of another familiar; neither side was changed."""

    code = "another_familiar"


class ForgottenPersonError(RefusedError):
    """Somebody who was forgotten would be written down again."""

    code = "forgotten"


class RemoteError(FamiliarError):
    """A remote could not be synced with; what is here stays as it was."""

    code = "remote"


class RemoteUnreachableError(RemoteError):
    """Nothing answers at the address of a remote, or it lets nobody in without a login."""

    code = "remote_unreachable"


class RemoteRefusedError(RemoteError):
    """A remote did not take what was sent; what is there stays as it was."""

    code = "remote_refused"


class RemoteDamagedError(RemoteError):
    """A remote does not hold what it says, or says what makes no sense."""

    code = "remote_damaged"


class RefLimitError(RemoteDamagedError):
    """A remote ref leads to a tree too deep, too wide or too large for a memory."""

    code = "ref_limit"


class OlderEpochError(RemoteDamagedError):
    """A remote ref still holds what was forgotten by a person's order."""

    code = "older_epoch"


class OrderWaitsError(RemoteDamagedError):
    """A machine that nobody has allowed yet orders to forget a person."""

    code = "order_waits"


class RemoteKeyError(RemoteError):
    """A remote is, or is to be, encrypted, and the key for it is missing or another one."""

    code = "remote_key"


class FetchError(FamiliarError):
    """A model file could not be fetched from any source; what was there stays as it was."""

    code = "fetch"


class ModelError(FamiliarError):
    """The language model or its server could not answer.

    Args:
        message: What happened, at which server.
        hint: What to type next.
        partial: The text that had arrived before it happened.
    """

    exit_code = 6
    code = "model"

    def __init__(self, message: str, *, hint: str | None = None, partial: str = "") -> None:
        super().__init__(message, hint=hint)
        self.partial = partial


class ModelUnreachableError(ModelError):
    """Nothing answers at the server's address."""

    code = "model_unreachable"


class ModelTimeoutError(ModelError):
    """The server was silent for too long."""

    code = "model_timeout"


class ModelKeyError(ModelError):
    """The server wants a key, another key, or an account that can pay."""

    code = "model_key"


class ModelUnknownError(ModelError):
    """The server does not have that model, or not under that address."""

    code = "model_unknown"


class PromptTooLongError(ModelError):
    """The prompt holds more tokens than the model can read."""

    code = "prompt_too_long"


class RequestRefusedError(ModelError):
    """The server does not accept such a request; perhaps without one of its settings it would."""

    code = "request_refused"


class RateLimitError(ModelError):
    """The server has had too many requests."""

    code = "rate_limit"


class CutOffError(ModelError):
    """The connection ended before the reply did."""

    code = "cut_off"


class BadReplyError(ModelError):
    """The server answered with something that is not a reply."""

    code = "bad_reply"


class UnusableReplyError(ModelError):
    """A model's reply is not a plan; nothing was written, and it is tried again the next time."""

    code = "unusable_reply"


class PartialError(FamiliarError):
    """Some of the work was done; the details say which."""

    exit_code = 7
    code = "partial"
