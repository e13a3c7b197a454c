"""Points and spans of time: clocks, dates in words, recurrence."""
