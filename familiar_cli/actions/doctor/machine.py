"""Checks of what the program stands on: Python, SQLite, and the directories it writes to."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from typing import TYPE_CHECKING

from familiar_cli.actions.doctor_checks import fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from familiar_cli.actions.doctor_checks import Patient, Result

OLDEST_PYTHON = (3, 11)


def python(patient: Patient) -> Iterator[Result]:
    """Look at the Python that runs this."""
    del patient
    found = f"{platform.python_version()} on {platform.system()}"
    if sys.version_info < OLDEST_PYTHON:
        yield fail(found, "Install Python 3.11 or newer.")
    else:
        yield ok(found)


def sqlite(patient: Patient) -> Iterator[Result]:
    """Look for SQLite and its full-text search."""
    del patient
    import sqlite3

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
    except sqlite3.Error:
        mend = "Install a Python whose SQLite has FTS5; searching needs it."
        yield warn(f"{sqlite3.sqlite_version} without FTS5", mend)
    else:
        yield ok(f"{sqlite3.sqlite_version} with full-text search")
    finally:
        connection.close()


def home(patient: Patient) -> Iterator[Result]:
    """Look at the directory where familiars live."""
    from familiar_cli.bootstrap.staging import remove_abandoned

    where = f"{patient.home} ({patient.home_reason})"
    problem = _unwritable(patient.home)
    if problem:
        mend = "Give yourself write permission, or choose another place with --home."
        yield fail(f"{where}: {problem}", mend)
    elif not patient.home.exists():
        mend = "Create a familiar: `familiar init --from-card CARD.png`, or try `familiar demo`."
        yield warn(f"{where} does not exist yet", mend)
    else:
        gone = ", ".join(remove_abandoned(patient.home))
        yield ok(f"{where}; removed leftovers of an interrupted `init`: {gone}" if gone else where)


def cache(patient: Patient) -> Iterator[Result]:
    """Look at the directory for model files."""
    problem = _unwritable(patient.cache)
    if problem:
        mend = "Give yourself write permission, or set FAMILIAR_CACHE to another place."
        yield fail(f"{patient.cache}: {problem}", mend)
    else:
        yield ok(str(patient.cache))


def _unwritable(directory: Path) -> str:
    """Return why nothing can be written into `directory`, or where it is to be made; or nothing."""
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
