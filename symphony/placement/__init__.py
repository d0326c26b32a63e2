"""Where processes run: pools of machines, what fits on them and what they cost; pure values."""
