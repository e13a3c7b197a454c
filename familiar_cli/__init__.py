"""Keep an AI companion's memory as plain Markdown, and see every step from message to reply.

The names in `__all__` form the library. Each is loaded on first access, so importing the package
alone is cheap.
"""

TYPE_CHECKING = False  # `typing` takes longer to load than the rest of this module
if TYPE_CHECKING:
    from familiar_cli.actions.consolidate import consolidate_memories
    from familiar_cli.actions.desk import (
        Desk,
        ItemChange,
        ListedItem,
        add_todo,
        fire_reminders,
        mark_todo,
        read_todos,
    )
    from familiar_cli.actions.import_files import FileImportOptions, ImportItem, import_files
    from familiar_cli.actions.talk import assemble, hear, opening_of, take_turn
    from familiar_cli.actions.write_memory import DueWork, begin_due_work, write_memory
    from familiar_cli.config.channel import SubscriptionRegistry
    from familiar_cli.config.channel_kinds import ChannelMode
    from familiar_cli.config.schema import ChannelConfig, CharacterConfig
    from familiar_cli.context.budget import Budgeter
    from familiar_cli.context.pipeline import ContextPipeline
    from familiar_cli.context.processors import RecastPostProcessor, SteppedThinkingPreProcessor
    from familiar_cli.context.providers.character import CharacterProvider
    from familiar_cli.context.providers.content_search import ContentSearchProvider
    from familiar_cli.context.providers.history import HistoryProvider
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.turn import TurnResult
    from familiar_cli.context.types import ContextRequest, Contribution, Layer, Modality, Said
    from familiar_cli.errors import (
        AnsweredError,
        ChannelBusyError,
        ConfigError,
        ConflictError,
        FamiliarError,
        LimitError,
        LockedError,
        ModelError,
        NotFoundError,
        PartialError,
        RateLimitError,
        RefusedError,
        UsageError,
    )
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.rows import Turn
    from familiar_cli.history.store import HistoryStore, KeptMessage
    from familiar_cli.history.store import KeptMessage as Heard
    from familiar_cli.identity import Author
    from familiar_cli.index.build import EmbeddingIndex
    from familiar_cli.index.types import IndexingMemoryStore, SearchOptions, SearchResult
    from familiar_cli.llm.types import ChatModel, ScriptedModel
    from familiar_cli.memory.desk import ItemStatus
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.work.jobs import Drained
    from familiar_cli.writer.memory_writer import MemoryWriter, MemoryWriterScheduler

__version__ = "1.0.0"
__all__ = [
    "AnsweredError",
    "Author",
    "Budgeter",
    "ChannelBusyError",
    "ChannelConfig",
    "ChannelMode",
    "CharacterConfig",
    "CharacterProvider",
    "ChatModel",
    "ConfigError",
    "ConflictError",
    "ContentSearchProvider",
    "ContextPipeline",
    "ContextRequest",
    "Contribution",
    "Desk",
    "Drained",
    "DueWork",
    "EmbeddingIndex",
    "Familiar",
    "FamiliarError",
    "FileImportOptions",
    "Heard",
    "HistoryProvider",
    "HistoryStore",
    "ImportItem",
    "IndexingMemoryStore",
    "ItemChange",
    "ItemStatus",
    "KeptMessage",
    "Layer",
    "LimitError",
    "ListedItem",
    "LockedError",
    "MemoryStore",
    "MemoryWriter",
    "MemoryWriterScheduler",
    "Modality",
    "ModelError",
    "NotFoundError",
    "PartialError",
    "RateLimitError",
    "RecastPostProcessor",
    "RefusedError",
    "Said",
    "ScriptedModel",
    "SearchOptions",
    "SearchResult",
    "SteppedThinkingPreProcessor",
    "SubscriptionRegistry",
    "Trace",
    "Turn",
    "TurnResult",
    "UsageError",
    "add_todo",
    "assemble",
    "begin_due_work",
    "consolidate_memories",
    "fire_reminders",
    "hear",
    "import_files",
    "mark_todo",
    "opening_of",
    "read_todos",
    "take_turn",
    "write_memory",
]

_MODULES = {
    "actions.consolidate": "consolidate_memories",
    "actions.desk": ("Desk ItemChange ListedItem add_todo fire_reminders mark_todo read_todos"),
    "actions.import_files": "FileImportOptions ImportItem import_files",
    "actions.write_memory": "DueWork begin_due_work write_memory",
    "actions.talk": "assemble hear opening_of take_turn",
    "config.channel_kinds": "ChannelMode",
    "config.schema": "ChannelConfig CharacterConfig",
    "config.channel": "SubscriptionRegistry",
    "context.budget": "Budgeter",
    "context.pipeline": "ContextPipeline",
    "context.processors": "RecastPostProcessor SteppedThinkingPreProcessor",
    "context.providers.character": "CharacterProvider",
    "context.providers.content_search": "ContentSearchProvider",
    "context.providers.history": "HistoryProvider",
    "context.trace": "Trace",
    "context.turn": "TurnResult",
    "context.types": "ContextRequest Contribution Layer Modality Said",
    "errors": (
        "AnsweredError ChannelBusyError ConfigError ConflictError FamiliarError LimitError "
        "LockedError ModelError NotFoundError PartialError RateLimitError RefusedError UsageError"
    ),
    "familiar": "Familiar",
    "history.store": "HistoryStore KeptMessage",
    "history.rows": "Turn",
    "identity": "Author",
    "index.build": "EmbeddingIndex",
    "index.types": "IndexingMemoryStore SearchOptions SearchResult",
    "work.jobs": "Drained",
    "llm.types": "ChatModel ScriptedModel",
    "memory.desk": "ItemStatus",
    "memory.store.store": "MemoryStore",
    "writer.memory_writer": "MemoryWriter MemoryWriterScheduler",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
_OTHER_NAMES = {"Heard": "KeptMessage"}


def __getattr__(name: str) -> object:
    """Load a public name on first access."""
    from importlib import import_module  # noqa: PLC0415

    of = _OTHER_NAMES.get(name, name)
    if of not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULE_OF[of]}"), of)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
