"""What every command shares: the global options, wherever they stand, and where its words go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.emit import Output

_META = "familiar_cli.globals"


@dataclass(slots=True)
class Globals:
    """The options that stand before or after any command."""

    home: str | None = None
    familiar: str | None = None
    as_json: bool = False
    quiet: bool = False


def globals_of(ctx: typer.Context) -> Globals:
    """Return the global options given so far on this command line."""
    found: Globals = ctx.meta.setdefault(_META, Globals())
    return found


def output(ctx: typer.Context) -> Output:
    """Return where this command's words go."""
    from familiar_cli.ui.emit import Output

    given = globals_of(ctx)
    _, _, command = ctx.command_path.partition(" ")
    return Output(command, as_json=given.as_json, quiet=given.quiet)


def _keep(ctx: Any, param: Any, value: Any) -> None:  # noqa: ANN401  # Click's own signature
    if value:
        setattr(globals_of(ctx), param.name, value)


def _global_options() -> list[TyperOption]:
    def option(*names: str, **more: Any) -> TyperOption:  # noqa: ANN401
        return TyperOption(param_decls=list(names), expose_value=False, callback=_keep, **more)

    return [
        option("--home", "home", type=str, metavar="DIR", help="Where the familiars live."),
        option("--familiar", "familiar", type=str, metavar="ID", help="Which familiar is meant."),
        option(
            "--json",
            "as_json",
            type=bool,
            is_flag=True,
            default=False,
            help="Print one JSON object.",
        ),
        option(
            "--quiet", "-q", "quiet", type=bool, is_flag=True, default=False, help="No narration."
        ),
    ]


class FamiliarCommand(TyperCommand):
    """A command that also takes the global options."""

    def __init__(self, name: str | None, **attrs: Any) -> None:  # noqa: ANN401
        super().__init__(name, **attrs)
        self.params.extend(_global_options())


class FamiliarGroup(TyperGroup):
    """A group that also takes the global options."""

    def __init__(self, **attrs: Any) -> None:  # noqa: ANN401
        super().__init__(**attrs)
        self.params.extend(_global_options())


class App(typer.Typer):
    """A Typer app whose commands all take the global options."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(
            cls=FamiliarGroup,
            add_completion=False,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:  # noqa: ANN401
        """Register a command, as `typer.Typer.command` does."""
        settings.setdefault("cls", FamiliarCommand)
        settings.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        return super().command(name, **settings)


def group(help_text: str) -> App:
    """Return an app that stays a group of commands even while it holds only one."""
    app = App(help=help_text, no_args_is_help=True)

    @app.callback()
    def _stay_a_group() -> None: ...

    return app


def familiar_of(ctx: typer.Context) -> Familiar:
    """Return the familiar that this command line means."""
    from familiar_cli.familiar import Familiar

    given = globals_of(ctx)
    return Familiar.load_from_disk(given.home, given.familiar)


def home_of(ctx: typer.Context) -> Path:
    """Return where the familiars live, for this command line."""
    from familiar_cli.config.home import find_home

    return find_home(globals_of(ctx).home)


def text_or_stdin(text: str) -> str:
    """Return `text`, or all of standard input when it is `-`.

    Raises:
        UsageError: Standard input is not UTF-8.
    """
    if text != "-":
        return text
    import sys

    from familiar_cli.errors import UsageError

    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"Standard input is not UTF-8 text: {error}") from error
