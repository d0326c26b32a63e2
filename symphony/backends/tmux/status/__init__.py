"""How the processes of an experiment in tmux are, how they ended, and what they print."""
