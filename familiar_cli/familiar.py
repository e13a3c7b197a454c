"""`Familiar`: the one place that builds stores, clients, providers and processors."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.config.home import FamiliarPaths
    from familiar_cli.config.schema import CharacterConfig
    from familiar_cli.memory.store import MemoryStore


class Familiar:
    """One familiar's files, settings and working parts. Each part is built when first asked for."""

    def __init__(self, paths: FamiliarPaths) -> None:
        self.paths = paths

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
        """The memory directory."""
        from familiar_cli.memory.store import Limits, MemoryStore

        set_to = self.config.memory
        limits = Limits(set_to.max_file_bytes, set_to.max_results, set_to.max_dir_files)
        return MemoryStore(
            self.paths.memory,
            limits=limits,
            lock_path=self.paths.lock,
            lock_timeout_s=set_to.lock_timeout_s,
        )
