"""The index: finds memories by words and by meaning. Derived; it can be deleted at any time."""
