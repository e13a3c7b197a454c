"""`familiar doctor`: runs all checks, and those of the machine and the models."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from familiar_cli.actions.health import doctor_checks
from familiar_cli.actions.health.doctor_checks import (
    CheckTarget,
    Diagnosis,
    fail,
    judge_status,
    ok,
    warn,
)
from familiar_cli.base.config import environment
from familiar_cli.base.config.environment import keys_file
from familiar_cli.base.config.home import cache_dir, familiar_and_reason, home_and_reason
from familiar_cli.base.config.schema import CharacterConfig
from familiar_cli.base.config.settings import load_config
from familiar_cli.base.errors import FamiliarError, ModelTimeoutError, NotFoundError
from familiar_cli.base.files import network_warning
from familiar_cli.llm.slots import PLAN_TOKENS, PRESETS, ResolvedSlot, for_plans, resolve_slot
from familiar_cli.writing.writer.contract import bounds_for
from familiar_cli.writing.writer.schedule import WRITER_SLOT

if TYPE_CHECKING:
    from familiar_cli.store.search.embedder import EmbedderChoice


TIMEOUT_S = 3.0
_MOST_NAMED = 5
_SMALL_QUESTION = "Where is the key?"


def ask(slot: ResolvedSlot) -> Diagnosis:
    """Check how the model server of `slot` answers. The key is sent to it only."""
    from familiar_cli.llm.open import fetch_models
    from familiar_cli.llm.wire import FailedError, is_loopback

    if environment.offline() and not is_loopback(slot.base_url):
        detail = f"{slot.base_url} was not checked, because {environment.OFFLINE} is set"
        return warn(detail, f"Unset {environment.OFFLINE}.")
    try:
        status, body = asyncio.run(fetch_models(replace(slot, timeout_s=TIMEOUT_S)))
    except FailedError as failed:
        error = failed.failure.error
        if isinstance(error, ModelTimeoutError):  # it may be busy, or load a model
            return warn(str(error), "Run `familiar model test`, which waits longer.")
        return fail(str(error), error.hint or "")
    result = judge_status(slot, status, body)
    if result.verdict != "ok":
        return result
    return replace(result, detail=f"{result.detail}{_check_window(slot, body)}")


def _check_window(slot: ResolvedSlot, listed: bytes) -> str:
    """Measure the model's context size, which limits prompts; describe the result."""
    from familiar_cli.llm.open import learn_window

    tokens = asyncio.run(learn_window(slot, listed))
    is_new = tokens and slot.context_source == "server" and tokens != slot.context_tokens
    before = f", no longer {slot.context_tokens:,}" if is_new else ""
    return f"; {slot.model} reads {tokens:,} tokens{before}" if tokens else ""


OLDEST_PYTHON = (3, 11)


