from __future__ import annotations

from tests.writer.conftest import world

__all__ = ["world"]
