"""The root command: its table of contents, and how every failure ends for who typed it."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from familiar_cli.commands._base import App, FamiliarGroup
from familiar_cli.errors import FamiliarError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# What the program does, in the order a person meets it: section -> command -> (module, one line).
# `talk:ask` is `ask_app` in the module `talk`; a module without a colon has one `app`.
# A module is imported only when its command runs, so that starting stays cheap.
CONTENTS: dict[str, dict[str, tuple[str, str]]] = {
    "Begin": {
        "demo": ("init:demo", "Try the whole flow, from card to reply, in a temporary home."),
        "init": ("init:init", "Make a familiar from a card, a persona or a template."),
        "list": ("status:list", "List the familiars."),
        "me": ("people:me", "Say who you are, or show it."),
        "use": ("status:use", "Set the familiar that commands use by default."),
        "status": ("status:status", "Show a familiar's state."),
        "doctor": ("status:doctor", "Check every part of the setup, and print how to fix it."),
    },
    "Talk": {
        "ask": ("talk:ask", "Send one message and print the reply."),
        "again": ("talk:again", "Ask for another reply in place of the last one."),
        "continue": ("talk:continue", "Continue the last reply."),
        "hear": ("talk:hear", "Save a message without asking for a reply."),
        "chat": ("talk:chat", "Chat interactively."),
        "context": ("context", "Show what was sent to the model, and why."),
        "why": ("context:why", "Explain a reply in one sentence, and show what it used."),
    },
    "Keep": {
        "memory": ("memory", "Read and change the memory directory."),
        "write-memory": (
            "upkeep:write_memory",
            "Write what matters from recent turns into memory.",
        ),
        "review": ("review", "Apply or reject memory changes that await review."),
        "housekeep": ("upkeep:housekeep", "Find things in memory that may need tidying up."),
        "search": ("search", "Search memory by words and by meaning."),
        "index": ("upkeep:index", "Build, inspect and delete the search index."),
        "remind": ("desk:remind", "Manage reminders; the familiar sees them when they are due."),
        "task": ("desk:task", "Manage a task list."),
        "scratch": ("desk:scratch", "Manage a scratchpad."),
        "consolidate": (
            "upkeep:consolidate",
            "Summarise sessions into days, weeks, months and years.",
        ),
        "distill": ("upkeep:distill", "Make the digests that every prompt includes."),
        "remember": ("upkeep:remember", "Save a significant moment in a file of its own."),
        "people": ("people", "Show the people the familiar knows, and their names."),
        "graph": ("people:graph", "Show who and what somebody is related to."),
        "card": ("imports:card", "Show, check and export character cards."),
        "import-lorebook": ("imports:import_lorebook", "Convert a lorebook to Markdown files."),
        "export-lorebook": ("imports:export_lorebook", "Convert lore files back to a lorebook."),
        "import-chat": ("imports:chat", "Import chats from other programs into the history."),
        "import-sillytavern": (
            "imports:sillytavern",
            "Import SillyTavern's whole data folder.",
        ),
        "import-memories": (
            "imports:memories",
            "Import daily, weekly, monthly and yearly memories.",
        ),
        "history": ("history", "Read, search, count and export past turns."),
    },
    "Share": {
        "sync": ("sync", "Share one memory between several machines."),
    },
    "Set up": {
        "serve": (
            "serve:serve",
            "Serve familiars to chat programs, through an OpenAI-compatible API.",
        ),
        "mcp": ("serve:mcp", "Give an agent access to the memory over MCP."),
        "web": ("serve:web", "Show turns, prompts and memory in a browser, as they are and were."),
        "daemon": ("serve:daemon", "Run in the background, writing memory and due summaries."),
        "config": ("config:config", "Show and change settings."),
        "channel": ("config:channel", "List channels and change their settings."),
        "model": ("config:model", "Download, list, test and remove model files."),
    },
}
COMMAND_NAMES = ("familiar", "familiar-memory")
"""What the program is installed as; the second is for where another one is called `familiar`."""

_MODULES = {name: entry for section in CONTENTS.values() for name, entry in section.items()}
_COMPLETION = {"--install-completion", "--show-completion"}  # Typer's; it only guesses the shell
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


class Contents(FamiliarGroup):
    """The root group: finds commands in `CONTENTS`, and turns errors into text and exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the table of contents."""
        del ctx
        return list(_MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return one command, or None."""
        del ctx
        if cmd_name not in _MODULES:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _load_command(cmd_name)
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by section without importing any."""
        del ctx
        for section, commands in CONTENTS.items():
            with formatter.section(section):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])

    def main(self, args: Sequence[str] | None = None, **settings: Any) -> Any:  # type: ignore[override]
        """Run the command line and leave with its exit code."""
        from familiar_cli.ui.emit import set_up_streams

        set_up_streams()
        given = list(sys.argv[1:] if args is None else args)
        standalone = settings.pop("standalone_mode", True)
        try:
            code = self._run(given, settings)
            sys.stdout.flush()
        except OSError as error:
            code = _close_quietly() if _is_closed_pipe(error) else _unwritten(error)
        if standalone:
            sys.exit(code if isinstance(code, int) else 0)
        return code

    def _run(self, given: list[str], settings: dict[str, Any]) -> Any:
        """Run the command line; errors of ours and of the command line are told here."""
        try:
            return super().main(given, standalone_mode=False, **settings)
        except typer.Abort:
            return 130
        except FamiliarError as error:
            return _report(error, given)
        except _USAGE_ERROR as error:
            return _report_usage(error, given)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command; a shell may be named after those of completion."""
        for option, word in pairwise(args):
            if option in _COMPLETION and not word.startswith("-"):
                if word not in _SHELLS:
                    known = ", ".join(_SHELLS)
                    raise UsageError(f"No completion for {word!r}", hint=f"There is: {known}.")
                param = next(p for p in self.params if option in p.opts)
                param.callback(ctx, param, word)  # type: ignore[misc]  # ends the program
        return super().parse_args(ctx, args)


