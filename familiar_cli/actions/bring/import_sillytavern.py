"""`familiar import-sillytavern`: import a whole data folder, a familiar per character."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, nullcontext, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from familiar_cli.actions.people.me import change_me, place_of_me, show_me
from familiar_cli.actions.talk import client_chat
from familiar_cli.base import errors
from familiar_cli.base.config.edit import set_values
from familiar_cli.base.config.home import FamiliarPaths, list_familiars
from familiar_cli.base.config.schema import ChannelConfig
from familiar_cli.base.text import counted, fold, nearest, typed
from familiar_cli.familiar import Familiar
from familiar_cli.imports import import_chat, sillytavern
from familiar_cli.imports.create import character_name, create_familiar, id_for, plan_unpack
from familiar_cli.imports.foreign_files import read_foreign, text_at
from familiar_cli.imports.formats import silly_tavern
from familiar_cli.imports.import_lorebook import ImportedLorebook, import_lorebook, plan_import
from familiar_cli.imports.import_plan import FileToWrite
from familiar_cli.imports.lorebook_shelf import place_for
from familiar_cli.imports.reading import load_book, memories_in, read_card
from familiar_cli.store.memory.pages.lines import number_spans

if TYPE_CHECKING:
    from familiar_cli.imports.cards import Card
    from familiar_cli.imports.lorebook import Lorebook
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.store.store import MemoryStore

    OnProgress = Callable[[str, int, int], None]

_FILES: Final = "files"


class _Character(Struct):
    """A character of the folder: its file and its familiar."""

    file: sillytavern.FoundFile
    name: str
    face: sillytavern.Face
    id: str = ""
    books: frozenset[str] = frozenset()
    is_new: bool = True
    chats: list[sillytavern.FoundFile] = field(default_factory=list)
    group_chats: list[tuple[sillytavern.FoundFile, sillytavern.CharacterGroup]] = field(
        default_factory=list
    )
    same: list[sillytavern.FoundFile] = field(default_factory=list)


def import_folder(
    home: Path,
    folder: sillytavern.SillyTavernFolder,
    *,
    only: Iterable[str] = (),
    mine: tuple[str, ...] = (),
    at_once: bool = False,
    dry_run: bool = False,
    progress: OnProgress = lambda _what, _done, _total: None,
) -> sillytavern.ImportedFolder:
    """Make or update a familiar for each character in `folder`.

    Known content is not imported again, so an interrupted import can be repeated. A file that
    cannot be imported does not stop the others.

    Args:
        home: The directory of the familiars; created if missing.
        folder: The data folder.
        only: Names or files of the wanted characters; empty for all.
        mine: The owner's names in the chats; empty for those of the folder's personas, if one is
            the owner's.
        at_once: Add the memories of extensions at once, instead of proposing them for review.
        dry_run: Leave nothing on disk; the result is the same.
        progress: Called with the number of files done, and the total.

    Raises:
        NotFoundError: No such character in the folder.
        ConfigError: `home` cannot be read.
    """
    with (
        tempfile.TemporaryDirectory(prefix="familiar-", ignore_cleanup_errors=True)
        if dry_run
        else nullcontext(str(home))
    ) as place:
        bringing = _FolderImport(home, Path(place), folder, mine, progress)
        bringing.at_once = at_once
        bringing.meet(tuple(only))
        return bringing.run()


class _FolderImport(Struct):
    """Imports a folder, character by character.

    Args:
        home: The directory of the familiars.
        place: Directory for new ones; differs from `home` in a dry run.
        folder: The data folder.
        mine: The owner's names in the chats, if stated.
        progress: Called with the number of files done, and the total.
    """

    home: Path
    place: Path
    folder: sillytavern.SillyTavernFolder
    mine: tuple[str, ...]
    progress: OnProgress
    at_once: bool = False
    _register: sillytavern.Register = field(default_factory=sillytavern.Register)
    _characters: list[_Character] = field(default_factory=list)
    _not_named: set[sillytavern.FoundFile] = field(default_factory=set)
    _broken: dict[sillytavern.FoundFile, str] = field(default_factory=dict)
    _links: sillytavern.BookLinks = field(default_factory=sillytavern.BookLinks)
    _worlds: dict[str, sillytavern.FoundFile] = field(default_factory=dict)
    _done: list[sillytavern.FamiliarInFolder] = field(default_factory=list)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._worlds = {file.stem: file for file in self.folder.of("world")}

    @property
    def _is_rehearsal(self) -> bool:
        return self.place != self.home

    def meet(self, only: tuple[str, ...]) -> None:
        """Read the folder: its characters, their familiars, and the files of each."""
        for file in self.folder.files:
            if file.reason:
                is_refused = "cannot be read" in file.reason
                self._register.note(file, "refused" if is_refused else "skipped", file.reason)
        self._read_settings()
        self._read_characters()
        self._recognise()
        self._give_chats()
        self._give_group_chats()
        self._choose(only)

    def run(self) -> sillytavern.ImportedFolder:
        """Import everything found by `meet`."""
        for file in self.folder.of("settings"):
            if not self._register.knows(file):
                outcome, reason = self._who_i_am(file)
                self._register.note(file, outcome, reason)
        for character in self._characters:
            try:
                self._bring(character)
            except errors.FamiliarError as error:
                for file in (character.file, *character.chats):
                    if not self._register.knows(file):
                        self._register.note(file, "refused", str(error), familiar=character.id)
        self._name_the_rest()
        return sillytavern.ImportedFolder(
            str(self.folder.root), tuple(self._done), self._register.reports()
        )

    def _read_settings(self) -> None:
        for file in self.folder.of("settings"):
            try:
                self._links = sillytavern.read_book_links(file)
            except errors.FamiliarError as error:
                self._register.note(file, "refused", str(error))
                continue

    def _who_i_am(self, file: sillytavern.FoundFile) -> tuple[sillytavern.Outcome, str]:
        """Import the selected persona, unless the home says who its owner is."""
        command = f"`familiar me --from-sillytavern {typed(str(file.path))} --name NAME`"
        try:
            raw, origin = read_foreign(file.path), file.rel_path
            personas = silly_tavern.read_personas(raw, origin=origin)
            persona = silly_tavern.choose_persona(personas, origin=origin)
            place = place_of_me(self.home, None)
            profile = show_me(self.home, None)
            wanted = {"name": persona.name, "description": persona.description}
            if any(source != "default" for source in profile.sources.values()):
                if (profile.name, profile.description) == (persona.name, persona.description):
                    return "unchanged", ""
                return "read", f"you are {profile.label!r} here; {command} uses another persona"
            if not self._is_rehearsal:
                change_me(None, place, wanted)
        except (errors.BadInputError, errors.NotFoundError):
            return "read", "it has no personas"
        except errors.UsageError:
            return "read", f"it has several personas; {command} chooses one"
        except errors.FamiliarError as error:
            return "refused", str(error)
        return "imported", ""

    def _read_characters(self) -> None:
        """Read every card once; duplicates are one character."""
        by_content: dict[str, _Character] = {}
        # A picture comes before the JSON of the same name: SillyTavern itself knows pictures only.
        for file in sorted(self.folder.of("character"), key=lambda f: f.path.suffix != ".png"):
            try:
                card = _read_card_file(file)
            except errors.FamiliarError as error:
                self._broken[file] = str(error)
                continue
            made = _Character(
                file,
                character_name(card) or file.stem,
                sillytavern.face_of(card),
                id_for(card),
                self._links.of(file.stem, card),
            )
            twin = by_content.setdefault(made.face.meaning, made)
            if twin is made:
                self._characters.append(made)
            else:
                twin.same.append(file)
        self._characters.sort(key=lambda character: character.file.rel_path)

    def _recognise(self) -> None:
        """Find the familiars made from these cards, and ids for new ones."""
        there = list_familiars(self.home)
        faces = {character.file.rel_path: character.face for character in self._characters}
        known = sillytavern.match_names(faces, self._faces(there))
        taken = {entry.name for entry in self.home.iterdir()} if self.home.is_dir() else set()
        for character in self._characters:
            match = known.get(character.file.rel_path)
            character.is_new = match is None
            character.id = match or _free_id(character.id, taken)
            taken.add(character.id)

    def _faces(self, ids: Iterable[str]) -> dict[str, sillytavern.Face]:
        faces = {}
        for familiar_id in ids:
            try:
                memory = open_memory(FamiliarPaths(self.home / familiar_id))
                card = sillytavern.original_card(memory)
            except errors.FamiliarError:
                continue  # its importer reports the error
            if card:
                faces[familiar_id] = sillytavern.face_of(card)
        return faces

    def _give_chats(self) -> None:
        """Assign each chat to the character of its directory."""
        exact = {character.file.stem: character for character in reversed(self._characters)}
        alike: dict[str, list[_Character]] = {}
        for character in self._characters:
            alike.setdefault(fold(character.file.stem), []).append(character)
        for file in self.folder.of("chat"):
            others = alike.get(fold(file.owner), [])
            owner = exact.get(file.owner) or (others[0] if len(others) == 1 else None)
            if owner:
                owner.chats.append(file)
            else:
                self._register.note(
                    file,
                    "skipped",
                    f"no card in `characters` is called {file.owner!r}; with a familiar for it: "
                    f"`familiar import-chat {typed(str(file.path.parent))} --familiar ID`",
                )

    def _give_group_chats(self) -> None:
        """Assign each group chat to every member."""
        members = {file.path.name: c for c in self._characters for file in (c.file, *c.same)}
        of_chat: dict[str, sillytavern.CharacterGroup] = {}
        for file in self.folder.of("group"):
            try:
                group = sillytavern.read_group(file)
            except errors.FamiliarError as error:
                self._register.note(file, "refused", str(error))
                continue
            of_chat.update(dict.fromkeys(group.chats, group))
            here = [members[name] for name in sorted(group.members & members.keys())]
            self._name_missing(group)
            use = "lists the characters to whom the group's chats belong"
            for character in here:
                self._register.note(file, "read", use, familiar=character.id)
            if not here:
                self._register.note(file, "skipped", "none of its members is in `characters`")
        for file in self.folder.of("group_chat"):
            owner_group = of_chat.get(file.stem)
            if owner_group is None:
                self._register.note(file, "skipped", "it belongs to no group in `groups`")
                continue
            for name in sorted(owner_group.members & members.keys()):
                members[name].group_chats.append((file, owner_group))
            if not owner_group.members & members.keys():
                self._register.note(file, "skipped", "no member of its group is in `characters`")

    def _name_missing(self, group: sillytavern.CharacterGroup) -> None:
        """Report the files that a group lists and the folder lacks."""
        chats = (f"group chats/{stem}.jsonl" for stem in sorted(group.chats))
        there = {file.rel_path for file in self.folder.files}
        for name in (*(f"characters/{member}" for member in sorted(group.members)), *chats):
            if name not in there:
                kind: sillytavern.Kind = "group_chat" if name.endswith(".jsonl") else "character"
                file = sillytavern.FoundFile(self.folder.root / name, name, kind)
                self._register.note(file, "skipped", f"missing; the group {group.name!r} lists it")

    def _choose(self, only: tuple[str, ...]) -> None:
        """Drop the characters that `only` does not select, if it selects any."""
        targets = set(map(fold, only))
        for file, reason in self._broken.items():
            if not targets or _names_of(file) & targets:
                self._register.note(file, "refused", reason)
            else:
                self._register.note(file, "skipped", sillytavern.NOT_NAMED)
        if not targets:
            return
        characters = [c for c in self._characters if _character_names(c) & targets]
        names = {name for c in characters for name in _character_names(c)}
        names.update(name for file in self._broken for name in _names_of(file))
        missing = next((name for name in only if fold(name) not in names), None)
        if missing is not None:
            raise self._nobody(missing)
        for character in self._characters:
            if character not in characters:
                groups = (file for file, _ in character.group_chats)
                books = (self._worlds[name] for name in character.books & self._worlds.keys())
                for file in (character.file, *character.same, *character.chats, *groups, *books):
                    self._not_named.add(file)
        self._characters = characters

    def _nobody(self, name: str) -> errors.NotFoundError:
        names = sorted({character.name for character in self._characters})
        guess = nearest(name, names)
        listed = f"There are: {', '.join(names) or 'none'}."
        return errors.NotFoundError(
            f"No character {name!r} in {str(self.folder.root)!r}; nothing was imported",
            hint=f"Did you mean `--only {typed(guess)}`?" if guess else listed,
        )

    def _bring(self, character: _Character) -> None:
        """Make the familiar of a character, and import its files."""
        self._step()
        home = self.place if character.is_new else self.home
        familiar = Familiar(FamiliarPaths(home / character.id))
        with familiar:
            card = _read_card_file(character.file)
            outcome, reason, warnings = self._card(home, familiar, character, card)
            self._register.note(character.file, outcome, reason, familiar=character.id)
            same = f"the same as {character.file.rel_path}"
            for file in character.same:
                self._register.note(file, "skipped", same, familiar=character.id)
            rehearse = self._is_rehearsal and not character.is_new
            outcomes = [outcome, *self._books(familiar, character, dry_run=rehearse)]
            with import_chat.lend_history(familiar.history, is_trial=rehearse) as history:
                done = self._chats(familiar, history, character)
            memories, told = self._memories(familiar, character, done, dry_run=rehearse)
            warnings += (*told, *self._adopt_notes(familiar, character, done, dry_run=rehearse))
            if not self._is_rehearsal:
                with suppress(errors.FamiliarError):  # the next search does it, or reports it
                    familiar.finder.index_words()
        turns = sum(chat.imported for chat in done.chats)
        warnings += tuple(dict.fromkeys(note for chat in done.chats for note in chat.notes))
        outcomes += ["updated"] if turns or memories else []
        self._done.append(
            sillytavern.FamiliarInFolder(
                character.id,
                character.name,
                character.file.rel_path,
                "imported" if character.is_new else _strongest_outcome(outcomes),
                turns,
                sum(chat.already_there for chat in done.chats),
                len({c.channel for c in done.chats if c.imported or c.already_there}),
                memories,
                warnings,
            )
        )

    def _card(
        self, home: Path, familiar: Familiar, character: _Character, card: Card
    ) -> tuple[sillytavern.Outcome, str, tuple[str, ...]]:
        """Make or update the familiar of a card; return the outcome, the reason, and warnings."""
        if character.is_new:
            report = create_familiar(home, card, open_memory, familiar_id=character.id)
            return "imported", "", report.warnings
        before = sillytavern.original_card(familiar.memory)
        if before and sillytavern.face_of(before).meaning == character.face.meaning:
            return "unchanged", "", ()
        try:
            if before is None or not plan_unpack(before, familiar.memory).is_noop:
                raise errors.ConflictError("files of the character were edited")
            report = create_familiar(
                home,
                card,
                lambda _: familiar.memory,
                familiar_id=character.id,
                overwrite=True,
                keep_edits=True,
                dry_run=self._is_rehearsal,
            )
        except errors.RefusedError:
            reason = (
                "the card has changed, and so have the familiar's own files, which are kept; "
                f"`familiar init {character.id} --from-card {typed(str(character.file.path))} "
                "--overwrite` replaces them"
            )
            return "skipped", reason, ()
        return ("updated" if report.written or report.removed else "unchanged"), "", report.warnings

    def _books(
        self, familiar: Familiar, character: _Character, *, dry_run: bool
    ) -> Iterator[sillytavern.Outcome]:
        """Import the lorebooks of a character; yield each outcome."""
        for name in sorted(character.books & self._worlds.keys()):
            file = self._worlds[name]
            self._step()
            try:
                outcome, reason = _import_book(familiar, file, dry_run=dry_run)
            except errors.FamiliarError as error:
                if memories_in(file.path):  # and nothing else
                    continue
                self._register.note(file, "refused", str(error), familiar=character.id)
                continue
            self._register.note(file, outcome, reason, familiar=character.id)
            yield outcome

    def _memories(
        self,
        familiar: Familiar,
        character: _Character,
        done: import_chat.ImportedChats,
        *,
        dry_run: bool,
    ) -> tuple[int, tuple[str, ...]]:
        """Import what extensions remember: in chats, books and the Data Bank.

        Returns:
            The number of lines, and remarks.
        """
        chats = [*character.chats, *(file for file, _ in character.group_chats)]
        bound = {text_at(sillytavern.chat_metadata(chat), "world_info") for chat in chats}
        names = bound | character.books
        books = [self._worlds[name] for name in sorted(names & self._worlds.keys())]
        bank = self._links.attachments.get(character.file.path.name, ())
        paths = [file.path for file in books]
        paths += [path for name in bank if (path := _below(self.folder.root, name))]
        items = [*done.memories, *((str(path), one) for path in paths for one in memories_in(path))]
        if not items:
            return 0, ()
        from familiar_cli.actions.bring.import_lines import import_notes

        number, parts = 0, list[str]()
        for notes in import_notes(
            familiar, items, character.name, at_once=self.at_once, dry_run=dry_run
        ):
            number += notes.lines
            parts += (f"{notes.program}: {one}" for one in notes.refused)
            if notes.plan and not self._is_rehearsal:
                parts.append(
                    f"{counted(notes.lines, 'memory', 'memories')} of {notes.program}: decide with "
                    f"`familiar review show {notes.plan} --familiar {character.id}`"
                )
        for book in books:
            if not self._register.knows(book) and memories_in(book.path):
                command = f"`familiar import-lorebook {typed(str(book.path))}`"
                reason = f"its memories; for its lore, if it has any: {command}"
                outcome: sillytavern.Outcome = "imported" if number else "unchanged"
                self._register.note(book, outcome, reason, familiar=character.id)
        return number, tuple(parts)

    def _adopt_notes(
        self,
        familiar: Familiar,
        character: _Character,
        done: import_chat.ImportedChats,
        *,
        dry_run: bool,
    ) -> Iterator[str]:
        """Let author's notes apply, and yield what was done; also of personas that are not used."""
        where = f"--familiar {character.id}"
        own, place = self._links.notes.get(character.file.stem, ("", 0))
        if own and character.is_new:
            set_values(familiar.paths.config, {"author_note.text": own})
            command = f"familiar config unset author_note.text {where}"
            yield f"its author's note applies in its chats; `{command}` removes it"
        elif own and not familiar.config.author_note.text:
            command = f"familiar config set author_note.text {typed(own)} {where}"
            yield f"its author's note is not used; `{command}` sets it"
        chats = {chat.file: chat for chat in done.chats}
        groups = {
            str(file.path): group.about.get(file.stem, {}) for file, group in character.group_chats
        }
        for file in (*character.chats, *(file for file, _ in character.group_chats)):
            about = {**groups.get(str(file.path), {}), **sillytavern.chat_metadata(file)}
            if not (chat := chats.get(str(file.path))) or not chat.channel:
                continue
            channel, there = typed(chat.channel), ChannelConfig()
            with suppress(errors.FamiliarError):  # `doctor` names a damaged file
                there = familiar.channels.read(chat.channel).settings
            note = text_at(about, "note_prompt").strip()
            if note and own:
                about["note_prompt"] = (own, f"{own}\n{note}", f"{note}\n{own}")[place]
            for told in client_chat.adopt_note(familiar, chat, about, dry_run=dry_run):
                yield f"{file.rel_path}: {told}"
            if note and own and not place:
                command = f"familiar channel set {channel} author_note.text {typed(note)} {where}"
                replaced = "the character's author's note replaces its own"
                yield f"{file.rel_path}: {replaced}; `{command}` sets that"
            persona = self._links.personas.get(text_at(about, "persona"), "")
            if persona and not there.me.name:
                command = f"familiar me --name {typed(persona)} --channel {channel} {where}"
                yield f"{file.rel_path}: you are {persona!r} in it; `{command}` keeps it so"

    def _chats(
        self, familiar: Familiar, history: HistoryStore, character: _Character
    ) -> import_chat.ImportedChats:
        reading = client_chat.chat_reading(familiar, mine=self.mine)
        files = [(file, client_chat.solo_reading(reading)) for file in character.chats]
        files += [
            (file, client_chat.group_reading(reading, file.stem, group.name))
            for file, group in character.group_chats
        ]
        begun = 0

        def report(_: str, lines: int) -> None:
            nonlocal begun
            if not lines:
                begun += 1
                self._step()

        done = import_chat.import_chat_files(
            history,
            [(file.path, how) for file, how in files],
            import_chat.ChatImportOptions(aside=True),
            report,
        )
        self._note_chats(character, [file for file, _ in files], done)
        self._steps += len(files) - begun
        return done

    def _note_chats(
        self,
        character: _Character,
        files: list[sillytavern.FoundFile],
        done: import_chat.ImportedChats,
    ) -> None:
        failed = {one.file: str(one.error) for one in done.failed}
        chats = {chat.file: chat for chat in done.chats}
        stopped = done.failed[-1].error if done.failed else None
        for file in files:
            path, who = str(file.path), character.id
            if path in chats:
                outcome, reason, incomplete = _of_chat(chats[path])
                reason = "; ".join(filter(None, (reason, failed.get(path, ""))))
                self._register.note(
                    file, outcome, reason, familiar=who, incomplete=incomplete or path in failed
                )
            else:
                why = failed.get(path) or f"the import was stopped: {stopped}"
                self._register.note(file, "refused", why, familiar=who)

    def _name_the_rest(self) -> None:
        for file in self.folder.files:
            if self._register.knows(file):
                continue
            reason = "it belongs to no imported character"
            if file in self._not_named:
                reason = sillytavern.NOT_NAMED
            elif file.kind == "world":
                command = f"`familiar import-lorebook {typed(str(file.path))} --familiar ID`"
                reason = f"no imported character uses it; {_book_problem(file) or command}"
            self._register.note(file, "skipped", reason)

    def _step(self) -> None:
        self._steps += 1
        self.progress(_FILES, min(self._steps, len(self.folder.files)), len(self.folder.files))


