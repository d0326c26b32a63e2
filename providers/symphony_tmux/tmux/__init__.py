"""Talks to tmux servers."""
