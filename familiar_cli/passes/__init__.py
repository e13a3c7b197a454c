"""The passes room: background work that runs once at a time, is remembered, and is tried again."""
