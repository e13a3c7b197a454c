"""The commands `demo` and `init`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict

from familiar_cli.base.errors import ConflictError, FamiliarError, UsageError
from familiar_cli.base.text import counted, typed
from familiar_cli.base.who.identity import Author
from familiar_cli.cli.commands import _base as base
from familiar_cli.cli.commands import _options as options
from familiar_cli.cli.commands.talk import reply_to
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.layout import TOPICS_DIR

if TYPE_CHECKING:
    from familiar_cli.imports.cards import Card
    from familiar_cli.imports.personas import PersonaCard
    from familiar_cli.pages.emit import Output
    from familiar_cli.sync.sealing import SignatureTrust

init_app = base.App()
_INDEXED_AT_ONCE = 500  # files; with more, fetching is the smaller part of the wait


@init_app.command()
def init(
    ctx: typer.Context,
    familiar_id: Annotated[str | None, typer.Argument()] = None,
    *,
    from_card: str | None = None,
    from_persona: str | None = None,
    from_remote: str | None = None,
    template: str | None = None,
    user: str | None = None,
    update: Annotated[bool, typer.Option("--update")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite")] = False,
    signing_key: options.SigningKeyOption = "",
    unsigned: options.Unsigned = False,
    dry_run: options.DryRun = False,
) -> None:
    """Create a familiar from a character card, a persona folder, a template or a remote.

    A directory of several personas creates one familiar for each.

    \b
    familiar init --from-card mira.png
    familiar init --from-persona home/noor/persona/ember
    familiar init mira --template keeper --user discord:4711
    familiar init --from-card mira.png --dry-run
    familiar init --from-remote me@example.org:mira.git

    Args:
        familiar_id ([ID]): Id of the new familiar; default: made from the name.
        from_card (FILE): PNG, CHARX, JSON or YAML card; `-` reads standard input.
        from_persona (DIR): Persona folder with IDENTITY.md, SOUL.md …
        from_remote (ADDRESS): Remote of a familiar that lives on another machine; see `familiar
            sync`.
        template (NAME): Template: companion, assistant, narrator, keeper or workmate.
        user (PLATFORM:ID): Account of the person that a persona's USER.md describes.
        update: Update files whose source in the persona has changed.
        overwrite: Overwrite even files that you edited or deleted.
    """
    base.warn_of_network(base.output(ctx), base.home_of(ctx))
    sources = [source for source in (from_card, from_persona, from_remote, template) if source]
    if len(sources) != 1:
        raise UsageError(
            "Exactly one source is required: a card, a persona, a template or a remote",
            hint="Add `--from-card FILE`, `--from-persona DIR`, `--from-remote ADDRESS`, or "
            "`--template companion` (or assistant, narrator, keeper, workmate).",
        )
    target = familiar_id or base.globals_of(ctx).familiar
    if from_remote:
        from familiar_cli.sync.sealing import SignatureTrust

        trust = SignatureTrust(signing_key, unsigned)
        return _begin(ctx, from_remote, target, trust, dry_run=dry_run)
    if from_persona or template in _persona_templates():
        personas = _personas(base.home_of(ctx), from_persona, template, target, user)
        return _make_personas(ctx, personas, update=update, overwrite=overwrite, dry_run=dry_run)
    card = _card(from_card, template, target)
    return _make_card(ctx, card, target, overwrite=overwrite, dry_run=dry_run)


def _begin(
    ctx: typer.Context, address: str, wanted: str | None, trust: SignatureTrust, *, dry_run: bool
) -> None:
    from familiar_cli.actions.share.sync import begin
    from familiar_cli.actions.share.sync_decisions import remotes_of
    from familiar_cli.cli.commands.sync import ask_secret
    from familiar_cli.pages.emit import is_terminal
    from familiar_cli.pages.progress import show_messages

    if dry_run:
        raise UsageError(
            "--dry-run cannot be used with --from-remote; nothing was changed",
            hint="See what is there with git: `git ls-remote ADDRESS`.",
        )
    out, home = base.output(ctx), base.home_of(ctx)
    with show_messages(out) as progress:
        text, instance = begin(
            home,
            address,
            wanted,
            ask=is_terminal(),
            tell=out.warn,
            progress=progress,
            secret=ask_secret if is_terminal() else None,
            trust=trust,
        )
    with Familiar.load_from_disk(home, text) as familiar:
        files, turns = len(familiar.memory.walk().files), familiar.history.count()
        (remote,) = remotes_of(familiar).all()
        is_quick = files <= _INDEXED_AT_ONCE
        if is_quick:
            options.index_words(out, familiar)
    data = {
        "id": text,
        "instance": instance.id,
        "began": instance.began,
        "remote": remote,
        "files": files,
        "turns": turns,
    }
    held = f"{counted(files, 'file')} and {counted(turns, 'turn')}"
    out.report(data, f"{text}: {held} from {address}")
    if not is_quick:
        out.note("Next: `familiar index build`, so that everything can be found right away")
    out.note(f'Next: `familiar sync`, and `familiar ask {familiar_option(home, text)}"Hello"`')


def _make_card(
    ctx: typer.Context, card: Card, wanted: str | None, *, overwrite: bool, dry_run: bool
) -> None:
    from familiar_cli.imports.create import create_familiar
    from familiar_cli.pages.bring_pages import report_page

    out, home = base.output(ctx), base.home_of(ctx)
    report = create_familiar(
        home,
        card,
        lambda paths: Familiar(paths).memory,
        familiar_id=wanted,
        overwrite=overwrite,
        dry_run=dry_run,
    )
    if not dry_run:
        with Familiar.load_from_disk(home, report.id) as familiar:
            options.index_words(out, familiar)
            options.warn_of_pins(out, familiar)
    data = asdict(report) | {"dry_run": dry_run}
    out.report(data, report_page(report, dry_run=dry_run))
    out.warn(*report.warnings)
    if not dry_run:
        out.note(f'Next: `familiar ask {familiar_option(home, report.id)}"Hello"`')


def _make_personas(
    ctx: typer.Context,
    personas: Sequence[PersonaCard],
    *,
    update: bool,
    overwrite: bool,
    dry_run: bool,
) -> None:
    """Create a familiar from each persona; a failure does not stop the others."""
    from familiar_cli.imports.personas import create_from_persona
    from familiar_cli.pages.bring_pages import report_page

    out, home = base.output(ctx), base.home_of(ctx)
    reports, failed = [], []
    for persona in personas:
        try:
            one = create_from_persona(
                home,
                persona,
                lambda paths: Familiar(paths).memory,
                update=update,
                overwrite=overwrite,
                dry_run=dry_run,
            )
        except FamiliarError as error:
            if len(personas) == 1:
                raise
            failed.append(error)
        else:
            reports.append(one)
    for one in reports if not dry_run else ():
        with Familiar.load_from_disk(home, one.id) as familiar:
            options.index_words(out, familiar)
    data = {"familiars": [asdict(one) for one in reports], "dry_run": dry_run}
    pages = [report_page(one, dry_run=dry_run) for one in reports]
    problems = [*failed, *filter(None, (one.problem(one.name) for one in reports))]
    out.warn(*(warning for one in reports for warning in one.warnings))
    notes = [] if dry_run else [note for one in reports for note in adopt_jobs(home, one.id)]
    out.report(data, pages, problems)
    if not dry_run:
        next_step = f'Next: `familiar ask {familiar_option(home, reports[0].id)}"Hello"`'
        out.note("\n".join([*notes, next_step]))


def adopt_jobs(home: Path, familiar_id: str) -> list[str]:
    """Add a persona's jobs to the familiar's; return notices for the person."""
    from familiar_cli.actions.health.job_schedule import adopt_crons

    try:
        with Familiar.load_from_disk(home, familiar_id) as familiar:
            jobs, problems = adopt_crons(familiar)
    except FamiliarError as error:
        return [f"warning: {error}"]
    added = [f"Job {job.id}: {job.when}, {job.what}" for job in jobs]
    return [*added, *(f"warning: {problem}" for problem in problems)]


def _personas(
    home: Path, directory: str | None, template: str | None, wanted: str | None, user: str | None
) -> list[PersonaCard]:
    from familiar_cli.actions.people.me import home_owners
    from familiar_cli.base.config.home import who_speaks
    from familiar_cli.imports.personas import find_personas, read_personas, template_persona
    from familiar_cli.imports.what_is_it import taken_for

    about = who_speaks(user, me=home_owners(home))
    if directory:
        with taken_for("persona", directory):
            dirs = find_personas(Path(directory).expanduser())
        return read_personas(dirs, about, familiar_id=wanted)
    return [template_persona(template or "", about, familiar_id=wanted)]


def _persona_templates() -> Collection[str]:
    from familiar_cli.imports.personas import PERSONA_TEMPLATES

    return PERSONA_TEMPLATES


def _card(from_card: str | None, template: str | None, familiar_id: str | None) -> Card:
    from familiar_cli.imports.create import template_card

    if from_card:
        if from_card.casefold().startswith(("http://", "https://")):
            raise UsageError(
                f"--from-card takes a file, not an address: {from_card!r}; nothing was changed",
                hint=f"Run `familiar import {typed(from_card)} --allow-network`.",
            )
        return base.read_card_at(from_card)
    name = (familiar_id or "").replace("-", " ").title()
    return template_card(template or "", name=name, also=tuple(_persona_templates()))


def familiar_option(home: Path, familiar_id: str) -> str:
    """Return the option by which a command selects this familiar, if it needs one."""
    from familiar_cli.base.config.home import find_familiar

    try:
        current = find_familiar(home).id
    except FamiliarError:
        current = ""
    return "" if current == familiar_id else f"--familiar {familiar_id} "


demo_app = base.App()

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
    ("Good evening! Who is Inspector?", "heron"),
    ("What is the name of my dog?", "Biscuit"),
)
"""Each with a word of the memory that answers it."""


@demo_app.command()
def demo(
    ctx: typer.Context, *, keep: str | None = None, dry_run: options.DryRunUnasked = False
) -> None:
    """Try the whole flow: a card, a lorebook, a memory, two questions, explained replies.

    \b
    familiar demo
    familiar demo --keep ./yuzu
    familiar demo --dry-run

    Args:
        keep (DIR): Use this directory as the home, and keep it.
    """
    out = base.output(ctx)
    with _home(keep) as home:
        data = _familiar(out, home)
        with base.with_models(Familiar.load_from_disk(home, "yuzu")) as familiar:
            why_not = "you asked for a dry run" if dry_run else _get_model(out, familiar)
            data |= _talk(out, familiar) if not why_not else _only_assemble(out, familiar, why_not)
        _farewell(out, home, kept=keep is not None)
    out.answer(data, None)


@contextmanager
def _home(keep: str | None) -> Iterator[Path]:
    import tempfile

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
    """Import the card and the lorebook, write a memory, and report it."""
    from importlib.resources import files

    from familiar_cli.base.config.edit import set_values
    from familiar_cli.base.config.home import FamiliarPaths
    from familiar_cli.imports.create import create_familiar
    from familiar_cli.imports.import_lorebook import import_lorebook
    from familiar_cli.imports.reading import load_book, read_card
    from familiar_cli.pages.memory_pages import files_page

    shipped = files("familiar_cli.imports") / "demo"
    card = read_card(shipped.joinpath(CARD).read_bytes(), origin=CARD)
    report = create_familiar(home, card, lambda paths: Familiar(paths).memory)
    set_values(FamiliarPaths(home / report.id).config, {"llm.temperature": "0"})  # no luck needed
    _show(out, f"1. A character card becomes Markdown  ({CARD})", files_page(report.written))
    with Familiar.load_from_disk(home, "yuzu") as familiar:
        book = load_book(shipped.joinpath(LOREBOOK).read_bytes(), origin=LOREBOOK)
        lore = import_lorebook(familiar.memory, book)
        with familiar.memory.transaction("demo", "a memory to find") as staged:
            staged.write(NOTE, NOTE_TEXT)
        familiar.finder.index_words()
    _show(out, f"2. So does a lorebook  ({LOREBOOK})", files_page(lore.written))
    _show(
        out,
        "3. Memories of earlier talks are Markdown, too  (written here for the demo)",
        files_page([NOTE]),
    )
    _show(out, NOTE_TEXT, bold=False)
    return {"familiar": report.id, "written": (*report.written, *lore.written, NOTE)}


def _get_model(out: Output, familiar: Familiar) -> str:
    """Make sure that a model can reply; return the reason if none can, else an empty string."""
    from familiar_cli.base.config.home import cache_dir
    from familiar_cli.llm.client import load_engine
    from familiar_cli.llm.models.fetch import pull_all
    from familiar_cli.llm.models.store import path_of
    from familiar_cli.llm.slots import check_usable
    from familiar_cli.pages.progress import show_downloads

    slot = familiar.models.slot()
    try:
        if slot.preset == "local":
            load_engine()  # before anything is downloaded
        if slot.preset == "local" and not path_of(slot.model, cache_dir()):
            with show_downloads(out) as report:
                pull_all([slot.model], cache_dir(), report)
        check_usable(slot)
        familiar.models.open()
    except FamiliarError as error:
        out.note(f"\n{error}")
        if error.hint:
            out.note(error.hint)
        return "no model is available"
    return ""


def _talk(out: Output, familiar: Familiar) -> dict[str, Any]:
    """Ask the questions, and show below each reply which memories it used."""
    from familiar_cli.actions.talk.why import explain_reply
    from familiar_cli.cli.terminal.reply import ReplyPrinter, note_slow_model
    from familiar_cli.context.trace import read_trace
    from familiar_cli.pages.context_page import reply_page

    slot, turns = familiar.models.slot(), []
    _show(out, f"4. Two questions  ({slot.model}, {slot.where})")
    note_slow_model(out, familiar)
    if slot.model == SMALL_MODEL:
        out.note("It is small enough to run anywhere, and too small to be good company.")
    for question, answer in QUESTIONS:
        _show(out, f"\n> {question}", bold=False)
        with ReplyPrinter(silent=out.as_json) as printer:
            result = reply_to(familiar, _demo_message(question), printer, on_wait=out.note)
        if answer.casefold() not in result.text.casefold():
            out.note(f"(The reply misses it, but {answer!r} was in the prompt:)")
        _show(out, "", reply_page(explain_reply(familiar, result.trace)))
        told, offered = result.to_json(), result.trace.contributions
        rel_paths = [p.rel_path for p in offered if p.kept and p.rel_path and p.score is not None]
        turn, reply = told["turn"], told["reply"]
        turns.append({"question": question, "turn": turn, "reply": reply, "found": rel_paths})
    _show(out, "\n5. Why did it say that?")
    text = (
        "After each message, `familiar why` explains the reply like this, and\n"
        "`familiar context` shows everything that was sent and what was left out."
    )
    _show(out, text, bold=False)
    trace = read_trace(familiar.paths.traces, turns[-1]["turn"])
    return {"model": slot.model, "turns": turns, "context": trace.to_json()}


def _only_assemble(out: Output, familiar: Familiar, why_not: str) -> dict[str, Any]:
    """Show the prompt of the last question without asking a model."""
    from familiar_cli.actions.talk.talk import assemble
    from familiar_cli.pages.context_page import context_page

    question, _ = QUESTIONS[-1]
    trace = base.run_async(assemble(familiar, _demo_message(question)))
    title = f"\n4. No model is asked, because {why_not}. This would be sent for:"
    _show(out, f"{title}\n> {question}", context_page(trace, familiar.zone))
    return {"model": None, "turns": [], "context": trace.to_json()}


def _demo_message(question: str) -> Any:  # noqa: ANN401  # its type is imported late
    from familiar_cli.context.types import Said

    return Said(question, Author("cli", "guest", display_name="Robin"), "demo")


def _show(out: Output, title: str, *pages: Any, bold: bool = True) -> None:  # noqa: ANN401
    if out.as_json:
        return
    from familiar_cli.pages.page import plain, print_page

    print_page(plain(title, "bold" if bold else ""), *pages)


def _farewell(out: Output, home: Path, *, kept: bool) -> None:
    where = "All of this was in a temporary directory, which has been deleted."
    if kept:
        look = f"familiar memory list --home {typed(str(home))}"
        where = f"Everything is in {home}. Look around: `{look}`."
    out.note(
        f"\n{where}\n"
        "Next, with your own character and model: `familiar start`, which ends in a chat. Step by\n"
        "step: `familiar init --from-card YOUR-CARD.png`, `familiar config set llm.preset ollama`\n"
        "(or another server; `familiar doctor` checks), `familiar chat`."
    )
