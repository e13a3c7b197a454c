"""Sync: one memory on several machines, through git remotes or a folder."""
