"""The state of a familiar: status, checks and background jobs."""
