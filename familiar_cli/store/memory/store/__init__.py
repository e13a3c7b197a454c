"""The Markdown directory: reading, searching, limits, and atomic transactions."""