def python(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check the Python version."""
    del target
    version = f"{platform.python_version()} on {platform.system()}"
    if sys.version_info < OLDEST_PYTHON:
        yield fail(version, "Install Python 3.11 or newer.")
    else:
        yield ok(version)


def sqlite(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check for SQLite and its full-text search."""
    del target
    import sqlite3

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
    except sqlite3.Error:
        mend = "Install a Python whose SQLite has FTS5, which search needs."
        yield warn(f"{sqlite3.sqlite_version} without FTS5", mend)
    else:
        yield ok(f"{sqlite3.sqlite_version} with full-text search")
    finally:
        connection.close()


def home(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check the directory of the familiars."""
    from familiar_cli.imports.import_plan import remove_abandoned

    where = f"{target.home} ({target.home_reason})"
    problem = _why_unwritable(target.home)
    if problem:
        mend = "Give yourself write permission, or choose another place with --home."
        yield fail(f"{where}: {problem}", mend)
    elif not target.home.exists():
        mend = "Create a familiar: `familiar init --from-card CARD.png`, or try `familiar demo`."
        yield warn(f"{where} does not exist yet", mend)
    elif warning := network_warning(target.home):
        yield warn(*warning)
    else:
        gone = ", ".join(remove_abandoned(target.home))
        yield ok(f"{where}; removed leftovers of an interrupted `init`: {gone}" if gone else where)


def cache(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check the directory for model files."""
    problem = _why_unwritable(target.cache)
    if problem:
        mend = "Give yourself write permission, or set FAMILIAR_CACHE to another place."
        yield fail(f"{target.cache}: {problem}", mend)
    else:
        yield ok(str(target.cache))


def _why_unwritable(directory: Path) -> str:
    """Return why a directory cannot be written or created, or an empty string."""
    there = directory
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is not a directory"
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".familiar-"):
            return ""
    except OSError as error:
        return f"{there} cannot be written to: {error.strerror or error}"


def tokenizer(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check for an encoding on disk."""
    from familiar_cli.llm import tokens
    from familiar_cli.llm.models.store import TOKEN_ENCODING, encoding_path

    path = encoding_path(target.cache)
    counter = tokens.load(path)
    if path is None:
        detail = "tokens are estimated, to within 25%"
        yield warn(detail, f"`familiar model pull {TOKEN_ENCODING}`")
    elif counter.name == tokens.heuristic().name:
        detail = "tiktoken is not installed; tokens are estimated, to within 25%"
        command = environment.install_command(packages=["tiktoken"])
        yield warn(detail, f"`{command}`, where there is a wheel for this machine")
    else:
        yield ok(f"{counter.name} in {path}")


def local(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check for the library that runs a local model."""
    if _main_slot(target).preset != "local":
        return
    try:
        import_module("xllamacpp")
    except Exception as error:  # noqa: BLE001  # a native library fails in ways of its own
        mend = f"`{environment.install_command('local')}`"
        yield warn(f"xllamacpp cannot be used: {error}", mend)
    else:
        yield ok("xllamacpp can be used")


def model(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check that a model is configured, and on disk if it is local."""
    slot = _main_slot(target)
    if slot.preset == "local":
        is_file = slot.model.endswith(".gguf")
        yield _own_file(slot.model) if is_file else _from_catalog(slot.model, target)
        return

    where = f"preset {slot.preset}"
    if slot.model:
        yield ok(f"{slot.model}, {where}")
    else:
        yield fail(f"no model is chosen, {where}", PRESETS[slot.preset].choose)


def writer(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check the settings of the memory writer's model."""
    settings, slot = target.config.llm, resolve_slot(target.config.llm, WRITER_SLOT)
    tokens, temperature = for_plans(slot, settings, PLAN_TOKENS[WRITER_SLOT])
    prompt = "short" if bounds_for(tokens).simple else "full"
    yield ok(
        f"{slot.model or 'no model'} reads {slot.context_tokens:,} tokens and writes at most "
        f"{tokens:,} at temperature {slot.temperature if temperature is None else temperature:g}; "
        f"it gets the {prompt} prompt"
    )


def key(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check for the key, which is never shown."""
    slot = _main_slot(target)
    if slot.api_key:
        yield ok(f"{slot.api_key_env} is set")
    elif PRESETS[slot.preset].key_needed:
        mend = f"Set the environment variable {slot.api_key_env}, or write it into {keys_file()}."
        yield fail(f"{slot.api_key_env} is not set", mend)


def server(target: CheckTarget) -> Iterator[Diagnosis]:
    """Request the server's models, waiting three seconds at most."""
    slot = _main_slot(target)
    if slot.preset == "local":
        return
    if not slot.base_url:
        mend = "`familiar config set llm.base_url http://127.0.0.1:8000/v1`"
        yield fail(f"preset {slot.preset} requires an address", mend)
        return
    yield ask(slot)


def embedding(target: CheckTarget) -> Iterator[Diagnosis]:
    """Request a vector from the server of embeddings; without a model, look for one here."""
    from familiar_cli.store.search.embedder import is_remote, read_queries
    from familiar_cli.store.search.finding import choose_embedder

    opened = choose_embedder(target.config.embedding, target.cache)
    embedder = opened.embedder
    if embedder is None:
        yield from _offer_embedders(opened, target.config.embedding.model)
    elif is_remote(embedder):
        try:
            read_queries(embedder, [_SMALL_QUESTION])
        except FamiliarError as error:
            mend = "Until it answers, search uses words only. Start it, or change [embedding]."
            yield warn(str(error), error.hint or mend)
        else:
            yield ok(f"texts of memory and turns are sent to {embedder.model}, which answers")


def _offer_embedders(opened: EmbedderChoice, setting: str) -> Iterator[Diagnosis]:
    """Say what is missing, and which servers of this machine have an embedding model."""
    from familiar_cli.actions.health.start import embedding_commands, find_embedders

    if setting == "none":
        return
    for served in asyncio.run(find_embedders())[:_MOST_NAMED]:
        first, second = embedding_commands(served)
        yield ok(f"{served.server} has {served.model}: `familiar {first}`, `familiar {second}`")
    if not opened.hint.startswith("familiar model pull"):
        yield warn(opened.reason, f"Run `{opened.hint}`." if opened.hint else "")


def _main_slot(target: CheckTarget) -> ResolvedSlot:
    return resolve_slot(target.config.llm)


def _own_file(name: str) -> Diagnosis:
    if Path(name).expanduser().is_file():
        return ok(name)
    mend = "`familiar config set llm.model PATH`, or `familiar config unset llm.model`"
    return fail(f"no such file: {name!r}", mend)


def _from_catalog(name: str, target: CheckTarget) -> Diagnosis:
    from familiar_cli.llm.models.store import path_of

    try:
        path = path_of(name, target.cache)
    except NotFoundError as error:
        mend = "`familiar config unset llm.model` uses the default model."
        return fail(str(error), mend)
    if path is None:
        mend = f"`familiar model pull {name}`"
        return warn(f"{name} is not on this machine, so no reply is possible", mend)
    return ok(f"{name} in {path}")


# Each check has the name of the part it looks at; in the order in which the findings are shown.
CHECKS: Final[tuple[Callable[[CheckTarget], Iterator[Diagnosis]], ...]] = (
    *(python, sqlite, home, cache, doctor_checks.familiar, *doctor_checks.FAMILIAR_CHECKS),
    *(tokenizer, local, model, writer, key, server, embedding),
)


def examine(home: str | None = None, familiar: str | None = None) -> list[Diagnosis]:
    """Run all checks. Works also without a familiar, and with broken settings."""
    target = _find_target(home, familiar)
    return [
        replace(diagnosis, name=check.__name__)
        for check in CHECKS
        if target.found or check not in doctor_checks.FAMILIAR_CHECKS
        for diagnosis in _run_check(check, target)
    ]


def _find_target(home: str | None, familiar: str | None) -> CheckTarget:
    where, reason = home_and_reason(home)
    try:
        paths = familiar_and_reason(where, familiar)[0]
    except (FamiliarError, OSError):
        paths = None  # the check `familiar` says why
    try:
        config = load_config(paths.config) if paths else CharacterConfig()
    except FamiliarError:
        config = CharacterConfig()  # the check `settings` says why
    return CheckTarget(where, reason, familiar, cache_dir(), paths, config)


def _run_check(
    check: Callable[[CheckTarget], Iterator[Diagnosis]], target: CheckTarget
) -> Iterator[Diagnosis]:
    try:
        yield from check(target)
    except FamiliarError as error:
        yield fail(str(error), error.hint or "")
    except Exception as error:  # noqa: BLE001  # one broken part must not hide the others
        yield fail(f"the check itself failed: {type(error).__name__}: {error}", "")
