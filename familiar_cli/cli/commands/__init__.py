"""The commands: one module per command or noun. Each parses, calls one function, and renders."""
