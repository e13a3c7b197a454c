"""Keep an AI companion's memory as plain Markdown, and see every step from message to reply.

The names in `__all__` form the library. Each is loaded on first access, so importing the package
alone is cheap.
"""

__version__ = "1.0.0"
_MODULES = {
    "actions.channels": "hear",
    "actions.consolidate": "consolidate_memories",
    "actions.desk": ("Desk ItemChange ListedItem add_todo fire_reminders mark_todo read_todos"),
    "actions.import_files": "FileImportOptions ImportItem import_files",
    "actions.write_memory": "DueWork begin_due_work write_memory",
    "actions.talk": "assemble opening_of take_turn",
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
    "context.request": "ContextRequest",
    "context.types": "Contribution Layer Modality Said",
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
