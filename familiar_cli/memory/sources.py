"""Which part of the program changes the memory by itself, as the journal and plans name it."""

from __future__ import annotations

from typing import Final

MEMORY_WRITER: Final = "memory_writer"
CONSOLIDATION: Final = "consolidation"
HOUSEKEEPING: Final = "housekeeping"
SYNC: Final = "sync"
