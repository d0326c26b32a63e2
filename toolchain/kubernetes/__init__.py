"""A one-machine Kubernetes cluster of real programs, for tests: `python -m toolchain.kubernetes up|down`."""
