"""Engine runs as streams of typed events."""