def _below(root: Path, name: str) -> Path | None:
    """Return a file of the folder by its path there; None if it leads outside, or is not a file."""
    path = (root / name).resolve()
    return path if path.is_relative_to(root.resolve()) and path.is_file() else None


def _free_id(target: str, taken: Collection[str]) -> str:
    """Return an unused id: `target`, or that with a number."""
    numbered = (f"{target}-{number}" for number in count(2))
    return next(name for name in chain([target], numbered) if name not in taken)


def _read_card_file(file: sillytavern.FoundFile) -> Card:
    return read_card(read_foreign(file.path), origin=file.path.name)


def open_memory(paths: FamiliarPaths) -> MemoryStore:
    """Open the memory of a familiar that is being made."""
    return Familiar(paths).memory


def _import_book(
    familiar: Familiar, file: sillytavern.FoundFile, *, dry_run: bool
) -> tuple[sillytavern.Outcome, str]:
    """Import a lorebook; return the outcome and the reason."""
    book = load_book(read_foreign(file.path), origin=file.path.name)
    into, _ = place_for(book, familiar.memory)
    is_new = not familiar.memory.exists(f"{into}/.lorebook.json")
    try:
        lorebook = _import_newest(familiar, book, dry_run=dry_run)
    except errors.ConflictError:
        return "skipped", (
            f"the book has changed, and so have your files in {into!r}, which are kept; "
            f"`familiar import-lorebook {typed(str(file.path))} --force "
            f"--familiar {familiar.paths.id}` replaces them"
        )
    if lorebook is None:
        return "skipped", (
            "the book has changed, and you have undone that change, which stays undone; "
            f"`familiar import-lorebook {typed(str(file.path))} --update "
            f"--familiar {familiar.paths.id}` makes it again"
        )
    if not lorebook.written:
        return "unchanged", ""
    return ("imported" if is_new else "updated"), ""


