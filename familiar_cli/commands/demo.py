"""`familiar demo`: the main job from card to reply, in a home that is thrown away."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from familiar_cli.commands._base import App, output, run_async, with_models
from familiar_cli.commands._options import DryRunUnasked
from familiar_cli.commands.talk import reply_to
from familiar_cli.memory.layout import TOPICS_DIR
from familiar_cli.text import typed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Fragment
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.emit import Output

app = App()

SMALL_MODEL = "smollm2-135m-instruct"
CARD = "yuzu.png"
LOREBOOK = "lost-property.json"
NOTE = f"{TOPICS_DIR}/robin-s-dog.md"
NOTE_TEXT = """\
# Robin's dog

- Robin has a small brown dog called Biscuit.
- In January Biscuit hid under the counter until the 23:10 had left.
"""
QUESTIONS = (
    "Good evening! What is my dog called?",
    "Who is Inspector?",
)


@app.command()
def demo(
    ctx: typer.Context,
    *,
    keep: Annotated[
        str | None, typer.Option(metavar="DIR", help="Use this directory as the home, and keep it.")
    ] = None,
    dry_run: DryRunUnasked = False,
) -> None:
    """Try the whole flow: a card, a lorebook, a memory, two questions, and what was sent.

    \b
    familiar demo
    familiar demo --keep ./yuzu
    familiar demo --dry-run
    """
    out = output(ctx)
    with _home(keep) as home:
        data = _familiar(out, home)
        with with_models(_load(home)) as familiar:
            why_not = "you asked for a dry run" if dry_run else _get_model(out, familiar)
            data |= _talk(out, familiar) if not why_not else _only_assemble(out, familiar, why_not)
        _farewell(out, home, kept=keep is not None)
    out.answer(data, None)


@contextmanager
def _home(keep: str | None) -> Iterator[Path]:
    import tempfile
    from pathlib import Path

    from familiar_cli.errors import ConflictError

    if keep is None:
        with tempfile.TemporaryDirectory(prefix="familiar-demo-", ignore_cleanup_errors=True) as d:
            yield Path(d)
        return
    home = Path(keep).expanduser().absolute()
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise ConflictError(
            f"{keep!r} is not an empty directory; nothing was written",
            hint="Choose a new directory: `familiar demo --keep ./somewhere-new`.",
        )
    yield home


def _familiar(out: Output, home: Path) -> dict[str, Any]:
    """Unpack the card and the lorebook, write down a memory, and tell of it."""
    from importlib.resources import files

    from familiar_cli.familiar import Familiar
    from familiar_cli.imports.cards import read_card
    from familiar_cli.imports.create import create_familiar
    from familiar_cli.imports.import_lorebook import import_lorebook, load_book
    from familiar_cli.ui.memory_pages import files_page

    shipped = files("familiar_cli.imports") / "demo"
    card = read_card(shipped.joinpath(CARD).read_bytes(), origin=CARD)
    made = create_familiar(home, card, lambda paths: Familiar(paths).memory)
    _show(out, f"1. A character card becomes Markdown  ({CARD})", files_page(made.written))
    with _load(home) as familiar:
        book = load_book(shipped.joinpath(LOREBOOK).read_bytes(), origin=LOREBOOK)
        lore = import_lorebook(familiar.memory, book)
        with familiar.memory.transaction("demo", "a memory to find") as staged:
            staged.write(NOTE, NOTE_TEXT)
        familiar.finder.index_words()
    _show(out, f"2. So does a lorebook  ({LOREBOOK})", files_page(lore.written))
    _show(out, "3. And so is what was said before  (written here for the demo)", files_page([NOTE]))
    _show(out, NOTE_TEXT, bold=False)
    return {"familiar": made.id, "written": (*made.written, *lore.written, NOTE)}


def _load(home: Path) -> Familiar:
    from familiar_cli.familiar import Familiar

    return Familiar.load_from_disk(home, "yuzu")


def _get_model(out: Output, familiar: Familiar) -> str:
    """Make sure that a model can answer; return why none can, or an empty string."""
    from familiar_cli.config.home import cache_dir
    from familiar_cli.errors import FamiliarError
    from familiar_cli.llm.slots import check_usable
    from familiar_cli.models.fetch import pull_all
    from familiar_cli.models.store import path_of
    from familiar_cli.ui.progress import downloads

    slot = familiar.slot()
    try:
        if slot.preset == "local" and not path_of(slot.model, cache_dir()):
            with downloads(out) as report:
                pull_all([slot.model], cache_dir(), report)
        check_usable(slot)
        familiar.model()
    except FamiliarError as error:
        out.note(f"\n{error}")
        if error.hint:
            out.note(error.hint)
        return "no model is available"
    return ""


def _talk(out: Output, familiar: Familiar) -> dict[str, Any]:
    """Ask the questions, and show what the last one sent."""
    from familiar_cli.context.trace import read_trace
    from familiar_cli.ui.context_page import context_page, found_page
    from familiar_cli.ui.reply import ReplyPrinter

    slot, turns = familiar.slot(), []
    _show(out, f"4. Two questions  ({slot.model}, {slot.where})")
    if slot.model == SMALL_MODEL:
        out.note(
            "This model is tiny, so that it runs anywhere. Memory is found and sent to it, but it\n"
            "uses that only by luck, and often talks nonsense. `familiar model ls` lists larger\n"
            "ones, and `familiar config set llm.preset ollama` uses a server."
        )
    for question in QUESTIONS:
        _show(out, f"\n> {question}", bold=False)
        with ReplyPrinter(silent=out.as_json) as printer:
            result = reply_to(familiar, _said(question), printer, on_wait=out.note)
        told = result.to_json()
        found = found_in_memory(result.trace)
        _show(out, "\nFound in memory, and sent:", found_page(found))
        paths = [piece.rel_path for piece in found]
        turns.append(
            {
                "question": question,
                "turn": told["turn"],
                "reply": told["reply"],
                "found": paths,
            }
        )
    trace = read_trace(familiar.paths.traces, turns[-1]["turn"])
    _show(out, "\n5. What the last question sent, and why", context_page(trace))
    return {"model": slot.model, "turns": turns, "context": trace.to_json()}


def _only_assemble(out: Output, familiar: Familiar, why_not: str) -> dict[str, Any]:
    """Show the prompt of the first question without asking anybody."""
    from familiar_cli.actions.talk import assemble
    from familiar_cli.ui.context_page import context_page

    trace = run_async(assemble(familiar, _said(QUESTIONS[0])))
    title = f"\n4. No model is asked, because {why_not}. This would be sent for:"
    _show(out, f"{title}\n> {QUESTIONS[0]}", context_page(trace))
    return {"model": None, "turns": [], "context": trace.to_json()}


def found_in_memory(trace: Trace) -> list[Fragment]:
    """Return what a search of memory put into a prompt."""
    return [p for p in trace.contributions if p.kept and p.rel_path and p.score is not None]


def _said(question: str) -> Any:  # noqa: ANN401  # named where it is imported
    from familiar_cli.context.types import Said
    from familiar_cli.identity import Author

    return Said(question, Author("cli", "guest", display_name="Robin"), "demo")


def _show(out: Output, title: str, *pages: Any, bold: bool = True) -> None:  # noqa: ANN401
    if out.as_json:
        return
    from familiar_cli.ui.page import plain, print_page

    print_page(plain(title, "bold" if bold else ""), *pages)


def _farewell(out: Output, home: Path, *, kept: bool) -> None:
    where = (
        f"Everything is in {home}. Look around: `familiar memory ls --home {typed(str(home))}`."
        if kept
        else "All of this was in a temporary directory, which has been deleted."
    )
    out.note(
        f'\n{where}\nNext: `familiar init --from-card YOUR-CARD.png`, then `familiar ask "Hello"`.'
    )
