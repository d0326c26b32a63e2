"""The names of the classic `caraml.utils`: the serializers by name."""
