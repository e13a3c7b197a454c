"""Who belongs to whom: the relations that pages state, their table, and the graph made of them."""
