"""The tmux backend: an experiment is a session, a process is a window, services are ports of this machine."""
