"""`familiar import`: recognise files and directories, and pass each to its importer."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.actions.bring.import_sillytavern import import_folder, open_memory
from familiar_cli.actions.people.me import home_owners
from familiar_cli.actions.talk.client_chat import adopt_notes, chat_reading
from familiar_cli.base import errors
from familiar_cli.base.config.home import FamiliarPaths, find_familiar, list_familiars, who_speaks
from familiar_cli.base.config.settings import load_config
from familiar_cli.base.text import fold, typed
from familiar_cli.base.who.identity import check_familiar_id
from familiar_cli.familiar import Familiar
from familiar_cli.imports import create, what_is_it
from familiar_cli.imports.contract import DateOrder, ForeignChat, Reading, recognise
from familiar_cli.imports.foreign_files import DamagedError, read_foreign
from familiar_cli.imports.import_chat import (
    WHOSE,
    ChatImportOptions,
    ImportedChats,
    find_questions,
    import_chats,
)
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.import_plan import (
    MEMORY_DIR,
    FamiliarReport,
    ImportReport,
    build_familiar,
)
from familiar_cli.imports.reading import forms_in, load_book, read_card, read_chats, read_memories
from familiar_cli.imports.sillytavern import ImportedFolder, find_folder
from familiar_cli.imports.source import ForeignFile, as_source

if TYPE_CHECKING:
    from familiar_cli.imports import folders
    from familiar_cli.imports.personas import PersonaCard


OnProgress = Callable[[str, int], None]
Done = ImportReport | ImportedChats | ImportedFolder

_KINDS: Final = {"sillytavern": "folder"}  # as a person calls it: as the importers do
# The order of kinds: first those that make a familiar, for the others to go into.
_FIRST: Final = ("folder", "export", "persona", "card", "lorebook", "memories", "vault", "chat")


class FileImportOptions(Struct, frozen=True):
    """Options of `familiar import`.

    Args:
        familiar_id: The familiar; empty for the new one, the one in the chat, or the chosen one.
        kind: The kind of all files; empty to recognise it.
        person: The account of the user in chats, as `PLATFORM:ID`.
        mine: The owner's names in chats.
        character: The familiar's names in chats.
        dates: The order of numeric dates.
        year: The year of the first date of a chat, for dates without one.
        update: Rewrite files whose source has changed.
        force: Rewrite even files that a person edited.
        at_once: Apply memories of other programs instead of proposing them.
        dry_run: Write nothing.
        whose: By the name of somebody in a one-to-one chat, whether that is the owner.
        typed: What a person typed for a file that is a copy, by its path.
    """

    familiar_id: str = ""
    kind: str = ""
    person: str = ""
    mine: tuple[str, ...] = ()
    character: tuple[str, ...] = ()
    dates: DateOrder | None = None
    year: int | None = None
    update: bool = False
    force: bool = False
    at_once: bool = False
    dry_run: bool = False
    whose: Mapping[str, bool] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)

    def answered(self, option: str, value: str) -> FileImportOptions:
        """Return the options with an answer added."""
        if option == "--character":
            return replace(self, character=(*self.character, value))
        if option == "--me":
            return replace(self, mine=(*self.mine, value))
        if option == WHOSE:
            whom, _, name = value.partition(":")
            return replace(self, whose={**self.whose, name: whom == "me"})
        if option == "--year":
            return replace(self, year=int(value) if re.fullmatch("[0-9]{1,4}", value) else None)
        return replace(self, dates="dmy" if value == "dmy" else "mdy")


class ImportItem(Struct):
    """A file or directory, its kind, and the result of its import.

    Args:
        path: The file or directory.
        kind: Its kind; empty if not recognised.
        title: Description of the kind.
        others: Other possible kinds.
        familiar: The familiar it was imported into, or that was made from it.
        forms: The common forms of a file, in the order of their import.
        done: Reports, one for each familiar and form.
        error: Why it was not imported, or not completely.
        left_out: What it is, if it was left out on purpose.
        shown: Its path, for people; in an archive, below that.
    """

    path: Path
    kind: str = ""
    title: str = ""
    others: tuple[what_is_it.Recognized, ...] = ()
    familiar: str = ""
    forms: tuple[str, ...] = ()
    done: list[Done] = field(default_factory=list)
    error: errors.FamiliarError | None = None
    left_out: str = ""
    shown: str = ""

    @property
    def problems(self) -> list[errors.FamiliarError]:
        """The error, and those of single chats that were left out."""
        chats = [
            one for done in self.done if isinstance(done, ImportedChats) for one in done.failed
        ]
        return [*([self.error] if self.error else []), *(one.error for one in chats)]


def _items_of(
    path: Path, recognitions: Sequence[what_is_it.Recognized], kind: str
) -> Iterator[ImportItem]:
    if kind and path.exists():
        recognition = next((one for one in recognitions if one.kind == kind), None)
        yield ImportItem(path, kind, recognition.title if recognition else kind)
        return
    if not recognitions:
        yield ImportItem(path, error=what_is_it.explain_unknown(path))
        return
    first, *others = recognitions
    if first.kind in _FIRST:
        yield ImportItem(path, first.kind, first.title, tuple(others), forms=first.forms)
    elif first.members:
        for file, one in first.members:
            yield ImportItem(file, one.kind, one.title, forms=one.forms)
        for file in first.unknown:
            yield _unknown_item(file)
    else:
        error = errors.BadInputError(
            f"{path.name!r} is {first.title}; nothing was imported", hint=first.hint
        )
        yield ImportItem(path, error=error)


def _unknown_item(path: Path) -> ImportItem:
    """Return the item of a file that no importer takes: an error if it is damaged."""
    if not what_is_it.may_be_known(path):
        return ImportItem(path, left_out="files of this type are not imported")
    if recognition := what_is_it.what_is(path):
        by_itself = "; import it by itself" if recognition.kind == "chat" else ""
        return ImportItem(path, left_out=f"{recognition.title}{by_itself}")
    reason, error = what_is_it.why_unknown(path)
    if not reason or isinstance(error, DamagedError):
        return ImportItem(path, error=error)
    return ImportItem(path, left_out=reason)


def personas_in(items: Sequence[ImportItem]) -> list[str]:
    """Return the ids of the familiars made from persona folders."""
    reports = [one for item in items if item.kind == "persona" for one in item.done]
    return [one.id for one in reports if isinstance(one, FamiliarReport)]


def import_files(
    familiar: Familiar,
    paths: Sequence[str | Path],
    options: FileImportOptions | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[ImportItem]:
    """Import chats, lorebooks, memories or a vault into a familiar, as `familiar import` does.

    Args:
        paths: Files or directories of any kind that `familiar import` knows.
        options: How they are read; its `familiar_id` does not matter.
        tell: Called with user-facing messages.

    Returns:
        What became of each; errors are in the items.
    """
    options = replace(options or FileImportOptions(), familiar_id=familiar.paths.id)
    with closing(FileImporter(familiar.paths.root.parent, options, tell)) as importer:
        items = importer.recognise([Path(path).expanduser() for path in paths])
        for item in items:
            if item.error is None:
                try:
                    importer.run(item)
                except errors.FamiliarError as error:  # it can be read in several ways
                    item.error = error
    return items


class FileImporter:
    """Imports files one after another.

    Args:
        home: The directory of the familiars.
        tell: Callback for messages to a person.
    """

    def __init__(self, home: Path, options: FileImportOptions, tell: Callable[[str], None]) -> None:
        self.options = options
        self.changed: set[str] = set()
        self._home = home
        self._tell = tell
        self._made: dict[str, Path] = {}
        self._report: OnProgress = _ignore
        self._scratch = ExitStack()
        self._copies: dict[str, str] = {}

    def close(self) -> None:
        """Delete the temporary files: unpacked archives, and what a dry run made."""
        self._scratch.close()

    def recognise(self, paths: Sequence[Path]) -> list[ImportItem]:
        """Recognise files and directories, and sort them into import order.

        An archive that no format reads is the directory in it.
        """
        kind = _KINDS.get(self.options.kind, self.options.kind)
        items = [item for path in paths for item in self._recognise_items(path, kind)]
        order = {name: number for number, name in enumerate(_FIRST)}
        return sorted(items, key=lambda item: order.get(item.kind, len(order)))

    def _recognise_items(self, path: Path, kind: str) -> Iterator[ImportItem]:
        recognitions = what_is_it.readings_of(path)
        if recognitions and recognitions[0].kind == "archive":
            yield from self._items_packed(path, kind)
            return
        for item in _items_of(path, recognitions, kind):
            if item.kind != "archive":
                yield item
            else:
                yield from self._items_packed(item.path, kind)

    def _items_packed(self, path: Path, kind: str) -> Iterator[ImportItem]:
        try:
            directory = what_is_it.unpack_archive(path, self._scratch)
        except errors.FamiliarError as error:
            yield ImportItem(path, error=error)
            return
        shown = self.options.typed.get(str(path), str(path))
        copies = dict.fromkeys(map(str, (directory, *directory.rglob("*"))), shown)
        self.options = replace(self.options, typed={**self.options.typed, **copies})
        self._copies[str(directory)] = shown
        for item in _items_of(directory, what_is_it.readings_of(directory), kind):
            if item.kind == "archive":  # a bomb is made of archives in archives
                item.kind, item.left_out = "", "it is a zip archive in another one"
            self._name_archives(item)
            yield item

    def run(self, item: ImportItem, report: OnProgress | None = None) -> None:
        """Import one item; an error is stored in it.

        Args:
            report: Called with the kind of work and its progress.

        Raises:
            FamiliarError: It is ambiguous, as `question` explains; nothing was imported.
        """
        importers = {
            "folder": self._import_folder,
            "export": self._import_export,
            "persona": self._import_personas,
            "card": self._import_card,
            "lorebook": self._import_lorebook,
            "memories": self._import_memories,
            "vault": self._import_vault,
            "chat": self._import_chats,
        }
        if item.left_out:
            return
        self._report = report or _ignore
        forms = item.forms if item.kind in item.forms else (item.kind,)
        for form in forms if len(forms) == 1 else self._forms_of(item):
            try:
                importers[form](item)
            except errors.FamiliarError as error:
                self._name_archive(error)
                if error.question:
                    raise
                item.error = item.error or error
        self._name_archives(item)

    def _name_archives(self, item: ImportItem) -> None:
        """Name the archive in results instead of the temporary directory of its files."""
        item.shown = self._as_typed(str(item.path))
        for number, done in enumerate(item.done if item.shown != str(item.path) else ()):
            if isinstance(done, ImportedChats):
                item.done[number] = self._chats_as_typed(done)

    def _chats_as_typed(self, done: ImportedChats) -> ImportedChats:
        for chat in done.chats:
            chat.file = self._as_typed(chat.file)
        failed, over = (
            tuple(replace(one, file=self._as_typed(one.file)) for one in group)
            for group in (done.failed, done.passed_over)
        )
        for one in (*failed, *over):
            self._name_archive(one.error)
        return replace(done, failed=failed, passed_over=over)

    def _name_archive(self, error: errors.FamiliarError) -> None:
        error.args = tuple(self._as_typed(str(text)) for text in error.args)
        if error.hint:
            error.hint = self._as_typed(error.hint)

    def _as_typed(self, text: str) -> str:
        for directory, archive in self._copies.items():
            text = text.replace(directory, archive)
        return text

    def _forms_of(self, item: ImportItem) -> list[str]:
        """Return the forms that a file has, in the order of their import.

        A character that is known already is left as it is if the file is more than its card.
        """
        forms = sorted(
            forms_in(item.path, item.forms),
            key=lambda form: (form == "memories", _FIRST.index(form)),  # a chat may ask first
        )
        is_known = "card" in forms and item.kind != "card" and self._has_character_of(item)
        return [form for form in forms if form != "card" or not is_known]

    def _has_character_of(self, item: ImportItem) -> bool:
        """Tell whether a familiar of a card's name is here already, or another is to be used."""
        if self.options.familiar_id or self.options.character:
            return True
        card = read_card(read_foreign(item.path), origin=item.path.name)
        known, names = list_familiars(self._home), set[str]()
        for one in known:
            with suppress(errors.FamiliarError):  # `doctor` names damaged settings
                names.add(fold(load_config(FamiliarPaths(self._home / one).config).name))
        return create.id_for(card) in known or fold(card.name) in names

    def _import_folder(self, item: ImportItem) -> None:
        folder = find_folder(item.path)
        done = import_folder(
            self._home,
            folder,
            mine=self.options.mine,
            at_once=self.options.at_once,
            dry_run=self.options.dry_run,
            progress=lambda what, done, _total: self._report(what, done),
        )
        item.done, item.error = [done], done.problem
        self._note_made(*(one.id for one in done.familiars))

    def _import_card(self, item: ImportItem) -> None:
        card = read_card(read_foreign(item.path), origin=item.path.name)
        target = self.options.familiar_id or None

        def make(home: Path, *, dry_run: bool) -> FamiliarReport:
            return create.create_familiar(
                home,
                card,
                open_memory,
                familiar_id=target,
                overwrite=self.options.force,
                dry_run=dry_run,
            )

        self._make(item, make)

    def _import_personas(self, item: ImportItem) -> None:
        from familiar_cli.imports import personas

        dirs = personas.find_personas(item.path)
        about = who_speaks(self.options.person or None, me=home_owners(self._home))
        chosen = self.options.familiar_id or None
        for persona in personas.read_personas(dirs, about, familiar_id=chosen):
            self._make(
                item,
                lambda home, *, dry_run, one=persona: personas.create_from_persona(
                    home,
                    one,
                    open_memory,
                    update=self.options.update,
                    overwrite=self.options.force,
                    dry_run=dry_run,
                ),
            )
            self._import_persona_memories(item, persona)

    def _import_persona_memories(self, item: ImportItem, persona: PersonaCard) -> None:
        """Import what a persona remembers, into the familiar that was made of it."""
        from familiar_cli.actions.bring.import_lines import import_lines
        from familiar_cli.imports.personas import persona_memories

        memories = persona_memories(persona.folder.files)
        if not memories.memories or (self.options.dry_run and item.familiar not in self._made):
            return
        with self._open(item.familiar) as familiar:
            done = import_lines(
                familiar, memories, item.path.name, at_once=True, dry_run=self.options.dry_run
            )
        made, read = item.done[-1], {one.file for one in memories.memories}
        if isinstance(made, FamiliarReport):
            kept = tuple(name for name in made.kept_unmapped if name not in read)
            item.done[-1] = replace(made, kept_unmapped=kept)
        if done.lines or done.refused:
            item.done.append(done)

    def _make(self, item: ImportItem, make: Callable[..., FamiliarReport]) -> None:
        """Make a familiar; in a dry run also a temporary one, into which the rest is imported."""
        report = make(self._home, dry_run=self.options.dry_run)
        item.done.append(report)
        item.familiar = report.id
        item.error = item.error or report.problem(report.name)
        if self.options.dry_run and report.is_new:
            made_in = self._scratch.enter_context(
                tempfile.TemporaryDirectory(prefix="familiar-", ignore_cleanup_errors=True)
            )
            make(Path(made_in), dry_run=False)
            self._made[report.id] = Path(made_in)
        else:
            self._note_made(report.id)

    def _note_made(self, *ids: str) -> None:
        if not self.options.dry_run:
            self.changed.update(ids)
        self._made.update(dict.fromkeys(ids, self._home))

    def _import_export(self, item: ImportItem) -> None:
        familiars, target = create.read_manifest(item.path), self.options.familiar_id
        if target and len(familiars) > 1:
            familiars = [one for one in familiars if one.id == target]
        elif target:
            familiars = [replace(one, id=check_familiar_id(target)) for one in familiars]
        if not familiars:
            raise errors.NotFoundError(
                f"{str(item.path)!r} has no familiar {target!r}; nothing was imported"
            )
        for one in familiars:
            self._restore(item, one)

    def _restore(self, item: ImportItem, exported: create.ExportedFamiliar) -> None:
        from familiar_cli.imports.folders import read_folder

        memory = read_folder(exported.path / MEMORY_DIR)

        def make(home: Path, *, dry_run: bool) -> FamiliarReport:
            return build_familiar(
                FamiliarPaths(home / exported.id),
                open_memory,
                lambda store: create.plan_restore(store, memory, force=self.options.force),
                name=exported.name,
                message=f"import {exported.id}",
                dry_run=dry_run,
            )

        self._make(item, make)
        turns = exported.path / create.TURNS_FILE
        if not turns.is_file():
            return
        with self._open(exported.id) as familiar:
            if not self.options.dry_run or self._made[exported.id] != self._home:
                for channel, kind in exported.kinds.items():
                    familiar.privacy.enter(channel, None, kind)
            self._read_chats(item, familiar, turns, chat_reading(familiar))

    def _import_lorebook(self, item: ImportItem) -> None:
        book = load_book(read_foreign(item.path), origin=item.path.name)
        options = self.options
        with self._target(item) as familiar:
            lorebook = import_lorebook(
                familiar.memory,
                book,
                update=options.update,
                force=options.force,
                dry_run=options.dry_run,
            )
        self._finish(item, lorebook)

    def _import_memories(self, item: ImportItem) -> None:
        from familiar_cli.imports import folders

        with as_source(item.path) as source:
            if not item.path.is_dir() or recognise(source, "memories"):
                self._import_lines(item, source)
                return
        self._import_tree(item, folders.read_tree(item.path), folders.MEMORIES)

    def _import_lines(self, item: ImportItem, source: ForeignFile) -> None:
        from familiar_cli.actions.bring.import_lines import import_lines

        at_once, dry_run = self.options.at_once, self.options.dry_run
        with self._target(item) as familiar:
            for memories in read_memories(source):
                lines = import_lines(
                    familiar, memories, item.path.name, at_once=at_once, dry_run=dry_run
                )
                self._finish(item, lines)

    def _import_vault(self, item: ImportItem) -> None:
        from familiar_cli.imports import folders

        name = item.path.resolve().name if item.path.is_dir() else ""
        self._import_tree(item, folders.read_vault(item.path), folders.vault_tree(name))

    def _import_tree(
        self, item: ImportItem, folder: folders.FolderContents, tree: folders.FolderTree
    ) -> None:
        from familiar_cli.actions.bring.import_lines import orders_in
        from familiar_cli.imports import folders

        folder.notes += orders_in(folder.files)
        wish = folders.FolderImportOptions(self.options.update, self.options.force)
        with self._target(item) as familiar:
            memories = folders.import_tree(
                familiar.memory, folder, wish, tree, dry_run=self.options.dry_run
            )
        self._finish(item, memories)
        item.error = memories.problem()

    def _import_chats(self, item: ImportItem) -> None:
        with self._target(item, self._familiar_in(item)) as familiar:
            chats = self._read_chats(item, familiar, item.path, self._reading(familiar))
            if not (item.path.is_dir() and chats.memories):
                return
            from familiar_cli.actions.bring.import_lines import import_notes

            name, options = item.path.name, self.options
            for one in import_notes(
                familiar, chats.memories, name, at_once=options.at_once, dry_run=options.dry_run
            ):
                self._finish(item, one)

    def _read_chats(
        self, item: ImportItem, familiar: Familiar, path: Path, reading: Reading
    ) -> ImportedChats:
        there = list_familiars(self._home)
        is_said = item.familiar in there and len(there) > 1  # a dry run makes it again
        command = "familiar import" + (f" --familiar {item.familiar}" if is_said else "")
        options = ChatImportOptions(
            reading,
            dry_run=self.options.dry_run,
            command=command,
            rules=familiar.privacy.rules(),
            typed=self.options.typed,
        )
        done = import_chats(familiar.history, path, options, self._report)
        adopt_notes(familiar, done.chats, dry_run=options.dry_run)
        if not done.chats and done.problem and (done.problem.question or not path.is_dir()):
            raise done.problem
        self._finish(item, done)
        item.error = item.error or done.problem
        return done

    def _finish(self, item: ImportItem, done: Done) -> None:
        item.done.append(done)
        if not self.options.dry_run:
            self.changed.add(item.familiar)

    def _reading(self, familiar: Familiar) -> Reading:
        options = self.options
        reading = chat_reading(familiar, options.person or None, options.character, options.mine)
        mine = (name for name, is_mine in options.whose.items() if is_mine)
        cast = replace(
            reading.cast,
            my_names=(*reading.cast.my_names, *mine),
            others=frozenset(fold(name) for name, is_mine in options.whose.items() if not is_mine),
        )
        return replace(reading, cast=cast, dates=options.dates, year=options.year)

    def questions_of(self, item: ImportItem) -> list[errors.Question]:
        """Return the questions that a person should answer before a chat is imported."""
        if item.kind != "chat" or item.error:
            return []
        with (
            suppress(errors.FamiliarError),
            self._target(item, self._familiar_in(item)) as familiar,
        ):
            return find_questions(item.path, self._reading(familiar))
        return []

    def _familiar_in(self, item: ImportItem) -> str:
        """Return the familiar that speaks in a chat, unless it is the selected one."""
        known = [*self._made, *(i for i in list_familiars(self._home) if i not in self._made)]
        is_said = bool(self.options.familiar_id or self.options.character)
        if is_said or item.path.is_dir() or len(known) < 2:  # noqa: PLR2004
            return ""
        with suppress(errors.FamiliarError):
            target = self._default_familiar()
            if target in known and self._speaks_in(target, item.path):
                return target
        others = [one for one in known if self._speaks_in(one, item.path)]
        return others[0] if len(others) == 1 else ""

    def _speaks_in(self, familiar_id: str, path: Path) -> bool:
        try:
            with self._open(familiar_id) as familiar:
                chat = _first_chat(path, self._reading(familiar))
        except errors.FamiliarError as error:
            return error.question is not None and error.question[0] != "--character"
        return chat is not None

    def _default_familiar(self) -> str:
        """Return the default familiar for imports.

        Raises:
            FamiliarError: There is none, or there are several and none is chosen.
        """
        if self.options.familiar_id in self._made:
            return self.options.familiar_id
        if not self.options.familiar_id and len(self._made) == 1:
            return next(iter(self._made))
        return find_familiar(self._home, self.options.familiar_id or None).id

    def _target(self, item: ImportItem, familiar_id: str = "") -> Familiar:
        try:
            item.familiar = familiar_id or self._default_familiar()
        except errors.NotFoundError as error:
            if self.options.familiar_id or list_familiars(self._home):
                raise
            raise errors.NotFoundError(
                f"{item.path.name!r} is {item.title}, and there is no familiar yet to import it "
                "into; nothing was imported",
                hint="Make one first: `familiar import CARD.png`, or `familiar init --template "
                "companion`; then run the same command again.",
            ) from error
        except errors.UsageError as error:
            hint = f"Add `--familiar {typed(list_familiars(self._home)[0])}`, or another of them."
            raise errors.UsageError(str(error), hint=hint) from error
        return self._open(item.familiar)

    def _open(self, familiar_id: str) -> Familiar:
        home = self._made.get(familiar_id, self._home)
        return Familiar.load_from_disk(home, familiar_id, self._tell)


def _ignore(_what: str, _done: int) -> None:
    """Report nothing."""


def _first_chat(path: Path, reading: Reading) -> ForeignChat | None:
    with as_source(path) as source:
        chats = (one for one in read_chats(source, reading) if isinstance(one, ForeignChat))
        return next(chats, None)
