"""Work that nobody waits for: jobs beside the event loop, and passes that a daemon runs."""
