"""Everything that is said to and known of a tmux server."""
