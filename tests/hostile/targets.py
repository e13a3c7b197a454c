"""What hostile input is given to, the way the program would give it."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rich.console import Console

from familiar_cli.actions.health.status import list_of, status_of
from familiar_cli.actions.memory.housekeep import tidy_up
from familiar_cli.actions.talk.sent import messages_diff, sent_of
from familiar_cli.actions.talk.talk import assemble
from familiar_cli.base.config.edit import set_values
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.config.settings import load_config
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context.trace import latest_trace, read_trace
from familiar_cli.context.types import Modality, Said
from familiar_cli.familiar import Familiar
from familiar_cli.imports.card_check import check_card, summarise_card
from familiar_cli.imports.create import create_familiar
from familiar_cli.imports.export_card import CardFormat, export_card
from familiar_cli.imports.export_lorebook import export_book
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.reading import load_book, read_card
from familiar_cli.llm.reply import ErrorInReplyError, EventSplitter, StreamedReply
from familiar_cli.llm.tokens import heuristic
from familiar_cli.pages.bring_pages import report_page
from familiar_cli.pages.card_pages import card_page, findings_page
from familiar_cli.pages.context_page import context_page, messages_text
from familiar_cli.pages.memory_pages import housekeeping_page
from familiar_cli.pages.status_pages import list_page, status_page
from familiar_cli.pages.terminal import as_plain
from familiar_cli.store.history.store import HistoryStore
from tests.hostile import indexes, inputs, journals
from tests.hostile.mutations import (
    damage,
    damage_json,
    damage_pages,
    damage_png,
    damage_zip,
    either,
)
from tests.hostile.trees import plant

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from rich.console import RenderableType

COUNTER = heuristic()
WORDS = Said("Hello", Author("cli", "me"), "cli", Modality.text)


@dataclass(frozen=True)
class World:
    """A place to play in. `home` holds familiars, and nothing beside it may change."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    def fresh(self) -> Familiar:
        """Return the familiar `ada` with nothing in it."""
        paths = FamiliarPaths(self.home / "ada")
        empty(paths.root)
        paths.memory.mkdir(parents=True)
        return Familiar(paths)


@dataclass(frozen=True)
class Target:
    """One kind of input: how to make a bad one, what to do with it, and what it is in words."""

    make: Callable[[Random, World], bytes]
    use: Callable[[bytes, Random, World], None]
    what: str = ""


def empty(directory: Path) -> None:
    """Take a directory away, if it is there."""
    if directory.exists():
        shutil.rmtree(directory)


def show(page: RenderableType, *, framed: bool = False) -> None:
    """Render a page, and look for what would steer a terminal."""
    if framed:
        stream = StringIO()
        Console(file=stream, width=40, color_system=None, markup=False).print(page)
        shown = stream.getvalue()
    else:
        shown = as_plain(page)
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown


def _card(rng: Random, world: World) -> bytes:
    value = rng.choice(inputs.CARD_VALUES)
    return either(
        rng,
        lambda: damage_json(rng, value),
        lambda: damage_json(rng, value),
        lambda: damage(rng, inputs.as_json(value)),
        lambda: damage_png(rng, rng.choice(inputs.pictures())),
        lambda: damage_png(rng, rng.choice(inputs.pictures())),
        lambda: damage(rng, rng.choice(inputs.pictures())),
        lambda: damage_zip(rng, rng.choice(inputs.archives()), str(world.outside)),
        lambda: damage(rng, rng.choice(inputs.archives())),
        lambda: damage(rng, inputs.YAML),
    )


def _use_card(raw: bytes, rng: Random, world: World) -> None:
    card = read_card(raw, origin="ilse.card")
    framed = rng.random() < 0.2
    show(card_page(summarise_card(card, COUNTER), framed=framed), framed=framed)
    show(findings_page(check_card(card, COUNTER)))
    if rng.random() < 0.5:
        return
    empty(world.home)
    made = create_familiar(world.home, card, lambda paths: Familiar(paths).memory)
    show(report_page(made, dry_run=False))
    again = create_familiar(world.home, card, lambda paths: Familiar(paths).memory)
    assert (again.id, again.written) == (made.id, ()), "a second init wrote something"
    familiar = Familiar(FamiliarPaths(made.path))
    drawn = rng.random() < 0.1  # drawing a picture takes a while
    _export_all(
        familiar,
        card.data,
        get_args(CardFormat) if drawn or card.container == "png" else get_args(CardFormat)[1:],
    )
    if rng.random() < 0.3:
        show(context_page(asyncio.run(assemble(familiar, WORDS)), None))
    familiar.close()


