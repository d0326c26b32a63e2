"""One folder a world: expand makes its Pulumi resources, observe reads what lives there."""
