"""One folder a world, each with four doors that are found by its name: expand makes its Pulumi resources,
observe reads what lives there, inside reaches into it, needs looks for what it takes on this machine.
"""