def _export_all(familiar: Familiar, data: dict[str, Any], formats: tuple[CardFormat, ...]) -> None:
    """Every format brings the card's texts back."""
    for card_format in formats:
        made = export_card(familiar.memory, card_format, default_name="Ada").content
        back = read_card(made, origin="back.card")
        for field in ("name", "description", "first_mes", "tags", "x_unknown"):
            given = data.get(field)
            assert back.data.get(field) == given or given in (None, "", []), field


def _book(rng: Random, world: World) -> bytes:
    files = sorted(inputs.CORPUS.iterdir())
    return either(
        rng,
        lambda: damage_json(rng, rng.choice(inputs.BOOK_VALUES)),
        lambda: damage_json(rng, rng.choice(inputs.BOOK_VALUES)),
        lambda: damage(rng, inputs.as_json(rng.choice(inputs.BOOK_VALUES))),
        lambda: damage(rng, rng.choice(files).read_bytes()[:20_000]),
        lambda: damage_png(rng, inputs.pictures()[0]),
    )


def _use_book(raw: bytes, rng: Random, world: World) -> None:
    book = load_book(raw, origin="town.json")
    memory = world.fresh().memory
    show(report_page(import_lorebook(memory, book), dry_run=False))
    assert import_lorebook(memory, book).written == (), "a second import wrote something"
    if not book.entries:
        return
    for book_format in ("worldinfo", "v3", "card"):
        made = export_book(memory, book_format=book_format)
        again = load_book(json.dumps(made).encode(), origin="again.json")
        assert len(again.entries) == len(book.entries), book_format
        assert [e.content for e in again.entries] == [e.content for e in book.entries]


def _toml(rng: Random, world: World) -> bytes:
    raw = rng.choice(inputs.settings())
    return damage_toml(rng, raw) if rng.random() < 0.6 else damage(rng, raw)


def damage_toml(rng: Random, raw: bytes) -> bytes:
    """Return settings with values of other types, doubled keys and torn tables."""
    lines = raw.decode("utf-8-sig").splitlines()
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(lines))
        name, _, _ = lines[at].partition("=")
        lines[at : at + rng.randrange(2)] = [rng.choice(_TOML).replace("KEY", name.strip())]
    return "\n".join(lines).encode("utf-8", errors="surrogatepass")


_TOML = (
    "KEY = 9" + "9" * 5000,
    "KEY = nan",
    "KEY = -inf",
    "KEY = 1979-05-27T07:32:00Z",
    "KEY = " + "[" * 3000 + "]" * 3000,
    "KEY = " + "{a=" * 500 + "1" + "}" * 500,
    "KEY = [1, 'x', {}]",
    'KEY = "\\u001b[2J\\u202e"',
    "KEY = true",
    "KEY = -1",
    "KEY = 9223372036854775808",
    "KEY = ''",
    "KEY.a.b.c = 1",
    '"KEY\\u001b" = 1',
    "[KEY]",
    "[[KEY]]",
    "[" + "a." * 3000 + "a]",
    "a." * 3000 + "a = 1",
    "[llm.slots." + "x" * 3000 + "]",
    "[llm.slots.recast.more]",
    "llm = 5",
    'api_key = "secret"',
    "",
)


def _use_toml(raw: bytes, rng: Random, world: World) -> None:
    familiar = world.fresh()
    familiar.paths.config.write_bytes(raw)
    outcome = _outcome(lambda: load_config(familiar.paths.config))
    _outcome(lambda: show(list_page(list_of(world.home))))
    if outcome is None:
        _outcome(lambda: show(status_page(status_of(familiar))))
        _outcome(lambda: asyncio.run(assemble(familiar, WORDS)))
    key, value = rng.choice((("llm.model", "x"), ("name", "城"), ("history.recent_turns", "9")))
    set_values(familiar.paths.config, {key: value})
    familiar.close()


def _outcome(action: Callable[[], object]) -> FamiliarError | None:
    try:
        action()
    except FamiliarError as error:
        return error
    return None


def _database(rng: Random, world: World) -> bytes:
    raw = _kept("history", world, inputs.history)
    if rng.random() < 0.3:
        raw = _kept("old", world, inputs.old_history)
    return damage_pages(rng, raw) if rng.random() < 0.7 else damage(rng, raw)


_KEPT: dict[str, bytes] = {}


def _kept(name: str, world: World, make: Callable[[Path], bytes]) -> bytes:
    if name not in _KEPT:
        world.home.mkdir(parents=True, exist_ok=True)
        _KEPT[name] = make(world.home / f"{name}.sqlite")
        empty(world.home)
    return _KEPT[name]


