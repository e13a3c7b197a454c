"""The root command: its table of contents and its error handling."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Annotated, Any, Final

import typer

from familiar_cli import __version__
from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.text import nearest
from familiar_cli.cli.commands._base import App, FamiliarGroup, build_command, output
from familiar_cli.cli.commands._contents import COMMANDS, first_screen, meant_command
from familiar_cli.pages import emit
from familiar_cli.pages.emit import print_error, set_up_streams

COMMAND_NAMES = ("familiar", "familiar-memory")
"""Names of the program; the second is for systems where another program is called `familiar`."""

_COMPLETION = {"--install-completion", "--show-completion"}  # Typer's; it only guesses the shell
_EVERYWHERE = "Global options: --home DIR, --familiar ID, --json, --quiet, --help; --version."
_FIND = "More (`{0} help --all`): write-memory, import-lorebook, web, serve, doctor"
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_USAGE_ERROR: Any = typer.BadParameter.__base__
_WORDS = {
    "is not a valid int range": "is not a whole number",
    "is not a valid int": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid float": "is not a number",
    "Got unexpected extra argument(s)": "Unexpected argument",
    "requires an argument": "requires a value",
}


# What is kept when Ctrl-C ends a long command, and how to go on.
_KEPT: Final = {
    "import": "What was imported is kept; run the same command again to go on.",
    "write-memory": "What was written is kept; `familiar write-memory` goes on from there.",
    "index": "What was indexed is kept; `familiar index build` goes on from there.",
    "backup": "Earlier backups are as they were; run the same command again to finish this one.",
}


class Contents(FamiliarGroup):
    """The root group: finds commands in `COMMANDS`, and turns errors into text and exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the table of contents."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return one command, or None."""
        name = self.own_name(cmd_name, COMMANDS)
        if name not in COMMANDS:
            return None
        command = _load_command(name)
        if ctx and ctx.resilient_parsing:
            _offer_values(command)
        return command

    def suggest_command(self, ctx: Any, words: Sequence[str]) -> str | None:
        """Suggest the command an unknown one was probably meant to be."""
        guess = meant_command(words)
        return f"{ctx.command_path} {guess}" if guess else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the first screen, without importing any command."""
        formatter.write_usage(ctx.command_path, "COMMAND [ARGS]...")
        formatter.write_paragraph()
        formatter.write_text(self.help or "")
        for section, rows in first_screen().items():
            with formatter.section(section):
                formatter.write_dl(rows)
        formatter.write_paragraph()
        formatter.write_text(_EVERYWHERE)
        formatter.write_text(_FIND.format(ctx.command_path))

    def main(self, args: Sequence[str] | None = None, **settings: Any) -> Any:  # type: ignore[override]
        """Run the command line and exit with its exit code."""
        set_up_streams()
        values = list(sys.argv[1:] if args is None else args)
        standalone = settings.pop("standalone_mode", True)
        try:
            code = self._run(values, settings)
            sys.stdout.flush()
        except OSError as error:
            code = _close_quietly() if _is_closed_pipe(error) else _unwritten(error)
        if standalone:
            sys.exit(code if isinstance(code, int) else 0)
        return code

    def invoke(self, ctx: Any) -> Any:
        """Run the command; it is not an error if a reader such as `head` closes the pipe early."""
        try:
            return super().invoke(ctx)
        except OSError as error:  # typer would exit with 1
            if not _is_closed_pipe(error):
                raise
            return _close_quietly()
        except KeyboardInterrupt:
            if kept := _KEPT.get(ctx.invoked_subcommand or ""):
                sys.stderr.write(f"Interrupted. {kept}\n")
            raise

    def _run(self, values: list[str], settings: dict[str, Any]) -> Any:
        """Run the command line, reporting our own and command-line errors."""
        try:
            return super().main(values, standalone_mode=False, **settings)
        except typer.Abort:
            return 130
        except FamiliarError as error:
            return _report(error, values)
        except _USAGE_ERROR as error:
            return _report_usage(error, values)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the command; a shell may follow the completion options."""
        if ctx.resilient_parsing:
            _offer_values(self)
        for option, word in pairwise(args):
            if option in _COMPLETION and not word.startswith("-"):
                if word not in _SHELLS:
                    known = ", ".join(_SHELLS)
                    raise UsageError(f"No completion for {word!r}", hint=f"Known: {known}.")
                param = next(p for p in self.params if option in p.opts)
                param.callback(ctx, param, word)  # type: ignore[misc]  # ends the program
        return super().parse_args(ctx, args)


def _offer_values(command: Any) -> None:
    """Let a shell that completes a command line complete values, too."""
    from familiar_cli.cli.commands._completion import offer_values

    offer_values(command)


def _report_usage(error: Any, args: list[str]) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return UsageError.exit_code
    where = f"familiar {_command_in(args)}".strip()
    guess = _option_meant(error) or _command_meant(error, args)
    hint = f"Did you mean `{guess}`?" if guess else f"Run `{where} --help`."
    if not guess and _is_text_cut(error):
        hint = "Put a text of several words in quotation marks."
    return _report(UsageError(_in_our_words(error), hint=hint), args)


