"""Turns what was said into memory: batches, one question to a model, a plan, rules, a commit."""
