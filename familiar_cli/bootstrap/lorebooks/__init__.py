"""Lorebooks: one module per foreign format, the Markdown form of an entry, and the way back."""
