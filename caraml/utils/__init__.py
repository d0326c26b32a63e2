"""Contains `serializer`, with the serializers by name, as `caraml.utils` of caraml 0.10 did."""
