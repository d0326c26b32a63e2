"""One ZeroMQ socket: its options, who may connect, who may use it now, and messages with deadlines."""
