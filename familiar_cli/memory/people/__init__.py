"""Who is called what: names in people's files, the index of names, and names in running text."""
