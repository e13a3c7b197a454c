"""Who speaks and who reads: identities and visibility."""
