"""`Familiar`: the one place where stores, clients and models are built.

`actions` uses them: `prompt` assembles the providers and processors of a prompt, `talk` takes
turns, `write_memory` writes memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from functools import cache, cached_property, partial
from itertools import chain
from os import path
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Self

from familiar_cli.base.config.home import (
    FamiliarPaths,
    Instance,
    check_here,
    ensure_instance,
    find_familiar,
    find_home,
    host_name,
    other_owners,
    read_instance,
    zone_of,
)
from familiar_cli.base.errors import FamiliarError, LockedError
from familiar_cli.base.text import one_line
from familiar_cli.base.times.clock import to_utc, to_zone
from familiar_cli.base.who.identity import NEUTRAL, Author, Labels, Me, Who, parse_author

if TYPE_CHECKING:
    from familiar_cli.base.config.channel import Channel, ChannelConfigs, SubscriptionRegistry
    from familiar_cli.base.config.schema import CharacterConfig, HomeSettings
    from familiar_cli.base.config.settings import FileSettings, SettingsFiles
    from familiar_cli.base.jobs import Jobs
    from familiar_cli.base.languages import Phrases
    from familiar_cli.base.sqlite import IdleConnection
    from familiar_cli.base.who.visibility import Evidence, PrivacyRules, Viewer
    from familiar_cli.context.character import Character
    from familiar_cli.context.summarising import Summariser, SummaryKeeper
    from familiar_cli.llm.open import SlotModels
    from familiar_cli.llm.tokens import TokenCounter
    from familiar_cli.store.history.privacy import Privacy
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.history.summaries import Summaries
    from familiar_cli.store.journal.git import GitJournal
    from familiar_cli.store.journal.history import JournalDays
    from familiar_cli.store.journal.past import MemoryPast
    from familiar_cli.store.memory.aliases import Aliases
    from familiar_cli.store.memory.pages.lines import Numbering
    from familiar_cli.store.memory.relation_index import RelationIndex
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.passes import Failures, PassCosts, Passes
    from familiar_cli.store.search.build import EmbeddingIndex
    from familiar_cli.store.search.finding import Finder
    from familiar_cli.sync.forget_orders import ForgetPlace
    from familiar_cli.sync.shared_files import FilePasts
    from familiar_cli.writing.writer.runs import Runs

    OnText = Callable[[str], None]

_MOST_DIGITS = 18  # of a turn's number


class Familiar:
    """A familiar's files, settings and components. Each component is built on first use.

    `async with` closes it with `aclose`. A plain `with` is enough if no model is asked: for memory,
    history and settings.

    Attributes:
        published: The state of the memory directory when the list of names was last made from it;
            see `store.memory.store.watch.quiet_since`.
    """

    def __init__(self, paths: FamiliarPaths, tell: OnText = lambda _: None) -> None:
        """Open the familiar at `paths`; `tell` is called with user-facing messages."""
        self.paths = paths
        self.tell = tell
        self._character: Character | None = None
        self._character_since = 0
        self._language: str | None = None
        self.published = 0
        self._is_settled = False
        self._settling = RLock()
        self._has_tried_forgetting = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @classmethod
    def load_from_disk(
        cls,
        home: str | Path | None = None,
        familiar: str | None = None,
        tell: OnText = lambda _: None,
    ) -> Familiar:
        """Open a familiar by id, or the chosen one; see `base.config.home.find_familiar`.

        Raises:
            NotFoundError: No such familiar.
            UsageError: There are several and none was chosen.
        """
        return cls(find_familiar(find_home(str(home) if home else None), familiar), tell)

    @cached_property
    def config(self) -> CharacterConfig:
        """The settings in `character.toml`.

        Raises:
            ConfigError: The file has an unknown key, a wrong type, or is not valid TOML.
        """
        return self._load_config.settings

    @cached_property
    def _load_config(self) -> FileSettings[CharacterConfig]:
        from familiar_cli.base.config.schema import CharacterConfig

        return self.settings_files.load(self.paths.config, CharacterConfig)

    @cached_property
    def settings_files(self) -> SettingsFiles:
        """The settings files that have been read."""
        from familiar_cli.base.config.settings import SettingsFiles

        return SettingsFiles()

    @property
    def is_outdated(self) -> bool:
        """Whether a settings file has changed since it was read, so that it must be reopened."""
        return "settings_files" in self.__dict__ and self.settings_files.have_changed

    @property
    def instance(self) -> Instance:
        """The familiar's instance on this machine; creates its id if needed.

        Raises:
            ConfigError: `instance.id` is damaged, or cannot be read or written.
        """
        return ensure_instance(self.paths.instance, chosen=self.config.instance.id)

    def turn_number(self, name: str | int) -> int:
        """Resolve a turn: `number`, `instance:number`, or `channel:number` as a search prints it.

        Raises:
            NotFoundError: That turn is not stored here.
            UsageError: `name` is none of them.
        """
        channel_id, _, number = str(name).rpartition(":")
        if channel_id and number.isdecimal() and len(number) <= _MOST_DIGITS:
            turn = self.history.turn(int(number))
            if turn and turn.channel_id == channel_id:
                return turn.id
        return self.numbering.turn_number(name)

    def turn_names(self, turn_ids: Iterable[int]) -> dict[int, str]:
        """Return the global names of local turns, `instance:number`, by their numbers.

        If this familiar has no instance yet, the number alone.

        Raises:
            ConfigError: `instance.id` is damaged, or cannot be read.
        """
        from familiar_cli.store.history.lines import TurnName, names_of

        wanted, here = list(turn_ids), read_instance(self.paths.instance)
        if here is None:
            return {n: str(n) for n in wanted}
        names = names_of(self.history, here.id, wanted)
        return {n: str(names.get(n) or TurnName(here.id, n)) for n in wanted}

    @property
    def numbering(self) -> Numbering:
        """The mapping between citations in memory and local turns.

        Raises:
            ConfigError: `instance.id` is damaged, or cannot be read.
        """
        from familiar_cli.store.history.lines import TurnName, ids_of, names_of
        from familiar_cli.store.history.selection import times_of
        from familiar_cli.store.memory.pages.lines import Numbering

        def days(turn_ids: Iterable[int], viewer: Viewer) -> dict[int, date]:
            times = times_of(self.history, turn_ids, viewer)
            return {turn_id: to_zone(at, self.zone).date() for turn_id, at in times.items()}

        here = read_instance(self.paths.instance)
        if here is None:
            return Numbering(days=days)
        own = here.id

        def find(instance: str, numbers: Iterable[int]) -> dict[int, int]:
            names = (TurnName(instance, number) for number in numbers)
            return {name.id: local for name, local in ids_of(self.history, own, names).items()}

        def origins(turn_ids: Iterable[int]) -> dict[int, tuple[str, int]]:
            names = names_of(self.history, own, turn_ids).items()
            return {local: name for local, name in names if name.instance != own}

        return Numbering(own, here.began, find, origins, days)

    @property
    def days_name(self) -> str:
        """The suffix of daily files written here.

        Raises:
            ConfigError: `instance.id` is damaged, or cannot be read.
        """
        if choice := self.config.instance.id:
            return choice
        found = read_instance(self.paths.instance)
        return found.id if found else host_name()

    @cached_property
    def channels(self) -> ChannelConfigs:
        """The settings of individual channels."""
        from familiar_cli.base.config.channel import ChannelConfigs
        from familiar_cli.store.history.selection import spoken_in

        return ChannelConfigs(
            self.paths.channels,
            lambda: {branch.channel_id: branch.parent for branch in self.history.branches()},
            self.config.channels.private,
            lambda: spoken_in(self.history),
        )

    @cached_property
    def subscriptions(self) -> SubscriptionRegistry:
        """The subscribed channels."""
        from familiar_cli.base.config.channel import SubscriptionRegistry

        return SubscriptionRegistry(self.paths.subscriptions)

    def channel(self, channel_id: str, modality: str = "text") -> Channel:
        """Return the effective settings of a channel for a modality.

        Raises:
            ConfigError: Its file or `character.toml` is invalid.
        """
        from familiar_cli.base.config.channel import effective_channel

        return effective_channel(
            channel_id, self.channels.read(channel_id), self._load_config, modality, self._at_home
        )

    @cached_property
    def _at_home(self) -> FileSettings[HomeSettings]:
        from familiar_cli.base.config.schema import HomeSettings

        return self.settings_files.load(self.paths.me, HomeSettings)

    def me(self, channel_id: str = "") -> Me:
        """Return the default speaker of a channel.

        Raises:
            ConfigError: Its file, `character.toml` or `me.toml` is invalid.
        """
        return self.me_in(self.channel(channel_id))

    def me_in(self, channel: Channel) -> Me:
        """Return the default speaker of a channel with known settings; see `me`."""
        set_to = channel.me
        also = map(parse_author, self._at_home.settings.also + self.config.me.also)
        own = {account.slug for account in also}
        for other in self._other_owners:
            own -= other.slugs
        return Me(
            NEUTRAL,
            one_line(set_to.name),
            set_to.description,
            one_line(set_to.pronouns),
            self.config.user_name,
            frozenset({NEUTRAL.slug, *own}),
            self._other_owners,
        )

    @cached_property
    def _other_owners(self) -> tuple[Me, ...]:
        return other_owners(self._at_home.settings)

    @cached_property
    def privacy(self) -> Privacy:
        """The privacy rules: who sees what."""
        from familiar_cli.store.history.privacy import KeptRules, Privacy

        set_to = self.config.privacy
        return Privacy(
            self.channels,
            self.history,
            frozenset(slug for owner in self.me().owners for slug in owner.slugs),
            self.config.memory_writer.dm == "share",
            set_to.owner == "share",
            set_to.notes == "owner",
            KeptRules(),
            self._evidence,
        )

    def _evidence(self, rules: PrivacyRules) -> Evidence:
        """Build the evidence of memory under these rules."""
        from familiar_cli.base.who.visibility import OWNERS, Evidence
        from familiar_cli.store.history.selection import (
            arrivals_stamp,
            public_names,
            scopes_between,
            scopes_of_turns,
        )
        from familiar_cli.store.memory.pages.imported import ImportedPages

        kept: dict[int, str] = {}
        numbering = cache(lambda: self.numbering)
        imported = ImportedPages(self.paths.memory)
        names = cache(lambda: public_names(self.history, rules))

        def cited(texts: Sequence[str]) -> list[frozenset[str]]:
            from familiar_cli.store.memory.pages.lines import scopes_cited

            return scopes_cited(texts, numbering(), scopes_of)

        def scopes_of(turn_ids: Iterable[int]) -> dict[int, str]:
            if wanted := [one for one in turn_ids if one not in kept]:
                kept.update(scopes_of_turns(self.history, wanted, rules))
            return kept

        def between(first: date, last: date) -> frozenset[str]:
            since = to_utc(datetime.combine(first, time()), self.zone)
            until = to_utc(datetime.combine(last, time()), self.zone) + timedelta(days=2)
            scopes = scopes_between(self.history, since, until, rules) & {OWNERS}
            return frozenset({OWNERS}) if imported.has_between(first, last) else scopes

        def stamp() -> str:
            return f"{imported.stamp()} {arrivals_stamp(self.history)} {sorted(names())}"

        return Evidence(cited, between, imported.has, names, stamp)

    @cached_property
    def memory(self) -> MemoryStore:
        """The memory directory; files written to it are searchable at once."""
        from familiar_cli.store.memory.layout import INDEX_DIR
        from familiar_cli.store.memory.store.store import LazyJournal, Limits, MemoryStore

        set_to = self.config.memory
        limits = Limits(set_to.max_file_bytes, set_to.max_results, set_to.max_dir_files)
        there = self.paths.memory / INDEX_DIR

        def note_changes(rel_paths: tuple[str, ...]) -> None:
            from familiar_cli.store.search.types import index_changes

            index = self.index if there.is_dir() else None
            index_changes(lambda: index, self.finder.note_changes)(rel_paths)

        memory = MemoryStore(
            self.paths.memory,
            limits=limits,
            lock_path=self.paths.lock,
            lock_timeout_s=set_to.lock_timeout_s,
            journal=LazyJournal(self.paths.journal, lambda: self.journal),
            on_change=note_changes,
            before_change=self._before_change,
        )
        self.__dict__["memory"] = memory
        self._finish_forgetting()
        return memory

    @cached_property
    def index(self) -> EmbeddingIndex:
        """The memory's embedding index. Its files are created by the first search."""
        from familiar_cli.store.search.build import EmbeddingIndex

        def rules() -> PrivacyRules:
            return self.privacy.rules()

        return EmbeddingIndex(self.memory, rules=rules)

    @cached_property
    def finder(self) -> Finder:
        """Search of memory and history. Its files are created by the first search."""
        from familiar_cli.store.search.finding import Finder

        return Finder(
            self.index,
            lambda: self.history,
            vectors_dir=self.paths.turn_vectors,
            embedding=self.config.embedding,
            zone=self.zone,
            instance=lambda: self.days_name,
        )

    @cached_property
    def journal(self) -> GitJournal:
        """The journal of all changes to the memory."""
        from familiar_cli.store.journal.git import GitJournal

        return GitJournal(
            self.paths.journal, self.paths.memory, tell=self.tell, instance=self._signature
        )

    @property
    def missing_turns(self) -> str:
        """What to do about turns that the history lacks, as an older copy does; empty if none."""
        from familiar_cli.base.config.home import missing_turns

        return missing_turns(self.paths, self.history.newest_own())

    def settle_instance(self, *, is_restored: bool = False) -> None:
        """Take a new instance id if this is a copy of a familiar, before anything is written.

        Args:
            is_restored: Whether it was just restored from a backup.

        Raises:
            FamiliarError: That cannot be written.
        """
        with self._settling:
            if self._is_settled:
                return
            self._is_settled = True  # what follows writes, too
            try:
                self._settle(is_restored=is_restored)
            except BaseException:
                self._is_settled = False
                raise

    def _settle(self, *, is_restored: bool) -> None:
        from familiar_cli.base.config.home import is_copy

        root = self.paths.root
        found = read_instance(self.paths.instance)
        if found is None or not (
            is_restored
            or is_copy(root)
            or self.missing_turns
            or (found.former and not self.history.was_named(found.former))
        ):
            return
        from familiar_cli.sync.divergence import settle_instance

        repository = self.journal.repository
        settle_instance(self.paths, self.history, repository, self.tell, is_restored=is_restored)

    def _write_cursor(self, turn_id: int) -> None:
        from familiar_cli.base.config.home import write_cursor

        if found := read_instance(self.paths.instance):
            write_cursor(self.paths.root, found.id, turn_id)

    def _before_change(self) -> None:
        check_here(self.paths)
        self.settle_instance()

    def _signature(self) -> str:
        """Return the instance to name in commits; empty for the original one."""
        found = read_instance(self.paths.instance)
        return "" if found is None or found.is_first else found.id

    @cached_property
    def past(self) -> MemoryPast:
        """The history of the memory."""
        from familiar_cli.store.journal.past import MemoryPast

        return MemoryPast(self.memory, self.journal, self.tell)

    @cached_property
    def file_pasts(self) -> FilePasts:
        """The versions of files shared with embodiments; `read_on` loads new ones."""
        from familiar_cli.sync.shared_files import FilePasts, is_shared

        return FilePasts(self.journal.repository, self.instance.began, is_shared)

    @cached_property
    def journal_days(self) -> JournalDays:
        """The days on which memory changed, with its state on each."""
        from familiar_cli.store.journal.history import JournalDays

        return JournalDays(self.journal.repository, self.zone)

    @cached_property
    def history(self) -> HistoryStore:
        """All turns. The file is created with the first one."""
        from familiar_cli.store.history.store import HistoryStore

        def owners() -> list[Author]:
            return [Author.from_slug(slug) for slug in sorted(self.privacy.own)]

        history = HistoryStore(
            self.paths.history,
            owners=owners,
            before_change=self.settle_instance,
            on_newest=self._write_cursor,
        )
        self.__dict__["history"] = history  # a change below asks for it again
        spooled = self.paths.root / "replying"
        if path.isdir(spooled):  # noqa: PTH112  # unlike `Path.is_dir`, never raises
            from familiar_cli.context.on_record import recover_replies

            for reply in recover_replies(history, spooled):
                self.tell(f"The reply in turn {reply.id} is incomplete: the program was killed")
        self._finish_forgetting()
        return history

    @property
    def forget_place(self) -> ForgetPlace:
        """The parts of this familiar that forgetting a person needs."""
        from familiar_cli.sync.forget_orders import ForgetPlace

        owners = ((one.account.user_id, one.account.username, one.name) for one in self.me().owners)
        return ForgetPlace(
            self.paths,
            self.memory,
            self.history,
            self.channels,
            self.journal.repository,
            self.instance,
            (self.name, self.paths.id, *filter(None, chain.from_iterable(owners))),
        )

    def _finish_forgetting(self) -> None:
        """Finish forgetting a person if that was cut off or the history is older; try once."""
        is_cut_off = path.exists(self.paths.forgetting)  # noqa: PTH110  # unlike `Path`, never raises
        known = path.join(self.paths.root.parent, ".forgotten.json")  # noqa: PTH118  # as above
        is_older = not self._is_settled and "history" in self.__dict__ and path.exists(known)  # noqa: PTH110
        if not (is_cut_off or is_older):
            return
        from familiar_cli.sync import forget_orders

        with self._settling:
            if self._has_tried_forgetting:
                return
            self._has_tried_forgetting = True
            try:
                if is_cut_off:
                    if forget_orders.finish_forgetting(lambda: self.forget_place, self.paths):
                        self.tell("An interrupted `people forget` has now been completed")
                elif forget_orders.is_order_missing(self.paths, self.history):
                    forget_orders.carry_out_known_orders(self.forget_place)
                    self.tell("Whoever was forgotten before is now forgotten here, too")
            except LockedError:  # another process is carrying it out
                return
            except (FamiliarError, OSError) as error:
                self.tell(f"An interrupted `people forget` cannot be completed: {error}")

    @cached_property
    def counter(self) -> TokenCounter:
        """The token counter: exact if its encoding is on disk, else an estimate."""
        from familiar_cli.base.config.home import cache_dir
        from familiar_cli.context.budget import RememberingCounter
        from familiar_cli.llm import tokens
        from familiar_cli.llm.models.store import encoding_path

        return RememberingCounter(tokens.load(encoding_path(cache_dir())))

    @cached_property
    def summaries(self) -> Summaries:
        """Summaries of older turns."""
        from familiar_cli.store.history.summaries import Summaries

        return Summaries(self.history)

    @cached_property
    def jobs(self) -> Jobs:
        """Background work after a reply."""
        from familiar_cli.base.jobs import Jobs

        return Jobs()

    @property
    def failures(self) -> Failures:
        """Failed background passes that have not succeeded since."""
        from familiar_cli.store.passes import Failures

        return Failures(self.paths.failures)

    @property
    def costs(self) -> PassCosts:
        """Token costs of the background passes."""
        from familiar_cli.store.passes import PassCosts

        return PassCosts(self.paths.runs / "spent")

    @property
    def passes(self) -> Passes:
        """The background passes: one process at a time, recorded, retried after failures."""
        from familiar_cli.store.passes import Passes

        return Passes(self.paths.root, self.failures)

    @cached_property
    def summary_keeper(self) -> SummaryKeeper:
        """Keeps the summaries up to date."""
        from familiar_cli.context.summarising import SummaryKeeper

        return SummaryKeeper(
            self.summaries,
            self.privacy.rules,
            self.config.history.summary_every,
            self._summariser,
            self.jobs,
            background=self.passes.summary,
        )

    @cached_property
    def models(self) -> SlotModels:
        """The models of its slots. `aclose` closes them."""
        from familiar_cli.llm.open import SlotModels

        return SlotModels(self.config.llm, self.settings_files.note)

    def character(self) -> Character:
        """Read the character from its files, unless they are certainly unchanged."""
        from familiar_cli.context.character import read_character

        since = self.memory.quiet_since()
        if self._character is None or not since or since != self._character_since:
            self._character = read_character(
                self.memory, name=self.config.name, fallback_name=self.paths.id
            )
            self._character_since = since
        return self._character

    @property
    def name(self) -> str:
        """The name of the familiar."""
        given = one_line(self.config.name)
        return given or self.character().name

    @property
    def phrases(self) -> Phrases:
        """Titles, headings and labels of its files and prompts, in its language."""
        from familiar_cli.base.languages import phrases

        return phrases(self.language)

    @property
    def language(self) -> str:
        """Language code: as set, else detected from its first turns or its character.

        Turns are never rewritten, so the detected language is stable.
        """
        from familiar_cli.base.languages import FIRST_TURNS, language_in

        set_to = self.config.language
        if set_to != "auto":
            return set_to
        if self._language is None:
            contents = (turn.content for turn in self.history.after(0, FIRST_TURNS))
            code, is_settled = language_in(contents, self._own_texts)
            if not is_settled:
                return code
            self._language = code
        return self._language

    def _own_texts(self) -> list[str]:
        character = self._character or self.character()  # the value of the last check will do
        return [*character.texts.values()]

    @property
    def who(self) -> Who:
        """The familiar as described to a model that writes its memory, with macros expanded."""
        from familiar_cli.context.character import who_of

        return who_of(
            self.character(),
            self.me(),
            self.phrases,
            system_prompt=self.config.system_prompt,
            pick_seed=self.paths.id,
        )

    @property
    def zone(self) -> tzinfo | None:
        """Its timezone; None for the system's."""
        return zone_of(self.config.timezone)

    @cached_property
    def _idle_names(self) -> IdleConnection:
        from familiar_cli.base.sqlite import IdleConnection

        return IdleConnection()

    @cached_property
    def _idle_relations(self) -> IdleConnection:
        from familiar_cli.base.sqlite import IdleConnection

        return IdleConnection()

    def names(self) -> Aliases:
        """Open the index of names. The caller closes it."""
        from familiar_cli.store.memory.aliases import Aliases

        return Aliases(self.memory, self._idle_names)

    def relations(self) -> RelationIndex:
        """Open the graph of people, places and topics. The caller closes it."""
        from familiar_cli.store.memory.relation_index import RelationIndex

        return RelationIndex(self.memory, self._idle_relations)

    def _summariser(self) -> Summariser:
        from familiar_cli.base.config.channel_kinds import OF_MODALITY
        from familiar_cli.context.budget import Window, prompt_allowance
        from familiar_cli.context.summarising import (
            LOCAL_STEPS,
            MOST_STEPS,
            SLOT,
            Summariser,
            SummaryLimits,
            summary_tokens,
        )
        from familiar_cli.store.passes import SUMMARISING

        slot, window = self.models.slot(SLOT), Window.of(self.models.slot())
        layers = prompt_allowance(
            self.config.budget, mode=OF_MODALITY["text"], window=window
        ).layers
        return Summariser(
            self.summaries,
            self.models.open_usable(SLOT),
            self.counter,
            SummaryLimits(
                summary_tokens(layers, self.phrases, self.counter),
                steps=LOCAL_STEPS if slot.preset == "local" else MOST_STEPS,
            ),
            name=self.name,
            label=self.channels.label,
            zone=zone_of(self.config.timezone),
            labels=self._labels,
            on_answer=partial(self.costs.add, SUMMARISING),
        )

    def labels(self, people: Iterable[Author | None] = (), channel_id: str = "") -> Labels:
        """Return the labels of people in texts of a channel."""
        return Labels(frozenset(filter(None, people)), self.name, self.me(channel_id))

    def _labels(self) -> Labels:
        """Return the public labels of everyone who has spoken."""
        return self.labels(s.author for s in self.history.speakers(self.privacy.program()))

    @cached_property
    def runs(self) -> Runs:
        """Records of the memory writer's passes."""
        from familiar_cli.writing.writer.runs import Runs

        return Runs(self.paths.runs, self.paths.quarantine)

    async def aclose(self) -> None:
        """Cancel background work, close the models, and close the history.

        To let work finish first, call `jobs.finish`.
        """
        from asyncio import to_thread

        try:
            if "jobs" in self.__dict__:
                await to_thread(self.jobs.cancel)
            if "models" in self.__dict__:
                await self.models.aclose()
        finally:
            self.close()

    def close(self) -> None:
        """Cancel background work and close the history; models are closed by `aclose`."""
        if "jobs" in self.__dict__:
            self.jobs.cancel()
        for name in ("history", "index", "_idle_names", "_idle_relations"):
            if name in self.__dict__:
                self.__dict__[name].close(for_good=True)
