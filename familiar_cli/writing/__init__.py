"""Everything that proposes changes to memory."""
