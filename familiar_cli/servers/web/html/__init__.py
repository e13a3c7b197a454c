"""Pages for a browser: each is one file that loads nothing and runs no script."""
