"""Formats of memory files: front matter, links, citations, private sections, lore, character."""
