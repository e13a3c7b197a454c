"""The ui room: how values look on a terminal, in a pipe and as JSON."""
