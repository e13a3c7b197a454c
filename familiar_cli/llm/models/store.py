"""Model files on disk: one directory per model below `<cache>/models/`.

A file gets its name only when it is whole and checked, so what has the right name and size is
there. `broken_files` reads every byte, for a disk that lies.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from familiar_cli.base.config.values import is_hub_name
from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.files import patiently, read_plain
from familiar_cli.base.text import nearest
from familiar_cli.llm.models.catalog import CATALOG, Hub, Kind, Model, ModelFile, ModelPart

BLOCK_BYTES = 1024 * 1024


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the file at `path`, in hex."""
    import hashlib  # noqa: PLC0415  # loads OpenSSL

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# What the hub sent for files that are not pinned: {name: {"size_bytes": …, "sha256": …}}.
RECEIPT = ".received.json"
TOKEN_ENCODING = "cl100k_base"  # noqa: S105  # the name of an encoding

State = Literal["ready", "partial", "absent"]


class ModelRemoval(Struct, frozen=True):
    """What `remove` did: bytes freed, 0 when there was nothing."""

    name: str
    freed_bytes: int


def find(name: str) -> Model:
    """Return the model called `name`, here or in its library.

    Raises:
        NotFoundError: There is none; the error names the nearest.
    """
    by_hub_id = {model.hub_id: model for model in CATALOG.values() if model.hub_id}
    found = CATALOG.get(name.lower()) or by_hub_id.get(name)
    if found is None:
        guess = nearest(name.lower(), CATALOG)
        raise NotFoundError(
            f"No such model in the catalog: {name!r}",
            hint=f"Did you mean {guess!r}?" if guess else "Run `familiar model list`.",
        )
    return found


def find_any(name: str, cache_dir: Path) -> Model:
    """Return a model of the catalog, or another one as `owner/name`, with its files on disk.

    Raises:
        NotFoundError: There is none.
    """
    if not is_hub_name(name) or any(model.hub_id == name for model in CATALOG.values()):
        return find(name)
    files = tuple(receipt(models_dir(cache_dir) / _folder_name(name)).values())
    parts = (ModelPart(files, (Hub(name),)),) if files else ()
    return Model(name, "onnx", "", "searches by meaning, through fastembed", parts, name)


def models_dir(cache_dir: Path) -> Path:
    """Return where all model files are."""
    return cache_dir / "models"


def folder(model: Model, cache_dir: Path) -> Path:
    """Return the directory of the files of `model`, which may not exist yet."""
    return models_dir(cache_dir) / _folder_name(model.name)


def _folder_name(name: str) -> str:
    return name.replace("/", "--")


def path_of(name: str, cache_dir: Path) -> Path | None:
    """Return the model's file, or its directory if it has several; None if incomplete.

    Raises:
        NotFoundError: No model has that name.
    """
    return path_of_model(find(name), cache_dir)


def path_of_model(model: Model, cache_dir: Path) -> Path | None:
    """Return the model's file, or its directory if it has several; None if incomplete."""
    if state(model, cache_dir) != "ready":
        return None
    directory = folder(model, cache_dir)
    return directory / model.files[0].name if len(model.files) == 1 else directory


def encoding_path(cache_dir: Path) -> Path | None:
    """Return the file for counting tokens, or None if it is not on disk."""
    return path_of(TOKEN_ENCODING, cache_dir)


def state(model: Model, cache_dir: Path) -> State:
    """Tell whether the files of `model` are on disk, by name and size."""
    directory = folder(model, cache_dir)
    received = receipt(directory)
    here = sum(is_here(file, directory, received) for file in model.files)
    if here and here == len(model.files):
        return "ready"
    return "partial" if here else "absent"


def is_here(file: ModelFile, directory: Path, received: dict[str, ModelFile]) -> bool:
    """Tell whether `file` is in `directory` with the right size."""
    expected = file if file.sha256 else received.get(file.name)
    if expected is None:
        return False
    path = directory / file.name
    with suppress(OSError):
        return path.is_file() and path.stat().st_size == expected.size_bytes
    return False


