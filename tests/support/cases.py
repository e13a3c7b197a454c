"""One test for a list of cases, where each case alone would take longer to set up than to run."""

import inspect
import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path

import pytest


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
            outcomes = [
                _run_case(test, fixtures, dict(zip(keys, row, strict=True)), number, label)
                for number, (row, label) in enumerate(zip(rows, ids, strict=True))
            ]
            skips = [one for one in outcomes if isinstance(one, pytest.skip.Exception)]
            problems = [one for one in outcomes if one is not None and one not in skips]
            if len(problems) > 1:
                raise BaseExceptionGroup(f"{len(problems)} of {len(rows)} cases", problems)
            for problem in problems or (skips if len(skips) == len(rows) else []):
                raise problem

        signature = inspect.signature(test)
        kept = [value for key, value in signature.parameters.items() if key not in keys]
        run.__signature__ = signature.replace(parameters=kept)
        return run

    return decorate


def _values(case: object, count: int) -> tuple:
    """Return the values of a case, which may be a `pytest.param`."""
    if hasattr(case, "values") and hasattr(case, "marks"):
        assert not case.marks, "a case has no marks"
        return tuple(case.values)
    return (case,) if count == 1 else tuple(case)


def _run_case(
    test: Callable, fixtures: dict, case: dict, number: int, label: str
) -> BaseException | None:
    """Run the test for one case; return why it failed or was skipped."""
    case = fixtures | case
    if "tmp_path" in fixtures:
        case["tmp_path"] = fixtures["tmp_path"] / f"{number}"
        case["tmp_path"].mkdir()
    home = Path(os.environ["FAMILIAR_HOME"])
    with pytest.MonkeyPatch.context() as patches:
        if not home.exists():
            world = home.parent / f"{number}"
            world.mkdir(parents=True)
            patches.setenv("FAMILIAR_HOME", str(world / "home"))
            patches.setenv("FAMILIAR_KEYS", str(world / "keys.toml"))
        if "monkeypatch" in fixtures:
            case["monkeypatch"] = patches
        try:
            test(**case)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as problem:  # noqa: BLE001
            problem.add_note(f"in the case {label}")
            return problem
    return None
