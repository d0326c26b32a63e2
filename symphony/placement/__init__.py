"""Placement: pools of machines, the pods that fit on them and their prices; pure values."""
