"""The backends in which experiments run, and the protocols of their modules: expand, observe, access,
prerequisites.
"""
