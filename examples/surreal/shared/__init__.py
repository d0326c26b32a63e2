"""What all roles have: settings, sockets, child processes."""
