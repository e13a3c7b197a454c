"""`familiar`, also as `python -m familiar_cli`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Ctrl-C exits with 130, even during loading."""
    try:
        from familiar_cli.cli.app import main as run  # noqa: PLC0415  # half of the start

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
