"""The tmux provider: sessions and windows as Pulumi resources; import the module of the concept you need."""
