"""`familiar`, also as `python -m familiar_cli`."""

from __future__ import annotations

import gc
import sys
from typing import Final

_NEW_OBJECTS: Final = 50_000
"""After how many the garbage collector runs; Python's 700 cost a tenth of the start."""


def _import_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which takes a tenth of the start.

    It prefers that module, and takes the same names from `typing` where it is not installed.
    """
    name = "typing_extensions"
    if name in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]  # so that importing it fails
    try:
        import msgspec  # noqa: F401, PLC0415
    finally:
        del sys.modules[name]


def main() -> None:
    """Run the command line. Ctrl-C exits with 130, even during loading."""
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    try:
        _import_msgspec()
        from familiar_cli.cli.app import main as run  # noqa: PLC0415  # half of the start

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.freeze()  # otherwise Python examines every object before it exits


if __name__ == "__main__":
    main()
