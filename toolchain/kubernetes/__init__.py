"""A one-machine Kubernetes of real programs, for tests; `python -m toolchain.kubernetes up` and `down`."""
