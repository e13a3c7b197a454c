"""The OpenAI-compatible server: a familiar as a model in any chat program."""
