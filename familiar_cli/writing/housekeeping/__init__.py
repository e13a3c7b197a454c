"""Looks through memory for what a person may want to tidy up. It proposes, and changes nothing."""
