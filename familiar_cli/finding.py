"""`Finder`: memories and past turns, found by words and, where there is a model, by meaning."""

from __future__ import annotations

import heapq
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from threading import Thread
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import stopwatch_s
from familiar_cli.config.home import cache_dir
from familiar_cli.errors import FamiliarError
from familiar_cli.index.build import SOME
from familiar_cli.memory.pages.links import is_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.index.build import EmbeddingIndex, Refreshed
    from familiar_cli.index.embedder import EmbedderChoice
    from familiar_cli.index.turn_vectors import EmbeddedTurns, NearTurns, TurnVectors
    from familiar_cli.index.types import SearchOptions, SearchResult
    from familiar_cli.models.fastembed_models import Rerank
    from familiar_cli.work.jobs import Jobs

    Progress = Callable[[str, int, int], None]

INDEX_JOB: Final = "index"

RERANKED: Final = 50
"""How many of the best results a reranker orders."""

RERANK_S: Final = 1.5
"""After this time a reranker begins with no further results; the rest keeps its order."""

_RERANKED_AT_ONCE: Final = 10


class Finder:
    """Searches memory and history, and keeps their index and their vectors up with them.

    Args:
        index: The index of the memory.
        history: Opens the history.
        vectors_dir: Where the vectors of turns are, or will be.
        model: The name of the embedding model, as it is set.
        reranker: The name of the reranker; `none`: there is none.
        zone: The familiar's timezone; None: the system's.
        instance: Gives what this instance's daily files are named after.
    """

    def __init__(
        self,
        index: EmbeddingIndex,
        history: Callable[[], HistoryStore],
        *,
        vectors_dir: Path,
        model: str,
        zone: tzinfo | None,
        instance: Callable[[], str],
        reranker: str = "none",
    ) -> None:
        self.index = index
        self._history = history
        self._vectors_dir = vectors_dir
        self._model = model
        self._zone = zone
        self._instance = instance
        self._is_behind = False
        self._has_unembedded = False
        self._is_loaded: set[bool] = set()
        self._reranker = "" if reranker == "none" else reranker

    @cached_property
    def turn_vectors(self) -> TurnVectors:
        """The vectors of turns. Their files are made by `embed_turns`."""
        from familiar_cli.index.turn_vectors import TurnVectors  # noqa: PLC0415  # loads numpy

        return TurnVectors(self._vectors_dir)

    @cached_property
    def embedder(self) -> EmbedderChoice:
        """The model that finds by meaning, or why there is none."""
        from familiar_cli.index.embedder import open_embedder  # noqa: PLC0415  # words need none

        return open_embedder(self._model, cache_dir())

    def load_embedder(self, *, optimised: bool = False) -> None:
        """Begin to open the model that finds by meaning, beside what is done meanwhile.

        What is wrong with it is told by the first question.

        Args:
            optimised: For whoever stays; see `OnnxEmbedder.load`.
        """
        from familiar_cli.index.embedder import OnnxEmbedder  # noqa: PLC0415  # as above

        embedder = self.embedder.embedder
        if embedder is None or self._is_loaded & {True, optimised}:
            return
        self._is_loaded.add(optimised)
        if not optimised and isinstance(embedder, OnnxEmbedder):
            # Two threads that import slow each other down. With the libraries there, the model is
            # opened while this thread goes on.
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
        from familiar_cli.index.search import search_memory  # noqa: PLC0415  # while the model is opened

        if not self.reranks or options.judge or options.method in {"lexical", "grep"}:
            return search_memory(self.index, query, options, opened, progress)
        more = replace(options, k=max(options.k, RERANKED))
        found = search_memory(self.index, query, more, opened, progress)
        scores, note = self.rescore(query, [(hit.best, hit.score) for hit in found.hits])
        hits = (replace(hit, score=new) for hit, new in zip(found.hits, scores, strict=True))
        best = sorted(hits, key=lambda hit: -hit.score)[: options.k]
        return replace(found, hits=tuple(best), notes=(*found.notes, *filter(None, [note])))

    @property
    def reranks(self) -> bool:
        """Whether a reranker is set that is not known to fail."""
        return bool(self._reranker)

    @cached_property
    def _rerank(self) -> Rerank:
        from familiar_cli.models.fastembed_models import open_reranker  # noqa: PLC0415  # 1 s

        return open_reranker(self._reranker, cache_dir())

    def rescore(self, query: str, found: Sequence[tuple[str, float]]) -> tuple[list[float], str]:
        """Order the best of some texts by the reranker.

        It gives them no scores of its own: those that they have are dealt out anew, so that they
        can still be compared with others. One that does not work is told of once, and not asked
        again.

        Args:
            query: What is searched for.
            found: The texts and their scores, in any order.

        Returns:
            The new scores, in the same order, and a notice, which is empty as a rule.
        """
        scores = [score for _, score in found]
        best = heapq.nlargest(RERANKED, range(len(scores)), key=lambda n: (scores[n], -n))
        fit: list[float] = []
        begun_s = stopwatch_s()
        try:
            for at in range(0, len(best), _RERANKED_AT_ONCE):
                some = best[at : at + _RERANKED_AT_ONCE]
                fit += self._rerank(query, [found[n][0] for n in some])
                if stopwatch_s() - begun_s > RERANK_S:
                    break
        except FamiliarError as error:
            self._reranker = ""
            return scores, f"Results keep their order: {error}. {error.hint or ''}".strip()
        order = sorted(range(len(fit)), key=lambda place: -fit[place])
        new = list(scores)
        for place, chosen in enumerate(order):
            new[best[chosen]] = scores[best[place]]
        return new, ""

    def near_turns(self, query: str) -> NearTurns | None:
        """Return a scorer of how near turns are to `query` in meaning, or None without a model.

        Raises:
            EmbedderError: The model does not work.
        """
        from familiar_cli.index.search import asked_apart  # noqa: PLC0415  # as above

        embedder, made = self.embedder.embedder, self.turn_vectors
        if embedder is None or not made.through_id(embedder, self._turn_texts):
            return None
        return made.near(embedder, asked_apart(query))

    def turns_without_vector(self) -> int:
        """Count the turns that cannot be found by meaning yet; 0 where no model finds so."""
        embedder = self.embedder.embedder
        if embedder is None:
            return 0
        done = self.turn_vectors.through_id(embedder, self._turn_texts)
        return self._history().newest_id() - done

    def index_words(self, progress: Progress | None = None) -> Refreshed:
        """Make all that was written or said searchable by its words; vectors come later.

        Raises:
            FamiliarError: An index cannot be written.
        """
        from familiar_cli.history.recall import index_words  # noqa: PLC0415  # loads sqlite3

        refreshed = self.index.refresh(progress)
        if progress:
            index_words(self._history(), partial(progress, "turns read"))
        else:
            index_words(self._history())
        return refreshed

    def embed_turns(
        self, *, at_most: int | None = None, progress: Progress | None = None
    ) -> EmbeddedTurns:
        """Give vectors to turns that have none, the oldest first; what is done is kept.

        Args:
            at_most: How many turns; None: all.
            progress: Told of what is done, how many of it are, and how many there will be.

        Raises:
            EmbedderError: The model does not work.
            IndexUnusableError: The files cannot be written.
        """
        from familiar_cli.index.turn_vectors import EmbeddedTurns  # noqa: PLC0415  # as above

        embedder, waiting = self.embedder.embedder, self.turns_without_vector()
        if embedder is None or not waiting:
            return EmbeddedTurns()
        total = waiting if at_most is None else min(waiting, at_most)
        return self.turn_vectors.embed(
            embedder, self._turn_texts, at_most=at_most, total=total, progress=progress
        )

    def _turn_texts(self, after_id: int, limit: int) -> list[tuple[int, str]]:
        return [(turn.id, turn.content) for turn in self._history().after(after_id, limit)]

    async def embed_changes(self) -> None:
        """Give vectors to what was written since the last time; for whoever stays.

        The words of it can be found at once. Whatever goes wrong, the next search tells of it.
        """
        embedder = self.embedder.embedder if self._has_unembedded else None
        if embedder is None:
            return
        self._has_unembedded = False
        try:
            from familiar_cli.work.jobs import in_thread  # noqa: PLC0415  # loads asyncio

            # One step at a time, so that it can be told to stop; what a step made is kept.
            while (await in_thread(lambda: self.index.embed_waiting(embedder, at_most=SOME))).done:
                pass
        except FamiliarError:
            return

    def note_changes(self, rel_paths: tuple[str, ...]) -> None:
        """Remember that memory files were written, whose vectors are missing."""
        if any(is_page(path) for path in rel_paths):
            self._has_unembedded = True

    def note_behind(self) -> None:
        """Remember that a turn found the index behind the memory."""
        self._is_behind = True

    def catch_up_later(self, jobs: Jobs) -> bool:
        """Take on what the index lacks, as found by a turn. Returns whether there is anything."""
        behind, self._is_behind = self._is_behind, False
        return behind and jobs.add(INDEX_JOB, self._catch_up)

    async def _catch_up(self) -> None:
        """Read what changed, and make some vectors; what is still left is for the next turn."""
        from familiar_cli.work.jobs import in_thread  # noqa: PLC0415  # as above

        def forward() -> None:
            self.index_words()
            if self.embedder.embedder:
                self.index.embed_waiting(self.embedder.embedder, at_most=SOME)
                self.embed_turns(at_most=SOME)

        # It is left alone when it is told to stop; each of its steps is whole by itself.
        await in_thread(forward)
