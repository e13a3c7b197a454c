"""`Familiar`: the one place that builds stores, clients, providers and processors."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from familiar_cli.config.modes import OF_MODALITY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo
    from pathlib import Path
    from typing import Self

    from familiar_cli.bootstrap.chats.types import Reading
    from familiar_cli.config.channel import ChannelConfigs
    from familiar_cli.config.effective_channel import Channel
    from familiar_cli.config.home import FamiliarPaths
    from familiar_cli.config.load import Written
    from familiar_cli.config.modes import ChannelMode
    from familiar_cli.config.schema import BudgetSettings, CharacterConfig
    from familiar_cli.config.subscriptions import SubscriptionRegistry
    from familiar_cli.context.limits import Allowance
    from familiar_cli.context.past import Past
    from familiar_cli.context.pipeline import ContextPipeline
    from familiar_cli.context.processors.recast import RecastPostProcessor
    from familiar_cli.context.processors.stepped_thinking import SteppedThinkingPreProcessor
    from familiar_cli.context.providers.character import CharacterProvider
    from familiar_cli.context.providers.content_search import ContentSearchProvider
    from familiar_cli.context.providers.content_search.filter import Filter
    from familiar_cli.context.providers.content_search.retrieval import Retrieval
    from familiar_cli.context.providers.history import Beyond
    from familiar_cli.context.summarising import Summariser
    from familiar_cli.context.taking import Taken, Taking
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import ContextRequest, Said, Spoken
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.summaries import Summaries
    from familiar_cli.index.build import EmbeddingIndex
    from familiar_cli.index.embedder import Opened
    from familiar_cli.index.types import Options, SearchResult
    from familiar_cli.jobs import Jobs
    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.llm.types import ChatModel
    from familiar_cli.memory.aliases import Aliases
    from familiar_cli.memory.journal.chronicle import Chronicle
    from familiar_cli.memory.journal.git import GitJournal
    from familiar_cli.memory.store import MemoryStore
    from familiar_cli.tokens import TokenCounter
    from familiar_cli.writer.memory_writer import MemoryWriter, WriterSettings
    from familiar_cli.writer.runs import Runs

    OnText = Callable[[str], None]

_NO_NOTE = "stepped_thinking adds a note to the prompt; here no model is asked, so there is none"
_NO_FILTER = "the filter would choose among what memory adds; here no model is asked"
WRITER_SLOT = "memory_writer"
FILTER_SLOT = "content_filter"
INDEX_JOB = "index"
_PLAN_TOKENS = 4096  # of a reply that says what to remember, where nobody said otherwise
_PLAN_TEMPERATURE = 0.2  # it is to be faithful, not inventive
_TITLE_TOKENS = 30  # what says that a summary is one


class Familiar:
    """One familiar's files, settings and working parts. Each part is built when first asked for."""

    def __init__(self, paths: FamiliarPaths, tell: OnText = lambda _: None) -> None:
        """Take the familiar at `paths`; `tell` is told in words what a person should know."""
        self.paths = paths
        self._tell = tell
        self._models: dict[ResolvedSlot, ChatModel] = {}
        self._index_is_behind = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def load_from_disk(
        cls,
        home: str | Path | None = None,
        familiar: str | None = None,
        tell: OnText = lambda _: None,
    ) -> Familiar:
        """Return the familiar that is meant; see `config.home.find_familiar`.

        Raises:
            NotFoundError: There is no such familiar.
            UsageError: Several live there and none was chosen.
        """
        from familiar_cli.config.home import find_familiar, find_home

        return cls(find_familiar(find_home(str(home) if home else None), familiar), tell)

    @cached_property
    def config(self) -> CharacterConfig:
        """The settings in `character.toml`.

        Raises:
            ConfigError: The file has an unknown key, a wrong type, or is no TOML.
        """
        return self._written.settings

    @cached_property
    def _written(self) -> Written[CharacterConfig]:
        from familiar_cli.config.load import load_written
        from familiar_cli.config.schema import CharacterConfig

        return load_written(self.paths.config, CharacterConfig)

    @cached_property
    def channels(self) -> ChannelConfigs:
        """The channels that have settings of their own."""
        from familiar_cli.config.channel import ChannelConfigs

        return ChannelConfigs(self.paths.channels)

    @cached_property
    def subscriptions(self) -> SubscriptionRegistry:
        """The channels that are listened to."""
        from familiar_cli.config.subscriptions import SubscriptionRegistry

        return SubscriptionRegistry(self.paths.subscriptions)

    def channel(self, channel_id: str, modality: str = "text") -> Channel:
        """Return what holds in a channel when what is said comes as `modality`.

        Raises:
            ConfigError: Its file, or `character.toml`, has something wrong in it.
        """
        from familiar_cli.config.effective_channel import effective_channel

        return effective_channel(
            channel_id, self.channels.read(channel_id), self._written, modality
        )

    def channel_label(self, channel_id: str) -> str:
        """Return what a channel is called, e.g. `#general`; its id when its file cannot be read."""
        from familiar_cli.config.channel_context import ChannelContext
        from familiar_cli.errors import ConfigError

        try:
            config = self.channels.read(channel_id).settings
        except ConfigError:
            return ChannelContext(channel_id).label
        return ChannelContext(config.name or channel_id, config.kind, config.parent).label

    @cached_property
    def memory(self) -> MemoryStore:
        """The memory directory; what is written there can be searched at once."""
        from familiar_cli.index.store import IndexingMemoryStore
        from familiar_cli.memory.store import Limits, MemoryStore

        set_to = self.config.memory
        limits = Limits(set_to.max_file_bytes, set_to.max_results, set_to.max_dir_files)
        store = MemoryStore(
            self.paths.memory,
            limits=limits,
            lock_path=self.paths.lock,
            lock_timeout_s=set_to.lock_timeout_s,
            journal=self.journal,
        )
        there = self.paths.memory / ".index"
        return IndexingMemoryStore(store, lambda: self.index if there.is_dir() else None)

    @cached_property
    def index(self) -> EmbeddingIndex:
        """What finds memories by words and by meaning. Its files are made at the first search."""
        from familiar_cli.index.build import EmbeddingIndex

        return EmbeddingIndex(self.memory)

    @cached_property
    def embedder(self) -> Opened:
        """The model that finds by meaning, or why there is none."""
        from familiar_cli.config.home import cache_dir
        from familiar_cli.index.embedder import open_embedder

        return open_embedder(self.config.embedding.model, cache_dir())

    def search(
        self, query: str, options: Options, progress: Callable[[str, int, int], None] | None = None
    ) -> SearchResult:
        """Return what the memory holds about `query`. See `index.search.search`."""
        from familiar_cli.index.search import search

        return search(self.index, query, options, self.embedder, progress)

    @cached_property
    def journal(self) -> GitJournal:
        """What records every change of the memory."""
        from familiar_cli.memory.journal.git import GitJournal

        return GitJournal(self.paths.journal, self.paths.memory, tell=self._tell)

    @cached_property
    def chronicle(self) -> Chronicle:
        """The past of the memory."""
        from familiar_cli.memory.journal.chronicle import Chronicle

        return Chronicle(self.memory, self.journal, self._tell)

    @cached_property
    def history(self) -> HistoryStore:
        """Every turn that was said. The file is made at the first one."""
        from familiar_cli.history.store import HistoryStore

        return HistoryStore(self.paths.history)

    @cached_property
    def counter(self) -> TokenCounter:
        """What counts tokens: exact if its encoding is on disk, else an estimate."""
        from familiar_cli import tokens
        from familiar_cli.config.home import cache_dir
        from familiar_cli.context.counting import RememberingCounter
        from familiar_cli.models.store import encoding_path

        return RememberingCounter(tokens.load(encoding_path(cache_dir())))

    @cached_property
    def summaries(self) -> Summaries:
        """What older turns were about, in short."""
        from familiar_cli.history.summaries import Summaries

        return Summaries(self.history)

    @cached_property
    def jobs(self) -> Jobs:
        """Work that may be done after a reply."""
        from familiar_cli.jobs import Jobs

        return Jobs()

    @cached_property
    def past(self) -> Past:
        """What keeps the summaries up with the conversation."""
        from familiar_cli.context.past import Past

        return Past(
            self.summaries,
            self.channels.private,
            self.config.history.summary_every,
            self._summariser,
            self.jobs,
        )

    def slot(self, name: str = "main") -> ResolvedSlot:
        """Return which server and model the slot `name` means.

        Raises:
            ConfigError: The settings of the slot make no sense.
        """
        from familiar_cli.llm.slots import resolve

        return resolve(self.config.llm, name)

    def model(self, slot: str = "main", *, on_wait: OnText | None = None) -> ChatModel:
        """Return the model of a slot; the same one each time. `close` ends it.

        Args:
            slot: The slot's name.
            on_wait: Told in one line before a busy server is asked again; from the first call on.
        """
        from familiar_cli.config.home import cache_dir
        from familiar_cli.llm.open import open_model

        settings = self.slot(slot)
        same = replace(settings, slot="")  # slots that mean one model share it, and its memory
        if same not in self._models:
            self._models[same] = open_model(settings, cache_dir=cache_dir(), on_wait=on_wait)
        return self._models[same]

    @cached_property
    def character(self) -> CharacterProvider:
        """What offers the character to a prompt."""
        from familiar_cli.context.providers.character import CharacterProvider

        return CharacterProvider(
            self.memory,
            system_prompt=self.config.system_prompt,
            name=self.config.name,
            user_name=self.config.user_name,
            deadline_s=self.config.context.provider_deadline_s,
        )

    @property
    def name(self) -> str:
        """What the familiar is called."""
        return self.character.read(self.paths.id).name

    @property
    def zone(self) -> tzinfo | None:
        """Its timezone; None: the system's."""
        from zoneinfo import ZoneInfo

        return ZoneInfo(self.config.timezone) if self.config.timezone else None

    def chat_reading(self, person: str | None = None, character: tuple[str, ...] = ()) -> Reading:
        """Return how chats from elsewhere are read.

        Args:
            person: Who speaks to the character in them, as `PLATFORM:ID`.
            character: Names that are the familiar's in them; empty: those that it has anywhere.

        Raises:
            UsageError: `person` names nobody.
        """
        from familiar_cli.bootstrap.chats.casting import known_names
        from familiar_cli.bootstrap.chats.types import Cast, Reading
        from familiar_cli.identity import parse_author

        known = known_names(self.memory, familiar_id=self.paths.id, name=self.config.name)
        cast = Cast(known, character, parse_author(person) if person else None)
        return Reading(cast, self.zone)

    def pipeline(
        self,
        channel_id: str,
        *,
        modality: str = "text",
        remembered: Sequence[Spoken] = (),
        dry: bool = False,
    ) -> ContextPipeline:
        """Return what makes the prompts of a channel.

        Args:
            channel_id: The channel.
            modality: How what is said comes.
            remembered: What was said off the record just before.
            dry: No model may be asked, so what would ask one is left out.

        Raises:
            ConfigError: The channel's file has something wrong in it.
        """
        from familiar_cli.context.pipeline import ContextPipeline
        from familiar_cli.context.providers.desk import DeskProvider
        from familiar_cli.context.providers.digests import DigestsProvider
        from familiar_cli.context.providers.from_tier import FromTier
        from familiar_cli.context.providers.history import HistoryProvider
        from familiar_cli.context.providers.notes import NotesProvider
        from familiar_cli.context.providers.remembered import RememberedProvider
        from familiar_cli.context.providers.system_block import SystemBlockProvider
        from familiar_cli.context.tiers import STANDARD

        channel = self.channel(channel_id, modality)
        deadline_s = self.config.context.provider_deadline_s
        share_private = self.config.memory_writer.dm == "share"
        at_start = self.config.context.datetime_place == "start"
        block = SystemBlockProvider(
            self.zone, tells_time=self.config.context.datetime == "on", at_start=at_start
        )
        providers = (
            *([block] if at_start else ()),
            self.character,
            DigestsProvider(self.memory, share_private=share_private, deadline_s=deadline_s),
            NotesProvider(
                channel.author_note,
                channel.inject,
                self.character.macros_of,
                self.history,
                deadline_s=deadline_s,
            ),
            HistoryProvider(
                self.history,
                recent_turns=channel.recent_turns,
                deadline_s=deadline_s,
                beyond=self._beyond(),
            ),
            FromTier(self._content_search(channel.recent_turns, dry=dry), STANDARD),
            *([] if at_start else [block]),
            DeskProvider(
                self.memory, self.zone, share_private=share_private, deadline_s=deadline_s
            ),
            *([RememberedProvider(remembered)] if remembered else ()),
        )
        used = () if dry else self.processors(channel_id, modality)
        return ContextPipeline(
            providers,
            self.counter,
            pre_processors=[self._thinking()] if "stepped_thinking" in used else (),
            post_processors=[self._recast()] if "recast" in used else (),
        )

    def processors(self, channel_id: str, modality: str) -> tuple[str, ...]:
        """Return which processors a turn in a channel has: switched on, and with a slot set up."""
        switched = self.channel(channel_id, modality).processors
        return tuple(name for name, on in switched.items() if on and name in self.config.llm.slots)

    def names(self) -> Aliases:
        """Return who is called what. The caller closes it."""
        from familiar_cli.memory.aliases import Aliases

        return Aliases(self.memory)

    def _content_search(self, recent_turns: int, *, dry: bool) -> ContentSearchProvider:
        from familiar_cli.context.providers.content_search import ContentSearchProvider

        return ContentSearchProvider(
            self.memory,
            self.history,
            self.names,
            self.counter,
            retrieval=lambda refresh_s: self._retrieval(recent_turns, refresh_s),
            content_filter=self._filter() if self._filters and not dry else None,
            snippet_tokens=self.config.search.snippet_tokens,
            on_behind=self._note_index_behind,
            share_private=self.config.memory_writer.dm == "share",
            deadline_s=self.config.context.provider_deadline_s,
        )

    def _retrieval(self, recent_turns: int, refresh_s: float) -> Retrieval:
        from familiar_cli.context.providers.content_search.retrieval import Memory, Retrieval

        return Retrieval(
            Memory(
                self.memory,
                self.search,
                lambda: self.embedder,
                self.history,
                self.character.macros_of,
                recent_turns,
            ),
            self.counter,
            k=self.config.search.k,
            share_private=self.config.memory_writer.dm == "share",
            refresh_s=refresh_s,
        )

    @property
    def _filters(self) -> bool:
        """Whether a model chooses among the memories that were found: only where it is set up."""
        return FILTER_SLOT in self.config.llm.slots

    def _filter(self) -> Filter:
        from familiar_cli.context.providers.content_search.filter import Filter

        settings = self.config.filter
        return Filter(
            lambda: self._usable_model(FILTER_SLOT),
            self.memory,
            self.counter,
            char=self.character.read(self.paths.id).name,
            strong=settings.strong,
            answer_tokens=settings.answer_tokens,
            deadline_s=settings.deadline_s,
        )

    def _note_index_behind(self) -> None:
        self._index_is_behind = True

    def look_after_index(self) -> bool:
        """Take on what the index lacks, as found by a turn. Returns whether there is anything."""
        behind, self._index_is_behind = self._index_is_behind, False
        return behind and self.jobs.add(INDEX_JOB, self._bring_index_forward)

    async def _bring_index_forward(self) -> None:
        """Read what changed, and make some vectors; what is still left is for the next turn."""
        from familiar_cli.index.build import SOME
        from familiar_cli.jobs import in_thread

        def forward() -> None:
            self.index.refresh()
            if self.embedder.embedder:
                self.index.embed_waiting(self.embedder.embedder, at_most=SOME)

        # It is left alone when it is told to stop; each of its steps is whole by itself.
        await in_thread(forward)

    def _thinking(self) -> SteppedThinkingPreProcessor:
        from familiar_cli.context.processors.stepped_thinking import SteppedThinkingPreProcessor

        return SteppedThinkingPreProcessor(
            lambda: self._usable_model("stepped_thinking"),
            self.counter,
            char=self.character.read(self.paths.id).name,
            deadline_s=self.config.context.processor_deadline_s,
        )

    def _recast(self) -> RecastPostProcessor:
        from familiar_cli.context.processors.recast import RecastPostProcessor

        return RecastPostProcessor(
            lambda: self._usable_model("recast"),
            self.counter,
            char=self.character.read(self.paths.id).name,
            deadline_s=self.config.context.processor_deadline_s,
        )

    def _usable_model(self, slot: str) -> ChatModel:
        from familiar_cli.llm.slots import check_usable

        check_usable(self.slot(slot))
        return self.model(slot)

    def _beyond(self) -> Beyond:
        from familiar_cli.context.providers.history import Beyond

        return Beyond(
            self.summaries,
            self.channels.private,
            self.channel_label,
            self.config.history.elsewhere_channels,
        )

    def _summariser(self) -> Summariser:
        from familiar_cli.config.zone import zone_of
        from familiar_cli.context.past import SLOT
        from familiar_cli.context.summarising import LOCAL_STEPS, MOST_STEPS, Limits, Summariser
        from familiar_cli.llm.slots import check_usable

        slot = self.slot(SLOT)
        check_usable(slot)
        steps = LOCAL_STEPS if slot.preset == "local" else MOST_STEPS
        return Summariser(
            self.summaries,
            self.model(SLOT),
            self.counter,
            Limits(self._summary_tokens(), self.config.history.summary_batch_tokens, steps),
            name=self.character.read(self.paths.id).name,
            label=self.channel_label,
            zone=zone_of(self.config.timezone),
        )

    def _summary_tokens(self) -> int:
        """Return what a prompt has for a summary, beside the line above it."""
        from familiar_cli.context.types import Layer

        layer = self._allowance(self.config.budget, OF_MODALITY["text"]).layers
        return max(layer[Layer.history_summary] - _TITLE_TOKENS, 1)

    def allowance(self, said: Said) -> Allowance:
        """Return how many tokens the prompt for `said` may have.

        Raises:
            ConfigError: The model's settings leave no room for a prompt.
        """
        return self.channel_allowance(self.channel(said.channel_id, str(said.modality)))

    def channel_allowance(self, channel: Channel) -> Allowance:
        """Return how many tokens a prompt may have in a channel; see `allowance`."""
        return self._allowance(channel.budget, channel.mode)

    def _allowance(self, budget: BudgetSettings, mode: ChannelMode) -> Allowance:
        from familiar_cli.context.limits import allowance

        slot = self.slot()
        return allowance(
            budget,
            mode=mode,
            preset=slot.preset,
            context_tokens=slot.context_tokens,
            max_tokens=slot.max_tokens,
        )

    def assemble(self, said: Said) -> Trace:
        """Return the prompt that `said` would lead to. Nothing is asked, and nothing is kept.

        Raises:
            LimitError: It is longer than a prompt may be.
            UsageError: The greeting that was asked for cannot open the channel.
        """
        import asyncio

        from familiar_cli.context.turn import dry_run

        modality = str(said.modality)
        pipeline = self.pipeline(
            said.channel_id, modality=modality, remembered=said.remembered, dry=True
        )
        thinks = "stepped_thinking" in self.processors(said.channel_id, modality)
        assembled = asyncio.run(pipeline.assemble(self._request(said)))
        return dry_run(
            assembled,
            model=self.slot().model,
            counter=self.counter.name,
            told=(
                self.allowance(said).notice,
                _NO_NOTE if thinks else "",
                _NO_FILTER if self._filters else "",
            ),
        )

    def take_turn(
        self,
        said: Said,
        on_text: OnText | None = None,
        *,
        stream: bool = True,
        on_wait: OnText | None = None,
    ) -> Taken:
        """Say something to the familiar and return its reply; both are kept, or nothing is.

        Ctrl-C ends the reply: what came of it is kept, and the result says `interrupted`. Of a turn
        off the record neither words nor traces are written anywhere.

        Args:
            said: What is said.
            on_text: Given each piece of the reply as it comes.
            stream: Ask for the reply piece by piece.
            on_wait: Told in one line before a busy server is asked again.

        Raises:
            ConfigError: Something is missing to talk to the model; nothing was kept.
            LimitError: It is longer than a prompt may be; nothing was kept.
            ModelError: There is no whole reply; what was said is kept.
            KeyboardInterrupt: Ctrl-C came before anything was kept.
        """
        import asyncio

        from familiar_cli.llm.slots import check_usable

        check_usable(self.slot())
        taking = self._taking(said)
        model = self.model(on_wait=on_wait)
        turn = taking.take(self._request(said), model, on_text, stream=stream)
        try:
            taken = asyncio.run(turn)
        except KeyboardInterrupt:
            if taking.interrupted is None:
                raise
            return taking.interrupted
        return taken if said.off_record else self._with_names(taken)

    def _with_names(self, taken: Taken) -> Taken:
        """Write down who is called what, now that nobody waits; the turn stands in any case."""
        from familiar_cli.errors import FamiliarError

        names = self.names()
        try:
            names.publish()
        except FamiliarError as error:
            return replace(taken, notices=(*taken.notices, f"The names stay as they were: {error}"))
        finally:
            names.close()
        return taken

    def _taking(self, said: Said) -> Taking:
        from familiar_cli.context.off_record import OffRecord
        from familiar_cli.context.turn import TurnTaking

        pipeline = self.pipeline(
            said.channel_id, modality=str(said.modality), remembered=said.remembered
        )
        notice = self.allowance(said).notice
        if said.off_record:
            return OffRecord(pipeline, notice=notice)
        return TurnTaking(
            self.history,
            pipeline,
            self.paths.traces,
            keep_traces=self.config.context.keep_traces,
            notice=notice,
            source=said.source,
        )

    def memory_writer(self, *, on_wait: OnText | None = None) -> MemoryWriter:
        """Return what turns the history into memory.

        Raises:
            ConfigError: Something is missing to talk to its model.
        """
        from familiar_cli.llm.slots import check_usable
        from familiar_cli.writer.memory_writer import MemoryWriter, Who

        slot = self.slot(WRITER_SLOT)
        check_usable(slot)
        character = self.character.read(self.paths.id)
        texts = {field: text for field, text in character.texts.items() if field != "first_mes"}
        voice = " ".join(texts.get(field, "") for field in ("description", "personality"))
        return MemoryWriter(
            self.memory,
            self.history,
            self.model(WRITER_SLOT, on_wait=on_wait),
            self.counter,
            self.runs,
            who=Who(character.name, voice.strip(), (self.config.system_prompt, *texts.values())),
            settings=self._writer_settings(slot),
            zone=self.zone,
            private=self.channels.private,
            channel_context_lookup=self.channel_label,
        )

    @cached_property
    def runs(self) -> Runs:
        """What is kept of each pass of the memory writer."""
        from familiar_cli.writer.runs import Runs

        return Runs(self.paths.runs, self.paths.quarantine)

    def _writer_settings(self, slot: ResolvedSlot) -> WriterSettings:
        """Return how the writer works. A reply that is a plan is longer than one in a chat."""
        from familiar_cli.config.schema import SlotSettings
        from familiar_cli.writer.memory_writer import WriterSettings

        set_to = self.config.memory_writer
        own = WRITER_SLOT in self.config.llm.slots
        reply_tokens, temperature = slot.max_tokens, None
        if not own and not self.config.llm.max_tokens:
            reply_tokens = max(reply_tokens, min(_PLAN_TOKENS, slot.context_tokens // 4))
        if not own and slot.temperature == SlotSettings().temperature:
            temperature = _PLAN_TEMPERATURE
        return WriterSettings(
            batch_turns=set_to.batch_turns,
            batch_tokens=set_to.batch_tokens,
            quiet_gap_s=set_to.idle_timeout,
            share_private=set_to.dm == "share",
            reply_tokens=reply_tokens,
            temperature=temperature,
            structured=set_to.structured,
        )

    def close(self) -> None:
        """End the models that were started and let go of the history."""
        import asyncio

        if "jobs" in self.__dict__:
            self.jobs.cancel()
        while self._models:
            _, model = self._models.popitem()
            asyncio.run(model.aclose())
        if "history" in self.__dict__:
            self.history.close()

    def _request(self, said: Said) -> ContextRequest:
        from familiar_cli.clock import now
        from familiar_cli.context.turn import request_for

        return request_for(
            said,
            familiar_id=self.paths.id,
            allowance=self.allowance(said),
            history=self.history,
            opening=self.character.opening,
            at=now(),
            tier=self.channel(said.channel_id, str(said.modality)).tier,
        )
