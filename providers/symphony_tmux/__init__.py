"""The tmux provider: sessions and windows as Pulumi resources."""
