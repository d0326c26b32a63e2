"""Checks a declaration and its pods before anything starts."""
