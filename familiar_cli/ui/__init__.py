"""Rendering of values on a terminal, in a pipe and as JSON."""
