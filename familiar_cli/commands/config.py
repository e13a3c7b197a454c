"""`familiar config`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import familiar_of, globals_of, group, home_of, output
from familiar_cli.commands._options import DryRun

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.config.edit import Edit
    from familiar_cli.config.origin import Effective
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.emit import Output

app = group("Show and change settings.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="A setting, e.g. llm.preset.")]


@app.command()
def show(
    ctx: typer.Context,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Only this setting.")] = None,
) -> None:
    """Show what every setting comes to now, and where that comes from.

    \b
    familiar config show
    familiar config show llm.preset
    """
    from familiar_cli.actions.prompt import with_effective
    from familiar_cli.config.origin import effective, effective_value
    from familiar_cli.ui import status_pages as page

    path, familiar = _path(ctx), familiar_of(ctx)
    if key is not None:
        row = _effective(familiar, effective_value(path, key))
        output(ctx).answer(row.to_json(), page.setting_page(row))
        return
    rows, where = with_effective(familiar, effective(path)), _where(ctx)
    data = {
        "where": [{"key": k, "value": v, "source": s} for k, v, s in where],
        "settings": [row.to_json() for row in rows],
    }
    output(ctx).answer(data, page.settings_page(rows, where))


@app.command()
def get(ctx: typer.Context, key: Key) -> None:
    """Print the value of one setting, and nothing else.

    \b
    familiar config get llm.preset
    """
    from familiar_cli.config.origin import effective_value
    from familiar_cli.ui.status_pages import written

    row = _effective(familiar_of(ctx), effective_value(_path(ctx), key))
    output(ctx).answer(row.to_json(), written(row.value) if row.value != "" else "")


@app.command("set")
def set_(
    ctx: typer.Context,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="New value.")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Change one setting in character.toml, keeping comments and order.

    \b
    familiar config set llm.preset ollama
    familiar config set --dry-run history.recent_turns 20
    Put a value that begins with a dash after `--`:
    familiar config set -- name "- Ada -"
    """
    from familiar_cli.config.edit import set_value

    _show_edit(output(ctx), key, set_value(_path(ctx), key, value, dry_run=dry_run), dry_run)


@app.command()
def unset(ctx: typer.Context, key: Key, *, dry_run: DryRun = False) -> None:
    """Remove one setting from character.toml, so that its default applies.

    \b
    familiar config unset llm.preset
    """
    from familiar_cli.config.edit import unset_value

    _show_edit(output(ctx), key, unset_value(_path(ctx), key, dry_run=dry_run), dry_run)


@app.command()
def path(ctx: typer.Context) -> None:
    """Print the path of character.toml.

    \b
    familiar config path
    """
    found = _path(ctx)
    output(ctx).answer({"path": str(found), "exists": found.is_file()}, str(found))


def _effective(familiar: Familiar, row: Effective) -> Effective:
    from familiar_cli.actions.prompt import with_effective

    return with_effective(familiar, [row])[0]


def _path(ctx: typer.Context) -> Path:
    from familiar_cli.config.home import find_familiar

    return find_familiar(home_of(ctx), globals_of(ctx).familiar).config


def _where(ctx: typer.Context) -> list[tuple[str, str, str]]:
    from familiar_cli.config.home import familiar_and_reason, home_and_reason

    given = globals_of(ctx)
    home, chose_home = home_and_reason(given.home)
    paths, chose_familiar = familiar_and_reason(home, given.familiar)
    return [("home", str(home), chose_home), ("familiar", paths.id, chose_familiar)]


def _show_edit(out: Output, key: str, edit: Edit, dry_run: bool) -> None:
    data = {"key": key, "path": str(edit.path), "changed": edit.changes and not dry_run}
    diff = edit.diff
    out.answer(
        data | {"diff": diff}, diff or f"{key} already has this value; nothing was changed\n"
    )
    if edit.changes and dry_run:
        out.note("Nothing was changed (--dry-run).")
