"""Options shared by several commands, and what follows an import."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.text import is_visible

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.pages.emit import Output


def dry_run(clause: str = "") -> Any:  # noqa: ANN401  # as `typer.Option` itself
    """Build the option `--dry-run`; `clause` names an exception."""
    return typer.Option(
        "--dry-run", help=f"Show what would be done; change nothing{clause and f' ({clause})'}."
    )


def since(what: str) -> Any:  # noqa: ANN401  # as above
    """Build the option `--since` of a command that selects `what`."""
    return typer.Option(
        "--since", metavar="WHEN", help=f"Only {what} since this time: 7d, yesterday, 2026-01-31, …"
    )


def most(what: str) -> Any:  # noqa: ANN401  # as above
    """Build the option `-k` of a command that finds `what`."""
    return typer.Option("--k", "-k", min=1, metavar="N", help=f"Maximum number of {what} to show.")


def speaker(help_text: str) -> Any:  # noqa: ANN401  # as above
    """Build the option `--as`, which names an account or an owner."""
    return typer.Option("--as", metavar="PLATFORM:ID|OWNER", help=help_text)


def name(help_text: str) -> Any:  # noqa: ANN401  # as above
    """Build the option `--name`, whose value must have visible characters."""
    return typer.Option("--name", metavar="NAME", callback=_check_visible, help=help_text)


def _check_visible(name: str | None) -> str | None:
    if name and not is_visible(name):
        raise UsageError(
            f"{name!r} cannot be a name: it has no visible characters; nothing was saved",
            hint="Omit `--name` for somebody without a name of their own.",
        )
    return name


DryRun = Annotated[bool, dry_run()]
DryRunUnasked = Annotated[bool, dry_run("no model is asked")]
DryRunAsked = Annotated[bool, dry_run("the model is asked")]

SinceTurns = Annotated[str | None, since("turns")]
UntilTurns = Annotated[
    str | None, typer.Option("--until", metavar="WHEN", help="Only turns before this time.")
]
_WHEN = typer.Option(metavar="WHEN", help="2026-11-30, tomorrow 9:00, friday, in 2 hours, …")
When = Annotated[str, _WHEN]
AnyTime = Annotated[str | None, _WHEN]

_YEAR = typer.Option(
    "--year", metavar="YEAR", min=1, max=9998, help="Year of the first date, if dates have none."
)
Year = Annotated[int | None, _YEAR]
OnlyChannel = Annotated[
    str | None, typer.Option("--channel", metavar="ID", help="Only this channel.")
]
Closed = Annotated[bool, typer.Option("--all", help="Include those that are done or dropped.")]
Redo = Annotated[bool, typer.Option("--redo", help="Redo even what is up to date.")]
Review = Annotated[
    bool, typer.Option("--review", help="Save the changes as a plan for `familiar review`.")
]

Update = Annotated[bool, typer.Option("--update", help="Update files whose source has changed.")]
Force = Annotated[
    bool, typer.Option("--force", help="Overwrite even files that you edited or deleted.")
]
OutFile = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Output file; default: stdout.")
]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite FILE if it exists.")]

SigningKeyOption = Annotated[
    str,
    typer.Option(
        "--signing-key",
        metavar="FINGERPRINT",
        help="Trust this signing key in an encrypted folder; see `familiar sync status`.",
    ),
]
Unsigned = Annotated[
    bool, typer.Option("--unsigned", help="Accept unsigned encrypted bundles, this once.")
]


MemoryPath = Annotated[str, typer.Argument(metavar="PATH", help="File, e.g. people/alice.md.")]


@contextmanager
def default_kept(out: Output, home: Path) -> Iterator[None]:
    """Choose the only familiar as the default if an import brings others."""
    from familiar_cli.base.config.home import choose_familiar, chosen_familiar, list_familiars

    before = list_familiars(home)
    yield
    if len(before) == 1 and not chosen_familiar(home) and len(list_familiars(home)) > 1:
        text = choose_familiar(home, before[0]).id
        out.note(f"Commands still use {text!r}; `familiar use NAME` changes that.")


def index_words(out: Output, familiar: Familiar) -> None:
    """Index the words of imported files; a failure does not affect the import."""
    from familiar_cli.pages.progress import show_totals

    try:
        with show_totals(out) as report:
            familiar.finder.index_words(report)
    except FamiliarError as error:
        out.warn(f"The imported text cannot be searched yet: {error}")


def warn_of_pins(out: Output, familiar: Familiar) -> None:
    """Warn if prompts have too little room for all pinned files."""
    from familiar_cli.actions.memory.pins import describe_shortage

    with suppress(FamiliarError), familiar:  # other commands report invalid settings
        if shortage := describe_shortage(familiar):
            out.warn(f"{shortage}; see `familiar memory pins`")