def _book_problem(file: sillytavern.FoundFile) -> str:
    """Return why a book that nobody uses cannot be read either; empty if it can."""
    try:
        load_book(read_foreign(file.path), origin=file.path.name)
    except errors.FamiliarError as error:
        return "" if memories_in(file.path) else str(error)
    return ""


def _import_newest(familiar: Familiar, book: Lorebook, *, dry_run: bool) -> ImportedLorebook | None:
    """Import a lorebook with its changes, unless a person has undone these: None.

    An identical one from the card stays as it is.
    """
    try:
        return import_lorebook(familiar.memory, book, dry_run=dry_run)
    except errors.ConflictError:
        raise
    except errors.RefusedError:
        pages = plan_import(book, familiar.memory, update=True).changes
        if any(_was_undone(familiar, page) for page in pages):
            return None
        return import_lorebook(familiar.memory, book, update=True, dry_run=dry_run)


def _was_undone(familiar: Familiar, page: FileToWrite) -> bool:
    """Tell whether the last change of a page was to undo what would be written again."""
    with suppress(errors.NotFoundError):  # it is new
        (last,) = familiar.past.log(page.path, limit=1)
        with closing(familiar.journal.repository) as repository:
            undone = [repository.file_at(id_, page.path) for id_ in last.commit.undoes]
        return page.content in undone
    return False


