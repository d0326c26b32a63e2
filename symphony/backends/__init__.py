"""Where experiments run: a row and four doors a backend, and what a door must offer (expand, observe, access,
prerequisites).
"""
