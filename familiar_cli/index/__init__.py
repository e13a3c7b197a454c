"""The index: finding memories by words and by meaning. Derived from Markdown; deletable at any time."""
