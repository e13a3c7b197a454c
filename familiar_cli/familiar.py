"""`Familiar`: the one place that builds stores, clients, providers and processors."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Self

    from familiar_cli.config.home import FamiliarPaths
    from familiar_cli.config.schema import CharacterConfig
    from familiar_cli.context.limits import Allowance
    from familiar_cli.context.off_record import OffRecord
    from familiar_cli.context.pipeline import ContextPipeline
    from familiar_cli.context.providers.character import CharacterProvider
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.turn import Taken, TurnTaking
    from familiar_cli.context.types import ContextRequest, Modality, Said, Spoken
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.index.build import EmbeddingIndex
    from familiar_cli.index.embedder import Opened
    from familiar_cli.index.types import Options, SearchResult
    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.llm.types import ChatModel
    from familiar_cli.memory.store import MemoryStore
    from familiar_cli.tokens import TokenCounter

    OnText = Callable[[str], None]


class Familiar:
    """One familiar's files, settings and working parts. Each part is built when first asked for."""

    def __init__(self, paths: FamiliarPaths) -> None:
        self.paths = paths
        self._models: dict[str, ChatModel] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def load_from_disk(
        cls, home: str | Path | None = None, familiar: str | None = None
    ) -> Familiar:
        """Return the familiar that is meant; see `config.home.find_familiar`.

        Raises:
            NotFoundError: There is no such familiar.
            UsageError: Several live there and none was chosen.
        """
        from familiar_cli.config.home import find_familiar, find_home

        return cls(find_familiar(find_home(str(home) if home else None), familiar))

    @cached_property
    def config(self) -> CharacterConfig:
        """The settings in `character.toml`.

        Raises:
            ConfigError: The file has an unknown key, a wrong type, or is no TOML.
        """
        from familiar_cli.config.load import load_config

        return load_config(self.paths.config)

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

        if slot not in self._models:
            self._models[slot] = open_model(self.slot(slot), cache_dir=cache_dir(), on_wait=on_wait)
        return self._models[slot]

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

    def pipeline(self, channel_id: str, *, remembered: Sequence[Spoken] = ()) -> ContextPipeline:
        """Return what makes the prompts of a channel.

        Args:
            channel_id: The channel.
            remembered: What was said off the record just before.
        """
        from familiar_cli.context.pipeline import ContextPipeline
        from familiar_cli.context.providers.history import HistoryProvider
        from familiar_cli.context.providers.remembered import RememberedProvider

        del channel_id  # all channels have the same parts
        deadline_s = self.config.context.provider_deadline_s
        recent = self.config.history.recent_turns
        providers = (
            self.character,
            HistoryProvider(self.history, recent_turns=recent, deadline_s=deadline_s),
            *([RememberedProvider(remembered)] if remembered else ()),
        )
        return ContextPipeline(providers, self.counter)

    def allowance(self, modality: Modality) -> Allowance:
        """Return how many tokens a prompt may have.

        Raises:
            ConfigError: The model's settings leave no room for a prompt.
        """
        from familiar_cli.context.limits import allowance

        slot = self.slot()
        return allowance(
            self.config.budget,
            mode=str(modality),
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

        pipeline = self.pipeline(said.channel_id, remembered=said.remembered)
        assembled = asyncio.run(pipeline.assemble(self._request(said)))
        return dry_run(
            assembled,
            model=self.slot().model,
            counter=self.counter.name,
            notice=self.allowance(said.modality).notice,
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
            return asyncio.run(turn)
        except KeyboardInterrupt:
            if taking.interrupted is None:
                raise
            return taking.interrupted

    def _taking(self, said: Said) -> TurnTaking | OffRecord:
        from familiar_cli.context.off_record import OffRecord
        from familiar_cli.context.turn import TurnTaking

        pipeline = self.pipeline(said.channel_id, remembered=said.remembered)
        notice = self.allowance(said.modality).notice
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

    def close(self) -> None:
        """End the models that were started and let go of the history."""
        import asyncio

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
            allowance=self.allowance(said.modality),
            history=self.history,
            opening=self.character.opening,
            at=now(),
        )
