"""The review room: plans that wait for a person, piece by piece, and what a person rejected."""
