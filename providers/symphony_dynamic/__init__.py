"""Serves symphony's dynamic providers to the engine, and answers for them."""
