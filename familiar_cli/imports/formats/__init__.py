"""Foreign formats: one module each, and the table of them."""
