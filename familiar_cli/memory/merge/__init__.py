"""The three-way merge of the memory: two versions of a file and their base, as one."""
