"""Talking: a turn, what it sends, and why."""
