"""Background work: jobs beside the event loop, and passes that a daemon runs."""
