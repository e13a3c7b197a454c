"""Three-way merge of memory files: two versions and their base."""
