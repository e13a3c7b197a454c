"""Keep an AI companion's memory as plain Markdown, and see every step from message to reply."""

__version__ = "0.1.0"
