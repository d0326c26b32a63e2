"""Put on the PYTHONPATH of a program that the engine runs."""
