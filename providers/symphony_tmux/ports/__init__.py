"""The ports of services: leased, listened on, and written where processes read them."""
