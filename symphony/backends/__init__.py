"""The backends that run experiments, and the protocols of their modules (expand, observe, access, ...)."""
