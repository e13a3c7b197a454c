"""Where things live in a memory."""

from __future__ import annotations

from typing import Final

SESSIONS_DIR: Final = "sessions"
