"""Placement, as pure functions: which pods fit on which machine pools, and what the machines cost."""
