"""Where things live in a memory."""

from __future__ import annotations

from typing import Final

INDEX_DIR: Final = ".index"
SESSIONS_DIR: Final = "sessions"
