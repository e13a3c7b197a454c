"""The commands room: one module per command or noun. Each parses, calls one function, renders."""
