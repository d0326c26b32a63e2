"""Modules that all roles share: settings, sockets, child processes."""
