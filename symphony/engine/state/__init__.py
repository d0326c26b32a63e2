"""The state of stacks: files, locks, history."""
