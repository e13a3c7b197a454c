"""What all commands share: global options in any position, output, and access to the familiar."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from msgspec import Struct
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command, get_command_from_info, get_command_name

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import MOST_NUMBER, counted, nearest
from familiar_cli.cli.commands._contents import ALIASES, CALLED
from familiar_cli.pages.emit import Output, exact_bytes

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.imports.cards import Card

T = TypeVar("T")
_META = "familiar_cli.globals"
_DASHED_TEXT = re.compile(r"-[^\s=]*\s|-\d")  # options contain no spaces and are not numbers
_CLAUSE_END = re.compile(r"[:;,.](?:\s|$)")
_DESCRIBED = re.compile(r"^    (\w+)(?: \((.+?)\))?: (.*(?:\n {8}.*)*)", re.MULTILINE)


_COLUMNS = shutil.get_terminal_size().columns
_CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"]} | (
    {"terminal_width": max(_COLUMNS, 20)} if _COLUMNS < 52 else {}  # noqa: PLR2004  # Click's least
)


class Globals(Struct):
    """The options that may come before or after any command."""

    home: str | None = None
    familiar: str | None = None
    as_json: bool = False
    quiet: bool = False


def globals_of(ctx: typer.Context) -> Globals:
    """Return the global options parsed so far."""
    options: Globals = ctx.meta.setdefault(_META, Globals())
    return options


def output(ctx: typer.Context) -> Output:
    """Return the output of this command."""
    options = globals_of(ctx)
    _, _, command = ctx.command_path.partition(" ")
    return Output(command, as_json=options.as_json, quiet=options.quiet)


def _keep(ctx: Any, param: Any, value: Any) -> None:  # noqa: ANN401  # Click's own signature
    if value:
        setattr(globals_of(ctx), param.name, value)


def _global_options() -> list[TyperOption]:
    def option(*names: str, **more: Any) -> TyperOption:  # noqa: ANN401
        return TyperOption(param_decls=list(names), expose_value=False, callback=_keep, **more)

    def flag(*names: str, **more: Any) -> TyperOption:  # noqa: ANN401
        return option(*names, type=bool, is_flag=True, default=False, **more)

    choice = "Familiar to use; default: the chosen one."
    return [
        option("--home", type=str, metavar="DIR", help="Directory that holds the familiars."),
        option("--familiar", type=str, metavar="ID", help=choice),
        # Eager: known to options that end the program early, such as --version.
        flag("--json", "as_json", is_eager=True, help="Print a single JSON object."),
        flag("--quiet", "-q", help="Print only answers and errors."),
    ]


def _check_values(ctx: Any, args: list[str], params: Sequence[Any]) -> None:  # noqa: ANN401
    """Check that no option takes the next one as its value, as in `--html --json`, or no file.

    Raises:
        UsageError: One would.
    """
    options = [p for p in params if p.param_type_name == "option"]
    names = {name for p in options for name in (*p.opts, *p.secondary_opts)}
    with_value = {name: p for p in options if not p.is_flag for name in p.opts}
    for before, word in pairwise((*args, "--")):
        if before == "--":
            return
        option = with_value.get(before.removesuffix("="))
        is_empty = before.endswith("=") or not word
        if option and is_empty and _PLACE.search(option.metavar or ""):
            _refuse_empty(ctx, option)
        if before in with_value and word in names:
            raise UsageError(
                f"Option {before!r} requires a value, but {word!r} is an option",
                hint=f"Run `{ctx.command_path} --help`.",
            )


_PLACE = re.compile("FILE|DIR")


def _refuse_empty(ctx: Any, param: Any) -> None:  # noqa: ANN401
    """Refuse an empty text for a file or directory, which would mean the current one."""
    name = param.opts[0] if param.param_type_name == "option" else param.metavar.strip("[].")
    raise UsageError(
        f"{name} is empty; nothing was read or changed", hint=f"Run `{ctx.command_path} --help`."
    )


def _check_places(ctx: Any, words: Sequence[str], params: Sequence[Any]) -> None:  # noqa: ANN401
    """Check that no argument that names a file or directory is empty.

    Raises:
        UsageError: One is.
    """
    for param in params if "" in words else ():
        value = ctx.params.get(param.name)
        values = list(map(str, value if isinstance(value, list | tuple) else [value]))
        is_empty = "" in values or ("." in values and "." not in words)
        if is_empty and param.param_type_name == "argument" and _PLACE.search(param.metavar or ""):
            _refuse_empty(ctx, param)


def _options_first(args: list[str], params: Sequence[Any]) -> list[str]:
    """Insert `--` before the first text if a text begins with a dash."""
    if "--" in args or not any(_DASHED_TEXT.match(word) for word in args):
        return args
    with_value = {name for p in params if not getattr(p, "is_flag", True) for name in p.opts}
    options: list[str] = []
    texts: list[str] = []
    for before, word in zip(["", *args], args, strict=False):
        is_option = word.startswith("-") and word != "-" and not _DASHED_TEXT.match(word)
        (options if is_option or before in with_value else texts).append(word)
    return [*options, "--", *texts]


def _describe_params(attrs: dict[str, Any]) -> dict[str, Any]:
    """Take the help of parameters from the docstring: `name (METAVAR): help`, below `Args:`."""
    attrs["help"], _, described = (attrs["help"] or "").partition("\n\nArgs:\n")
    params = {param.name: param for param in attrs["params"]}
    for name, metavar, words in _DESCRIBED.findall(described):
        params[name].help = " ".join(words.split())
        params[name].metavar = metavar or params[name].metavar
    return attrs


def _check_numbers(ctx: Any) -> None:  # noqa: ANN401
    """Refuse a number that timers, dates and SQLite cannot take."""
    for param in ctx.command.params:
        value = ctx.params.get(param.name)
        if isinstance(value, int | float) and value > MOST_NUMBER:
            raise UsageError(
                f"The number for {param.get_error_hint(ctx)} is too large: at most {MOST_NUMBER:,}",
                hint=f"Run `{ctx.command_path} --help`.",
            )


class FamiliarCommand(TyperCommand):
    """A command that also takes the global options."""

    def __init__(self, name: str | None, **attrs: Any) -> None:  # noqa: ANN401
        super().__init__(name, **_describe_params(attrs))
        self.params.extend(_global_options())

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first clause of the help, untruncated, for the list of a group's commands."""
        del limit
        words = " ".join((self.help or "").partition("\n\n")[0].split())
        return _CLAUSE_END.split(words, maxsplit=1)[0] + "."

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Parse the command line; a word such as `- a list item` or `-3` is text, not an option."""
        if ctx.resilient_parsing:  # a shell completes the line
            return super().parse_args(ctx, args)
        _check_values(ctx, args, self.params)
        words = tuple(args)  # the list is emptied
        left = super().parse_args(ctx, _options_first(args, self.params))
        _check_places(ctx, words, self.params)
        _check_numbers(ctx)
        return left


class FamiliarGroup(TyperGroup):
    """A group that also takes the global options."""

    def __init__(self, **attrs: Any) -> None:  # noqa: ANN401
        super().__init__(**_describe_params(attrs))
        self.params.extend(_global_options())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Parse the options before the command."""
        if ctx.resilient_parsing:  # a shell completes the line
            return super().parse_args(ctx, args)
        _check_values(ctx, args, self.params)
        _, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        return super().parse_args(ctx, args if rest else [*args, *self._default_command(ctx)])

    def _default_command(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """Return the command that a group runs when typed alone: `list`, `show` or `status`."""
        if ctx.parent is None or self.invoke_without_command:
            return []
        shown = (name for name in ("list", "show", "status") if name in self.commands)
        return [n for n in shown if not any(p.required for p in self.commands[n].params)][:1]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        """Find the command at the start of `args`, or suggest one in the error."""
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        _, _, group = ctx.command_path.partition(" ")
        guess = self.suggest_command(ctx, [word for word in args if not word.startswith("-")])
        raise UsageError(
            f"No such command: {f'{group} {name}'.strip()!r}",
            hint=f"Did you mean `{guess}`?" if guess else f"Run `{ctx.command_path} --help`.",
        )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Find a command by its name or an alias, such as `list` for `ls`."""
        return super().get_command(ctx, self.own_name(cmd_name, self.commands))

    @staticmethod
    def own_name(name: str, known: Container[str]) -> str:
        """Resolve an alias to the name of a command in `known`."""
        return name if name in known else ALIASES.get(name, name)

    def suggest_command(self, ctx: Any, words: Sequence[str]) -> str | None:  # noqa: ANN401
        """Suggest the command that an unknown one was probably meant to be."""
        if meant := CALLED.get(f"{ctx.info_name}-{words[0]}"):
            return f"{ctx.find_root().command_path} {meant}"
        guess = nearest(words[0], self.list_commands(ctx))
        return f"{ctx.command_path} {guess}" if guess else None


class App(typer.Typer):
    """A Typer app whose commands all take the global options."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(
            cls=FamiliarGroup,
            add_completion=False,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings=_CONTEXT,
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:  # noqa: ANN401
        """Register a command, as `typer.Typer.command` does."""
        settings.setdefault("cls", FamiliarCommand)
        settings.setdefault("context_settings", _CONTEXT)
        return super().command(name, **settings)


class _DeferredCommands(Mapping[str, Any]):
    """The commands of a group, each built on first lookup, since most are never run."""

    def __init__(self, app: App, groups: Mapping[str, Any]) -> None:
        self._app, self._built = app, dict(groups)
        self._infos = {
            info.name or get_command_name(info.callback.__name__): info
            for info in app.registered_commands
            if info.callback
        }

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        if name not in self._built:
            self._built[name] = get_command_from_info(
                self._infos[name],
                pretty_exceptions_short=self._app.pretty_exceptions_short,
                rich_markup_mode=self._app.rich_markup_mode,
            )
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._infos, **self._built})

    def __len__(self) -> int:
        return len({**self._infos, **self._built})