def _in_our_words(error: Any) -> str:
    """Reword Typer's error message without its jargon."""
    if type(error).__name__ == "NoSuchOption":
        return f"No such option: {error.option_name!r}"
    message: str = error.format_message().rstrip(".")
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return message


def _option_meant(error: Any) -> str | None:
    if type(error).__name__ != "NoSuchOption" or error.ctx is None:
        return None
    opts = (o for p in error.ctx.command.params for o in p.opts if o.startswith("-"))
    known = {o.lstrip("-"): o for o in opts}
    return known.get(nearest(error.option_name.lstrip("-"), known) or "")


def _command_meant(error: Any, args: list[str]) -> str | None:
    """Suggest the command meant when a surplus word completes another program's command name."""
    if "unexpected extra" not in error.format_message() or error.ctx is None:
        return None
    guess = meant_command([word for word in args if not word.startswith("-")], least=2)
    if error.ctx.info_name == "me":
        guess = "me --name NAME"
    root = error.ctx.find_root().command_path
    return f"{root} {guess}" if guess else None


def _is_text_cut(error: Any) -> bool:
    """Tell whether a surplus word belongs to a text that was typed without quotation marks."""
    params = error.ctx.command.params if error.ctx else ()
    takes_text = any(
        p.name in ("text", "query") and p.param_type_name == "argument" for p in params
    )
    return takes_text and "unexpected extra" in error.format_message()


def _report(error: FamiliarError, args: list[str]) -> int:
    if "--json" in args:
        status = "partial" if error.exit_code == 7 else "error"  # noqa: PLR2004
        emit.write_json(emit.envelope(_command_in(args), status, error.data or {}, [error]))
    else:
        emit.print_error(error)
    return error.exit_code


@cache
def _load_command(name: str) -> Any:
    place, _, app = COMMANDS[name][0].partition(":")
    module = importlib.import_module(f"familiar_cli.cli.commands.{place}")
    return build_command(getattr(module, f"{app}_app" if app else "app"), name)


def _command_in(args: list[str]) -> str:
    """Return the command that `args` seem to name, for the error envelope."""
    words = [word for word in args if not word.startswith("-")]
    for start, word in enumerate(words):
        name = FamiliarGroup.own_name(word, COMMANDS)
        if name in COMMANDS:
            command = _load_command(name)
            path = [word]
            for follow in words[start + 1 :]:
                known = getattr(command, "commands", {})
                command = known.get(FamiliarGroup.own_name(follow, known))
                if command is None:
                    break
                path.append(follow)
            return " ".join(path)
    return ""


def _is_closed_pipe(error: OSError) -> bool:
    """Tell whether the reader of stdout is gone; Windows reports that as an invalid argument."""
    from familiar_cli.base.files import ON_WINDOWS

    if isinstance(error, BrokenPipeError):
        return True
    return ON_WINDOWS and error.errno == errno.EINVAL and error.filename is None


def _unwritten(error: OSError) -> int:
    """Report that stdout cannot be written, e.g. because the disk is full; re-raise other errors.

    Errors of other files are reported by their own code, and carry a file name.
    """
    full = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, getattr(errno, "EDQUOT", 0)}
    if error.filename is not None or error.errno not in full:
        raise error
    _close_quietly()
    told = FamiliarError(f"The answer could not be written: {error.strerror or error}")
    print_error(told)
    return told.exit_code


def _close_quietly() -> int:
    """Redirect stdout to nowhere, so that later flushes do not fail on the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


app = App(name="familiar", no_args_is_help=True)
app._add_completion = True  # noqa: SLF001  # only the root installs shell completion
app.info.cls = Contents


def _version(ctx: typer.Context, value: bool) -> None:  # noqa: FBT001
    if value:
        package = Path(__file__).parents[1]
        try:
            commit = (package / "commit.txt").read_text("ascii")  # written when a wheel is built
        except OSError:
            commit = find_commit(package.parent)
        text = f"familiar {__version__}" + (f" (commit {commit})" if commit else "")
        output(ctx).answer({"version": __version__, "commit": commit}, text)
        raise typer.Exit


def find_commit(checkout: Path) -> str:
    """Return git's name for a checkout's commit, with `-dirty` if files were changed."""
    import subprocess

    if not (checkout / ".git").exists():
        return ""
    git = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        process = subprocess.run(git, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.strip()


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Give an AI companion a memory of plain Markdown files."""
    del version


def interrupt_again(unraisable: Any) -> None:
    """End the program on a Ctrl-C inside a finalizer, which Python would only print."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        import _thread

        _thread.start_new_thread(_interrupt_soon, ())
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon() -> None:
    import _thread
    import time

    time.sleep(0.01)  # until the main thread has left the finaliser
    _thread.interrupt_main()


def main() -> None:
    """Run `familiar` under the name it was started with."""
    os.umask(0o077)  # files made by libraries and SQLite are private to their owner, too
    sys.unraisablehook = interrupt_again
    name = PurePath(sys.argv[0]).name.removesuffix(".exe")
    app(prog_name=name if name in COMMAND_NAMES else COMMAND_NAMES[0])
