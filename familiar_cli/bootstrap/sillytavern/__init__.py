"""A SillyTavern data folder: which files it has, and what belongs to which character."""
