"""The consolidation room: merges days into weeks, months and years, and sessions into digests."""
