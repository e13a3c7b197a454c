"""People: who they are, merging and forgetting them."""
