"""What memory files hold: front matter, links, citations, private sections, lore, the character."""
