"""The programs of the control plane, and who may do what."""
