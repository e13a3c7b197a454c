"""Check every part. A check that breaks is a finding like any other; the rest goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.actions.doctor import familiar as its
from familiar_cli.actions.doctor import journal as past
from familiar_cli.actions.doctor import machine, marks, model
from familiar_cli.actions.doctor.types import Diagnosis, Patient, Result, fail
from familiar_cli.config.home import cache_dir, familiar_and_reason, home_and_reason
from familiar_cli.config.load import load_config
from familiar_cli.config.schema import CharacterConfig
from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Each check by the part it looks at, in the order in which the findings are shown.
CHECKS: dict[str, Callable[[Patient], Iterator[Result]]] = {
    "python": machine.python,
    "sqlite": machine.sqlite,
    "home": machine.home,
    "cache": machine.cache,
    "familiar": its.familiar,
    "settings": its.settings,
    "memory": its.memory,
    "marks": marks.marks,
    "pins": its.pins,
    "journal": past.journal,
    "sync": past.sync,
    "yours": its.yours,
    "people": its.people,
    "privacy": its.privacy,
    "lock": its.lock,
    "history": its.history,
    "withdrawn": its.withdrawn,
    "recall": its.recall,
    "traces": its.traces,
    "keeping": its.keeping,
    "tokenizer": model.tokenizer,
    "local": model.local,
    "model": model.model,
    "key": model.key,
    "server": model.server,
}


def examine(home: str | None = None, familiar: str | None = None) -> list[Diagnosis]:
    """Return how every part is. Works also when there is no familiar, and with broken settings."""
    patient = _patient(home, familiar)
    return [
        Diagnosis(name, found.verdict, found.detail, found.mend)
        for name, check in CHECKS.items()
        for found in _safely(check, patient)
    ]


def _patient(home: str | None, familiar: str | None) -> Patient:
    where, reason = home_and_reason(home)
    try:
        paths = familiar_and_reason(where, familiar)[0]
    except (FamiliarError, OSError):
        paths = None  # the check of the familiar says why
    try:
        config = load_config(paths.config) if paths else CharacterConfig()
    except FamiliarError:
        config = CharacterConfig()  # the check of the settings says why
    return Patient(where, reason, familiar, cache_dir(), paths, config)


def _safely(check: Callable[[Patient], Iterator[Result]], patient: Patient) -> Iterator[Result]:
    try:
        yield from check(patient)
    except FamiliarError as error:
        yield fail(str(error), error.hint or "")
    except Exception as error:  # noqa: BLE001  # one broken part must not hide the others
        yield fail(f"the check itself failed: {type(error).__name__}: {error}", "")
