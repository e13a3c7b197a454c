"""The interactive terminal: chat, prompts and streamed replies."""
