"""The memory room: the directory of Markdown, its limits and its transactions."""