def build_command(app: App, name: str) -> Any:  # noqa: ANN401  # Click's classes are private to Typer
    """Build the command or group that `app` declares, under the given name."""
    if app.registered_callback is None:
        command: Any = get_command(app)
    else:
        declared, app.registered_commands = app.registered_commands, []
        command = get_command(app)
        app.registered_commands = declared
        command.commands = _DeferredCommands(app, command.commands)
    command.name = name
    return command


def group(help_text: str) -> App:
    """Create an app that stays a group even with a single command."""
    app = App(help=help_text, no_args_is_help=True)

    @app.callback()
    def _stay_a_group() -> None: ...

    return app


def familiar_of(ctx: typer.Context) -> Familiar:
    """Open the familiar selected on the command line; it is closed when the command ends."""
    from familiar_cli.familiar import Familiar

    options = globals_of(ctx)
    familiar = Familiar.load_from_disk(options.home, options.familiar, output(ctx).warn)
    ctx.call_on_close(familiar.close)
    return familiar


def run_async(work: Coroutine[Any, Any, T], *, fast: bool = False) -> T:
    """Run `work` in an event loop; commands start none elsewhere.

    Args:
        fast: In one of uvloop, which a server profits from, where that is installed.

    Raises:
        KeyboardInterrupt: Ctrl-C was typed; `work` was cancelled and has ended.
    """
    import asyncio

    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    if fast:
        with suppress(ImportError):
            from uvloop import new_event_loop

            new_loop = new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


