"""Checks of a declaration and its pods before anything starts."""
