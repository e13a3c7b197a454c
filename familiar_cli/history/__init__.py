"""The history room: every turn ever said, in SQLite."""