@contextmanager
def with_models(familiar: Familiar) -> Iterator[Familiar]:
    """Provide `familiar` to a command that asks models, and close them at the end."""
    try:
        yield familiar
    finally:
        run_async(familiar.aclose())


def moment_of(familiar: Familiar, text: str | None) -> datetime | None:
    """Parse a time given as an option, in the familiar's timezone.

    Raises:
        UsageError: It is not a time.
    """
    if text is None:
        return None
    from familiar_cli.base.times.clock import now
    from familiar_cli.base.times.when import read_moment

    return read_moment(text, now(), familiar.zone)


def day_of(familiar: Familiar, text: str | None) -> date | None:
    """Parse a day given as an option, in the familiar's timezone; see `moment_of`."""
    moment = moment_of(familiar, text)
    return moment.astimezone(familiar.zone).date() if moment else None


def home_of(ctx: typer.Context) -> Path:
    """Return the directory of the familiars for this command line."""
    from familiar_cli.base.config.home import find_home

    return find_home(globals_of(ctx).home)


def warn_of_network(out: Output, home: Path) -> None:
    """Warn if a home is on a network file system."""
    from familiar_cli.base.files import network_warning

    if warning := network_warning(home):
        out.warn(warning[0])
        out.note(f"hint: {warning[1]}")


