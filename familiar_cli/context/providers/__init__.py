"""Providers of context, one module each."""
