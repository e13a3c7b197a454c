"""The llm room: talking to a language model over HTTP."""
