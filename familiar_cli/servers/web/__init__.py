"""The page: in a browser, what the commands print."""