def broken_files(model: Model, cache_dir: Path) -> list[str]:
    """Return the names of damaged files. Reads every byte.

    Raises:
        FamiliarError: A file cannot be read.
    """
    directory = folder(model, cache_dir)
    received = receipt(directory)
    broken = []
    for file in model.files:
        path = directory / file.name
        expected = file.sha256 or (received[file.name].sha256 if file.name in received else "")
        try:
            if path.is_file() and sha256_of(path) != expected:
                broken.append(file.name)
        except OSError as error:
            raise FamiliarError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    return broken


def bytes_on_disk(model: Model, cache_dir: Path) -> int:
    """Return the disk usage of the files of `model`."""
    directory = folder(model, cache_dir)
    if not directory.is_dir():
        return 0
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def remove(name: str, cache_dir: Path) -> ModelRemoval:
    """Delete the files of a model.

    Raises:
        NotFoundError: No model has that name.
        FamiliarError: A file could not be deleted, for example because a program still uses it.
    """
    model = find_any(name, cache_dir)
    freed = bytes_on_disk(model, cache_dir)
    try:
        patiently(shutil.rmtree, folder(model, cache_dir))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise FamiliarError(
            f"The files of {model.name!r} could not all be deleted: {error.strerror or error}",
            hint="Close the programs that use them, then try again.",
        ) from error
    return ModelRemoval(model.name, freed)


def remove_all(names: Sequence[str], cache_dir: Path) -> list[ModelRemoval]:
    """Delete the files of models.

    Raises:
        NotFoundError: A name is unknown; nothing was deleted.
        FamiliarError: A file could not be deleted.
    """
    targets = list(dict.fromkeys(find_any(name, cache_dir).name for name in names))
    return [remove(name, cache_dir) for name in targets]


def receipt(directory: Path) -> dict[str, ModelFile]:
    """Return the record of unpinned files from the hub; empty without one."""
    try:
        entries = json.loads(read_plain(directory / RECEIPT))
        return {
            name: ModelFile(name, int(entry["size_bytes"]), str(entry["sha256"]))
            for name, entry in entries.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # unreadable is the same as not there: the files are fetched again


class ListedModel(Struct, frozen=True):
    """One model of the catalog.

    Args:
        kind: What reads it.
        size_bytes: Its size; about, where only the hub knows it.
        licence: Its licence, as an SPDX name.
        state: `ready` when all its files are on disk, `partial` when some are, else `absent`.
        path: Its file or directory, if it is ready.
        purpose: What it is for.
        sources: Where it comes from, in the order they are tried.
        broken: Files whose content is wrong; looked at only when asked.
        parameters: How many numbers a chat model has learnt, about; else 0.
        memory_bytes: How much memory a chat model takes while it runs, about; else 0.
    """

    name: str
    kind: Kind
    size_bytes: int
    licence: str
    state: State
    path: Path | None
    purpose: str
    sources: tuple[str, ...]
    broken: tuple[str, ...]
    parameters: int
    memory_bytes: int


def listing(cache_dir: Path, *, check: bool = False) -> list[ListedModel]:
    """List all models; with `check`, verify every file on disk by its checksum."""
    beyond = sorted(path.name.replace("--", "/") for path in models_dir(cache_dir).glob("*--*"))
    models = [*CATALOG.values(), *(find_any(name, cache_dir) for name in beyond)]
    return [
        ListedModel(
            model.name,
            model.kind,
            model.size_bytes,
            model.licence,
            state(model, cache_dir),
            path_of_model(model, cache_dir),
            model.purpose,
            tuple(dict.fromkeys(s.name for part in model.parts for s in part.sources)),
            tuple(broken_files(model, cache_dir)) if check else (),
            model.parameters,
            model.memory_bytes,
        )
        for model in models
    ]
