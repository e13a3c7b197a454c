"""Values of the doctor: what is looked at, and what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.config.home import FamiliarPaths
    from familiar_cli.config.schema import CharacterConfig

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Result:
    """What a check found; the check knows which part it is about.

    Args:
        verdict: `ok`, `warn` (works, but look at it) or `fail` (does not work).
        detail: What was found, in one line.
        mend: What to do about it; empty when there is nothing to do.
    """

    verdict: Verdict
    detail: str
    mend: str = ""


def ok(detail: str) -> Result:
    """Return that a part works."""
    return Result("ok", detail)


def warn(detail: str, mend: str) -> Result:
    """Return that a part works, but should be looked at."""
    return Result("warn", detail, mend)


def fail(detail: str, mend: str) -> Result:
    """Return that a part does not work."""
    return Result("fail", detail, mend)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How one part is.

    Args:
        name: The part.
        verdict: See `Result`.
        detail: See `Result`.
        mend: See `Result`.
    """

    name: str
    verdict: Verdict
    detail: str
    mend: str


@dataclass(frozen=True, slots=True)
class Patient:
    """What the checks look at.

    Args:
        home: Where the familiars live.
        home_reason: What decided that.
        given: The familiar that was asked for, if any.
        cache: Where model files are kept.
        paths: The familiar's files; None when it is not clear which one is meant.
        config: Its settings; the defaults when they cannot be read.
    """

    home: Path
    home_reason: str
    given: str | None
    cache: Path
    paths: FamiliarPaths | None
    config: CharacterConfig
