"""How pods, services and processes are."""
