"""The state of stacks: files, locks, secrets, history."""
