"""One ZeroMQ socket: its options and connections, and messages with deadlines."""
