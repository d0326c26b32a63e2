"""The programs of the control plane, certificates and access rights."""
