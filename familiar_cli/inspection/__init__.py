"""The inspection room: how a familiar is, which there are, and whether every part works."""
