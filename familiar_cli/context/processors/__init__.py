"""What changes a prompt or a reply, one module a processor."""
