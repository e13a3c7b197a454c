"""Check every part. A check that breaks is a finding like any other; the rest goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.actions import doctor_checks
from familiar_cli.actions.doctor import machine, model
from familiar_cli.actions.doctor_checks import Diagnosis, Patient, Result, fail
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
    "familiar": doctor_checks.familiar,
    "settings": doctor_checks.settings,
    "memory": doctor_checks.memory,
    "marks": doctor_checks.marks,
    "pins": doctor_checks.pins,
    "journal": doctor_checks.journal,
    "sync": doctor_checks.sync,
    "yours": doctor_checks.yours,
    "people": doctor_checks.people,
    "privacy": doctor_checks.privacy,
    "lock": doctor_checks.lock,
    "history": doctor_checks.history,
    "withdrawn": doctor_checks.withdrawn,
    "recall": doctor_checks.recall,
    "traces": doctor_checks.traces,
    "keeping": doctor_checks.keeping,
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
