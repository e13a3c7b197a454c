"""One test for a list of cases, where each case alone would take longer to set up than to run."""

import inspect
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

import pytest

from familiar_cli.base.config.home import note_place

IS_NIGHT = os.environ.get("FAMILIAR_TEST_PROFILE") == "nightly"
"""The whole of what takes long is run, not the part of it that the gate has time for."""

at_night = pytest.mark.skipif(not IS_NIGHT, reason="FAMILIAR_TEST_PROFILE=nightly runs it")
"""For what takes long, and of which the gate runs another example."""


_EDITORS = {"VISUAL", "EDITOR"}


def isolate(patches: pytest.MonkeyPatch, world: Path) -> None:
    """Let commands use what is below a directory, and no setting of the developer's."""
    for name in list(os.environ):
        if name.startswith("FAMILIAR_") or name.endswith("_API_KEY") or name in _EDITORS:
            patches.delenv(name)
    patches.setenv("FAMILIAR_HOME", str(world / "home"))
    patches.setenv("FAMILIAR_CACHE", str(world / "cache"))
    patches.setenv("FAMILIAR_KEYS", str(world / "keys.toml"))
    patches.setenv("FAMILIAR_OFFLINE", "1")
    patches.setenv("FAMILIAR_LLM_THREADS", "1")  # threads that wait for each other crawl in CI
    patches.setenv("NO_COLOR", "1")
    patches.setenv("COLUMNS", "100")


@contextmanager
def shared_world(world: Path) -> Iterator[pytest.MonkeyPatch]:
    """Have a home below a directory, for fixtures of a module; tests get it by `copy_home`."""
    with pytest.MonkeyPatch.context() as patches:
        isolate(patches, world)
        yield patches


def copy_home(world: Path) -> Path:
    """Begin a test with the home that a fixture of its module made below a directory."""
    return Path(shutil.copytree(world / "home", os.environ["FAMILIAR_HOME"]))


class Prepared:
    """A directory of homes that is made once, and is as new at the same place for each test."""

    def __init__(self, place: Path, make: Callable[[Path], object]) -> None:
        self._place, self._make, self._kept = place, make, place.with_name("kept")

    def renew(self) -> Path:
        if not self._kept.exists():
            self._place.mkdir()
            with shared_world(self._place):
                self._make(self._place)
            shutil.copytree(self._place, self._kept, symlinks=True)
            return self._place
        shutil.rmtree(self._place)
        shutil.copytree(self._kept, self._place, symlinks=True)
        for note in self._place.glob("*/*/instance.place"):
            note_place(note.parent)  # otherwise it was a copy of the familiar
        return self._place


def each(names: str | tuple[str, ...], cases: Iterable, ids=None) -> Callable[[Callable], Callable]:
    """Run a test for every case, as one item; all cases that fail are named.

    It takes what `pytest.mark.parametrize` takes. `tmp_path`, `monkeypatch` and the home (if no
    fixture made one) are new for each case; a case must not change what any other fixture gave.
    """
    keys = (
        tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
    )
    rows = [_values(case, len(keys)) for case in cases]
    if ids is None:
        ids = [repr(row) for row in rows]
    elif callable(ids):
        ids = [ids(row[0]) for row in rows]

    def decorate(test: Callable) -> Callable:
        @wraps(test)
        def run(**fixtures: object) -> None:
            problems: list[BaseException] = []
            for number, (row, label) in enumerate(zip(rows, ids, strict=True)):
                with _noting(problems, label), _own_world(fixtures, number) as own:
                    test(**own, **dict(zip(keys, row, strict=True)))
            _raise(problems, len(rows))

        @wraps(test)
        async def run_async(**fixtures: object) -> None:
            problems: list[BaseException] = []
            for number, (row, label) in enumerate(zip(rows, ids, strict=True)):
                with _noting(problems, label), _own_world(fixtures, number) as own:
                    await test(**own, **dict(zip(keys, row, strict=True)))
            _raise(problems, len(rows))

        runner = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        kept = [value for key, value in signature.parameters.items() if key not in keys]
        runner.__signature__ = signature.replace(parameters=kept)
        return runner

    return decorate


def _values(case: object, count: int) -> tuple:
    """Return the values of a case, which may be a `pytest.param`."""
    if hasattr(case, "values") and hasattr(case, "marks"):
        assert not case.marks, "a case has no marks"
        return tuple(case.values)
    return (case,) if count == 1 else tuple(case)


@contextmanager
def _noting(problems: list[BaseException], label: object) -> Iterator[None]:
    """Keep why a case failed or was skipped."""
    try:
        yield
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as problem:  # noqa: BLE001
        problem.add_note(f"in the case {label}")
        problems.append(problem)


@contextmanager
def _own_world(fixtures: dict, number: int) -> Iterator[dict]:
    """Give the fixtures as a case gets them."""
    own, home = dict(fixtures), Path(os.environ["FAMILIAR_HOME"])
    if "tmp_path" in fixtures:
        own["tmp_path"] = fixtures["tmp_path"] / f"{number}"
        own["tmp_path"].mkdir()
    with pytest.MonkeyPatch.context() as patches:
        if not home.exists():
            world = home.parent / f"{number}"
            world.mkdir(parents=True)
            patches.setenv("FAMILIAR_HOME", str(world / "home"))
            patches.setenv("FAMILIAR_KEYS", str(world / "keys.toml"))
        if "monkeypatch" in fixtures:
            own["monkeypatch"] = patches
        yield own


def _raise(problems: list[BaseException], count: int) -> None:
    """Fail with what failed, or skip if all of the cases were skipped."""
    skips = [problem for problem in problems if isinstance(problem, pytest.skip.Exception)]
    failures = [problem for problem in problems if problem not in skips]
    if len(failures) > 1:
        raise BaseExceptionGroup(f"{len(failures)} of {count} cases", failures)
    for problem in failures or (skips if len(skips) == count else []):
        raise problem