def _character_names(character: _Character) -> set[str]:
    """Return the case-folded names by which `--only` selects a character."""
    own = {fold(character.name), character.face.name, character.id}
    return own.union(*map(_names_of, (character.file, *character.same)))


def _names_of(file: sillytavern.FoundFile) -> set[str]:
    return {fold(file.stem), fold(file.path.name)}


def _of_chat(chat: import_chat.ImportedChat) -> tuple[sillytavern.Outcome, str, bool]:
    """Return the outcome for a chat, the reason, and whether lines were left out."""
    parts = [
        f"{counted(number, what)} {deed}"
        for number, what, deed in (
            (chat.corrected, "turn", "corrected"),
            (chat.withdrawn, "turn", "withdrawn"),
            (chat.doubles, "turn", "was kept twice until now"),
            (chat.damaged, "damaged line", "left out"),
            (chat.changed, "changed line", "left as imported before"),
            (chat.inserted, "line", "between imported ones left out"),
        )
        if number
    ]
    forgotten = [skip.line for skip in chat.skipped if skip.reason == import_chat.FORGOTTEN]
    if forgotten:
        parts.append(f"line {number_spans(forgotten)} left out: {import_chat.FORGOTTEN}")
    if chat.is_copy:
        parts.insert(0, f"the same as channel {chat.channel!r}")
    outcome: sillytavern.Outcome = "unchanged"
    if chat.is_new and (chat.imported or chat.branch_of):
        outcome = "imported"
    elif chat.imported or chat.corrected or chat.withdrawn or chat.doubles:
        outcome = "updated"
    elif not (chat.already_there or chat.is_copy or chat.branch_of):
        outcome = "skipped"
        parts = parts or ["it has no messages"]
    return outcome, ", ".join(parts), bool(chat.damaged or chat.changed or chat.inserted)


def _strongest_outcome(outcomes: Iterable[sillytavern.Outcome]) -> sillytavern.Outcome:
    return "updated" if {"updated", "imported"} & set(outcomes) else "unchanged"
