"""Programs that answer over a connection, and the parts that they share."""
