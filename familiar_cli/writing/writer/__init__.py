"""Turns history into memory: batches, one question to a model, a plan, rules, a commit."""
