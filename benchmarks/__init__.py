"""Benchmarks; most report a ratio. `python -m benchmarks.<name> --help` says more."""
