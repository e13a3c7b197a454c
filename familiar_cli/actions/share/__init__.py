"""Backup, sync and embodiments."""