def _use_database(raw: bytes, rng: Random, world: World) -> None:
    familiar = world.fresh()
    familiar.paths.history.write_bytes(raw)
    store = HistoryStore(familiar.paths.history)
    for action in (
        store.count,
        store.channels,
        store.last_turn,
        store.unsummarised_count,
        lambda: store.recent("c0", 50, viewer=OWNER),
        lambda: store.turn(3),
        lambda: store.begin("c9", "Hello"),
        lambda: store.append("c0", "user", "Hello", author=Author("cli", "me")),
        lambda: store.move_watermark("memory_writer", 20),
        lambda: store.recent("c1", 5, before_id=10, viewer=OWNER),
    ):
        _outcome(action)
    store.close()
    _outcome(lambda: show(status_page(status_of(familiar))))
    _outcome(lambda: show(context_page(asyncio.run(assemble(familiar, WORDS)), None)))
    familiar.close()


def _trace(rng: Random, world: World) -> bytes:
    if rng.random() < 0.8:
        return damage_json(rng, inputs.record())
    return damage(rng, inputs.as_json(inputs.record()))


def _use_trace(raw: bytes, rng: Random, world: World) -> None:
    paths = world.fresh().paths
    paths.traces.mkdir()
    (paths.traces / "7.json").write_bytes(raw)
    _outcome(lambda: read_trace(paths.traces, 8))
    found = latest_trace(paths.traces)
    show(context_page(found, None))
    messages_text(found.messages)
    messages_diff(found, found)
    json.dumps(found.to_json())
    sent_of(found)


def _reply(rng: Random, world: World) -> bytes:
    raw = rng.choice(inputs.stream())
    return damage_json(rng, json.loads(raw)) if rng.random() < 0.8 else damage(rng, raw)


def _use_reply(raw: bytes, rng: Random, world: World) -> None:
    cut = rng.randrange(len(raw) + 1)
    for blocks in ((b"data: ", raw[:cut], raw[cut:], b"\n\n"), (raw[:cut], raw[cut:])):
        reply, splitter = StreamedReply(), EventSplitter()
        try:
            for event in chain(*map(splitter.feed, blocks), splitter.close()):
                reply.take(event)
            reply.close()
        except ErrorInReplyError:
            continue
        except FamiliarError:
            continue
        done = reply.finished("m")
        assert isinstance(done.text, str)


def _inside(rng: Random, world: World) -> bytes:
    """A valid familiar; which of its own files is damaged is drawn when it is used."""
    return inputs.as_json(rng.choice(inputs.CARD_VALUES[:3]))


OWN_FILES = ("self/card.json", ".lorebook.json", "self/.original.json", "md")


def _use_inside(raw: bytes, rng: Random, world: World) -> None:
    empty(world.home)
    card = read_card(raw, origin="ilse.json")
    made = create_familiar(world.home, card, lambda paths: Familiar(paths).memory)
    familiar = Familiar(FamiliarPaths(made.path))
    wanted = rng.choice(OWN_FILES)
    place = familiar.paths.memory / wanted
    if wanted in ("md", ".lorebook.json"):
        there = sorted(familiar.paths.memory.rglob(f"*{wanted}"))
        place = rng.choice(there) if there else place
    if not place.exists():
        return
    old = place.read_bytes()
    is_json = place.suffix == ".json" and rng.random() < 0.8
    place.write_bytes(damage_json(rng, json.loads(old)) if is_json else damage(rng, old))
    for card_format in get_args(CardFormat)[1:]:
        _outcome(lambda f=card_format: export_card(familiar.memory, f, default_name="Ada"))
    for book_format in ("worldinfo", "v3", "card"):
        _outcome(lambda f=book_format: export_book(familiar.memory, book_format=f))
    book = load_book(inputs.as_json(inputs.BOOK_VALUES[0]), origin="w.json")
    _outcome(lambda: import_lorebook(familiar.memory, book))
    _outcome(lambda: import_lorebook(familiar.memory, book, update=True, force=True))
    _outcome(lambda: show(context_page(asyncio.run(assemble(familiar, WORDS)), None)))
    for overwrite in (False, True):
        _outcome(
            lambda o=overwrite: create_familiar(
                world.home, card, lambda paths: Familiar(paths).memory, overwrite=o
            )
        )
    familiar.close()


def _nothing(rng: Random, world: World) -> bytes:
    """A tree is made where it is used."""
    return b""


