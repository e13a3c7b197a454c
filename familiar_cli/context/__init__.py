"""The context room: from a message to the exact prompt, and the record of how it came about."""
