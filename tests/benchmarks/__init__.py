"""The benchmarks: `make bench` for symphony, `python -m tests.benchmarks.caraml` for caraml."""