def _use_tree(raw: bytes, rng: Random, world: World) -> None:
    familiar = world.fresh()
    plant(familiar.paths.memory, world.outside, rng)
    memory = familiar.memory
    walk = memory.walk(hidden=rng.random() < 0.5)
    for entry in walk.files[:5]:
        _outcome(lambda e=entry: memory.read(e.rel_path))
        _outcome(lambda e=entry: memory.append_file(e.rel_path, "more\n"))
    some = [entry.rel_path for entry in walk.files] + [item.rel_path for item in walk.skipped]
    for path in rng.sample(some, min(len(some), 4)):
        _outcome(lambda p=path: memory.read_bytes(p))
        _outcome(lambda p=path: memory.list_dir(p))
        _outcome(lambda p=path: memory.move_file(p, "moved/x.md"))
        _outcome(lambda p=path: memory.delete_file(p))
        _outcome(lambda p=path: memory.write_file(p, "new"))
        _outcome(lambda p=path: memory.write_file(f"{p}/below.md", "new"))
    _outcome(lambda: memory.grep("e"))
    _outcome(lambda: memory.glob("**/*"))
    _outcome(memory.list_dir)
    _outcome(lambda: show(status_page(status_of(familiar))))
    _outcome(lambda: asyncio.run(assemble(familiar, WORDS)))
    _outcome(lambda: show(housekeeping_page(asyncio.run(tidy_up(familiar, propose=True)))))
    _outcome(lambda: export_card(memory, "charx", default_name="Ada"))
    book = load_book(inputs.as_json(inputs.BOOK_VALUES[0]), origin="w.json")
    _outcome(lambda: import_lorebook(memory, book))
    _outcome(lambda: export_book(memory, book_format="v3"))
    familiar.close()


def _use_journal(raw: bytes, rng: Random, world: World) -> None:
    """Whatever the journal is, a command works or says in one error what to do."""
    paths = world.fresh().paths
    empty(paths.root)
    shutil.copytree(journals.template(), paths.root, symlinks=True)
    journals.spoil(paths.journal, rng)
    for argv in rng.sample(journals.READS, 4):
        before = journals.contents(paths.memory)
        _typed(world, argv)
        assert journals.contents(paths.memory) == before, f"{argv} harmed the memory"
    for argv in rng.sample(journals.WRITES + journals.BACK, 3):
        before = journals.contents(paths.memory)
        code = _typed(world, argv)
        if code:
            assert journals.contents(paths.memory) == before, f"{argv} failed half-way"
    allowed = {paths.root.name, "pending"}
    assert {path.name for path in world.home.iterdir()} <= allowed, "a file beside the familiar"


def _use_indexes(raw: bytes, rng: Random, world: World) -> None:
    """Whatever stands in place of what is made from the memory, it is made again in two tries."""
    paths = world.fresh().paths
    empty(paths.root)
    shutil.copytree(indexes.template(), paths.root, symlinks=True)
    for path in rng.sample(indexes.files(paths.root), rng.choice((1, 1, 2))):
        indexes.spoil(path, rng)
    for argv in rng.sample(indexes.READS, 3):
        if _typed(world, argv) not in {0, 7}:
            assert _typed(world, argv) in {0, 7}, f"{argv} failed twice"


def _typed(world: World, argv: tuple[str, ...]) -> int:
    done = journals.type_(world.home, *argv)
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    if done.exit_code not in {0, 7}:
        assert len(errors) == 1, (argv, done.exit_code, done.stderr)
        assert "hint: " in done.stderr, (argv, done.exit_code, done.stderr)
    return int(done.exit_code)


TARGETS = {
    "card": Target(
        _card,
        _use_card,
        "character cards (PNG, CHARX, JSON, YAML): read, checked, imported, exported",
    ),
    "lorebook": Target(_book, _use_book, "lorebooks: imported and exported"),
    "settings": Target(_toml, _use_toml, "`character.toml`: read and changed"),
    "history": Target(
        _database, _use_database, "`history.db`, also of a development version, which is refused"
    ),
    "trace": Target(_trace, _use_trace, "records of what was sent"),
    "reply": Target(_reply, _use_reply, "replies of a model, whole and streamed"),
    "own-files": Target(_inside, _use_inside, "a familiar's own files, one after another"),
    "tree": Target(
        _nothing, _use_tree, "memory directories: links, pipes, odd names, unreadable files"
    ),
    "journal": Target(
        _nothing,
        _use_journal,
        "the journal: cut short, swapped, forged, taken from another familiar",
    ),
    "indexes": Target(
        _nothing,
        _use_indexes,
        "the indexes of passages and names: damaged pages, other tables and values",
    ),
}
