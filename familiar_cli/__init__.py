"""Keep an AI companion's memory as plain Markdown, and see every step from message to reply.

The names in `__all__` form the library. Each is loaded on first access, so importing the package
alone is cheap.
"""

__version__ = "1.0.0"
_MODULES = {
    "actions.talk.channels": "hear",
    "actions.memory.consolidate": "consolidate_memories",
    "actions.memory.desk": (
        "Desk ItemChange ListedItem add_todo fire_reminders mark_todo read_todos"
    ),
    "actions.bring.import_files": "FileImportOptions ImportItem import_files",
    "actions.memory.due_work": "DueWork begin_due_work",
    "actions.memory.write_memory": "write_memory",
    "actions.talk.talk": "assemble opening_of take_turn",
    "base.config.channel_kinds": "ChannelMode",
    "base.config.schema": "ChannelConfig CharacterConfig",
    "base.config.channel": "SubscriptionRegistry",
    "context.budget": "Budgeter",
    "context.pipeline": "ContextPipeline",
    "context.processors": "RecastPostProcessor SteppedThinkingPreProcessor",
    "context.providers.character": "CharacterProvider",
    "context.providers.content_search": "ContentSearchProvider",
    "context.providers.history": "HistoryProvider",
    "context.trace": "Trace",
    "context.turn": "TurnResult",
    "context.request": "ContextRequest",
    "context.types": "Contribution Layer Modality Said",
    "base.errors": (
        "AnsweredError ChannelBusyError ConfigError ConflictError FamiliarError LimitError "
        "LockedError ModelError NotFoundError PartialError RateLimitError RefusedError UsageError"
    ),
    "familiar": "Familiar",
    "store.history.store": "HistoryStore KeptMessage",
    "store.history.rows": "Turn",
    "base.who.identity": "Author",
    "store.search.build": "EmbeddingIndex",
    "store.search.types": "IndexingMemoryStore SearchOptions SearchResult",
    "base.jobs": "Drained",
    "llm.types": "ChatModel ScriptedModel",
    "store.memory.desk": "ItemStatus",
    "store.memory.store.store": "MemoryStore",
    "writing.writer.memory_writer": "MemoryWriter",
    "writing.writer.schedule": "MemoryWriterScheduler",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
_OTHER_NAMES = {"Heard": "KeptMessage"}
__all__ = sorted([*_MODULE_OF, *_OTHER_NAMES])  # noqa: PLE0605  # `__init__.pyi` lists them, too


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
