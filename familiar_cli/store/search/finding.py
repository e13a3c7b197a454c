"""`Finder`: search memories and past turns by words and, with a model, by meaning."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from datetime import tzinfo
from functools import cache, cached_property, partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from familiar_cli.base.config import environment
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.errors import ConfigError, FamiliarError
from familiar_cli.store.memory.layout import is_page
from familiar_cli.store.search.build import SOME, EmbeddingIndex, RefreshResult
from familiar_cli.store.search.weights import weights_for

if TYPE_CHECKING:
    from familiar_cli.base.config.schema import EmbeddingSettings
    from familiar_cli.base.jobs import Jobs
    from familiar_cli.llm.slots import EmbeddingServer
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.search.embedder import EmbedderChoice
    from familiar_cli.store.search.server_embedder import ServerEmbedder
    from familiar_cli.store.search.turn_vectors import EmbeddedTurns, NearTurns, TurnVectors
    from familiar_cli.store.search.types import SearchOptions, SearchResult

    Progress = Callable[[str, int, int], None]

INDEX_JOB: Final = "index"


class Finder:
    """Searches memory and history, and keeps their index and vectors up to date.

    Args:
        index: The index of the memory.
        history: Opens the history.
        vectors_dir: Directory of turn vectors.
        embedding: Settings of the embedding model.
        zone: The familiar's timezone; None for the system's.
        instance: Returns the suffix of this instance's daily files.
    """

    def __init__(
        self,
        index: EmbeddingIndex,
        history: Callable[[], HistoryStore],
        *,
        vectors_dir: Path,
        embedding: EmbeddingSettings,
        zone: tzinfo | None,
        instance: Callable[[], str],
    ) -> None:
        self.index = index
        self._history = history
        self._vectors_dir = vectors_dir
        self._embedding = embedding
        self._zone = zone
        self._instance = instance
        self._is_behind = False
        self._has_unembedded = False
        self._is_refreshed = False
        self._is_loaded: set[bool] = set()
        self._opening_lock = Lock()

    @cached_property
    def turn_vectors(self) -> TurnVectors:
        """The vectors of turns. Their files are created by `embed_turns`."""
        from familiar_cli.store.search.turn_vectors import TurnVectors  # noqa: PLC0415  # loads numpy

        return TurnVectors(self._vectors_dir)

    @cached_property
    def embedder(self) -> EmbedderChoice:
        """The embedding model, or why there is none."""
        return choose_embedder(self._embedding, cache_dir())

    def load_embedder(self, *, optimised: bool = False) -> None:
        """Start loading the embedding model in the background.

        Errors are reported by the first query.

        Args:
            optimised: For long-running processes; see `OnnxEmbedder.load`.
        """
        from familiar_cli.store.search.embedder import OnnxEmbedder, is_remote  # noqa: PLC0415  # as above

        with self._opening_lock:  # first turns of several channels come from several threads
            embedder = self.embedder.embedder
            if embedder is None or is_remote(embedder) or self._is_loaded & {True, optimised}:
                return
            self._is_loaded.add(optimised)
        if not optimised and isinstance(embedder, OnnxEmbedder):
            # Two threads that import slow each other down. With the libraries there, the model is
            # loaded while this thread continues.
            with suppress(FamiliarError):
                embedder.import_libraries()

        def load() -> None:
            with suppress(FamiliarError):
                embedder.load(optimised=optimised)

        Thread(target=load, daemon=True, name="familiar-load").start()

    def search(
        self, query: str, options: SearchOptions, progress: Progress | None = None
    ) -> SearchResult:
        """Search the memory for `query`; see `index.search.search`."""
        instance = options.instance or self._instance()
        options = replace(options, instance=instance, zone=self._zone)
        opened = None
        if options.method not in {"lexical", "grep"}:
            self.load_embedder()
            opened = self.embedder
        from familiar_cli.store.search.search import search_memory  # noqa: PLC0415  # while the model is opened

        return search_memory(self.index, query, options, opened, progress)

    def near_turns(self, query: str, familiar: str = "") -> NearTurns | None:
        """Return a semantic similarity scorer for `query`, or None without a model.

        Args:
            query: The search query.
            familiar: The familiar's name.

        Raises:
            EmbedderError: The model fails.
        """
        from familiar_cli.store.search.search import asked_apart  # noqa: PLC0415  # as above
        from familiar_cli.store.search.turn_vectors import newest_of  # noqa: PLC0415  # as above

        embedder = self.embedder.embedder
        near = embedder and self.turn_vectors.near(embedder, asked_apart(query))
        if not near or not newest_of(near.keys, self._turn_texts):
            return None
        share = weights_for(query).maxsim
        return replace(near, query=query, familiar=familiar, tokens_share=share)

    def turns_without_vector(self, near: NearTurns | None = None) -> int:
        """Count the turns without a vector; 0 without an embedding model.

        Args:
            near: What `near_turns` has just returned, whose vectors need not be read again.
        """
        embedder = self.embedder.embedder
        if embedder is None:
            return 0
        done = (
            int(near.keys["id"][-1])
            if near
            else self.turn_vectors.through_id(embedder, self._turn_texts)
        )
        return self._history().newest_id() - done

    def index_words(self, progress: Progress | None = None) -> RefreshResult:
        """Index the words of all memories and turns; vectors come later.

        Raises:
            FamiliarError: An index cannot be written.
        """
        from familiar_cli.store.history.recall import index_words  # noqa: PLC0415  # loads sqlite3

        refreshed = self.index.refresh(progress)
        if progress:
            index_words(self._history(), partial(progress, "turns read"))
        else:
            index_words(self._history())
        return refreshed

    def embed_turns(
        self, *, at_most: int | None = None, progress: Progress | None = None
    ) -> EmbeddedTurns:
        """Compute vectors for turns, oldest first; progress is kept.

        Args:
            at_most: Maximum number of turns; None for all.
            progress: Called with the kind of work, the number done, and the total.

        Raises:
            EmbedderError: The model fails.
            IndexUnusableError: The files cannot be written.
        """
        from familiar_cli.store.search.turn_vectors import EmbeddedTurns  # noqa: PLC0415  # as above

        embedder, waiting = self.embedder.embedder, self.turns_without_vector()
        if embedder is None or not waiting:
            return EmbeddedTurns()
        total = waiting if at_most is None else min(waiting, at_most)
        return self.turn_vectors.embed(
            embedder, self._turn_texts, at_most=at_most, total=total, progress=progress
        )

    def embed_some(self) -> int:
        """Compute some of the vectors that memory and turns lack; return how many.

        The first call of a process also indexes words: after an upgrade the index is built anew.

        Raises:
            EmbedderError: The model fails.
            IndexUnusableError: The files cannot be written.
        """
        embedder = self.embedder.embedder
        if embedder is None:
            return 0
        if not self._is_refreshed and self.index.directory.is_dir():
            self.index.refresh()
        self._is_refreshed = True
        lines = self.index.embed_waiting(embedder, at_most=SOME).done
        return lines + self.embed_turns(at_most=SOME).done

    def _turn_texts(self, after_id: int, limit: int) -> list[tuple[int, str]]:
        return [(turn.id, turn.content) for turn in self._history().after(after_id, limit)]

    async def embed_changes(self) -> None:
        """Compute vectors for recent changes, in long-running processes.

        Their words are searchable at once. Errors are reported by the next search.
        """
        embedder = self.embedder.embedder if self._has_unembedded else None
        if embedder is None:
            return
        self._has_unembedded = False
        try:
            from familiar_cli.base.jobs import in_thread  # noqa: PLC0415  # loads asyncio

            # One step at a time, so that it can be stopped; completed steps are kept.
            while (await in_thread(lambda: self.index.embed_waiting(embedder, at_most=SOME))).done:
                pass
        except FamiliarError:
            return

    def note_changes(self, rel_paths: tuple[str, ...]) -> None:
        """Record changed memory files whose vectors are missing."""
        if any(is_page(path) for path in rel_paths):
            self._has_unembedded = True

    def note_behind(self) -> None:
        """Record that a turn found the index out of date."""
        self._is_behind = True

    def catch_up_later(self, jobs: Jobs) -> bool:
        """Schedule index updates noted by a turn. Returns whether there are any."""
        behind, self._is_behind = self._is_behind, False
        return behind and jobs.add(INDEX_JOB, self._catch_up)

    def read_changes(self) -> None:
        """Read changed pages for the names and relations in them, and index them.

        Raises:
            FamiliarError: An index cannot be written.
        """
        from familiar_cli.store.memory.aliases import Aliases  # noqa: PLC0415  # as above
        from familiar_cli.store.memory.relation_index import RelationIndex  # noqa: PLC0415  # as above

        store = self.index.store
        with closing(Aliases(store)) as names, closing(RelationIndex(store)) as graph:
            names.refresh()
            graph.refresh()
        self.index.refresh()

    async def _catch_up(self) -> None:
        """Index changes and compute some vectors, leaving the rest for the next turn."""
        from familiar_cli.base.jobs import in_thread  # noqa: PLC0415  # as above

        def forward() -> None:
            self.read_changes()
            self.index_words()
            self.embed_some()

        # It stops on request between steps, each of which is atomic.
        await in_thread(forward)


def choose_embedder(settings: EmbeddingSettings, cache_dir: Path) -> EmbedderChoice:
    """Return the configured embedder: at a server, or on this machine.

    Nothing is loaded or connected until it is used.

    Args:
        settings: The `[embedding]` table.
        cache_dir: Directory of model files, and of what is known of servers.
    """
    from familiar_cli.llm.slots import prefixes_for, resolve_embedding_server  # noqa: PLC0415
    from familiar_cli.store.search import embedder  # noqa: PLC0415  # loads numpy

    try:
        server = resolve_embedding_server(settings)
    except ConfigError as error:
        return embedder.EmbedderChoice(None, str(error), error.hint or "")
    if server is None:
        model = environment.variable(environment.EMBEDDING_MODEL) or settings.model
        return embedder.open_embedder(model, cache_dir, prefixes_for(settings, model))
    lacking = embedder.lacking_libraries("numpy")
    return lacking or embedder.EmbedderChoice(_cached_server(server, cache_dir / "embeddings.json"))


@cache
def _cached_server(server: EmbeddingServer, notes: Path) -> ServerEmbedder:
    """Return this process's only embedder for a server."""
    from familiar_cli.store.search.server_embedder import ServerEmbedder  # noqa: PLC0415  # loads asyncio

    return ServerEmbedder(server, notes)
