"""Inputs of a process that are read at launch: code, secret values, an image that is built."""
