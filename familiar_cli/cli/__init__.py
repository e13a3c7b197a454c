"""The command line: the root application, its commands, and the terminal."""
