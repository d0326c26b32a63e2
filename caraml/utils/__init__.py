"""What the classic `caraml.utils` held: the serializers by name."""
