"""Background passes: work that runs in one process at a time, is remembered, and is retried."""
