"""Turns days into weeks, months and years, and the latest sessions into digests."""
