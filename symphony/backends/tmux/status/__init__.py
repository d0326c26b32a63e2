"""The states, ends and logs of the processes of an experiment in tmux."""
