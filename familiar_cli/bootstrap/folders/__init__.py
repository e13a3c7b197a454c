"""Folders from elsewhere: read without trusting them, taken into memory, and found again later."""
