# The types of the public names; `_MODULES` in `__init__.py` says where each is loaded from.

from familiar_cli.actions.bring.import_files import FileImportOptions as FileImportOptions
from familiar_cli.actions.bring.import_files import ImportItem as ImportItem
from familiar_cli.actions.bring.import_files import import_files as import_files
from familiar_cli.actions.memory.consolidate import consolidate_memories as consolidate_memories
from familiar_cli.actions.memory.desk import Desk as Desk
from familiar_cli.actions.memory.desk import ItemChange as ItemChange
from familiar_cli.actions.memory.desk import ListedItem as ListedItem
from familiar_cli.actions.memory.desk import add_todo as add_todo
from familiar_cli.actions.memory.desk import fire_reminders as fire_reminders
from familiar_cli.actions.memory.desk import mark_todo as mark_todo
from familiar_cli.actions.memory.desk import read_todos as read_todos
from familiar_cli.actions.memory.due_work import DueWork as DueWork
from familiar_cli.actions.memory.due_work import begin_due_work as begin_due_work
from familiar_cli.actions.memory.write_memory import write_memory as write_memory
from familiar_cli.actions.talk.channels import hear as hear
from familiar_cli.actions.talk.talk import assemble as assemble
from familiar_cli.actions.talk.talk import opening_of as opening_of
from familiar_cli.actions.talk.talk import take_turn as take_turn
from familiar_cli.base.config.channel import SubscriptionRegistry as SubscriptionRegistry
from familiar_cli.base.config.channel_kinds import ChannelMode as ChannelMode
from familiar_cli.base.config.schema import ChannelConfig as ChannelConfig
from familiar_cli.base.config.schema import CharacterConfig as CharacterConfig
from familiar_cli.base.errors import AnsweredError as AnsweredError
from familiar_cli.base.errors import ChannelBusyError as ChannelBusyError
from familiar_cli.base.errors import ConfigError as ConfigError
from familiar_cli.base.errors import ConflictError as ConflictError
from familiar_cli.base.errors import FamiliarError as FamiliarError
from familiar_cli.base.errors import LimitError as LimitError
from familiar_cli.base.errors import LockedError as LockedError
from familiar_cli.base.errors import ModelError as ModelError
from familiar_cli.base.errors import NotFoundError as NotFoundError
from familiar_cli.base.errors import PartialError as PartialError
from familiar_cli.base.errors import RateLimitError as RateLimitError
from familiar_cli.base.errors import RefusedError as RefusedError
from familiar_cli.base.errors import UsageError as UsageError
from familiar_cli.base.jobs import Drained as Drained
from familiar_cli.base.who.identity import Author as Author
from familiar_cli.context.budget import Budgeter as Budgeter
from familiar_cli.context.pipeline import ContextPipeline as ContextPipeline
from familiar_cli.context.processors import RecastPostProcessor as RecastPostProcessor
from familiar_cli.context.processors import (
    SteppedThinkingPreProcessor as SteppedThinkingPreProcessor,
)
from familiar_cli.context.providers.character import CharacterProvider as CharacterProvider
from familiar_cli.context.providers.content_search import (
    ContentSearchProvider as ContentSearchProvider,
)
from familiar_cli.context.providers.history import HistoryProvider as HistoryProvider
from familiar_cli.context.request import ContextRequest as ContextRequest
from familiar_cli.context.trace import Trace as Trace
from familiar_cli.context.turn import TurnResult as TurnResult
from familiar_cli.context.types import Contribution as Contribution
from familiar_cli.context.types import Layer as Layer
from familiar_cli.context.types import Modality as Modality
from familiar_cli.context.types import Said as Said
from familiar_cli.familiar import Familiar as Familiar
from familiar_cli.llm.types import ChatModel as ChatModel
from familiar_cli.llm.types import ScriptedModel as ScriptedModel
from familiar_cli.store.history.rows import Turn as Turn
from familiar_cli.store.history.store import HistoryStore as HistoryStore
from familiar_cli.store.history.store import KeptMessage as KeptMessage
from familiar_cli.store.memory.desk import ItemStatus as ItemStatus
from familiar_cli.store.memory.store.store import MemoryStore as MemoryStore
from familiar_cli.store.search.build import EmbeddingIndex as EmbeddingIndex
from familiar_cli.store.search.types import IndexingMemoryStore as IndexingMemoryStore
from familiar_cli.store.search.types import SearchOptions as SearchOptions
from familiar_cli.store.search.types import SearchResult as SearchResult
from familiar_cli.writing.writer.memory_writer import MemoryWriter as MemoryWriter
from familiar_cli.writing.writer.schedule import MemoryWriterScheduler as MemoryWriterScheduler

Heard = KeptMessage
__version__: str
