"""Completion of values in a shell: ids, names, settings and paths that exist on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from typer.core import _typer_param_setup_autocompletion_compat as set_completion

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.cli.commands._base import globals_of, home_of

if TYPE_CHECKING:
    import typer

    from familiar_cli.familiar import Familiar

    Values = Iterable[str | tuple[str, str]]
    """Values, or pairs of a value and its description."""

# A shell inserts a value as it is, and zsh evaluates its description.
_SAFE_VALUE = re.compile(r"[\w @%+=:,./-]+")
_UNSAFE_IN_HELP = re.compile(r"[^\w ,.-]+")
_CHOICES = re.compile(r"\[?[a-z-]+(\|[a-z-]+)+\]?")
_MAX_HELP_CHARS = 60
_MAX_TURNS = 30


def offer_values(command: Any) -> None:  # noqa: ANN401  # Click's types are private to Typer
    """Let the parameters of a command, and of those below it, complete their values."""
    known = {*SOURCES, *(key.rpartition(" ")[2] for key in SOURCES_OF_COMMAND)}
    for param in command.params:
        has_values = _CHOICES.fullmatch(param.metavar or "") or param.name in known
        if has_values and param._custom_shell_complete is None:  # noqa: SLF001  # as above
            set_completion(param, autocompletion=_completion_of(param))
    for below in getattr(command, "commands", {}).values():
        offer_values(below)


def _completion_of(param: Any) -> Any:  # noqa: ANN401  # as above
    def complete(ctx: typer.Context, args: list[str], incomplete: str) -> list[Any]:
        del args
        try:
            values = list(_values_of(ctx, param))
        except Exception:  # noqa: BLE001  # a message would land in the line that is being typed
            return []
        pairs = (value if isinstance(value, tuple) else (value, "") for value in values)
        return [
            (value, " ".join(_UNSAFE_IN_HELP.sub(" ", text).split())[:_MAX_HELP_CHARS])
            for value, text in pairs
            if value.startswith(incomplete) and _SAFE_VALUE.fullmatch(value)
        ]

    return complete


def _values_of(ctx: typer.Context, param: Any) -> Values:  # noqa: ANN401
    if _CHOICES.fullmatch(param.metavar or ""):
        return str(param.metavar).strip("[]").split("|")
    _, _, command = ctx.command_path.partition(" ")
    source = SOURCES_OF_COMMAND.get(f"{command} {param.name}", SOURCES.get(param.name))
    if isinstance(source, str):
        return map(str, resolve_name(source))
    return source(ctx) if source else ()


def _familiar(ctx: typer.Context) -> Familiar:
    from familiar_cli.familiar import Familiar

    return Familiar.load_from_disk(home_of(ctx), globals_of(ctx).familiar, lambda _: None)


def _familiars(ctx: typer.Context) -> Values:
    from familiar_cli.base.config.home import list_familiars

    return list_familiars(home_of(ctx))


def _channels(ctx: typer.Context) -> Values:
    with _familiar(ctx) as familiar:
        channel_ids = [summary.channel_id for summary in familiar.history.channels()]
        return list(dict.fromkeys([*channel_ids, *familiar.channels.known()]))


def _people(ctx: typer.Context) -> Values:
    from familiar_cli.store.memory.layout import PEOPLE_DIR

    with _familiar(ctx) as familiar:
        labels = {s.author.slug: s.author.label for s in familiar.history.speakers(OWNER)}
        files = (path.rpartition("/")[2] for path in _below(familiar, PEOPLE_DIR))
        slugs = [*labels, *(file.removesuffix(".md") for file in files)]
        return [(slug, labels.get(slug, "")) for slug in dict.fromkeys(slugs)]


def _accounts(ctx: typer.Context) -> Values:
    with _familiar(ctx) as familiar:
        authors = [speaker.author for speaker in familiar.history.speakers(OWNER)]
        accounts = [(f"{a.platform}:{a.user_id}", a.label) for a in authors]
        return [*accounts, *_owners(ctx)]


def _owners(ctx: typer.Context) -> Values:
    from familiar_cli.base.config.home import ME_FILE
    from familiar_cli.base.config.schema import HomeSettings
    from familiar_cli.base.config.settings import load_written

    owners = load_written(home_of(ctx) / ME_FILE, HomeSettings).settings.owners
    return [(name, owner.name) for name, owner in owners.items()]


def _turns(ctx: typer.Context) -> Values:
    with _familiar(ctx) as familiar:
        newest = familiar.history.newest_id()
        turns = familiar.history.since(max(0, newest - _MAX_TURNS), _MAX_TURNS)
        return [(str(turn.id), turn.content[:200]) for turn in reversed(turns)]


def _plans(ctx: typer.Context) -> Values:
    with _familiar(ctx) as familiar:
        return familiar.memory.plan_ids()


def _paths(ctx: typer.Context) -> Values:
    with _familiar(ctx) as familiar:
        return _below(familiar)


def _below(familiar: Familiar, directory: str = "") -> list[str]:
    from familiar_cli.store.memory.layout import ALIASES_JSON

    files = familiar.memory.walk(directory, missing_ok=True).files
    return [one.rel_path for one in files if not one.is_dir and one.rel_path != ALIASES_JSON]


def _directories(ctx: typer.Context) -> Values:
    parents = (path.rpartition("/")[0] for path in map(str, _paths(ctx)))
    return sorted({parent for parent in parents if parent})


def _pinned_paths(ctx: typer.Context) -> Values:
    from familiar_cli.store.search.build import pins_in_files

    with _familiar(ctx) as familiar:
        return pins_in_files(familiar.memory).rel_paths


def _jobs(ctx: typer.Context) -> Values:
    from familiar_cli.actions.health.job_schedule import read_jobs

    with _familiar(ctx) as familiar:
        return [(job.id, job.what) for job in read_jobs(familiar)]


def _todos(ctx: typer.Context) -> Values:
    from familiar_cli.actions.memory.desk import read_todos
    from familiar_cli.cli.commands.desk import LETTERS

    with _familiar(ctx) as familiar:
        return [
            (f"{letter}{item.number}", item.text)
            for letter, rel_path in LETTERS.items()
            for item in read_todos(familiar, rel_path).items
            if item.mark == "open"
        ]


def _remotes(ctx: typer.Context) -> Values:
    from familiar_cli.actions.share.sync_decisions import remotes_of

    with _familiar(ctx) as familiar:
        return [(name, str(address)) for name, address in remotes_of(familiar).all().items()]


def _machines(ctx: typer.Context) -> Values:
    from familiar_cli.actions.share.sync_decisions import participants_of
    from familiar_cli.sync.remotes import instances_seen

    with _familiar(ctx) as familiar:
        known = {*participants_of(familiar).all(), *instances_seen(familiar.journal.repository)}
        return sorted(known - {familiar.instance.id})


def _backups(ctx: typer.Context) -> Values:
    from familiar_cli.actions.share.backup import BackupTarget, list_backups
    from familiar_cli.sync.sealing import FileCipher

    target = str((*ctx.args, ctx.params["target"])[0])  # unread, since `--backup` lacks its value
    if "://" in target:
        return ()  # a shell does not wait for a network
    return [
        one["backup"] for one in list_backups(BackupTarget(target, FileCipher((), str)), read=False)
    ]


def _settings(ctx: typer.Context) -> Values:
    from familiar_cli.base.config.schema import ANY_NAME
    from familiar_cli.base.config.settings import all_settings

    known = all_settings(_schema_of(ctx)).values()
    return [(s.key, s.doc) for s in known if ANY_NAME not in s.key.split(".")]


def _schema_of(ctx: typer.Context) -> type[Any]:
    from familiar_cli.base.config.schema import ChannelConfig, CharacterConfig

    return ChannelConfig if " channel " in f" {ctx.command_path} " else CharacterConfig


def _values(ctx: typer.Context) -> Values:
    from familiar_cli.base.config.settings import find_setting
    from familiar_cli.base.config.values import ON_OFF

    setting = find_setting(str(ctx.params["key"]), _schema_of(ctx))
    return setting.choices or (ON_OFF if isinstance(setting.default, bool) else ())


def _models(ctx: typer.Context) -> Values:
    from familiar_cli.llm.models.catalog import CATALOG

    del ctx
    return [(model.name, model.purpose) for model in CATALOG.values()]


def _models_on_disk(ctx: typer.Context) -> Values:
    from familiar_cli.base.config.home import cache_dir
    from familiar_cli.llm.models.store import listing

    del ctx
    return [model.name for model in listing(cache_dir()) if model.state != "absent"]


def _checks(ctx: typer.Context) -> Values:
    from familiar_cli.writing.housekeeping.run import CHECKS

    del ctx
    return [(check.name, check.title) for check in CHECKS]


SOURCES: Final[dict[str, Callable[[typer.Context], Values] | str]] = {
    "familiar": _familiars,
    "familiar_id": _familiars,
    "channel": _channels,
    "channel_id": _channels,
    "person": _people,
    "kept": _people,
    "other": _people,
    "as_": _accounts,
    "turn": _turns,
    "turns": _turns,
    "again_for": _turns,
    "plan": _plans,
    "path": _paths,
    "paths": _paths,
    "old": _paths,
    "directory": _directories,
    "within": _directories,
    "job_id": _jobs,
    "item": _todos,
    "remote": _remotes,
    "instance": _machines,
    "backup": _backups,
    "key": _settings,
    "unset": _settings,
    "value": _values,
    "mode": "familiar_cli.base.config.channel_kinds:ChannelMode",
    "kind": "familiar_cli.base.config.channel_kinds:KINDS",
    "names": _models,
    "slot": "familiar_cli.base.config.schema:SLOTS",
    "preset": "familiar_cli.llm.slots:PRESETS",
    "checks": _checks,
}
"""Where the values of a parameter come from, by its name: a function, or a constant of ours."""

SOURCES_OF_COMMAND: Final[dict[str, Callable[[typer.Context], Values] | None]] = {
    "init familiar_id": None,
    "memory unpin paths": _pinned_paths,
    "model rm names": _models_on_disk,
    "people rename-alias old": None,
    "people forget turn": None,
    "import kind": None,
    "import paths": None,
    "import-memories directory": None,
    "import-sillytavern directory": None,
    "export directory": None,
    "people export directory": None,
    "export-lorebook directory": _directories,
    "sync resolve path": None,
    "sync remote rm name": _remotes,
    "sync allow name": _machines,
    "sync block name": _machines,
    "sync accept name": _machines,
    "me as_": _owners,
}
"""The exceptions, by command and parameter; None: a file of the shell's, or nothing."""