def text_or_stdin(text: str, *, exact: bool = False) -> str:
    """Return `text`, or all of standard input if it is `-`.

    Unless `exact`, a byte order mark is removed and line endings become those of POSIX: shells on
    Windows add both.

    Raises:
        UsageError: Standard input is not UTF-8.
    """
    if text != "-":
        return text
    try:
        given = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"Standard input is not UTF-8 text: {error}") from error
    return given if exact else given.removeprefix("\ufeff").replace("\r\n", "\n")


def answer_html(
    out: Output, html: str, file: str, data: Mapping[str, object], path_key: str, *, force: bool
) -> None:
    """Write a page to `file`, or to stdout; see `answer_content`. `path_key` names its path."""
    content = html.encode("utf-8")
    data = {**data, path_key: None if file == "-" else file, "bytes": len(content)}
    answer_content(out, content, file, data, {**data, "html": html}, force=force)


def answer_content(
    out: Output,
    content: bytes,
    file: str,
    data: Mapping[str, object],
    inline: Mapping[str, object],
    *,
    force: bool,
    size: str = "",
) -> None:
    """Write a result to `file`, or to stdout if it is `-`.

    Args:
        out: The command's output.
        content: The result.
        file: The file.
        data: Data for `--json` if a file is written.
        inline: Data for `--json` otherwise.
        force: Overwrite an existing file.
        size: Its size in words; by default its bytes.

    Raises:
        ConflictError: The file exists, and `force` is not set.
    """
    from familiar_cli.imports.foreign_files import write_result

    if file == "-":
        out.answer(inline, lambda: exact_bytes(content))
        return
    write_result(Path(file).expanduser(), content, force=force)
    out.answer(data, f"Wrote {file} ({size or counted(len(content), 'byte')})")


def read_card_at(file: str) -> Card:
    """Read the card in `file`, or from standard input if it is `-`.

    Raises:
        FamiliarError: Not a card; the message says what the file is, and which command takes it.
    """
    from familiar_cli.imports.reading import read_card
    from familiar_cli.imports.what_is_it import taken_for

    with taken_for("card", file):
        raw, origin = file_or_stdin(file)
        return read_card(raw, origin=origin)


def file_or_stdin(file: str) -> tuple[bytes, str]:
    """Read `file`, or standard input if it is `-`; return its bytes and a name for messages.

    Raises:
        NotFoundError: No such file.
        BadInputError: It is a directory, or too large.
    """
    from familiar_cli.imports.foreign_files import read_foreign, read_stream

    if file == "-":
        return read_stream(sys.stdin.buffer, origin="stdin"), "stdin"
    return read_foreign(Path(file).expanduser()), Path(file).name