def _report_usage(error: Any, args: list[str]) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return UsageError.exit_code
    where = f"familiar {_command_in(args)}".strip()
    guess = _option_meant(error)
    hint = f"Did you mean `{guess}`?" if guess else f"Run `{where} --help`."
    return _report(UsageError(_in_our_words(error), hint=hint), args)


def _in_our_words(error: Any) -> str:
    """Return Typer's complaint without its terms."""
    if type(error).__name__ == "NoSuchOption":
        return f"No such option: {error.option_name!r}"
    message: str = error.format_message().rstrip(".")
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return message


def _option_meant(error: Any) -> str | None:
    from familiar_cli.text import nearest

    if type(error).__name__ != "NoSuchOption" or error.ctx is None:
        return None
    opts = (o for p in error.ctx.command.params for o in p.opts if o.startswith("-"))
    known = {o.lstrip("-"): o for o in opts}
    return known.get(nearest(error.option_name.lstrip("-"), known) or "")


def _report(error: FamiliarError, args: list[str]) -> int:
    from familiar_cli.ui import emit

    if "--json" in args:
        status = "partial" if error.exit_code == 7 else "error"  # noqa: PLR2004
        emit.write_json(emit.envelope(_command_in(args), status, error.data or {}, [error]))
    else:
        emit.print_error(error)
    return error.exit_code


def _load_command(name: str) -> Any:
    place, _, app = _MODULES[name][0].partition(":")
    module = importlib.import_module(f"familiar_cli.commands.{place}")
    command = typer.main.get_command(getattr(module, f"{app}_app" if app else "app"))
    command.name = name
    return command


def _command_in(args: list[str]) -> str:
    """Return the command that `args` seem to mean, for the envelope of an error."""
    words = [word for word in args if not word.startswith("-")]
    for start, word in enumerate(words):
        if word in _MODULES:
            command = _load_command(word)
            path = [word]
            for follow in words[start + 1 :]:
                command = getattr(command, "commands", {}).get(follow)
                if command is None:
                    break
                path.append(follow)
            return " ".join(path)
    return ""


def _is_closed_pipe(error: OSError) -> bool:
    """Tell whether nobody reads the answer any more; Windows calls that an invalid argument."""
    import errno

    from familiar_cli.files import ON_WINDOWS

    if isinstance(error, BrokenPipeError):
        return True
    return ON_WINDOWS and error.errno == errno.EINVAL and error.filename is None


def _unwritten(error: OSError) -> int:
    """Report that the answer does not fit where stdout leads; any other error is not for here.

    Files have owners who tell of their errors, and an error of opening one bears its name.
    """
    import errno

    from familiar_cli.ui.emit import print_error

    full = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, getattr(errno, "EDQUOT", 0)}
    if error.filename is not None or error.errno not in full:
        raise error
    _close_quietly()
    told = FamiliarError(f"The answer could not be written: {error.strerror or error}")
    print_error(told)
    return told.exit_code


def _close_quietly() -> int:
    """Point stdout at nothing, so that no later flush complains of the closed pipe."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


app = App(name="familiar", no_args_is_help=True)
app._add_completion = True  # noqa: SLF001  # only the root installs shell completion
app.info.cls = Contents


def _version(ctx: typer.Context, value: bool) -> None:  # noqa: FBT001
    if value:
        from familiar_cli import __version__
        from familiar_cli.commands._base import output

        output(ctx).answer({"version": __version__}, f"familiar {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, help="Print the version."),
    ] = False,
) -> None:
    """Tend the memory of an AI companion: plain Markdown, and every step can be looked at."""
    del version


def interrupt_again(unraisable: Any) -> None:
    """Let Ctrl-C that fell into a finaliser, where Python would only print it, end the program."""
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
    """Run `familiar`, under the name that it was started by."""
    import os
    from pathlib import PurePath

    os.umask(0o077)  # what libraries and SQLite make is for its owner alone, too
    sys.unraisablehook = interrupt_again
    name = PurePath(sys.argv[0]).name.removesuffix(".exe")
    app(prog_name=name if name in COMMAND_NAMES else COMMAND_NAMES[0])
