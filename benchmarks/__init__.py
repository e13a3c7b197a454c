"""Measurements, each a ratio taken in one run. `python -m benchmarks.<name> --help` says more."""
