"""Context: from a message to the exact prompt, with a trace of every decision."""
