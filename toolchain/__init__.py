"""What a machine without release downloads needs to run the engine and a cluster."""
