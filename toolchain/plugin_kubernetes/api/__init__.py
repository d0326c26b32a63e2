"""All that is said to the API server."""
