"""The directory of Markdown: reading, finding, limits, and transactions of all or nothing."""
