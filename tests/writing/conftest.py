from __future__ import annotations

from tests.writing.writer.conftest import world

__all__ = ["world"]
