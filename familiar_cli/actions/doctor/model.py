"""Checks of what answers: the model, its key, its server, and what counts tokens."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from familiar_cli.actions.doctor_checks import fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.actions.doctor_checks import Patient, Result
    from familiar_cli.llm.slots import ResolvedSlot

_EXTRA = '`pip install "familiar-memory[local]"`'


def tokenizer(patient: Patient) -> Iterator[Result]:
    """Look for an encoding on disk."""
    from familiar_cli import tokens
    from familiar_cli.models.store import TOKEN_ENCODING, encoding_path

    found = encoding_path(patient.cache)
    counter = tokens.load(found)
    if found is None:
        detail = "tokens are estimated, to within 25%"
        yield warn(detail, f"`familiar model pull {TOKEN_ENCODING}`")
    elif counter.name == tokens.heuristic().name:
        detail = "tiktoken is not installed; tokens are estimated, to within 25%"
        yield warn(detail, "`pip install tiktoken`, where there is a wheel for this machine")
    else:
        yield ok(f"{counter.name} in {found}")


def local(patient: Patient) -> Iterator[Result]:
    """Look for the library that runs a model inside the program; it can be added."""
    if _slot(patient).preset != "local":
        return
    try:
        import_module("xllamacpp")
    except Exception as error:  # noqa: BLE001  # a native library fails in ways of its own
        yield warn(f"xllamacpp cannot be used: {error}", _EXTRA)
    else:
        yield ok("xllamacpp can be used")


def model(patient: Patient) -> Iterator[Result]:
    """Look whether a model is chosen, and is on disk where it must be."""
    slot = _slot(patient)
    if slot.preset == "local":
        is_file = slot.model.endswith(".gguf")
        yield _own_file(slot.model) if is_file else _from_catalog(slot.model, patient)
        return
    from familiar_cli.llm.presets import PRESETS

    where = f"preset {slot.preset}"
    if slot.model:
        yield ok(f"{slot.model}, {where}")
    else:
        yield fail(f"no model is chosen, {where}", PRESETS[slot.preset].choose)


def key(patient: Patient) -> Iterator[Result]:
    """Look whether the key is there; it is never shown."""
    from familiar_cli.config.environment import keys_file
    from familiar_cli.llm.presets import PRESETS

    slot = _slot(patient)
    if slot.api_key:
        yield ok(f"{slot.api_key_env} is set")
    elif PRESETS[slot.preset].key_needed:
        mend = f"Set the environment variable {slot.api_key_env}, or write it into {keys_file()}."
        yield fail(f"{slot.api_key_env} is not set", mend)


def server(patient: Patient) -> Iterator[Result]:
    """Ask the server for its models, for three seconds at most."""
    from familiar_cli.actions.doctor.endpoint import ask

    slot = _slot(patient)
    if slot.preset == "local":
        return
    if not slot.base_url:
        mend = "`familiar config set llm.base_url http://127.0.0.1:8000/v1`"
        yield fail(f"preset {slot.preset} requires an address", mend)
        return
    yield ask(slot)


def _slot(patient: Patient) -> ResolvedSlot:
    from familiar_cli.llm.slots import resolve

    return resolve(patient.config.llm)


def _own_file(name: str) -> Result:
    from pathlib import Path

    if Path(name).expanduser().is_file():
        return ok(name)
    mend = "`familiar config set llm.model PATH`, or `familiar config unset llm.model`"
    return fail(f"no such file: {name!r}", mend)


def _from_catalog(name: str, patient: Patient) -> Result:
    from familiar_cli.errors import NotFoundError
    from familiar_cli.models.store import path_of

    try:
        found = path_of(name, patient.cache)
    except NotFoundError as error:
        mend = "`familiar config unset llm.model` uses the default model."
        return fail(str(error), mend)
    if found is None:
        mend = f"`familiar model pull {name}`"
        return warn(f"{name} is not on this machine, so no reply is possible", mend)
    return ok(f"{name} in {found}")
