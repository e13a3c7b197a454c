"""The journal of the memory: a bare git repository that knows every change, and finishes each."""

from familiar_cli.memory.journal.protocol import Journal

__all__ = ["Journal"]
