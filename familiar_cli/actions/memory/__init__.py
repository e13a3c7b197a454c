"""Memory: search, edit, write, fold and schedule it."""
